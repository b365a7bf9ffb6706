"""Assignment of points to clusters of bounded size: prices by coordinate descent, then shortest paths."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import pairwise

import numpy as np

from margindsl.host.clock import check
from margindsl.typing import BoolArray, FloatArray, IntArray

_SWEEPS = 30
_BATCH = 256
_STRIDE = 8
_COARSE = 20


def assign_priced(gain: FloatArray, lower: IntArray, upper: IntArray) -> tuple[IntArray, FloatArray] | None:
    """Return an exact maximiser of sum_i gain[i, y_i] with lower_q <= |{i : y_i = q}| <= upper_q, and its prices.

    This is a transportation problem: a unit leaves every point, enters a cluster q and leaves q for a sink t by
    an arc of flow f_q between lower_q and upper_q. Moving a unit from p to q costs min gain[i, p] - gain[i, q]
    over the points i of p, moving it along the sink arcs costs nothing, so the residual graph has k + 1 nodes.
    Prices lam of the clusters give a start: every point in a cluster of greatest gain - lam, f_q at its
    upper limit where lam_q > 0, at its lower one where lam_q < 0. Then all residual arcs have non-negative
    cost less potentials, and a flow without negative residual cycles is cheapest among the flows with its node
    imbalances. A unit sent along a shortest path from surplus to shortage keeps it so; when no imbalance is
    left the flow is optimal (Ahuja, Magnanti and Orlin, Network Flows, 1993, Section 9.7). Prices spare paths;
    they do not affect exactness. The search starts from the prices of every eighth point.

    Parameters
    ----------
    gain : ndarray, shape (m, k)
        Finite gains, or -inf where a point may not go; every point may go somewhere.
    lower, upper : ndarray of int, shape (k,)
        Limits on the numbers of points.

    Returns
    -------
    ndarray of int, shape (m,), and float array, shape (k,), or None
        The assignment, and prices that prove it optimal: they minimise the dual D of `balancing_prices`, with value
        sum_i gain[i, y_i]. None when no assignment has such numbers.

    Examples
    --------
    >>> assign_priced(np.array([[3.0, 0.0], [2.0, 0.0], [1.0, 0.0]]), np.array([0, 1]), np.array([2, 3]))[0]
    array([0, 0, 1])
    """
    k = gain.shape[1]
    if (lower > upper).any() or not lower.sum() <= len(gain) <= upper.sum():
        return None
    price = np.zeros(k)
    if len(gain) > _COARSE * k:
        share = len(gain[::_STRIDE]) / len(gain)
        limits = np.floor(share * lower).astype(np.intp), np.ceil(share * upper).astype(np.intp)
        coarse = assign_priced(gain[::_STRIDE], *limits)
        price = price if coarse is None else coarse[1]
    price = balancing_prices(gain, lower, upper, price)
    y = np.argmax(gain - price, axis=1)
    held = np.bincount(y, minlength=k)
    flow = np.where(price > 0, upper, np.where(price < 0, lower, np.clip(held, lower, upper)))
    surplus = np.append(held - flow, flow.sum() - len(gain))
    if not surplus.any():
        return y, price
    moves, potential = _Moves(gain, y), np.append(-price, 0.0)
    sink = _sink_costs(flow, lower, upper)
    while surplus.any():
        check()
        reduced = np.minimum(moves.cost, sink) + potential[:, None] - potential
        path, distance = _shortest_path(np.maximum(reduced, 0.0), surplus > 0, surplus < 0)
        if not path:
            return None
        potential += np.minimum(distance, distance[path[-1]])
        units = int(min(surplus[path[0]], -surplus[path[-1]]))
        units = _send(path, units, moves, (flow, lower, upper))
        surplus[path[0]] -= units
        surplus[path[-1]] += units
        sink = _sink_costs(flow, lower, upper)
    return y, potential[-1] - potential[:-1]


def balancing_prices(gain: FloatArray, lower: IntArray, upper: IntArray, start: FloatArray) -> FloatArray:
    """Return prices lam that nearly minimise the dual of the size bounds.

    D(lam) = sum_i max_q (gain[i, q] - lam_q) + sum_q max(upper_q lam_q, lower_q lam_q) bounds the bounded
    maximum from above for every lam. Exact minimisation over one lam_q at a time: a point leaves q at the
    price gain[i, q] - best other priced gain, so a sorted list of these holds the answer.
    The descent may stop short of the minimum, for D is not smooth.
    """
    k = gain.shape[1]
    columns = np.ascontiguousarray(gain.T)
    price = start.copy()
    priced = columns - price[:, None]
    best, last = price.copy(), np.inf
    for _ in range(_SWEEPS):
        held = np.bincount(np.argmax(priced, axis=0), minlength=k)
        flow = np.where(price > 0, upper, np.where(price < 0, lower, np.clip(held, lower, upper)))
        astray = float(np.abs(held - flow).sum())
        if astray < last:
            best = price.copy()
        if astray == 0 or astray > 0.8 * last:
            break
        last = astray
        for q in range(k):
            priced[q] = -np.inf
            leaving = columns[q] - priced.max(axis=0)
            above, middle = np.count_nonzero(leaving > 0) > upper[q], 0.0
            if above or np.count_nonzero(leaving >= 0) < lower[q]:
                # Any price between the last point that stays and the first that leaves will do.
                outer = int(upper[q] if above else lower[q])
                ends = np.sort(leaving)[::-1][max(outer - 1, 0) : outer + 1]
                ends = ends[np.isfinite(ends)]
                middle = float(ends.mean()) if ends.size else 0.0
            price[q] = max(middle, 0.0) if above else min(middle, 0.0)
            priced[q] = columns[q] - price[q]
    return best


def _sink_costs(flow: IntArray, lower: IntArray, upper: IntArray) -> FloatArray:
    """Return costs (k + 1, k + 1) of the residual arcs between clusters and the sink: 0, or inf if full."""
    k = len(flow)
    cost = np.full((k + 1, k + 1), np.inf)
    cost[:k, k] = np.where(flow < upper, 0.0, np.inf)
    cost[k, :k] = np.where(flow > lower, 0.0, np.inf)
    return cost


def _shortest_path(
    cost: FloatArray, sources: BoolArray, targets: BoolArray
) -> tuple[list[int], FloatArray]:
    """Return a shortest path from sources to targets and distances (Dijkstra), an empty path if there is none."""
    distance = np.where(sources, 0.0, np.inf)
    before, open_ = np.full(len(cost), -1), np.ones(len(cost), dtype=bool)
    while True:
        node = int(np.argmin(np.where(open_, distance, np.inf)))
        if not open_[node] or distance[node] == np.inf:
            return [], distance
        open_[node] = False
        if targets[node]:
            break
        through = distance[node] + cost[node]
        closer = open_ & (through < distance)
        distance[closer], before[closer] = through[closer], node
    path = [node]
    while before[path[-1]] >= 0:
        path.append(int(before[path[-1]]))
    return path[::-1], distance


def _send(
    path: list[int], units: int, moves: _Moves, sink: tuple[IntArray, IntArray, IntArray]
) -> int:
    """Send as many units along a path as cost the same, and return how many; heads of arcs change places."""
    flow, lower, upper = sink
    k, taken = len(flow), {}
    for p, q in pairwise(path):
        if q == k:
            units = min(units, int(upper[p] - flow[p]))
        elif p == k:
            units = min(units, int(flow[q] - lower[q]))
        else:
            taken[p, q] = moves.take(p, q, units)
            units = min(units, len(taken[p, q]))
    for p, q in pairwise(path):
        if q == k:
            flow[p] += units
        elif p == k:
            flow[q] -= units
        else:
            moves.give_back(p, q, taken[p, q][units:])
            moves.move(q, taken[p, q][:units])
    moves.refresh([node for node in path if node < k])
    return units


class _Moves:
    """The cheapest reassignments between every two clusters, for an assignment y that `move` changes in place.

    ``cost[p, q]`` is min gain[i, p] - gain[i, q] over the points i of p. Each pair keeps a heap of its
    cheapest points, complete up to a cutoff; points that have left are dropped when they come up, and a
    used-up heap is filled again.
    """

    def __init__(self, gain: FloatArray, y: IntArray) -> None:
        self.gain, self.y = gain, y
        k = gain.shape[1]
        self.heaps: list[list[list[tuple[float, int]]]] = [[[] for _ in range(k)] for _ in range(k)]
        self.cutoff = np.full((k, k), -np.inf)
        self.cost = np.full((k + 1, k + 1), np.inf)
        self.refresh(list(range(k)))

    def refresh(self, clusters: list[int]) -> None:
        """Bring the costs of leaving some clusters up to date."""
        k = self.gain.shape[1]
        for p in clusters:
            for q in range(k):
                if q != p:
                    self.cost[p, q] = self._head(p, q)

    def take(self, p: int, q: int, limit: int) -> list[int]:
        """Remove and return up to limit points of p whose move to q costs ``cost[p, q]``."""
        heap, cost = self.heaps[p][q], self.cost[p, q]
        points: dict[int, None] = {}
        while heap and heap[0][0] == cost and len(points) < limit:
            point = heappop(heap)[1]
            if self.y[point] == p:
                points[point] = None
        return list(points)

    def give_back(self, p: int, q: int, points: list[int]) -> None:
        """Return points that were taken but stay."""
        for point in points:
            heappush(self.heaps[p][q], (float(self.cost[p, q]), point))

    def move(self, q: int, points: list[int]) -> None:
        """Assign points to q."""
        self.y[points] = q
        for point in points:
            costs = self.gain[point, q] - self.gain[point]
            for r in np.flatnonzero((costs <= self.cutoff[q]) & (costs < np.inf)).tolist():
                if r != q:
                    heappush(self.heaps[q][r], (float(costs[r]), point))

    def _head(self, p: int, q: int) -> float:
        heap = self.heaps[p][q]
        while True:
            while heap and self.y[heap[0][1]] != p:
                heappop(heap)
            if heap:
                return heap[0][0]
            if self.cutoff[p, q] == np.inf:
                return np.inf
            members = np.flatnonzero(self.y == p)
            cost = self.gain[members, p] - self.gain[members, q]
            self.cutoff[p, q] = np.inf
            if len(members) > _BATCH:
                nearest = np.argpartition(cost, _BATCH)[: _BATCH + 1]
                members, cost = members[nearest], cost[nearest]
                # An infinite cutoff says that the heap holds all points that can move.
                self.cutoff[p, q] = cost.max()
            possible = cost < np.inf
            heap[:] = sorted(zip(cost[possible].tolist(), members[possible].tolist()))
