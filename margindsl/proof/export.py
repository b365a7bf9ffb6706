"""From a solution to a proof: the program as declared, labels, weights and dual point as plain arrays."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from margindsl.features import FeatureOperator, ShiftedFeatures
from margindsl.language.lowering import Declaration
from margindsl.program.bounded_bias import moves_with_bias
from margindsl.program.certificates import Certificate
from margindsl.program.program import MarginProgram
from margindsl.proof.check import FORMAT, VERSION
from margindsl.proof.tables import UnknownProof, loss_tables, tangents
from margindsl.typing import FloatArray, IntArray

LARGEST = 30_000_000  # entries of features that are written out or checked


@dataclass(frozen=True, eq=False)
class Claim:
    """Represent what a solution says: labels with their hyperplane, value, bound and status word.

    Parameters
    ----------
    labels : (n,) int array
    weights : (r,) or (r, k) float array
        In the coordinates of the program's features.
    bias : float
    decision : (n,) or (n, k) float array
    scalars : (S,) float array
    value, bound : float
    state : str
    tol : float
        The relative gap asked for.
    """

    labels: IntArray
    weights: FloatArray
    bias: float
    decision: FloatArray
    scalars: FloatArray
    value: float
    bound: float
    state: str
    tol: float


def export(program: MarginProgram, claim: Claim, certificate: Certificate | None,
           features: bool = True) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (header, arrays) of a proof, in the units of the declaration.

    Parameters
    ----------
    program : MarginProgram
        As lowered from the declaration, its `source`.
    claim : Claim
    certificate : Certificate or None
    features : bool
        Whether the features are written out.

    Raises
    ------
    UnknownProof
        If a loss or certificate has no form a proof knows.
    """
    declaration = program.source
    header, arrays = declared(declaration)
    order = _places(declaration, program)
    header |= {"value": claim.value, "bound": claim.bound, "state": claim.state, "tol": claim.tol,
               "bias": claim.bias, "kind": "none", "data": digest_data(declaration),
               "kernel": repr(declaration.hyperplane.kernel), "declaration": digest(header, arrays)}
    arrays |= {"labels": claim.labels, "w": claim.weights, "decision": claim.decision, "scalars": claim.scalars}
    if features and program.n * program.features.rank <= LARGEST:
        arrays["phi"] = np.asarray(declared_features(program).toarray(), dtype=float)
    arrays["turn"] = np.zeros((program.n, len(declaration.decision)))
    if certificate is None or not np.isfinite(claim.bound):
        return header, arrays
    try:
        point = certificate.dual_point().rescaled(1.0, 1.0, program.scale)
    except NotImplementedError as error:
        raise UnknownProof(str(error)) from None
    if point.kind == "cases":
        point.arrays.setdefault("eta", np.zeros((len(point.arrays["tau"]), len(program.decision))))
    header["kind"], arrays["turn"] = point.kind, _turn(declaration, program, point.kind)
    dual = {name: _declared_order(name, np.asarray(x), order, arrays, program) for name, x in point.arrays.items()}
    if point.kind == "lift":
        dual = _by_points(dual, arrays, program)
    if point.kind == "cases" and program.is_binary:
        _orient(dual, program)
    return header, arrays | dual | {"tangents": _tangents(header, arrays, dual)}


def _turn(declaration: Declaration, program: MarginProgram, kind: str) -> FloatArray:
    """Return (n, J) multiples of bounded sums that take a bias out of the features: where the program has none, or all
    dual points are of known labels."""
    turn = np.zeros((program.n, len(declaration.decision)))
    if declaration.hyperplane.bias is not True or (program.free_bias and kind != "pool"):
        return turn
    widths = {place: (bound.upper - bound.lower) / abs(bound.weights.sum())
              for place, bound in enumerate(declaration.decision) if moves_with_bias(bound.weights)}
    if widths:
        place = min(widths, key=lambda j: widths[j])
        turn[:, place] = 1.0 / declaration.decision[place].weights.sum()
    return turn


def declared_features(program: MarginProgram) -> FeatureOperator:
    """Return the features as declared, which the program may have about another centre."""
    features = program.features
    return features.base if isinstance(features, ShiftedFeatures) else features


def _tangents(header: dict[str, Any], tables: dict[str, Any], dual: dict[str, Any]) -> FloatArray:
    """Return the tangents of logistic terms for every dual point, where the sum they are part of is least."""
    u, q = dual["u"], dual.get("q", np.zeros((1, 1)))
    if u.ndim == 3:
        u = u.sum(axis=2)
    elif header["kind"] in ("lift", "pool") and header["coding"] == "crammer-singer":
        u = np.maximum(u, 0.0) / np.sqrt(header["clusters"] / (header["clusters"] - 1))
    q = q * (1 - 1 / header["clusters"]) if header["coding"] == "crammer-singer" else q
    return tangents(tables, u, q if q.shape[-1] == u.shape[-1] else np.zeros((1, u.shape[1])))


def _orient(dual: dict[str, Any], program: MarginProgram) -> None:
    """Turn cases where B = −B so that the first sign that is asked is +1."""
    paths = dual["paths"]
    if program.labels.is_symmetric and all(b.lower == -b.upper for b in program.decision) and paths.any():
        turn = np.where(paths[:, int(np.argmax(paths.any(axis=0)))] < 0, -1, 1)[:, None]
        dual["paths"], dual["tau"] = paths * turn, dual["tau"] * turn


def _by_points(dual: dict[str, Any], arrays: dict[str, Any], program: MarginProgram) -> dict[str, Any]:
    """Return a lifted dual point by points and declared bounds instead of components and vectors of the form.

    A component is named by its first point, known labels by a point beside, n. A vector is α(ω − m·1) for a declared
    bound ω and a middle m, which a component of known sign carries.
    """
    n, component, sign, V = program.n, dual["component"], dual["sign"], dual["vectors"]
    count, pinned = len(dual["d"]), np.zeros(n, dtype=int)
    first = np.full(count, n)
    first[component[::-1]] = np.arange(n)[::-1]
    turn = np.append(sign, 1)[first]
    u = dual["u"] if len(dual["u"]) == len(arrays["points"]) else np.zeros(len(arrays["points"]))
    out = {"u": u[None], "q": dual["q"][None], "eta": dual["eta"], "theta": dual["theta"],
           "d": np.bincount(first, dual["d"], n + 1)}
    kappa, middles = np.zeros(len(arrays["bound_weights"])), np.zeros(len(arrays["bound_weights"]))
    if program.is_binary:
        labels: Any = program.labels
        pinned = labels.sign * labels.pinned[labels.component]
        place = component[np.flatnonzero(pinned)[0]] if pinned.any() else count - 1 if first[-1] == n else -1
        sums = np.array([np.bincount(component, sign * w, count) for w in arrays["bound_weights"]]).reshape(-1, count)
        free = np.arange(count) != place
        for v, multiplier in zip(V.T, dual["kappa"]):
            alpha = sums[:, free] @ v[free] / np.maximum(np.sum(sums[:, free] ** 2, axis=1), 1e-300)
            if not multiplier > 0 or not len(alpha):
                continue
            j = int(np.argmin(np.abs(v[free] - alpha[:, None] * sums[:, free]).sum(axis=1)))
            if alpha[j] != 0:
                kappa[j] += multiplier * alpha[j] ** 2
                middles[j] = -v[place] / alpha[j] if place >= 0 else 0.0
        rows, columns, products = dual["cut_rows"], dual["cut_columns"], dual["cut_products"]
        triples = np.column_stack([rows[:, 0], columns[:, 0], columns[:, 1]])
        signs = np.column_stack([np.ones(len(rows)), products[:, :2]]).astype(int)
        out["cuts"] = signs * turn[triples] * (first[triples] + 1)
    else:
        kappa = np.array([dual["kappa"].sum()])
        out["cuts"] = np.column_stack([first[dual["cut_rows"][:, 0]], first[dual["cut_columns"][:, 0]]]) + 1
    return {**out, "kappa": kappa, "middles": middles}


def _places(declaration: Declaration, program: MarginProgram) -> list[tuple[int, float]]:
    """Return which declared bound each decision bound of the program is, and the unit it was divided by."""
    places: list[tuple[int, float]] = []
    for bound in program.decision:
        for place, own in enumerate(declaration.decision):
            unit = float(np.abs(own.weights).max() / np.abs(bound.weights).max())
            taken = any(place == other for other, _ in places)
            if not taken and np.array_equal(bound.in_units(1.0).weights * unit, own.weights) and (
                    own.lower in (bound.lower * unit, bound.lower) and own.upper in (bound.upper * unit, bound.upper)):
                places.append((place, unit))
                break
        else:
            raise UnknownProof("a bound on decision values is not among those declared")
    return places


def _declared_order(name: str, x: Any, order: list[tuple[int, float]], arrays: dict[str, Any],
                    program: MarginProgram) -> Any:
    """Return multipliers of decision bounds in order and units of the declaration, zero where one was left out."""
    if name not in ("eta", "tau"):
        return x
    pairs = 1 if program.is_binary or name == "eta" else program.clusters * (program.clusters - 1) // 2
    total = len(arrays["decision_lower"])
    out = np.zeros((*x.shape[:-1], total, pairs))
    if x.shape[-1]:
        units = np.array([unit ** (2 if name == "eta" else 1) for _, unit in order])
        out[..., [place for place, _ in order], :] = x.reshape(*x.shape[:-1], len(order), pairs) / units[:, None]
    return out.reshape(*x.shape[:-1], total * pairs)


def declared(declaration: Declaration) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (header, arrays) of what was declared: losses, label set, decision bounds; features not included.

    Raises
    ------
    UnknownProof
        If a loss is no sum of piecewise quadratics and logistic functions.
    """
    plane, labels, losses = declaration.hyperplane, declaration.labels, declaration.losses
    n, clusters = labels.n, labels.clusters
    bounds = [*declaration.label_bounds, *(_size_bound(s, n) for s in declaration.sizes if clusters == 2)]
    header = {
        "format": FORMAT, "version": VERSION, "n": n, "clusters": clusters, "coding": declaration.coding,
        "free_bias": plane.bias is True, "penalised": plane.bias == "penalised", "centre": plane.centre,
        "linear": plane.kernel == "linear" and not (declaration.orthogonal or declaration.manifolds),
        "ridge": declaration.ridge, "constant": declaration.constant}
    arrays = {
        **loss_tables(losses, parted=declaration.coding == "crammer-singer"),
        "must": declaration.must, "cannot": declaration.cannot,
        "known_index": declaration.known[0], "known_values": declaration.known[1],
        "bound_weights": np.array([w for w, _, _ in bounds], dtype=float).reshape(-1, n),
        "bound_lower": np.array([low for _, low, _ in bounds], dtype=float),
        "bound_upper": np.array([high for _, _, high in bounds], dtype=float),
        "at_least": np.max([np.zeros(clusters), *(s.at_least for s in declaration.sizes)], axis=0),
        "at_most": np.min([np.full(clusters, float(n)), *(s.at_most for s in declaration.sizes)], axis=0),
        "decision_weights": np.array([b.weights for b in declaration.decision], dtype=float).reshape(-1, n),
        "decision_lower": np.array([b.lower for b in declaration.decision], dtype=float),
        "decision_upper": np.array([b.upper for b in declaration.decision], dtype=float)}
    return header, arrays


def _size_bound(sizes: Any, n: int) -> tuple[FloatArray, float, float]:
    """Return sizes of two clusters as a bound on Σy: cluster 0 is y = −1."""
    low = max(2 * sizes.at_least[1] - n, n - 2 * sizes.at_most[0])
    return np.ones(n), float(low), float(min(2 * sizes.at_most[1] - n, n - 2 * sizes.at_least[0]))


def digest(header: dict[str, Any], arrays: dict[str, Any]) -> str:
    """Return a hash of a header and arrays by name."""
    total = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total.update(f"{name}{array.dtype.str}{array.shape}".encode())
        total.update(array.data if array.size else b"")
    return total.hexdigest()


def digest_data(declaration: Declaration) -> str:
    """Return a hash of the points, or of a precomputed kernel; "" where the points are not in memory."""
    plane = declaration.hyperplane
    X: Any = getattr(plane.kernel, "K", None) if plane.X is None else plane.X
    if sp.issparse(X):
        rows = X.tocsr()
        return digest({"shape": list(rows.shape)}, {"d": rows.data, "i": rows.indices, "p": rows.indptr})
    if not isinstance(X, np.ndarray) or isinstance(X, np.memmap):
        return ""
    return digest({}, {"X": X})
