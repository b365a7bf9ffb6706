"""Check an exported proof with numpy alone: labels in B, value, bound, gap, status. python check.py PROOF.npz [DATA]

What rounding may have done, 2^-52 times the sizes of the parts of a number, times their count, is taken off the bound.
Duals are in the user's units, named as in docs/certificates.md.
"""
import itertools
import json
import math
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

FORMAT, VERSION = "margindsl-proof", 3
EPS, MOST, LARGEST = 2.0**-52, 1 << 22, 5000  # most labellings or sums that are listed, largest order of a matrix


class Unsound(Exception):
    """Say what of a proof does not hold."""


class Unaffordable(Exception):
    """Say what is too large to be checked."""


@dataclass
class Report:
    """Say what was proved, what failed and what could not be checked; true when nothing failed."""

    proved: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    unverified: list[str] = field(default_factory=list)
    bound: float = -math.inf  # what the dual point proves, rounding taken off

    def __bool__(self) -> bool:
        return not self.failures

    def __str__(self) -> str:
        parts = ("proved", self.proved), ("FAILED", self.failures), ("unverified", self.unverified)
        return "\n".join(f"{word:<11} {text}" for word, texts in parts for text in texts)


# Loss i at x = slope * margin + coupling s + shift: a quadratic Ax^2 + Bx + C in each of its cells, from left to right,
# of which |B| and |C| are sums of parts of sizes `steep` and `size`, and terms c log(1 + exp(-ax - d)).


def evaluated(p: Any, margins: Any, sizes: Any, scalars: Any) -> Any:
    """Return (value, size) of all losses and scalar costs, at margins whose own parts have some sizes."""
    x = p.slopes * margins[p.points] + p.shifts + p.coupling @ scalars
    size = np.abs(p.slopes) * sizes[p.points] + np.abs(p.shifts) + np.abs(p.coupling) @ np.abs(scalars)
    left, right = np.full(len(x), np.inf), np.full(len(x), -np.inf)
    np.minimum.at(left, p.cell, p.left)
    np.maximum.at(right, p.cell, p.right)
    near = np.clip(x, left, right)
    if np.any(np.abs(near - x) > 1e-7 * size):
        raise Unsound("the value is infinite: a margin lies outside the domain of its loss")
    here = (p.left <= near[p.cell]) & (near[p.cell] <= p.right)
    _, first = np.unique(p.cell[here], return_index=True)
    A, B, C, steep, rest = (z[here][first] for z in (p.A, p.B, p.C, p.steep, p.size))
    z, spread = p.log_a * x[p.log_at] + p.log_d, np.abs(p.log_a) * size[p.log_at] + np.abs(p.log_d)
    value = [(A * near + B) * near + C, p.log_c * np.logaddexp(0.0, -z), p.costs * scalars]
    parts = [(np.abs(A) * size + steep) * size + rest, p.log_c * (1.0 + spread), np.abs(p.costs * scalars)]
    return np.column_stack([np.concatenate(value), np.concatenate(parts)])


def least(p: Any, u: Any, q: Any, v: Any) -> tuple[float, Any]:
    """Return the sum over losses of min over t of h(t) + ut + qt^2/2, rounding taken off, and u.

    v in [-1, 0] are slopes of tangents vz - rho*(v) that stand for the terms log(1 + exp(-z)). Where h is linear to
    infinity, u outside the domain of its conjugate by rounding alone is moved to its end.
    """
    i, u, v = p.cell, np.array(u, dtype=float), np.clip(v, -1.0, 0.0)
    conjugate = -v * np.log(np.where(v < 0, -v, 1)) + (1 + v) * np.log1p(np.where(v > -1, v, 0))
    slope, steep, rest, size = (np.bincount(p.log_at, p.log_c * z, len(u)) for z in (
        p.log_a * v, np.abs(p.log_a * v), v * p.log_d - conjugate, np.abs(v * p.log_d) + np.abs(conjugate)))
    if p.coupling.shape[1] and np.any(q):
        raise Unsound("squares of decision values do not go with shared scalars")
    part = (1 - 1 / p.clusters) * (p.left >= 0) if p.coding == "crammer-singer" else 1.0  # gamma <= code |V'phi|
    A, steep, size, rate = p.A + (0.0 if p.coupling.shape[1] else part * q[i] / 2), p.steep + (steep + np.abs(u))[i], (
        p.size + size[i]), 64 * EPS
    flat, low, ends = np.zeros(len(i), dtype=bool), np.full(len(i), np.inf), [(p.left, 1.0), (p.right, -1.0)]
    for end, sign in ends:
        off = sign * (p.B + (u + slope)[i])
        moved = np.isinf(end) & (A == 0) & (off > 0) & (off <= rate * steep)
        flat, u = flat | moved, u - sign * np.bincount(i, off * moved, len(u))
    B = np.where(flat, 0.0, p.B + (u + slope)[i])
    for t in (p.left, p.right, np.clip(np.where(A > 0, -B / (2 * A), 0.0), p.left, p.right)):
        value = (A * t + B) * t + p.C - rate * ((np.abs(A * t) + steep) * np.abs(t) + np.abs(p.C) + size)
        low = np.where(np.isfinite(t), np.minimum(low, value), low)
    for end, sign in ends:
        low = np.where(np.isinf(end) & ((A < 0) | (A == 0) & (sign * B > 0)), -np.inf, low)
    total = np.full(len(u), np.inf)
    np.minimum.at(total, i, low)
    if not np.all(np.isfinite(total)):
        raise Unsound(f"the dual point is outside the domain of the losses at {int(np.argmin(np.isfinite(total)))}")
    return math.fsum(total + rest), u


# The label set: y_i = sign_i z_C of components C; z is 0 where it is open, else a sign, or 1 + the cluster.


class LabelSet:
    """Derive what the declared constraints imply: components, forced labels, sums that labels attain."""

    def __init__(self, p: Any) -> None:
        self.p, self.two, component, sign = p, p.clusters == 2, np.arange(p.n), np.ones(p.n, dtype=int)
        for i, j, s in [*((i, j, 1) for i, j in p.must), *((i, j, -1) for i, j in p.cannot if self.two)]:
            if component[i] != component[j]:
                moved = component == component[j]
                sign[moved] *= sign[i] * s * sign[j]
                component[moved] = component[i]
        _, self.component = np.unique(component, return_inverse=True)
        self.names = np.array([1, -1]) if self.two else np.arange(1, p.clusters + 1)
        self.sign, self.z, i = sign, np.zeros(self.component.max() + 1, dtype=int), p.known_index
        self.z[self.component[i]] = sign[i] * p.known_values if self.two else p.known_values + 1
        self.rows: list[Any] = []
        for w, low, high in zip(p.bound_weights, p.bound_lower, p.bound_upper):
            slack = (p.n + 8) * EPS * (np.abs(w).sum() + sum(abs(x) for x in (low, high) if math.isfinite(x)))
            self.rows.append((np.bincount(self.component, self.sign * w, len(self.z)), low, high, slack))
        for place, (c, low, high, slack) in enumerate(self.rows):  # bounds of one direction, from both sides
            for a, *limits, off in self.rows:
                ratio = float(a @ c) / max(float(a @ a), 1e-300)
                if np.abs(c - ratio * a).sum() <= min(slack, off):
                    below, above = sorted(ratio * x for x in limits) if ratio else (low, high)
                    low, high = max(low, below), min(high, above)
            self.rows[place] = c, low, high, slack
        before = self.z - 1
        while not np.array_equal(before, self.z):
            before, self.rows = self.z, [self.attained(*row) for row in self.rows]
            self.z = self.z if (z := self.implied(self.z)) is None else z
        self.labels = self.sign * self.z[self.component]
        self.is_symmetric = not self.labels.any() and np.all(p.decision_lower == -p.decision_upper) and all(
            abs(low + high) <= slack for _, low, high, slack in self.rows) and (
            self.two or np.ptp(p.at_least) == np.ptp(p.at_most) == 0)

    def attained(self, c: Any, low: float, high: float, slack: float) -> tuple[Any, float, float, float]:
        """Return a bound with its limits moved to sums that are attained, where weights have a common unit."""
        free, fixed, unit = np.abs(c[(self.z == 0) & (c != 0)]), float(c @ self.z), 0.0
        reach = math.fsum(free)
        low, high = max(low, fixed - reach), min(high, fixed + reach)
        for w in np.unique(free)[::-1]:
            while w > 1e-6 * free.max():
                unit, w = float(w), abs(math.remainder(unit, w))
        whole = np.rint(free / (unit or 1.0)).astype(int)
        if np.abs(free - unit * whole).sum() <= slack and 0 < whole.sum() <= MOST:
            bits = 1
            for w in whole.tolist():
                bits |= bits << w
            sums = fixed - reach + 2 * unit * np.flatnonzero(np.array(list(bin(bits)[:1:-1])) == "1")
            sums = sums[(sums >= low - slack) & (sums <= high + slack)]
            low, high = (float(sums[0]), float(sums[-1])) if len(sums) else (low, high)
        return c, low, high, slack

    def size_radius(self) -> float:
        """Return the largest |sum of the codes of all points|: all sizes but one are at a limit."""
        p, k, best = self.p, self.p.clusters, -math.inf
        known = np.bincount(self.z[self.component], minlength=k + 1)[1:]
        limits = list(zip(np.maximum(known, p.at_least).astype(int).tolist(), p.at_most.astype(int).tolist()))
        for odd, (low, high) in enumerate(limits):
            squares = {0: 0.0}
            for pair in limits[:odd] + limits[odd + 1:]:
                step = [(n + x, value + x * x) for n, value in squares.items() for x in pair]
                squares = dict(sorted(step))  # of one sum, the greatest
            best = max([best, *(v + (p.n - n) ** 2 for n, v in squares.items() if low <= p.n - n <= high)])
        return math.sqrt(max(0.0, (k * best - p.n**2) / (k - 1)))

    def implied(self, z: Any) -> Any:
        """Return z with what bounds, sizes and cannot-links force, None when nothing of B is left."""
        before = z - 1
        while not np.array_equal(before, z):
            before, free = z, z == 0
            for c, low, high, slack in self.rows:
                size, most = np.abs(c), c @ z + np.abs(c[z == 0]).sum() + slack
                fewest = 2 * (c @ z) - most
                up, down = (z == 0) & (most - 2 * size < low), (z == 0) & (fewest + 2 * size > high)
                if most < low or fewest > high or np.any(up & down):
                    return None
                z = np.where(up | down, np.where(up, 1, -1) * np.sign(c).astype(int), z)
            if not self.two:
                many, sizes = np.bincount(self.component), np.sum(z[self.component][:, None] == self.names, axis=0)
                allowed = np.where(free[:, None], sizes + many[:, None] <= self.p.at_most, z[:, None] == self.names)
                for i, j in self.component[np.vstack([self.p.cannot, self.p.cannot[:, ::-1]])]:
                    allowed[i, z[j] - 1] &= z[j] == 0
                short = np.maximum(self.p.at_least - sizes, 0).sum() > many[free].sum()
                if not np.all(allowed.any(axis=1)) or np.any(sizes > self.p.at_most) or short:
                    return None
                z = np.where(free & (allowed.sum(axis=1) == 1), allowed.argmax(axis=1) + 1, z)
        return z

    def listed(self) -> Any:
        """Yield all labellings by components, many at a time; where B is symmetric, up to names."""
        free, k, first = np.flatnonzero(self.z == 0), self.p.clusters, int(self.is_symmetric)
        if k ** len(free) > MOST:
            raise Unaffordable(f"{k}^{len(free)} labellings")
        digits, ends = k ** np.arange(len(free) - first), self.component[self.p.cannot]
        for code in np.array_split(np.arange(k ** (len(free) - first)), 1 + k ** len(free) // 8192):
            Z = np.repeat(self.z[None, :], len(code), axis=0)
            Z[:, free] = 1
            Z[:, free[first:]] = self.names[code[:, None] // digits % k]
            for c, low, high, slack in self.rows:
                Z = Z[(Z @ c >= low - slack) & (Z @ c <= high + slack)]
            if not self.two:
                sizes = np.stack([np.sum(Z[:, self.component] == q, axis=1) for q in self.names], axis=1)
                Z = Z[np.all((sizes >= self.p.at_least) & (sizes <= self.p.at_most), axis=1) & np.all(
                    Z[:, ends[:, 0]] != Z[:, ends[:, 1]], axis=1)]
            yield Z


def broken(p: Any, y: Any) -> list[str]:
    """Return which declared constraints labels y break."""
    two = p.clusters == 2
    foreign = np.abs(y) != 1 if two else (y < 0) | (y >= p.clusters)
    if y.shape != (p.n,) or p.clusters != len(p.at_least) or np.any(foreign):
        return [f"labels are not {p.n} of {'+1 and -1' if two else f'0..{p.clusters - 1}'}"]
    (i, j), (k, m), sums = p.must.T, p.cannot.T, p.bound_weights @ y
    slack = (p.n + 8) * EPS * (np.abs(p.bound_weights).sum(axis=1) + np.minimum(abs(p.bound_lower), abs(p.bound_upper)))
    sizes = np.bincount(np.where(y > 0, 1, 0) if two else y, minlength=p.clusters)
    return [f"labels break {name} {int(np.argmax(bad))}" for name, bad in (
        ("must-link", y[i] != y[j]), ("cannot-link", y[k] == y[m]), ("known label", y[p.known_index] != p.known_values),
        ("bound", (sums < p.bound_lower - slack) | (sums > p.bound_upper + slack)),
        ("the size of cluster", (sizes < p.at_least) | (sizes > p.at_most))) if np.any(bad)]


# Bounds. For labels y of a case, |labels open in z| with Diag(d) + V kappa V' - T - HP^-1H' >= 0, a hyperplane better
# than the value has objective >= sum of min h(t) + ut + qt^2/2 - (sum d + kappa r^2 + eta l^2 + theta)/2 - tau l,
# where P = ridge I - Phi'qPhi + sum eta s s', H = rows sum u_i sign_i phi_i of components, T = sum theta cut.


def whitened(p: Any, q: Any, eta: Any, H: Any) -> tuple[Any, float, float]:
    """Return (F, added, least): FF' >= H(P + added I)^-1H', what was added in units of the ridge."""
    phi, sigma, sizes = p.wide, p.decision_weights @ p.wide, np.abs(p.decision_weights) @ np.abs(p.wide)
    if not (np.any(q) or np.any(eta) or p.free_bias):
        return H / math.sqrt(p.ridge), 0.0, p.ridge
    P = p.ridge * np.diag(np.arange(phi.shape[1]) < p.phi.shape[1]) - phi.T @ (q[:, None] * phi)
    P = P + sigma.T @ (eta[:, None] * sigma)
    slack = p.rate * p.turned * (p.ridge + np.abs(q) @ np.sum(phi**2, axis=1) + eta @ np.sum(sizes**2, axis=1))
    first, lowest = H[:, :0], math.inf
    if p.free_bias:
        lowest = P[-1, -1] - slack
        if np.any(P[-1]) or np.any(H[:, -1]):  # Schur complement of the bias
            if lowest <= 0:
                raise Unsound("the dual point does not hold the free bias")
            first, H = H[:, -1:] / math.sqrt(lowest), H - np.outer(H[:, -1], P[-1]) / lowest
            P = P - np.outer(P[-1], P[-1]) / lowest
        else:
            lowest = math.inf
        P, H = P[:-1, :-1], H[:, :-1]
    values, vectors = np.linalg.eigh((P + P.T) / 2)
    added = max(0.0, 2 * slack - float(values[0]))
    values = values - slack + added
    return np.column_stack([H @ vectors / np.sqrt(values), first]), added / p.ridge, min(lowest, float(values[0]))


def missing(F: Any, V: Any, d: Any, T: Any) -> float:
    """Return by how much Diag(d) + VV' - T - FF' >= 0 may fail, times its order where the diagonal is one."""
    met = (d != 0) | np.any(F, axis=1) | np.any(V, axis=1) | (False if T is None else np.any(T, axis=1))
    F, V, d, T = F[met], V[met], d[met], None if T is None else T[met][:, met]
    if not len(d):
        return 0.0
    scale = np.sqrt(np.where(d > 0, d, np.abs(d).mean() or 1.0))[:, None]
    X, Y, S, order = F / scale, V / scale, 0.0 if T is None else -T / scale / scale.T, len(d)
    size, heavy = 1 + np.sum(X**2) + np.linalg.norm(S), np.sum(Y**2)
    if d.min() > 0 and T is None and X.shape[1] + Y.shape[1] < len(d):
        R: Any = np.linalg.qr(np.column_stack([X, Y]), mode="r")
        X, Y, S = R[:, :X.shape[1]], R[:, X.shape[1]:], 0.0
    if len(X) > LARGEST:
        raise Unaffordable(f"a matrix of order {len(X)}")
    S = (np.eye(len(X)) if len(X) < order else np.diag(d / scale[:, 0]**2)) - X @ X.T + S
    if heavy > size and Y.shape[1] <= len(X):  # its Schur complement, which does not drown in multipliers of equalities
        (Q, R), k = np.linalg.qr(Y, mode="complete"), Y.shape[1]
        S = Q.T @ S @ Q
        values, vectors = np.linalg.eigh(S[:k, :k] + R[:k] @ R[:k].T)
        if values[0] >= size:
            side, size = S[k:, :k] @ vectors / np.sqrt(values), 4 * size * values[-1] / values[0]
            S, Y = S[k:, k:] - side @ side.T, Y[:0]
        else:
            S = Q @ S @ Q.T
    S, size = (S + Y @ Y.T, size + heavy) if len(Y) else (S, size)
    slack = (order + F.shape[1] + 8) * EPS * size
    lowest = float(np.linalg.eigvalsh((S + S.T) / 2)[0]) if len(S) else 0.0
    return max(0.0, slack - lowest) * float(np.sum(scale**2))


def lifted(p: Any, B: LabelSet, u: Any) -> tuple[Any, list[float]]:
    """Return (H, V, diagonal, T) and prices of a dual point; known labels are one component, the last, or k of them."""
    two, (d, kappa, theta) = B.two, (p.d, p.kappa, p.theta)
    if np.any(kappa < 0) or np.any(p.eta < 0) or (not two and np.any(p.middles != 0)):
        raise Unsound("a multiplier of an inequality is negative")
    opened, known = B.z == 0, B.labels != 0
    N, C = int(opened.sum()), (np.cumsum(opened) - 1)[B.component]
    C = np.append(np.where(known, N + (0 if two else np.maximum(B.z[B.component] - 1, 0)), C), N)
    sign = np.append(np.where(known, B.labels, B.sign) if two else np.ones(p.n, dtype=int), 1)
    N += 1 if two else p.clusters
    H, diagonal, T = np.zeros((N, p.wide.shape[1])), np.bincount(C, d, N), np.zeros((N, N)) if len(theta) else None
    np.add.at(H, C[:-1], (sign[:-1] * u)[:, None] * p.wide)
    if two:
        V = np.array([np.append(c[opened], -m) for (c, *_), m in zip(B.rows, p.middles)]).reshape(-1, N).T
        ends = [(low - c @ B.z - m, high - c @ B.z - m) for (c, low, high, _), m in zip(B.rows, p.middles)]
        radii = [max(abs(low), abs(high)) + slack for (low, high), (*_, slack) in zip(ends, B.rows)]
    else:
        V, radii = np.bincount(C[:-1], minlength=N)[:, None] * 1.0, [B.size_radius()]
    if T is not None:  # of signs, the sum of three products is at least -1; of codes, k - 1 times one is
        rows, turn = C[np.abs(p.cuts) - 1], np.sign(p.cuts) * sign[np.abs(p.cuts) - 1]
        for a, b in itertools.combinations(range(p.cuts.shape[1]), 2):
            np.add.at(T, (rows[:, a], rows[:, b]), theta * (turn[:, a] * turn[:, b] if two else p.clusters - 1) / 2)
        T = T + T.T
        pairs = [{*pair} for pair in C[p.cannot].tolist()]
        apart = two | np.array([{*pair} in pairs or min(pair) >= N - p.clusters for pair in rows.tolist()])
        if np.any((theta < 0) & (two | ~apart)) or (not two and np.any(rows[:, 0] == rows[:, 1])):
            raise Unsound("a cut does not hold for every labelling")
    limits = np.maximum(np.abs(p.decision_lower), np.abs(p.decision_upper))
    many = 1.0 if two else (p.clusters - 1) / 2  # sum |s w_c|^2 = sum |s (w_a - w_b)|^2 / k, over pairs
    prices = [*d, *(kappa * np.square(radii))[kappa > 0], *(many * p.eta * limits**2)[p.eta > 0], *theta]
    return (H, V * np.sqrt(kappa), diagonal, T), prices


def covering(p: Any, B: LabelSet) -> Any:
    """Yield (case, labels) of cases that cover B, each with the labels its path implies; free names are tried once.

    A path holds numbers of points from 1, with the sign that is asked of them, or with n times the cluster added.
    """
    point = (np.abs(p.paths) - 1) % p.n
    asked = np.sign(p.paths) * B.sign[point] if B.two else (p.paths - 1) // p.n + 1
    where, waiting = B.component[point], [(B.z, np.arange(len(p.paths)))]
    for _ in range(MOST):
        if not waiting:
            return
        z, group = waiting.pop()
        known = z[where[group]]
        group = group[np.all((asked[group] == 0) | (known == 0) | (known == asked[group]), axis=1)]
        rest = (asked[group] != 0) & (z[where[group]] == 0)
        if np.any(~rest.any(axis=1)):
            yield group[np.argmin(rest.any(axis=1))], B.sign * z[B.component]
            continue
        if not np.any(z == 0):
            raise Unsound("the cases leave labellings of B uncovered")
        first = int(np.argmax(rest[0])) if len(group) else 0
        at, turn = (where[group[0], first], asked[group[0], first]) if len(group) else (np.argmin(np.abs(z)), 0)
        unused = [q for q in B.names if B.is_symmetric and not np.any(z == q)]  # alike: one of them is enough
        for q in B.names:
            step = z.copy()
            step[at] = q
            alike = q in unused and q != (turn if turn in unused else unused[0])
            if not alike and (step := B.implied(step)) is not None:
                waiting.append((step, group))
    raise Unaffordable("more cases than can be followed")


def spread(p: Any, u: Any) -> tuple[Any, float, float]:
    """Return duals of points, what shifts of losses take off the bound and its size; scalars must balance."""
    off = p.costs - u @ p.coupling
    off = np.where(p.nonneg, np.minimum(off, 0.0), off)
    if np.any(np.abs(off) > (len(u) + 8) * EPS * (np.abs(p.costs) + np.abs(u) @ np.abs(p.coupling))):
        raise Unsound("the dual point does not balance the shared scalars")
    return np.bincount(p.points, u * p.slopes, p.n), math.fsum(u * p.shifts), math.fsum(np.abs(u * p.shifts))


def case_bound(p: Any, B: LabelSet, case: int, y: Any) -> float:
    """Return what the dual point of a case proves for its labels y (0 where open), or a lifted one for all of B."""
    k, q, u = p.clusters, p.q[case], np.array(p.u[case], dtype=float)
    code = math.sqrt(k / (k - 1)) if k > 2 else 1.0
    if k > 2 and np.any(q < 0):  # margins are no longer than V'phi, but may be shorter
        raise Unsound("a multiplier of squares is negative")
    if y is None:
        u = np.maximum(u, 0.0) / code if p.coding == "crammer-singer" else u
    elif p.coupling.shape[1] and np.any(u[y[p.points] == 0]):
        raise Unsound("a dual point uses labels that are open")
    elif not p.coupling.shape[1]:
        u[y == 0] = 0.0
    low, total = least(p, u if u.ndim == 1 else u.sum(axis=1), q, p.tangents[case])
    v, moved, size = spread(p, total)
    own = None if y is None else np.eye(k)[np.maximum(y - 1, 0)]
    sigma, sizes = p.decision_weights @ p.wide, np.abs(p.decision_weights) @ np.abs(p.wide)
    if y is None:
        (H, V, d, T), prices = lifted(p, B, v * code if p.coding == "crammer-singer" else v)
        eta, rough = p.eta, np.zeros(1)
    else:
        if (u.ndim == 2) != (p.coding == "crammer-singer") or (u.ndim == 2 and (np.any(u < 0) or np.any(u * own))):
            raise Unsound("a multiplier of an inequality is negative, or of a point's own cluster")
        table = v[:, None] * (y[:, None] if k == 2 else code * (own - 1 / k)) if u.ndim == 1 else v[:, None] * own - u
        pairs = np.array([[1.0]]) if k == 2 else np.array([a - b for a, b in itertools.combinations(np.eye(k), 2)])
        tau, eta = p.tau[case].reshape(len(sigma), len(pairs)), p.eta[case]
        if np.any(eta < 0) or (k > 2 and np.any(eta)):
            raise Unsound("a multiplier of an inequality is negative")
        H = (p.wide.T @ table - sigma.T @ (tau @ pairs)).T
        rough = np.abs(p.wide).T @ np.abs(table) + (sizes.T @ np.abs(tau).sum(axis=1))[:, None]
        if p.free_bias and np.abs(H[:, -1]).max() <= (p.n + 8) * EPS * rough[-1].max():
            H[:, -1] = 0.0
        limits = np.where(tau > 0, p.decision_upper[:, None], p.decision_lower[:, None])
        prices = [*(2 * limits[tau != 0] * tau[tau != 0]), *([2 * paid(p, v * y)] if k == 2 else []),
                  *(eta * np.maximum(np.abs(p.decision_lower), np.abs(p.decision_upper)) ** 2)[eta > 0]]
    F, added, lowest = whitened(p, q, eta, H)
    if y is not None:
        prices.append(float(np.sum(F**2)))
    elif np.any(F) or np.any(d) or T is not None:
        prices.append(missing(F, V, d, T))
    if added > 0:
        zero = least(p, 0 * total, 0 * q, 0 * p.tangents[case])[0]
        prices.append(2 * added * max(0.0, p.value - p.constant - zero))
    size += float(np.linalg.norm(F) * np.linalg.norm(rough)) / math.sqrt(lowest)
    rate = p.rate * (p.turned if np.any(F) else 1.0)
    return low - moved - math.fsum(prices) / 2 - rate * (abs(low) + size + math.fsum(np.abs(prices)))


def pool_bound(p: Any, B: LabelSet) -> float:
    """Return the least over B of the best bound of a pool of dual points."""
    if p.free_bias:
        raise Unsound("the dual points do not hold the free bias")
    points, k, lowest = [], p.clusters, math.inf
    code = math.sqrt(k / (k - 1)) if p.coding == "crammer-singer" else 1.0
    for u, v in zip(p.u, p.tangents):
        low, u = least(p, np.maximum(u, 0.0) / code if code > 1 else u, np.zeros(p.n), v)
        u, moved, size = spread(p, u)
        rough = 2 * np.sum((code * np.abs(u) @ np.abs(p.wide)) ** 2) / p.ridge
        low = low - moved - p.rate * p.turned * (abs(low) + size + rough)
        points.append((low, code * (B.sign * u)[:, None] * p.wide, u))
    for Z in B.listed():
        values = []
        for low, H, u in points:
            if B.two:
                squares = np.sum((Z[:, B.component] @ H) ** 2, axis=1)
                squares = squares + 2 * p.ridge * paid(p, Z[:, B.component] * (B.sign * u))
            else:  # of sums of codes
                sums = sum(np.sum(((Z[:, B.component] == q) @ H) ** 2, axis=1) for q in B.names)
                squares = (k * sums - np.sum(H.sum(axis=0) ** 2)) / (k - 1)
            values.append(low - squares / (2 * p.ridge))
        lowest = min(lowest, float(np.max(values, axis=0).min(initial=math.inf)))
    return lowest


def check(header: dict[str, Any], arrays: dict[str, Any]) -> Report:
    """Return what of a proof holds: labels in B, decision values, value, bound, gap and status."""
    p, report = SimpleNamespace(**{**header, **arrays}), Report()
    if (p.format, p.version) != (FORMAT, VERSION):
        report.failures.append(f"the proof is not in version {VERSION} of {FORMAT}, which is read here")
        return report
    nan = {name for name, x in arrays.items() if np.issubdtype(x.dtype, np.floating) and np.any(np.isnan(x))}
    if nan - {"w", "decision", "scalars"} or (nan and math.isfinite(p.value)):
        report.failures.append("an array holds what is no number")
        return report
    report.failures += broken(p, p.labels)
    if report.failures and report.failures[0].startswith("labels are not"):
        return report
    report.proved += [] if report.failures else ["labels are in B"]
    if "phi" not in arrays:
        report.unverified.append("value and bound: the features are not in the proof")
        return report
    p.rate, p.turned, p.rounding = (2 * p.n + len(p.w) + 64) * EPS, 1.0, 0.0
    p.wide = np.column_stack([p.phi, np.ones(p.n)]) if p.free_bias else np.asarray(p.phi, dtype=float)
    try:
        with np.errstate(all="ignore"):
            turn_features(p)
            if nan:
                report.unverified.append("value: no weights were found")
            else:
                check_value(p, report)
            if math.isfinite(p.bound):
                check_bound(p, report)
    except Unaffordable as error:
        report.unverified.append(f"bound: {error}")
    except (Unsound, np.linalg.LinAlgError) as error:
        report.failures.append(f"bound: {error}")
    if not p.bound <= p.value:
        report.failures.append(f"bound {p.bound:.17g} lies above the value {p.value:.17g}")
    if p.state == "OPTIMAL" and not p.value - p.bound <= 1.5 * p.tol * abs(p.value) + p.rounding:
        report.failures.append(f"status: optimal with a gap of {p.value - p.bound:.3g}")
    return report


def turn_features(p: Any) -> None:
    """Take multiples of sums s = sum a f that are bounded from the features: f = w'(phi - T sum a phi) + Ts.

    A dual point then pays max u'yTs over the limits of s, which a lifted one cannot unless they are zero.
    """
    if (p.kind == "lift" or p.clusters > 2) and np.any(p.turn[:, (p.decision_lower != 0) | (p.decision_upper != 0)]):
        raise Unsound("features are turned by a sum that is not zero")
    sums, sizes = p.decision_weights @ p.wide, np.abs(p.decision_weights) @ np.abs(p.wide)
    sizes = np.abs(p.wide) + np.abs(p.turn) @ sizes
    p.wide = p.wide - p.turn @ sums
    if p.free_bias and np.all(np.abs(p.wide[:, -1]) <= p.rate * sizes[:, -1]):  # nothing is left of the bias
        p.wide, sizes, p.free_bias = p.wide[:, :-1], sizes[:, :-1], False
    p.turned = float(np.max(sizes, initial=1e-300) / np.max(np.abs(p.wide), initial=1e-300))  # at least one


def paid(p: Any, v: Any) -> Any:
    """Return what sums taken from the features cost at most at duals v of decision values, on the last axis points."""
    pulls, most = v @ p.turn, np.maximum(np.abs(p.decision_lower), np.abs(p.decision_upper))
    size, limits = np.abs(v) @ np.abs(p.turn), np.where(pulls > 0, p.decision_upper, p.decision_lower)
    return np.sum(np.where(size == 0, 0.0, pulls * limits + p.rate * size * most), axis=-1)


def check_value(p: Any, report: Report) -> None:
    """Recompute decision values and value from weights, bias and scalars."""
    y, everyone, rounding = p.labels, np.arange(p.n), 64 * (p.n + p.phi.shape[1] + 8) * EPS
    f, sizes = p.phi @ p.w + p.bias, np.abs(p.phi) @ np.abs(p.w) + abs(p.bias)
    spread = sizes if p.clusters == 2 else sizes.max(axis=1)
    off = np.abs(f - p.decision).reshape(p.n, -1).max(axis=1) > rounding * spread
    failed = [f"decision values are not those of the weights, at point {int(np.argmax(off))}"] if off.any() else []
    margins = y * f if p.clusters == 2 else f[everyone, y]
    if p.coding == "crammer-singer":
        margins = margins - np.where(np.eye(p.clusters)[y] > 0, -np.inf, f).max(axis=1)
    if p.clusters > 2 and np.any(np.abs(p.w.sum(axis=1)) > rounding * np.abs(p.w).sum(axis=1).max()):
        failed.append("weights of the clusters do not sum to zero")
    parts = evaluated(p, margins, 2 * spread, p.scalars)
    square = (1 - 1 / p.clusters if p.coding == "simplex" else 1.0) * p.ridge / 2 * float(np.sum(p.w**2))
    value = math.fsum([*parts[:, 0], square, p.constant])
    p.rounding = rounding * math.fsum([*np.abs(parts[:, 1]), square, abs(p.constant)])
    if not abs(value - p.value) <= p.rounding:
        failed.append(f"value {p.value:.17g} is not that of labels and weights, {value:.17g}")
    for first, second in itertools.combinations(f.T, 2) if p.clusters > 2 else [(f, 0 * f)]:
        total, size = p.decision_weights @ (first - second), np.abs(p.decision_weights) @ (spread + np.abs(f).max())
        if np.any((total < p.decision_lower - 1e-6 * size) | (total > p.decision_upper + 1e-6 * size)):
            failed.append("decision values break their bounds")
    if np.any((p.scalars < 0) & p.nonneg):
        failed.append("a non-negative scalar is negative")
    report.failures += failed
    report.proved += [] if report.failures else [f"value {value:.12g}"]


def check_bound(p: Any, report: Report) -> None:
    """Recompute the bound from the dual point and compare."""
    B = LabelSet(p)
    if p.kind == "pool":
        bound = pool_bound(p, B)
    elif p.kind == "lift":
        bound = case_bound(p, B, 0, None)
    elif p.kind == "cases":
        bound = min((case_bound(p, B, case, y) for case, y in covering(p, B)), default=math.inf)
    else:
        raise Unsound("no dual point proves it")
    report.bound = bound + p.constant - 2 * EPS * (abs(bound) + abs(p.constant))
    if p.bound <= report.bound:
        report.proved.append(f"bound {p.bound:.12g}")
    else:
        report.failures.append(f"bound {p.bound:.17g} is not proved, {report.bound:.17g} is")


def load(path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return header and arrays of a file."""
    with np.load(path, allow_pickle=False) as stored:
        return json.loads(str(stored["header"])), {name: stored[name] for name in stored.files if name != "header"}


def check_data(header: dict[str, Any], arrays: dict[str, Any], X: Any) -> list[str]:
    """Return how the features differ from linear features of points X."""
    X, phi = np.asarray(X, dtype=float), arrays["phi"]
    if not header["linear"]:
        return ["the features are not linear ones of the points, which this script cannot make again"]
    if len(X) != len(phi):
        return [f"the data have {len(X)} points, the proof {len(phi)}"]
    rough = 64 * EPS * np.sqrt(np.sum(X**2, axis=1))  # what centring may leave of points that are all alike
    X = X - X.mean(axis=0) if header["centre"] else X
    X = np.column_stack([X, np.ones(len(X))]) if header["penalised"] else X
    norms = np.sqrt(np.sum(X**2, axis=1)) + 1e9 * rough
    if X.shape == phi.shape and np.all(np.abs(X - phi) <= 1e-9 * norms[:, None]):
        return []
    for i in range(0, len(X), LARGEST):  # features may be rotated: their products count
        part = slice(i, i + LARGEST)
        if np.any(np.abs(X[part] @ X.T - phi[part] @ phi.T) > 1e-9 * np.outer(norms[part], norms)):
            return ["the features are not those of the data"]
    return []


if __name__ == "__main__":
    header, arrays = load(sys.argv[1])
    report = check(header, arrays)
    if len(sys.argv) > 2:
        data = np.load(sys.argv[2]) if sys.argv[2].endswith(".npy") else np.loadtxt(sys.argv[2], delimiter=",")
        report.failures += check_data(header, arrays, data)
    print(report)
    sys.exit(0 if report else 1)
