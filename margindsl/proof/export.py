"""From a solution to a proof: the program as declared, labels, weights and dual point as plain arrays."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from margindsl.calculus import PLQ
from margindsl.calculus.smooth import Logistic
from margindsl.language.lowering import Declaration
from margindsl.program.certificates import Certificate
from margindsl.program.program import MarginProgram
from margindsl.typing import FloatArray, IntArray

FORMAT, VERSION = "margindsl-proof", 1
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


class UnknownProof(Exception):
    """Say why there is no proof in plain arrays."""


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
        arrays["phi"] = np.asarray(program.features.toarray(), dtype=float)
    if certificate is None or not np.isfinite(claim.bound):
        return header, arrays
    try:
        point = certificate.dual_point().rescaled(1.0, 1.0, program.scale)
    except NotImplementedError as error:
        raise UnknownProof(str(error)) from None
    header["kind"] = point.kind
    return header, arrays | {name: _declared_order(name, x, order, arrays, program)
                             for name, x in point.arrays.items()}


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
    bases, atoms = _atoms(losses)
    header = {
        "format": FORMAT, "version": VERSION, "n": n, "clusters": clusters, "coding": declaration.coding,
        "free_bias": plane.bias is True, "penalised": plane.bias == "penalised", "centre": plane.centre,
        "linear": plane.kernel == "linear" and not (declaration.orthogonal or declaration.manifolds),
        "ridge": declaration.ridge, "constant": declaration.constant, "bases": bases}
    arrays = {
        "points": losses.points, "slopes": losses.slopes, "shifts": losses.shifts, "coupling": losses.coupling,
        "costs": losses.scalars.costs, "nonneg": np.asarray(losses.scalars.nonneg, dtype=bool), **atoms,
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


def _atoms(losses: Any) -> tuple[list[Any], dict[str, Any]]:
    bases: list[Any] = []
    found = []
    for term, part in losses.slices():
        rows = np.arange(part.start, part.stop)[term.weights > 0]
        weights = term.weights[term.weights > 0]
        for factor, a, b, base in term.loss.atoms():
            written = _written(base)
            if written not in bases:
                bases.append(written)
            found.append((rows, np.full(len(rows), bases.index(written)), factor * weights, np.full(len(rows), a),
                          np.full(len(rows), b)))
    names = "atom_row", "atom_base", "atom_weight", "atom_alpha", "atom_beta"
    columns = [np.concatenate(column) for column in zip(*found)] if found else [np.zeros(0, dtype=int)] * 5
    return bases, dict(zip(names, columns))


def _written(base: Any) -> Any:
    if isinstance(base, Logistic):
        return "logistic"
    if isinstance(base, PLQ):
        return [list(piece) for piece in base.pieces]
    raise UnknownProof(f"the loss {base!r} has no form a proof knows")


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
