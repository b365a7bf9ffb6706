"""From a solution to a proof: the program as declared, labels, weights and dual point as plain arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from margindsl.features import AffineFeatures, FeatureOperator
from margindsl.labelset import Names
from margindsl.labelset.bound import LinearBound, intersect
from margindsl.language.lowering import Declaration
from margindsl.program.bounded_bias import narrowest
from margindsl.program.certificates import Certificate
from margindsl.program.program import MarginProgram
from margindsl.proof.check import EPS, FORMAT, VERSION, LabelSet, Proof, coded
from margindsl.proof.tables import NoProof, UnknownProof, loss_tables, tangents
from margindsl.proof.witnesses import common_units, definite, every_labelling, grow
from margindsl.typing import BoolArray, FloatArray, IntArray

LARGEST = 30_000_000  # entries of features that are written out or checked
FETCHED = 1_000_000  # the same where workers hold the points
LEAST_ENTRY = 1e-8  # least entry of a diagonal, as a part of the mean


@dataclass(frozen=True, eq=False)
class Stated:
    """Represent what a solution says: labels with their hyperplane, value, bound and status word."""

    labels: IntArray  # (n,) 0 to k - 1
    weights: FloatArray  # (r,) or (r, k), in the coordinates of the program's features
    bias: float
    decision: FloatArray  # (n, c)
    scalars: FloatArray  # (S,)
    value: float
    bound: float
    state: str


@np.errstate(all="ignore")
def export(program: MarginProgram, stated: Stated, certificate: Certificate | None,
           features: bool = True, most: int = LARGEST) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (header, arrays) of a proof, in the units of the declaration.

    `program`: as lowered from the declaration, its `source`; `features`: whether the features are written out; `most`:
    entries of features beyond which they are not formed; fewer where workers hold the points.
    """
    most = min(most, FETCHED) if program.features.is_remote else most
    fits = program.n * program.features.rank <= most
    if certificate is not None and np.isfinite(stated.bound) and not fits:  # before tables of all points are made
        raise UnknownProof(f"features of {program.n} x {program.features.rank} entries are too large to be checked")
    declaration = program.source
    header, arrays = declared(declaration)
    order = [index for index, own in enumerate(declaration.decision) if any(own is kept for kept in program.decision)]
    held = narrowest(declaration.decision) if header["free_bias"] else None
    header |= {"value": stated.value, "bound": stated.bound, "state": stated.state, "bias": stated.bias,
               "held": -1 if held is None else int(held), "kind": "none"}
    arrays |= {"labels": stated.labels, "decision": stated.decision}
    if program.gauge is not None:
        arrays["block"] = np.append(program.gauge.block, np.full(int(header["free_bias"]), -1))
    if math.isfinite(stated.value):  # without weights there is none
        arrays |= {"w": with_bias(stated.weights, stated.bias, header), "scalars": stated.scalars}
    phi = with_ones(program.features, header) if fits else None
    shown = {"phi": phi} if features and phi is not None else {}
    if certificate is None or not np.isfinite(stated.bound):
        return header, arrays | shown
    point = certificate.rescaled(1.0, 1.0, program.scale)
    if point.parts:
        header["kind"], owner, shares = "parts", np.zeros(program.n, dtype=int), [share for share, _, _ in point.parts]
        for number, (_, own, _) in enumerate(point.parts):
            owner[own] = number
        arrays |= {"owner": owner, "shares": np.array(shares) * (1 - 16 * EPS), "ceilings": np.array(
            [float(part.arrays.get("known", np.inf)) for _, _, part in point.parts])}  # shares of a sum of at most one
        proofs = (proof for _, proof in Proof(header, arrays | {"phi": phi}).parts())
        found = [_dual(program, proof, part, []) for proof, (_, _, part) in zip(proofs, point.parts)]
        shown |= {f"{name}:{number}": x for number, own in enumerate(found) for name, x in own.items()}
        return header, arrays | shown
    header["kind"] = "lift" if point.kind == "lift" else "cases"
    proof = Proof(header, arrays | {"phi": phi})
    proof.centre()
    return header, arrays | shown | _dual(program, proof, point, order)


def _dual(program: MarginProgram, proof: Proof, point: Certificate, order: list[int]) -> dict[str, Any]:
    """Return the dual points of a certificate, its decision bounds in the order of the declaration."""
    lifted = [position for position, bound in zip(order, program.decision) if math.isfinite(bound.reach)]
    pairs = {"eta": (lifted, 1), "tau": (order, len(proof.pairs))}
    dual = {name: np.asarray(x) for name, x in point.arrays.items()}
    for name, (rows, many) in pairs.items():  # zero where a bound was left out
        if name in dual:
            x, inner = dual[name], dual[name].shape[:-1]
            dual[name] = np.zeros((*inner, len(proof.decision_lower), many))
            if x.shape[-1]:
                dual[name][..., rows, :] = x.reshape(*inner, len(rows), many)
    if point.kind != "cases" and np.any(dual["u"]):
        dual["u"] = program.kind.own_duals(program, dual["u"])
    if point.kind == "lift" and "decided" not in dual:
        labels: Any = program.labels
        dual["decided"] = labels.pinned[labels.component] >= 0
    return {"lift": _lift, "cases": _cases, "pool": _pool}[point.kind](LabelSet(proof), dual, proof)


def with_ones(features: FeatureOperator, header: dict[str, Any]) -> FloatArray:
    """Return features (n, r) as a proof holds them: about the declared centre, ones last for a free bias."""
    base = features.base if isinstance(features, AffineFeatures) and features.shift is not None else features
    phi = np.asarray(base.toarray(), dtype=float)
    return np.column_stack([phi, np.ones(len(phi))]) if header["free_bias"] else phi


def with_bias(weights: FloatArray, bias: float, header: dict[str, Any]) -> FloatArray:
    """Return weights (r, 1) or (r, k) as a proof holds them: with a last row for a free bias."""
    w = np.asarray(weights, dtype=float).reshape(len(weights), -1)
    return np.vstack([w, np.full((1, w.shape[1]), bias)]) if header["free_bias"] else w


def _points(proof: Proof, u: Any, q: Any, tau: Any, eta: Any, within: bool = False, plain: Any = False
            ) -> dict[str, Any]:
    """Return dual points with their tangents, squares shrunk by rounding into the domain of the norm.

    Shapes: `u` (P, m, c), `q` (P, m), `tau` (P, L, c), `eta` (P, L); `plain`: rows (m,) whose labels are known.
    """
    tables, u, q = vars(proof), np.array(u, dtype=float), np.array(q, dtype=float)
    q = q if proof.low else np.where(plain, q, np.maximum(q, 0.0))  # what proves nothing of less than f's squares
    if not within:  # what rounding takes from the curvature of a tail would leave no minimum
        tail, ends = np.full(q.shape[1], np.inf), np.isinf(proof.left) | np.isinf(proof.right)
        np.minimum.at(tail, proof.cell[ends], proof.A[ends])
        q = np.where(proof.bare != 0, q, np.maximum(q, -2.0 * tail * (1.0 - 16 * EPS)))
    alone = np.array_equal(proof.points, np.arange(proof.n))
    for number in range(len(u)) if alone and np.any(q) and (proof.low or not np.any(q * plain)) else ():
        q[number] = definite(proof, q[number], eta[number])
    return {"u": u, "q": q, "tau": tau, "eta": eta, "tangents": tangents(tables, u.sum(axis=2), q)}


def _cases(B: LabelSet, dual: dict[str, Any], proof: Proof) -> dict[str, Any]:
    """Return cases with a tree of decisions that leads to all of them."""
    u, q, tau = (dual[name] for name in ("u", "q", "tau"))
    u, m = np.array(u.reshape(*u.shape[:2], -1)), len(proof.points)
    asked, order = _asked(B, dual["paths"])
    q = q / (proof.stretch if proof.singer else 1.0) if q.shape[1] == m else np.zeros((len(u), m))
    if B.is_symmetric:
        asked, u, tau = _named(B, asked, order, u, tau)
    eta = dual["eta"][..., 0] if "eta" in dual else np.zeros((len(u), len(proof.decision_lower)))
    slopes = np.abs(proof.slopes)  # rows of scalars alone see no label

    def used() -> BoolArray:
        return np.array([np.bincount(B.component[proof.points], (slopes * np.abs(x).T).sum(axis=0), len(B.z))
                         for x in u]) > 0

    try:
        B.p.tree = grow(B, asked, order, used())
    except NoProof:
        # Presolve saw B = -B where limits as declared do not show it: the other half has the same dual points.
        order, turned = [*order, *order], [_renamed(B.k, np.arange(B.k)[::-1], *case) for case in zip(asked, u, tau)]
        asked, u, tau = (np.concatenate([part, np.stack(other)]) for part, other in zip((asked, u, tau), zip(*turned)))
        q, eta = (np.concatenate([part, part]) for part in (q, eta))
        B.p.tree = grow(B, asked, order, used())
    Z, leaf = B.leaves()
    for number, z in zip(leaf, Z):
        u[number, (z < 0)[B.component[proof.points]] & (slopes > 0)] = 0.0
    return {**_points(proof, u, q, tau, eta), "tree": B.p.tree}


def _asked(B: LabelSet, paths: IntArray) -> tuple[IntArray, list[IntArray]]:
    """Return the labels (P, N) that cases ask of components, -1 for none, and the components in order."""
    position = np.nonzero(paths)
    label, point = np.divmod(paths - 1, B.p.n)
    columns, asked = B.component[point], np.full((len(paths), len(B.z)), -1)
    asked[position[0], columns[position]] = B.turned(label, point)[position]
    return asked, [path[np.sort(np.unique(path, return_index=True)[1])] for path in (
        row[path != 0] for row, path in zip(columns, paths))]


def _named(B: LabelSet, asked: IntArray, order: list[IntArray], u: FloatArray,
           tau: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return cases where B = −B with clusters named in the order in which they are met."""
    cases = []
    for row, path in enumerate(order):
        met = list(dict.fromkeys(asked[row, path].tolist()))
        names = np.array([*met, *(c for c in range(B.k) if c not in met)])
        cases.append(_renamed(B.k, names, asked[row], u[row], tau[row]))
    asked, u, tau = (np.stack(part) for part in zip(*cases))
    return asked, u, tau


def _renamed(k: int, names: IntArray, asked: IntArray, u: FloatArray,
             tau: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return a case with cluster names[c] called c; of two, whose f has a sign, that of bounds on it turns over."""
    first, second = np.triu_indices(k, 1)
    force = np.zeros((len(tau), k, k))
    force[:, first, second], force[:, second, first] = tau, -tau
    return (np.append(np.argsort(names), -1)[asked], u[:, names] if u.shape[1] == k else u,
            force[:, names[first], names[second]])


def _pool(B: LabelSet, dual: dict[str, Any], proof: Proof) -> dict[str, Any]:
    """Return dual points with a tree to every labelling, which says the best of them for each."""
    u = dual["u"].reshape(*dual["u"].shape[:2], -1)
    tau = np.zeros((len(u), len(proof.decision_lower), len(proof.pairs)))
    found = _points(proof, u, np.zeros(u.shape[:2]), tau, tau[:, :, 0])
    vars(proof).update(found, kind="cases")
    return {**found, "tree": every_labelling(B, proof, len(u))}


def _lift(B: LabelSet, dual: dict[str, Any], proof: Proof) -> dict[str, Any]:
    """Return lifted dual points, one a leaf of a tree, by points and declared bounds instead of components and vectors
    of the form.

    A component is named by its first point, known labels by a point beside, n. A vector is α(ω − m·1) for a declared
    bound ω and a middle m, which a component of known sign carries. A negative entry of the diagonal is a cut on one
    component, for the diagonal of a proof is positive.
    """
    n, m, paths = proof.n, len(proof.points), dual.get("paths", np.zeros((1, 1), dtype=int))
    dual = dual | {name: dual[name].reshape(len(paths), -1) for name in ("u", "q", "d", "kappa", "theta", "eta")}
    first = np.full(dual["d"].shape[1], n)
    first[dual["component"][::-1]] = np.arange(n)[::-1]
    turn = np.append(dual["sign"], 1)[first]
    u = dual["u"] if dual["u"].shape[1] == m else np.zeros((len(paths), m))
    q = dual["q"] / (proof.stretch if proof.singer else 1.0) if dual["q"].shape[1] == m else np.zeros_like(u)
    v, e = (dual[name].reshape(u.shape) if name in dual and dual[name].size == u.size else np.zeros_like(u)
            for name in "ve")
    B.p.units = common_units(B)
    asked, order = _asked(B, paths)
    given, again, turned = asked, np.arange(len(u)), np.ones((len(u), 1))
    if B.is_symmetric:  # margins, and what is lifted, do not change with names, what is of one label does
        asked = _named(B, asked, order, u[:, :, None], np.zeros((len(u), 0, len(proof.pairs))))[0]
        turned[np.any(asked != given, axis=1)] = -1.0
    try:
        B.p.tree = grow(B, asked, order, np.ones(asked.shape, dtype=bool))
    except NoProof:  # as of cases
        asked, again = np.vstack([asked, np.where(asked < 0, -1, B.k - 1 - asked)]), np.append(again, again)
        turned = np.vstack([turned, -turned])
        B.p.tree = grow(B, asked, [*order, *order], np.ones(asked.shape, dtype=bool))
    d = np.stack([np.bincount(first, row, n + 1) for row in dual["d"][again]])
    chosen = np.any(dual["theta"] != 0, axis=0)
    positions, theta = dual["cut_positions"][chosen], dual["theta"][again][:, chosen]
    cuts = np.zeros((len(positions), n + 1), dtype=np.int8)
    np.add.at(cuts, (np.arange(len(cuts))[:, None], first[positions]),
              (dual["cut_signs"][chosen] * turn[positions]).astype(np.int8))
    kappa, middles = _bound_multipliers(B, dual)
    kappa, u, q, v, e = kappa[again], u[again], q[again], turned * v[again], turned * e[again]
    eta = dual["eta"][again] * (1.0 if proof.singer else proof.stretch)  # of sums of codes, which the norm counts so
    tau = np.zeros((len(u), len(proof.decision_lower), len(proof.pairs)))
    Z, leaf = B.leaves()
    if len(np.unique(leaf)) < len(leaf):
        raise UnknownProof("a dual point stands at several ends of the tree")
    for z, at in zip(Z, leaf) if B.k == 2 and not proof.bare.any() else ():  # what a lift without a row sees by f
        alone = ((z < 0) & (np.bincount(B.component, d[at, :-1], len(z)) == 0))[B.component[proof.points]]
        v[at, alone], u[at, alone] = v[at, alone] + turned[at] * u[at, alone], 0.0
    more = np.abs(e)  # |e| + e y is a square and a part of the diagonal
    d += np.column_stack([np.array([np.bincount(proof.points, row, n) for row in more]), more.sum(axis=1)])
    decided = np.all(Z >= 0, axis=0)[B.component[proof.points]]
    point = _points(proof, u[:, :, None], q, tau, eta, "inner" in dual, decided)
    if np.any(v) or np.any(e):
        point["v"], point["e"] = v, e
    if "inner" in dual and proof.norm.all() and not (proof.coupling.any() or proof.bare.any()):
        point["inner"], point["outer"] = dual["inner"].reshape(len(paths), -1)[again], dual.get("outer", u[:0])
    more, bounds = np.zeros_like(d), np.column_stack([B.rows, -np.append(middles, 0)])
    for z, at in zip(Z, leaf):
        joined = np.abs(np.vstack([cuts[theta[at] != 0], bounds[kappa[at] > 0]])).sum(axis=0)
        used = np.bincount(proof.points, np.abs(u[at] * proof.slopes) + np.abs(e[at]), n + 1) + joined
        used[n] += np.sum(np.abs(u[at] * proof.bare) + np.abs(v[at] * proof.slopes) + np.abs(e[at]))
        d[at], more[at] = _positive(B, z, d[at], used)
    alone = np.flatnonzero(more.any(axis=0))
    single = (np.arange(n + 1) == alone[:, None]).astype(np.int8)
    return {**point, "d": np.maximum(d, 0.0), "kappa": kappa, "middles": middles, "units": B.p.units,
            "tree": B.p.tree, "cuts": np.vstack([cuts, single]), "theta": np.hstack([theta, more[:, alone]])}


def _positive(B: LabelSet, z: IntArray, d: FloatArray, used: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a diagonal d (n + 1,), positive where its row is used, one entry a row, and what was added to it."""
    n = len(d) - 1
    first = np.unique(B.component, return_index=True)[1]
    where = np.append(first[B.component], n)
    for row in range(B.p.row[-1] + 1):  # what is decided shares the rows of a lift, the last one that of point n
        own = np.flatnonzero(((z >= 0) & (B.p.row[z] == row))[B.component])
        where[own] = n if row == B.p.row[-1] else own.min(initial=n)
    d, used = np.bincount(where, d, n + 1), np.bincount(where, used, n + 1)
    least = LEAST_ENTRY * (np.abs(d).mean() or 1.0)
    more = np.where((d < least) & ((used > 0) | (d < 0)), np.maximum(least, -d) - d, 0.0)
    return d + more, more


def _bound_multipliers(B: LabelSet, dual: dict[str, Any]) -> tuple[FloatArray, FloatArray]:
    """Return multipliers of declared bounds and their middles, for vectors of the form that are multiples of them."""
    (many, count), component, sign = dual["d"].shape, dual["component"], dual["sign"]
    kappa, middles = np.zeros((many, len(B.rows))), np.zeros(len(B.sums))
    sums = np.array([np.bincount(component, sign * w, count) for w in B.rows[:len(B.sums) or 1]])
    known, apart = np.unique(component[dual["decided"]]), np.setdiff1d(np.arange(count), component)
    position = [*known, *apart, -1][0]  # what carries middles: the known labels, or what stands for no point
    free, far = np.arange(count) != position, np.multiply.outer([-1, 1], (B.z < 0) @ np.abs(B.sums).T)
    ends = np.clip([B.p.bound_lower, B.p.bound_upper], *(B.sums @ B.own[B.z] + far))
    ends = np.column_stack([ends, np.zeros(2)])  # of several clusters there is the sum of all codes alone
    for v, multiplier in zip(dual["vectors"].T, dual["kappa"].T):
        alpha = sums[:, free] @ v[free] / np.maximum(np.sum(sums[:, free] ** 2, axis=1), 1e-300)
        if not np.any(multiplier > 0) or not len(alpha):
            continue
        off = np.abs(v[free] - alpha[:, None] * sums[:, free]).sum(axis=1)
        near = (off <= off.min() + 1e-9 * np.abs(v).sum()) & (alpha != 0)
        middle = 0 * off if position < 0 else sums[:, position] - np.divide(v[position], alpha, out=0 * off, where=near)
        reach = np.where(near, np.abs(alpha) * np.abs(ends[:, :len(sums)] - middle).max(axis=0), np.inf)
        if near.any():  # of bounds that links make alike the one that holds closest
            j = int(np.argmin(reach))
            kappa[:, j] += multiplier * alpha[j] ** 2
            middles[j:j + 1] = middle[j]
    return kappa, middles


def declared(declaration: Declaration) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (header, arrays) of what was declared: losses, label set, decision bounds; features not included."""
    if declaration.outside is not None:
        raise UnknownProof("terms and constraints of CVXPY are not known to proofs")
    plane, labels, losses = declaration.hyperplane, declaration.labels, declaration.losses
    n, clusters = labels.n, labels.clusters
    bounds = [(b.omega, np.ceil(b.lower), np.floor(b.upper)) if b.is_whole else (b.omega, b.lower, b.upper)
              for b in intersect([  # weights are whole numbers where sums are exact; labels of several have no sums
                  LinearBound.contracted(weights, low, high, np.arange(n), np.ones(n), f"bound {position}")
                  for position, (weights, low, high) in enumerate(declaration.label_bounds)])]
    header = {
        "format": FORMAT, "version": VERSION, "n": n, "clusters": clusters, "coding": declaration.coding,
        "free_bias": declaration.free_bias, "penalised": plane.bias == "penalised", "centre": plane.centre,
        "linear": plane.kernel == "linear" and not (declaration.orthogonal or declaration.manifolds
                                                    or declaration.rows),
        **_norms(declaration, 1 - 1 / clusters if declaration.coding == "simplex" else 1.0),
        "constant": declaration.constant}
    arrays = {
        **loss_tables(losses, declaration.coding == "crammer-singer"),
        "codes": coded(declaration.coding, clusters)["codes"],
        "must": declaration.must, "cannot": declaration.cannot,
        **({} if declaration.rows is None else {
            f"{part}_{name}": getattr(matrix, name) for part, matrix in declaration.rows.matrices().items()
            for name in ("data", "indices", "indptr")}),
        "barred_index": declaration.barred[0], "barred_values": declaration.barred[1],
        "group_weights": np.array([np.bincount(own, minlength=n) for own, _, _ in declaration.groups],
                                  dtype=int).reshape(-1, n),
        "group_least": np.array([low for _, low, _ in declaration.groups], dtype=float).reshape(-1, clusters),
        "group_most": np.array([high for _, _, high in declaration.groups], dtype=float).reshape(-1, clusters),
        "known_index": declaration.known[0], "known_values": Names(clusters).read(declaration.known[1]),
        "bound_weights": np.array([w for w, _, _ in bounds], dtype=float).reshape(-1, n),
        "bound_lower": np.array([low for _, low, _ in bounds], dtype=float),
        "bound_upper": np.array([high for _, _, high in bounds], dtype=float),
        "at_least": np.max([np.zeros(clusters), *(s.at_least for s in declaration.sizes)], axis=0),
        "at_most": np.min([np.full(clusters, float(n)), *(s.at_most for s in declaration.sizes)], axis=0),
        "decision_weights": np.array([b.weights for b in declaration.decision], dtype=float).reshape(-1, n),
        "decision_lower": np.array([b.lower for b in declaration.decision], dtype=float),
        "decision_upper": np.array([b.upper for b in declaration.decision], dtype=float)}
    return header, arrays


def _norms(declaration: Declaration, part: float) -> dict[str, Any]:
    """Return the weights of ½‖w‖², or of what is no less; of a gauge those of ½(Σt)² and Σt, by norms t of blocks."""
    ridge = declaration.ridge * part
    if declaration.gauge is None:
        return {"ridge": ridge}
    norms, p, c, e = declaration.gauge
    kinds = [norm.groups.tolist() if isinstance(norm.groups, np.ndarray) else norm.groups for norm in norms]
    if not p + c:
        return {"ridge": 0.0, "gauge": [0.0, e * math.sqrt(part)], "blocks": kinds}
    return {"ridge": ridge, "gauge": [ridge * c / (p + c), e * math.sqrt(ridge / (p + c))], "blocks": kinds}


def codes_of(labels: Any, decision: Any) -> tuple[IntArray, FloatArray]:
    """Return labels as 0 to k - 1, what is none as -1, and decision values (n, c) of what users read."""
    decision = np.asarray(decision).reshape(len(decision), -1)
    names = Names(max(2, decision.shape[1]))
    return np.where(names.is_label(labels), names.read(labels), -1), decision


def agree(declaration: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether two declarations are the same, number by number; what the other holds beside is not compared."""
    return all(name in other and np.array_equal(x, other[name]) for name, x in declaration.items())
