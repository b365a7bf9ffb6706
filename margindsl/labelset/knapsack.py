"""The best signs under one linear bound: Lagrangian fixing around a small core solved exactly."""

from __future__ import annotations

import numpy as np

from margindsl.errors import SolverError
from margindsl.host.clock import check
from margindsl.labelset.programme import solve_signs
from margindsl.typing import BoolArray, FloatArray, IntArray

_CORE = 64
_CELLS = 2e10


def best_signs(value: FloatArray, weight: FloatArray, lower: float, upper: float, slack: float = 0.0) -> IntArray:
    """Return an exact maximiser of value.b over b in {-1, +1}^m with lower <= weight.b <= upper, weights >= 0.

    For the multiplier lam of the violated limit, b is bounded by L(lam) = sum |value - lam weight| + lam upper, and
    flipping b_i away from sign(value_i - lam weight_i) costs 2 |value_i - lam weight_i|. So with a feasible b of value
    P only the points with 2 |value_i - lam weight_i| < L - P can differ from the Lagrangian signs; this core is solved
    exactly and grown until it holds all of them. Of equal weights those of least value are flipped, as many as must be.

    `value`, `weight` (m,); `slack`: tolerance of the limits; zero says that weights are whole numbers, with limits
    within 2^53.
    """
    signs = np.where(value >= 0, 1, -1)
    total = float(weight @ signs)
    if lower - slack <= total <= upper + slack:
        return signs
    if total < lower:
        return -best_signs(-value, weight, -upper, -lower, slack)
    raised = np.flatnonzero((signs > 0) & (weight > 0))

    # Equal weights: so many go to the other side that the sum is no more than the upper limit.
    if len(raised) and np.all(weight == weight[0]):
        step, most = 2 * float(weight[0]), upper + slack
        count = int(np.ceil((total - most) / step))
        count += int(total - step * count > most)
        if 0 < count <= len(raised) and total - step * count >= lower - slack:
            mine = value[raised]
            last = np.partition(mine, count - 1)[count - 1]  # of equal values the first: a stable sort in one pass
            below = np.flatnonzero(mine < last)
            chosen = np.concatenate([below, np.flatnonzero(mine == last)[: count - len(below)]])
            signs[raised[chosen]] = -1
            return signs

    # The multiplier: signs turn in the order of their value a weight until the sum meets the limit.
    ratio = value[raised] / weight[raised]
    order = np.argsort(ratio, kind="stable")
    sums = total - 2 * np.cumsum(weight[raised[order]])
    critical = int(np.searchsorted(-sums, -(upper + slack)))
    if critical == len(order):
        raise SolverError("no labelling satisfies the bound; the label set was not built by presolve.")
    signs[raised[order[: critical + 1]]] = -1
    lam = max(float(ratio[order[critical]]), 0.0)
    reduced = 2 * np.abs(value - lam * weight)
    reduced[raised[order[critical]]] = 0.0

    def shortfall(b: IntArray) -> float:
        # L - P without cancellation: complementary slackness, term by term.
        return float(reduced[b != signs].sum()) + lam * max(upper - float(weight @ b), 0.0)

    # The core.
    noise = 1e-13 * float(np.abs(value).max(initial=0.0))
    best = signs if float(sums[critical]) >= lower - slack else None
    gap = shortfall(signs) if best is not None else np.inf
    if gap <= noise:
        return signs
    order = np.argsort(reduced, kind="stable")
    ranked = reduced[order]
    size = min(_CORE, len(order))
    while True:
        core, found = order[:size], signs.copy()
        found[core] = 0
        rest = float(weight @ found)
        picked = _solve_core(value[core], weight[core], lower - rest, upper - rest, slack, lam)
        if picked is not None:
            found[core] = picked
            if shortfall(found) < gap:
                best, gap = found, shortfall(found)
        if size == len(order) or ranked[size] >= gap - noise:
            if best is None:
                raise SolverError("no labelling satisfies the bound; the label set was not built by presolve.")
            return best
        needed = int(np.searchsorted(ranked, gap - noise))
        size = min(max(needed, size + 1), 4 * size, len(order))


def _solve_core(value: FloatArray, weight: FloatArray, lower: float, upper: float, slack: float,
                lam: float) -> IntArray | None:
    span = float(weight.sum())
    if lower - slack > span or upper + slack < -span:
        return None
    if slack > 0 or len(weight) * span > _CELLS:
        return solve_signs(value, weight[None, :], np.array([lower]), np.array([upper]), np.array([slack]))
    total, whole, gain = int(span), weight.astype(np.int64), 2 * (value - lam * weight)
    first = max(int(np.ceil((lower + total) / 2)), 0)
    last = min(int(np.floor((upper + total) / 2)), total)
    if first > last:
        return None
    if first + last > total:  # the complement has the smaller table
        chosen = _subset(-gain, whole, -2 * lam, total - last, total - first)
        return None if chosen is None else np.where(chosen, -1, 1)
    chosen = _subset(gain, whole, 2 * lam, first, last)
    return None if chosen is None else np.where(chosen, 1, -1)


def _subset(value: FloatArray, weight: IntArray, price: float, first: int, last: int) -> BoolArray | None:
    """Maximise value.x + price weight.x over subsets x with first <= weight.x <= last by a table of sums."""
    best = np.full(last + 1, -np.inf)
    best[0], reached = 0.0, 0
    takes: list[BoolArray] = []
    for gain, w in zip(value.tolist(), weight.tolist()):
        check()
        reached = min(reached + w, last)
        if w > last:
            takes.append(np.zeros(0, dtype=np.uint8))
            continue
        tried = best[: reached - w + 1] + gain
        better = tried > best[w : reached + 1]
        best[w : reached + 1][better] = tried[better]
        takes.append(np.packbits(better))
    state = first + int(np.argmax(best[first:] + price * np.arange(first, last + 1)))
    if best[state] == -np.inf:
        return None
    chosen = np.zeros(len(weight), dtype=bool)
    for k in range(len(weight) - 1, -1, -1):
        position, row = state - int(weight[k]), takes[k]
        if position >= 0 and position >> 3 < len(row) and (int(row[position >> 3]) >> (7 - (position & 7))) & 1:
            chosen[k], state = True, position
    return chosen
