"""From a program to the one lift: which points have a component, and which cuts their label matrix violates."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np

from margindsl.contract import Refusal
from margindsl.errors import CalculusError
from margindsl.features import DenseFeatures
from margindsl.features.maps import NoMap
from margindsl.labelset.codes import simplex_codes
from margindsl.program.bounds import QuadraticBound
from margindsl.program.lift import Cuts, LiftForm, contracted
from margindsl.program.program import MarginProgram
from margindsl.program.split import merged_rows
from margindsl.relaxations.relaxation import refuse_split
from margindsl.typing import FloatArray, IntArray

FAINT = 1e-6  # squared length, relative to the mean, of points that are taken for zero
LARGEST_PRODUCTS = 3000  # components up to which all inner products are looked at


def lift(program: MarginProgram, rows: bool = True, whole: bool = False) -> LiftForm:
    """Return the lift of a program: links contracted, known labels one component, or one a cluster.

    Points whose labels nothing else sees have no component: nothing is lost by that.

    `rows`: whether bounds on sums of labels, and sizes, are lifted, which couple all points in them; `whole`: whether
    all points have a component, as cuts ask for.
    """
    form = _signs(program) if program.clusters == 2 else _clusters(program)
    if program.gauge is not None and form.features.rank > form.n:  # whose features are by blocks
        form = replace(form, features=of_products(form.features.toarray()))
    if program.losses.is_turned:
        form = replace(form, losses=form.losses.with_labels(np.where(form.component == form.reference, form.sign, 0)))
    kept = np.bincount(form.component, minlength=form.count) > 1
    kept[form.component[~program.labels.free[program.labels.component]]] = True
    kept[form.component[form.losses.points[np.any(form.losses.coupling, axis=1) | (form.losses.bare != 0)]]] = True
    if rows:
        kept |= np.any(form.omega != 0, axis=0)
    kept[form.cuts.positions.ravel()] = True
    kept |= whole
    number, absorbed = np.cumsum(kept) - 1, ~kept[form.component]
    balance = tuple(QuadraticBound(bound.vector[kept], bound.radius) for bound in form.balance) if rows else ()
    reference = None if form.reference is None or not kept[form.reference] else int(number[form.reference])
    return LiftForm(
        form.features, merged_rows(form.losses, absorbed), np.where(absorbed, -1, number[form.component]),
        form.sign, int(kept.sum()), balance, reference, decision=form.decision, free_bias=form.free_bias,
        clusters=form.clusters, cuts=replace(form.cuts, positions=number[form.cuts.positions]))


def cut_lift(program: MarginProgram) -> LiftForm:
    """Return the lift that cuts have most of: decision values tell of what nothing couples, where known labels bound
    them; else all points have a component.
    """
    form = lift(program)
    return form if form.reference is not None and program.is_held else lift(program, whole=True)


def referred(form: LiftForm) -> tuple[LiftForm, dict[str, IntArray]]:
    """Return a lift of signs with a component that stands for the reference, and as arrays of a certificate the label
    that is decided by that, as all may change sign: of the shortest point, which others say least of.
    """
    lengths = np.where(form.absorbed, 0.0, form.features.row_norms())
    if form.reference is not None or form.clusters > 2 or not np.any(lengths):
        return form, {}
    i = int(np.argmin(np.where(lengths > FAINT * lengths.mean(), lengths, np.inf)))  # of what is zero no label matters
    return contracted(form, -(np.arange(form.n) == i).astype(int))[0], {"paths": np.array([[1 + i]])}


def coded(form: LiftForm, labels: IntArray) -> LiftForm:
    """Return a lift of several clusters with the codes of known labels (n,), −1 of others, where their squares, by
    which weights are lifted coordinate by coordinate, are of use; else the lift itself, also where bounds are zero.
    """
    known, zero = np.flatnonzero(labels >= 0), any(np.any(limits == 0) for limits in form.limits)
    if form.clusters == 2 or form.free_bias or form.losses.scalars.count or np.any(form.absorbed) or zero:
        return form
    codes = np.zeros((form.count, form.clusters - 1))
    codes[form.component[known]] = simplex_codes(form.clusters)[labels[known]]
    found = replace(form, codes=codes)
    return found if np.any(found.squared & (found.ceiling > 0)) else form


def of_products(phi: FloatArray) -> DenseFeatures:
    """Return features (n, r) in coordinates of their span, where that has fewer."""
    phi = np.linalg.qr(phi.T)[1].T if phi.shape[1] > len(phi) else phi
    return DenseFeatures(np.ascontiguousarray(phi), NoMap(), "weighted")


def _signs(program: MarginProgram) -> LiftForm:
    """Return the lift of all components of signs, those with a pin merged, bounds on sums homogenised."""
    merged = program.labels.merged()
    lifted, pinned, count = merged.lifted_bounds(), np.flatnonzero(~merged.free), merged.count
    reference = int(pinned[0]) if len(pinned) else None
    if lifted and len(lifted[0][0]) > count:
        reference, count = count, count + 1
    balance = tuple(QuadraticBound(np.asarray(omega, dtype=float), float(radius)) for omega, radius in lifted)
    return LiftForm(program.features, program.losses, np.asarray(merged.component), np.asarray(merged.sign), count,
                    balance, reference, decision=program.lifted_decision, free_bias=program.free_bias)


def _clusters(program: MarginProgram) -> LiftForm:
    """Return the lift of all components of codes, those of one known cluster merged; different ones are cuts.

    Sizes enter through the largest ‖Σ_i c_{y_i}‖² they admit.
    """
    labels, bounding = program.labels, program.bounding
    pinned = np.asarray(labels.pinned)
    kept, number = np.unique(np.where(pinned >= 0, -1 - pinned, np.arange(len(pinned))), return_inverse=True)
    component, known = number[labels.component], np.flatnonzero(kept < 0)
    pairs = np.column_stack([known[index] for index in np.triu_indices(len(known), 1)])
    apart = np.unique(np.vstack([np.sort(number[np.asarray(labels.cannot)].reshape(-1, 2), axis=1), pairs]), axis=0)
    squared = float(labels.size_radius_squared())
    sizes = np.bincount(component, minlength=len(kept)).astype(float)
    balance = (QuadraticBound(sizes, float(np.sqrt(squared))),) if squared < program.n**2 * (1 - 1e-12) else ()
    return LiftForm(program.features, bounding.losses, component, np.ones(program.n, dtype=int), len(kept), balance,
                    decision=bounding.lifted_decision, free_bias=program.free_bias, clusters=labels.clusters,
                    cuts=Cuts.codes(labels.clusters, apart, equal=True))


def refuse_clusters(program: MarginProgram) -> Refusal | None:
    """Return why k clusters cannot be lifted, or None; rounded labels are judged by the split."""
    if (refusal := refuse_split(program)) is not None:
        return refusal
    try:
        program.bounding  # noqa: B018  (computed once and kept)
    except CalculusError as error:
        return Refusal(str(error), "Use relaxation='alternating', or a loss such as md.hinge or md.odm")
    return None


def violated_triangles(V: FloatArray, most: int, alike: bool = True, tol: float = 1e-4) -> Cuts:
    """Return the most violated (s_i z_i + s_j z_j + s_k z_k)² ≥ 1 at M = VVᵀ, most violated first.

    `V` (N, p): unit rows; `alike`: whether signs may all be alike, which holds for signs, not for codes of clusters.

    Examples
    --------
    >>> angle = np.arange(3) * 2 * np.pi / 3
    >>> violated_triangles(np.column_stack([np.cos(angle), np.sin(angle)]), 10).signs.tolist()
    [[1, 1, 1]]
    """
    M, patterns = V @ V.T, np.array([(1, *signs) for signs in product((1, -1), repeat=2)][0 if alike else 1:])
    products = patterns[:, [0, 0, 1]] * patterns[:, [1, 2, 2]]
    found: list[tuple[FloatArray, IntArray, IntArray]] = []
    for i in range(len(M) - 2):
        j, k = np.triu_indices(len(M) - i - 1, 1)
        j, k = j + i + 1, k + i + 1
        values = products @ np.stack([M[i, j], M[i, k], M[j, k]])
        pattern, pair = np.nonzero(values < -1.0 - tol)
        chosen = _lowest(values[pattern, pair], most)
        pattern, pair = pattern[chosen], pair[chosen]
        found.append((values[pattern, pair], np.column_stack([np.full(len(pair), i), j[pair], k[pair]]),
                      patterns[pattern]))
    if not found:
        return Cuts.none()
    depth, triples, signs = (np.concatenate(part) for part in zip(*found))
    chosen = _lowest(depth, most)
    return Cuts.odd(triples[chosen], signs[chosen])


def widened(cuts: Cuts, V: FloatArray, tol: float = 1e-3) -> Cuts:
    """Return violated odd cuts at M = VVᵀ, lowest first: cuts, each with the two more entries that make it lowest."""
    M, b, first = V @ V.T, cuts.matrix(len(V)).toarray(), np.array([1, -1])[:, None, None]
    pairs, signs = np.zeros((2, cuts.count, 2), dtype=int)
    values, alone = np.sum(b * (b @ M), axis=1) + 2.0, np.diag(np.full(len(V), np.inf))
    for number, row in enumerate(b):
        r, taken = M @ row, np.where(row == 0, 0.0, np.inf)
        beside = r + first * M  # products of the second, whose sign is against them
        change = first * r[:, None] - np.abs(beside) + (taken[:, None] + taken + alone)
        s, i, j = np.unravel_index(np.argmin(change), change.shape)
        pairs[number], signs[number] = (i, j), (1 - 2 * s, -1 if beside[s, i, j] > 0 else 1)
        values[number] += 2.0 * change[s, i, j]
    order = np.argsort(values, kind="stable")[:np.count_nonzero(values < 1.0 - tol)]
    return Cuts.odd(np.hstack([cuts.positions, pairs])[order], np.hstack([cuts.signs, signs])[order])


def violated_products(V: FloatArray, clusters: int, most: int, tol: float = 1e-4) -> Cuts:
    """Return the entries of VVᵀ furthest below −1/(k−1), the lowest first.

    `V` (N, p): unit rows; `tol`: violation of (k−1) M_ij ≥ −1 that is passed over.
    """
    products = (clusters - 1.0) * (V @ V.T)
    pairs = np.argwhere(np.triu(products < -1.0 - tol, 1))
    return Cuts.codes(clusters, pairs[_lowest(products[tuple(pairs.T)], most)])


def violated_cliques(V: FloatArray, clusters: int, most: int, tol: float = 1e-4) -> Cuts:
    """Return violated |Σ c_i|² ≥ 1 over k + 1 codes, of which two are alike, grown from the lowest products of VVᵀ.

    `V` (N, p): unit rows; `tol`: violation that is passed over.
    """
    if len(V) <= clusters:
        return Cuts.none()
    M, taken = V @ V.T, np.argwhere(np.triu(np.ones((len(V), len(V)), dtype=bool), 1))
    taken = taken[_lowest(M[tuple(taken.T)], most)]
    while taken.shape[1] <= clusters:
        sums = M[taken].sum(axis=1)
        np.put_along_axis(sums, taken, np.inf, axis=1)
        taken = np.column_stack([taken, np.argmin(sums, axis=1)])
    taken = np.unique(np.sort(taken, axis=1), axis=0)
    squares = M[taken[:, :, None], taken[:, None]].sum(axis=(1, 2))
    taken = taken[_lowest(squares, most)][:np.count_nonzero(squares < 1.0 - tol)]
    return Cuts(taken, np.ones_like(taken), np.ones(len(taken)), np.zeros(len(taken), dtype=bool))


def _lowest(depth: FloatArray, most: int) -> IntArray:
    chosen = np.argpartition(depth, most)[:most] if len(depth) > most else np.arange(len(depth))
    return chosen[np.argsort(depth[chosen], kind="stable")]
