"""Energies of pairs of labels, and losses that stop to rise, by further rows of the hyperplane."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from margindsl.calculus import PLQ, ConvexFunction
from margindsl.calculus.capped import Capped
from margindsl.calculus.composed import maximum
from margindsl.errors import CalculusError
from margindsl.language import grammar
from margindsl.language.decisions import RowTable
from margindsl.language.entries import constant_value
from margindsl.language.expressions import Expression
from margindsl.language.margins import Labels
from margindsl.program.bounds import DecisionBound
from margindsl.program.losses import Losses, LossTerm
from margindsl.typing import FloatArray, IntArray

MUST, CANNOT = "must-link", "cannot-link"
FACTORED = 2000  # points up to which A A' is factored where there are more pairs


class PairEnergy(Expression):
    """Represent Σ s_ij [y_i ≠ y_j] of must-links, or Σ s_ij [y_i = y_j] of cannot-links, over some pairs."""

    parts = ("labels", "weights")

    def __init__(self, labels: Labels, pairs: IntArray, weights: Expression, kind: str) -> None:
        self.labels, self.pairs, self.weights, self.kind = labels, pairs, weights, kind
        if weights.shape not in ((), (len(pairs),)):
            raise grammar.PAIR_WEIGHTS.broken_by(self, pairs=str(len(pairs)), weights=str(weights.shape[0]))

    def costs(self) -> FloatArray:
        """Return the weight of each pair."""
        return np.array(np.broadcast_to(constant_value(self.weights), (len(self.pairs),)), dtype=float)


@dataclass(frozen=True, eq=False)
class Rows:
    """Represent rows beyond those of the points: what they share labels with, and their features.

    Parameters
    ----------
    labels : Labels
        Those declared, of n points.
    parents : (P,) int array
        The point whose label each row has, −1 for the label +1, or that it has a label of its own for.
    matrix : (P, m) scipy sparse array
        Features A. Rows cost −Σ ⟨c(y_p), V'a_p⟩ beside ridge ½‖V‖², whose minimum over V is −‖A'c(y)‖²/2 ridge.
    turned : (P, n) scipy sparse array
        −1 where a row has minus the features of a point as well.
    links : tuple of (pairs, costs, kind)
        As declared, for `Solution.violated_links`.
    blocks : tuple of (float, matrix, matrix)
        Of several hyperplanes or rows without a label, each one's factor of its features, weights (n + P', n_v) of its
        points in rows of margins, before those of pairs, and (n, n_v) in the decision values of points.
    """

    labels: Labels
    parents: IntArray
    matrix: Any = None
    turned: Any = None
    links: tuple[tuple[IntArray, FloatArray, str], ...] = ()
    blocks: tuple[tuple[float, Any, Any], ...] = ()

    def whole(self, values: Any, fixed: Any) -> Any:
        """Return values (n, ...) of points and those of rows, of what has no parent a fixed one."""
        rows = np.where(self.parents < 0, fixed, np.asarray(values)[np.maximum(self.parents, 0)])
        return np.concatenate([values, rows])

    def matrices(self) -> dict[str, Any]:
        """Return the sparse arrays that make features of rows."""
        found = {"matrix": self.matrix, "turned": self.turned}
        found |= {f"block{v}": c * S for v, (c, S, _) in enumerate(self.blocks)}
        return {name: matrix for name, matrix in found.items() if matrix is not None}

    def violated(self, labels: IntArray) -> list[tuple[int, int, float]]:
        """Return (i, j, cost) of the links that labels (n,) violate."""
        return [(int(i), int(j), float(cost)) for pairs, costs, kind in self.links for (i, j), cost in zip(pairs, costs)
                if (labels[i] == labels[j]) == (kind == CANNOT) and cost > 0]


@dataclass(frozen=True, eq=False)
class OfLabel:
    """Represent a loss of the margin that counts where the label is `sign`, and nothing elsewhere.

    Its argument is αy f + d there, with y = sign α(y f + sign f)/2 + d, a row of margins and decision values that is d
    for the other label: what the loss is there is a cost of that label, which is taken off.
    """

    loss: PLQ
    sign: float
    labels: Labels

    def lowered(self, argument: Any, weights: FloatArray) -> tuple[Any, FloatArray]:
        """Return the argument of its row, and half of what it is (n,) for the other label."""
        half = 0.5 * weights * self.loss(np.broadcast_to(argument.shift, weights.shape))
        moved = replace(argument, slope=0.5 * argument.slope, turn=0.5 * self.sign * argument.slope)
        return moved, np.bincount(argument.points.labels, half, self.labels.n)


@dataclass(frozen=True, eq=False)
class Ramp:
    """Represent min(ρ, cap) = ρ − Σ d (s (x − b))₊ for piecewise linear ρ, the kinks b outside {ρ ≤ cap}.

    −(h)₊ = −½h + min over t = ±1 of −½ t h; `convex` is ρ − ½Σ d s (x − b), the rest are rows, see `with_rows`.
    """

    convex: ConvexFunction
    kinks: tuple[tuple[float, float, float], ...]  # (d, s, b)
    capped: Capped

    @classmethod
    def of(cls, loss: Any, cap: float) -> Ramp:
        """Return a loss up to a cap; CalculusError where it is not piecewise linear, or nowhere lower."""
        if not isinstance(loss, PLQ) or np.any(loss.coefficients[:, 0]) or np.any(np.isfinite(loss.domain)):
            raise CalculusError("only piecewise linear losses stop at a cap")
        above, kinks = maximum(loss + PLQ.constant(-cap), PLQ.constant(0.0)), []
        if not isinstance(above, PLQ) or above.minimum() > 0 or loss.minimum() >= cap:
            raise CalculusError(f"the loss is nowhere below its cap {cap:g}")
        slopes, half = above.coefficients[:, 1], PLQ.constant(0.0)
        for b, left, right in zip(above.breakpoints, slopes[:-1], slopes[1:]):
            d, s = float(right - left), 1.0 if right > 0 else -1.0
            kinks.append((d, s, float(b)))
            half = half + PLQ.affine(-0.5 * d * s, 0.5 * d * s * float(b))  # type: ignore[assignment]
        return cls(loss + half, tuple(kinks), Capped(loss, cap, above))


def with_blocks(declared: Any, table: RowTable, ridges: dict[Any, float], conditions: Any) -> Any:
    """Return a declaration over the rows of a table: constraints on labels are on points, others follow or have none.

    Features are [S_1 Φ_1 √(κ/κ_1), ...], κ the weight of the first hyperplane's norm, so that ½κ‖w‖² is that of all.
    """
    labels, n, P = declared.labels, declared.labels.n, len(table.parents)
    if declared.orthogonal:
        raise grammar.BLOCK_ORTHOGONAL.broken_by("md.orthogonal")
    for plane, block in zip(declared.planes, table.blocks):  # a free bias is one number in all rows, in no square
        held, squares = np.diff(block.indptr) > 0, [x.weights(plane) @ np.ones(plane.n) for *_, x in declared.manifolds]
        if plane.bias is True and (len(declared.planes) > 1 or np.any((block @ np.ones(plane.n))[held] != 1)
                                   or any(map(np.any, squares))):
            raise grammar.BLOCK_BIAS.broken_by(plane)
    new, own = n + np.arange(P), table.parents >= 0
    decision, positions = [], iter(table.positions[len(table.positions) - len(conditions.decision_rows()):])
    for lower, upper, planes in conditions.all_bounds():
        totals = np.zeros((2, n + P))
        for weights, sizes in planes.values():
            at = next(positions)
            for total, part in zip(totals, (weights, np.abs(weights) if sizes is None else sizes)):
                np.add.at(total, at, part[np.flatnonzero(weights if sizes is None else sizes)])
        decision.append(DecisionBound(totals[0], lower, upper, totals[1]))
    bounds = [(np.append(w, np.zeros(P)), low, high) for w, low, high in declared.label_bounds]
    groups = [(np.arange(n), b.at_least, b.at_most) for b in declared.sizes]
    return replace(
        declared, labels=Labels(n + P, labels.clusters, labels.name), decision=tuple(decision), sizes=(),
        label_bounds=tuple(bounds), groups=(*declared.groups, *groups),
        must=np.concatenate([declared.must, np.column_stack([table.parents, new])[own]]),
        known=(np.append(declared.known[0], new[~own]),
               np.append(declared.known[1], np.ones(np.count_nonzero(~own), dtype=int))),
        rows=Rows(labels, table.parents, blocks=tuple(
            (float(np.sqrt(declared.ridge / ridges[plane])), block, view)
            for plane, block, view in zip(declared.planes, table.blocks, table.view))))


def with_rows(declared: Any, energies: list[tuple[float, PairEnergy]], costs: FloatArray, ramps: list[Any]) -> Any:
    """Return a declaration with energies of pairs, times factors, linear costs (n,) of two labels, and kinks of ramps.

    With unit codes c and κ = (k − 1)/k, [y_i ≠ y_j] = 2κ − ½κ‖c_i + c_j‖² and [y_i = y_j] = 1 − ½κ‖c_i − c_j‖²:
    energies of positive weights are a constant less ½‖A'c(y)‖², the minimum over V of ½‖V‖² − Σ⟨c_i, V'a_i⟩. These are
    linear losses of rows that share the labels of the points and have columns of their own, so that every relaxation
    bounds them as it bounds margins. h_i y_i is a pair with a row of label +1. min over t of −½ t (αγ + β), of a ramp,
    is over z = −ty the linear loss −½α z (−f) of a row with label z and features −φ, and ½β y z, an energy of a pair.
    """
    import scipy.sparse as sp

    n, k = declared.labels.n, declared.labels.clusters
    if ramps and k > 2:
        raise grammar.RAMP_CLUSTERS.broken_by(declared.labels)
    if declared.hyperplane.bias is True:
        words = "a loss with a cap" if ramps else f"a cost of {declared.labels.text()}, or a loss by label"
        raise grammar.PAIR_BIAS.broken_by(energies[0][1] if energies else words)
    if declared.coding == "crammer-singer":
        raise grammar.PAIR_CODING.broken_by(energies[0][1])
    # 1. Pairs with weights of one sign each: s[=] of a negative s is s + |s|[≠], and h y = h − 2h [y ≠ +1]
    priced = np.flatnonzero(costs)
    pairs = [np.column_stack([priced, np.full(len(priced), n)])]
    weights, kinds, constant = [-2.0 * costs[priced]], [np.ones(len(priced))], float(costs.sum())
    none = np.zeros(0)
    where, alpha, beta = (np.concatenate([none, *part]) for part in zip(*([[none] * 3] + [
        [points, d * s * w * slope, d * s * w * (shift - b)] for kinks, points, w, slope, shift in ramps
        for d, s, b in kinks])))
    where, kinked = where.astype(int), n + 1 + np.arange(len(where))  # beyond the points and the label +1
    pairs.append(np.column_stack([where, kinked]))
    weights.append(beta)
    kinds.append(-np.ones(len(where)))
    constant -= 0.5 * float(beta.sum())
    for factor, energy in energies:
        pairs.append(energy.pairs)
        weights.append(factor * energy.costs())
        kinds.append(np.full(len(energy.pairs), 1.0 if energy.kind == MUST else -1.0))
    ij, s, sign = np.concatenate(pairs).astype(int), np.concatenate(weights), np.concatenate(kinds)
    constant += float(s[s < 0].sum())
    ij, s, sign = ij[s != 0], np.abs(s[s != 0]), np.where(s < 0, -sign, sign)[s != 0]
    kappa = (k - 1) / k
    constant += float(np.sum(np.where(sign > 0, 2 * kappa, 1.0) * s))
    # 2. Rows of the points that occur, of all where sizes count them; one of label +1 last
    points = np.arange(n) if declared.sizes else np.unique(ij[ij < n])
    known = np.any(ij == n) or declared.losses.is_turned
    parents = np.concatenate([points, [-1] * int(known), where]).astype(int)
    row = np.full(n + 1 + len(where), len(points))
    row[points], row[kinked] = np.arange(len(points)), len(parents) - len(where) + np.arange(len(where))
    free = np.arange(len(parents)) >= len(parents) - len(where)
    size, edge = np.sqrt(s * kappa * declared.ridge), np.arange(len(s))
    matrix = sp.csr_array((np.concatenate([size, sign * size]), (row[ij.T.ravel()], np.tile(edge, 2))),
                          (len(parents), max(1, len(s))))
    if len(parents) < len(s) and len(parents) <= FACTORED:
        values, vectors = np.linalg.eigh((matrix @ matrix.T).toarray())
        kept = values > 1e-14 * values[-1]
        matrix = sp.csr_array(np.asarray(vectors[:, kept] * np.sqrt(values[kept])))
    if not len(parents):
        return replace(declared, constant=declared.constant + constant)
    # 3. The declaration over all rows: those beyond the points are in no sum, bound or term
    N, own, new = n + len(parents), parents >= 0, n + np.arange(len(parents))
    turned = sp.csr_array((-np.ones(len(where)), (np.flatnonzero(free), where)), (len(parents), n))

    def padded(values: FloatArray) -> FloatArray:
        return np.concatenate([values, np.zeros(len(parents))])

    losses: Losses = declared.losses
    slopes = np.ones(len(new))  # a free row has a decision value of −f + a'V, one loss for its kink and its pair
    slopes[free] = 0.5 * alpha
    matrix = sp.csr_array(sp.diags_array(1.0 / slopes) @ matrix)
    linear = LossTerm(PLQ.affine(-1.0, 0.0), new, np.ones(len(new)), slopes, np.zeros(len(new)),
                      np.zeros((len(new), losses.scalars.count)))
    links = tuple((energy.pairs, factor * energy.costs(), energy.kind) for factor, energy in energies)
    bounds = [(padded(w), low, high) for w, low, high in declared.label_bounds]
    sizes = tuple(type(b)(b.labels, 2 * b.at_least, 2 * b.at_most) for b in declared.sizes)
    whole = Labels(N, k, declared.labels.name)
    before = declared.rows or Rows(declared.labels, np.zeros(0, dtype=int))  # of blocks, whose rows are points here
    root = np.concatenate([np.arange(before.labels.n), before.parents, [-1]])
    rows = Rows(before.labels, np.append(before.parents, root[parents]), matrix, turned, links, before.blocks)
    return replace(
        declared, labels=whole, losses=Losses(N, (*losses.terms, linear), losses.scalars),
        constant=declared.constant + constant, rows=rows,
        must=np.concatenate([declared.must, np.column_stack([parents[own & ~free], new[own & ~free]])]),
        known=(np.append(declared.known[0], new[~own]),
               np.append(declared.known[1], np.ones(np.count_nonzero(~own), dtype=int))),
        label_bounds=tuple(bounds), sizes=sizes,
        decision=tuple(DecisionBound(padded(b.weights), b.lower, b.upper, None if b.sizes is None else padded(b.sizes))
                       for b in declared.decision))
