"""The best signs under one linear bound: Lagrangian fixing around a small core solved exactly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from margindsl.errors import SolverError
from margindsl.host.clock import check
from margindsl.labelset.programme import solve_signs
from margindsl.typing import BoolArray, FloatArray, IntArray

_CORE = 64
_CELLS = 2e10


@dataclass(frozen=True, eq=False)
class SignKnapsack:
    """The problem max h.b over b in {-1, +1}^m with lower <= a.b <= upper and a > 0.

    Parameters
    ----------
    value, weight : ndarray of float, shape (m,)
        Gains h and weights a, the weights positive (whole numbers when ``whole``).
    lower, upper : float
        Limits of the weighted sum.
    slack : float
        Tolerance of the limits.
    whole : bool
        Whether weights and limits are whole numbers.
    """

    value: FloatArray
    weight: FloatArray
    lower: float
    upper: float
    slack: float
    whole: bool


def best_signs(problem: SignKnapsack) -> IntArray:
    """Return an exact maximiser of a sign knapsack.

    For the multiplier lam of the violated limit, b is bounded by L(lam) = sum |h - lam a| + lam upper, and
    flipping b_i away from sign(h_i - lam a_i) costs 2 |h_i - lam a_i|. So with a feasible b of value P only
    the points with 2 |h_i - lam a_i| < L - P can differ from the Lagrangian signs; this core is solved
    exactly and grown until it holds all of them. Of equal weights those of least value are flipped, as many as must be.
    """
    signs = np.where(problem.value >= 0, 1, -1)
    total = float(problem.weight @ signs)
    if problem.lower - problem.slack <= total <= problem.upper + problem.slack:
        return signs
    if total > problem.upper:
        return _lowered(problem, signs, total)
    mirrored = SignKnapsack(
        -problem.value, problem.weight, -problem.upper, -problem.lower, problem.slack, problem.whole
    )
    return -_lowered(mirrored, -signs, -total)


def _lowered(problem: SignKnapsack, signs: IntArray, total: float) -> IntArray:
    h, a = problem.value, problem.weight
    raised = np.flatnonzero((signs > 0) & (a > 0))
    if len(raised) and np.all(a == a[0]):
        count = _flips(problem, total)
        if 0 < count <= len(raised) and total - 2 * a[0] * count >= problem.lower - problem.slack:
            signs[raised[_least(h[raised], count)]] = -1
            return signs
    ratio = h[raised] / a[raised]
    order = np.argsort(ratio, kind="stable")
    sums = total - 2 * np.cumsum(a[raised[order]])
    critical = int(np.searchsorted(-sums, -(problem.upper + problem.slack)))
    if critical == len(order):
        raise SolverError("no labelling satisfies the bound; the label set was not built by presolve.")
    signs = signs.copy()
    signs[raised[order[: critical + 1]]] = -1
    lam = max(float(ratio[order[critical]]), 0.0)
    reduced = 2 * np.abs(h - lam * a)
    reduced[raised[order[critical]]] = 0.0
    return _grow_core(problem, signs, lam, reduced, float(sums[critical]))


def _flips(problem: SignKnapsack, total: float) -> int:
    """Return how many equal weights must go to the other side for the sum to be no more than the upper limit."""
    step, most = 2 * float(problem.weight[0]), problem.upper + problem.slack
    count = int(np.ceil((total - most) / step))
    return count + int(total - step * count > most)


def _least(values: FloatArray, count: int) -> IntArray:
    """Return the places of the so many least values, of equal ones the first: what a stable sort says, in one pass."""
    last = np.partition(values, count - 1)[count - 1]
    below = np.flatnonzero(values < last)
    return np.concatenate([below, np.flatnonzero(values == last)[: count - len(below)]])


def _grow_core(
    problem: SignKnapsack, signs: IntArray, lam: float, reduced: FloatArray, total: float
) -> IntArray:
    def shortfall(b: IntArray) -> float:
        # L - P without cancellation: complementary slackness, term by term.
        return float(reduced[b != signs].sum()) + lam * max(problem.upper - float(problem.weight @ b), 0.0)

    noise = 1e-13 * float(np.abs(problem.value).max(initial=0.0))
    best: IntArray | None = signs if total >= problem.lower - problem.slack else None
    gap = shortfall(signs) if best is not None else np.inf
    if gap <= noise:
        return signs
    order = np.argsort(reduced, kind="stable")
    ranked = reduced[order]
    size = min(_CORE, len(order))
    while True:
        found = _solve_core(problem, signs, order[:size], lam)
        if found is not None and shortfall(found) < gap:
            best, gap = found, shortfall(found)
        if size == len(order) or ranked[size] >= gap - noise:
            if best is None:
                raise SolverError(
                    "no labelling satisfies the bound; the label set was not built by presolve."
                )
            return best
        needed = int(np.searchsorted(ranked, gap - noise))
        size = min(max(needed, size + 1), 4 * size, len(order))


def _solve_core(problem: SignKnapsack, signs: IntArray, core: IntArray, lam: float) -> IntArray | None:
    outside = np.ones(len(signs), dtype=bool)
    outside[core] = False
    rest = float(problem.weight[outside] @ signs[outside])
    a, h = problem.weight[core], problem.value[core]
    low, high = problem.lower - rest, problem.upper - rest
    span = float(a.sum())
    if low - problem.slack > span or high + problem.slack < -span:
        return None
    if problem.whole and len(core) * span <= _CELLS:
        chosen = _subset(2 * (h - lam * a), lam, np.rint(a).astype(np.int64), low, high)
        picked = None if chosen is None else np.where(chosen, 1, -1)
    else:
        picked = solve_signs(h, a[None, :], np.array([low]), np.array([high]), np.array([problem.slack]))
    if picked is None:
        return None
    answer = signs.copy()
    answer[core] = picked
    return answer


def _subset(value: FloatArray, lam: float, weight: IntArray, low: float, high: float) -> BoolArray | None:
    """Maximise value.x + 2 lam weight.x over subsets x with low <= weight.(2x - 1) <= high."""
    total = int(weight.sum())
    first = max(int(np.ceil((low - 0.5 + total) / 2)), 0)
    last = min(int(np.floor((high + 0.5 + total) / 2)), total)
    if first > last:
        return None
    if first + last > total:
        # The complement has the smaller table.
        mirrored = _table(-value, weight, -2 * lam, total - last, total - first)
        return None if mirrored is None else ~mirrored
    return _table(value, weight, 2 * lam, first, last)


def _table(value: FloatArray, weight: IntArray, price: float, first: int, last: int) -> BoolArray | None:
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
    ends = best[first : last + 1] + price * np.arange(first, last + 1)
    state = first + int(np.argmax(ends))
    return None if best[state] == -np.inf else _backtrack(takes, weight, state)


def _backtrack(takes: list[BoolArray], weight: IntArray, state: int) -> BoolArray:
    chosen = np.zeros(len(weight), dtype=bool)
    for k in range(len(weight) - 1, -1, -1):
        place = state - int(weight[k])
        row = takes[k]
        if place >= 0 and place >> 3 < len(row) and (int(row[place >> 3]) >> (7 - (place & 7))) & 1:
            chosen[k] = True
            state = place
    return chosen
