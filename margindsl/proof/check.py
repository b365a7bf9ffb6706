"""Check an exported proof with numpy alone: labels in B, value, bound, gap, status. python check.py PROOF.npz [DATA]

Every number comes with the sum of the sizes of its parts; 2^-52 times that sum, times their number, is what rounding
may have done, and is taken off the bound. Duals are in the user's units, named as in docs/certificates.md.
"""
import itertools
import json
import math
import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np

EPS, MOST = 2.0**-52, 1 << 22  # most labellings or sums of labels that are listed
FULL, LARGEST = 600, 5000  # orders of matrices that are always decomposed, and ever


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


class Proof:
    """Hold the header and the arrays of a proof by name, and features with a column for a free bias."""

    def __init__(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        self.header, self.arrays = header, arrays
        self.shared = len(self.costs) > 0  # then rows have duals, else points
        self.rate = (2 * self.n + len(self.w) + 64) * EPS  # rounding in units of the size of the parts
        self.wide: Any = None if "phi" not in arrays else np.asarray(self.phi, dtype=float)
        if self.wide is not None and self.free_bias:
            self.wide = np.column_stack([self.wide, np.ones(self.n)])

    def __getattr__(self, name: str) -> Any:
        if name in ("header", "arrays") or (name not in self.arrays and name not in self.header):
            raise AttributeError(name)
        return self.arrays[name] if name in self.arrays else self.header[name]


# Losses: row r is the sum of weight * base(alpha * x + beta) over its atoms, x = slope * margin + coupling s + shift.


def loss_parts(p: Proof, margins: Any, sizes: Any, scalars: Any) -> Any:
    """Return (value, size) of every atom and scalar cost at margins whose own parts have some sizes."""
    r, out = p.atom_row, [np.column_stack([p.costs * scalars] * 2)]
    x = p.slopes * margins[p.points] + p.shifts + p.coupling @ scalars
    size = np.abs(p.slopes) * sizes[p.points] + np.abs(p.shifts) + np.abs(p.coupling) @ np.abs(scalars)
    z, size = p.atom_alpha * x[r] + p.atom_beta, np.abs(p.atom_alpha) * size[r] + np.abs(p.atom_beta)
    for number, base in enumerate(p.bases):
        at = p.atom_base == number
        value, parts = np.logaddexp(0.0, -z[at]), 1.0 + size[at]
        if base != "logistic":
            t = np.array(base, dtype=float)
            near = np.clip(z[at], t[0, 0], t[-1, 1])
            if np.any(np.abs(near - z[at]) > 1e-7 * size[at]):
                raise Unsound("the value is infinite: a margin lies outside the domain of its loss")
            n2, n1, n0 = t[np.searchsorted(t[1:, 0], near)].T[2:]
            value, parts = (n2 * near + n1) * near + n0, (n2 * size[at] + np.abs(n1)) * size[at] + np.abs(n0)
        out.append(p.atom_weight[at][:, None] * np.column_stack([value, parts]))
    return np.concatenate(out)


def least(p: Proof, u: Any, q: Any) -> tuple[Any, Any, Any]:
    """Return (sum, parts, u) of min over t of h_i(t) + u_i t + q_i t^2 / 2, h_i all atoms of a point, or of a row;
    of every row of u and q, where they have two dimensions.

    Duals outside the domain of a conjugate by rounding alone are moved to its end.
    """
    row, a, d = p.atom_row, p.atom_alpha, p.atom_beta
    if p.shared:  # u counts rows, whose squares have no multipliers
        if np.any(q):
            raise Unsound("squares of decision values do not go with shared scalars")
        q = np.zeros(u.shape)
    else:
        a, d = a * p.slopes[row], a * p.shifts[row] + d
    count, one, u, q = u.shape[-1], u.ndim == 1, np.array(np.atleast_2d(u), dtype=float), np.atleast_2d(q)
    group, heavy = row if p.shared else p.points[row], np.zeros(count)
    np.maximum.at(heavy, group, p.atom_weight)  # points that differ in their weight alone are treated together
    atoms = np.column_stack([p.atom_base, p.atom_weight / heavy[group], a, d])
    order = np.lexsort((*atoms.T, group))
    ends, unit = np.searchsorted(group[order], np.arange(count + 1)), np.where(heavy > 0, heavy, 1.0)
    alike: dict[bytes, list[int]] = {}
    for i in range(count):
        alike.setdefault(atoms[order[ends[i]:ends[i + 1]]].tobytes(), []).append(i)
    low, parts = np.empty(u.shape), np.empty(u.shape)
    for key, at in alike.items():
        found = _least(p.bases, np.frombuffer(key).reshape(-1, 4), (u[:, at] / unit[at]).ravel(),
                       np.broadcast_to(q[:, at] / unit[at], u[:, at].shape).ravel())
        low[:, at], parts[:, at], u[:, at] = (unit[at] * x.reshape(len(u), -1) for x in found)
    if not np.all(np.isfinite(low)):
        raise Unsound(f"the dual point is outside the domain of the losses at {int(np.argmin(low)) % count}")
    sums, sizes = (np.array([math.fsum(line) for line in lines]) for lines in (low, parts))
    return (float(sums[0]), float(sizes[0]), u[0]) if one else (sums, sizes, u)


def _least(bases: Any, atoms: Any, u: Any, q: Any) -> tuple[Any, Any, Any]:
    tables = [(np.array(bases[int(b)], dtype=float), c, a, d) for b, c, a, d in atoms if bases[int(b)] != "logistic"]
    curved = np.array([row[1:] for row in atoms if bases[int(row[0])] == "logistic"]).reshape(-1, 3)
    inner = {(x - d) / a for t, _, a, d in tables if a for x in t[:, :2].ravel() if math.isfinite(x)}
    knots = np.array([-math.inf, *sorted(inner), math.inf])
    best, parts = np.full(len(u), math.inf), np.zeros(len(u))
    cells: list[Any] = []
    B: Any = 0.0
    for left, right in itertools.pairwise(knots):
        at = 0.0 if math.isinf(right - left) and not inner else (
            right - abs(right) - 1 if math.isinf(left) else left + abs(left) + 1 if math.isinf(right) else
            left / 2 + right / 2)
        A = C = steep = parts_ = B = 0.0
        for t, c, a, d in tables:
            z = a * at + d
            n2, n1, n0 = t[np.searchsorted(t[1:, 0], z)][2:]
            A, B, C = A + c * n2 * a * a, B + c * a * (2 * n2 * d + n1), C + c * ((n2 * d + n1) * d + n0)
            steep += c * abs(a) * (abs(2 * n2 * d) + abs(n1))
            parts_ += c * ((n2 * abs(d) + abs(n1)) * abs(d) + abs(n0))
            left, right = (left, right) if t[0, 0] <= z <= t[-1, 1] else (math.inf, -math.inf)
        if left < right:
            cells.append([left, right, A, B, C, steep + np.sum(curved[:, 0] * np.abs(curved[:, 1])), parts_])
    left, right, A, B, C, steep, size = np.array(cells).reshape(-1, 7).T[:, :, None]
    A, B, C, steep = A + q / 2, B + u, C + 0 * u, steep + np.abs(u)
    if len(curved):  # logistic atoms become tangents, which are no higher wherever they touch: where the sum is least
        (c, a, d), low, high = curved.T[:, :, None], np.full(len(u), -80.0), np.full(len(u), 80.0)
        for _ in range(100):
            t = np.sinh(low / 2 + high / 2)
            v = -1 / (1 + np.exp(np.clip(a * t + d, -700, 700)))
            cell = np.minimum((t > right).sum(axis=0), len(A) - 1), np.arange(len(u))
            up = 2 * A[cell] * t + B[cell] + np.sum(c * a * v, axis=0) > 0
            low, high = np.where(up, low, low / 2 + high / 2), np.where(up, low / 2 + high / 2, high)
        dual = -v * np.log(np.where(v < 0, -v, 1)) + (1 + v) * np.log1p(np.where(v > -1, v, 0))
        B, C = B + np.sum(c * a * v, axis=0), C + np.sum(c * (v * d - dual), axis=0)
        size = size + np.sum(c * (np.abs(v * d) + np.abs(dual)), axis=0)  # as long as u
        near = (A == 0) & (np.abs(B) <= 2.0**-40 * steep)  # v moves until the slope vanishes
        size += np.where(near, np.abs(B), 0).max(axis=0) * (np.abs(t) + np.abs(d).max()) / EPS
        B = np.where(near, 0, B)
    for end, sign, edge in ((0, 1.0, left), (-1, -1.0, right)):  # linear ends
        off = sign * B[end] * (A[end] == 0) * math.isinf(edge[end, 0])
        move = -sign * np.where(off <= 64 * EPS * steep[end], np.maximum(off, 0), 0)
        u, B = u + move, B + move
        B[end] = np.where(move != 0, 0.0, B[end])
    with np.errstate(divide="ignore", invalid="ignore"):
        vertex = np.clip(np.where(A > 0, -B / (2 * A), 0.0), left, right)  # where the function is flat, zero
        for t in (left + 0 * u, right + 0 * u, vertex):
            at = np.where(np.isfinite(t), t, 0.0)
            value = np.where(np.isfinite(t), (A * at + B) * at + C, np.inf)
            lower = value.argmin(axis=0), np.arange(len(u))
            found = (np.abs(A * at) + steep) * np.abs(at) + np.abs(C) + size
            best, parts = np.minimum(best, value[lower]), np.where(value[lower] < best, found[lower], parts)
    falls = np.isinf(left) & ((A < 0) | (A == 0) & (B > 0)) | np.isinf(right) & ((A < 0) | (A == 0) & (B < 0))
    return np.where(falls.any(axis=0), -np.inf, best), parts, u


# The label set: y = sign * z[component]; component 0 is known to be +1. Of k clusters z is 1..k, of open ones 0.


class LabelSet:
    """Derive what the declared constraints imply: components, forced labels, sums that labels attain."""

    def __init__(self, p: Proof) -> None:
        self.p, two, n = p, p.clusters == 2, p.n
        links = [(i, j, 1) for i, j in p.must] + [(i, j, -1) for i, j in p.cannot if two]
        links += [(i, n, y) for i, y in zip(p.known_index, p.known_values) if two]
        beside: list[list[tuple[int, int]]] = [[] for _ in range(n + 1)]
        for i, j, s in links:
            beside[i].append((j, s))
            beside[j].append((i, s))
        component, sign, count = np.full(n + 1, -1), np.ones(n + 1, dtype=int), 0
        for first in (n, *range(n)):
            if component[first] >= 0:
                continue
            waiting = [first]
            while waiting:
                i = waiting.pop()
                component[i] = count
                for j, s in beside[i]:
                    if component[j] < 0:
                        component[j], sign[j] = count, sign[i] * s
                        waiting.append(j)
            count += 1
        self.component, self.sign, self.z = component[:n], sign[:n], np.zeros(count, dtype=int)
        self.rows: list[tuple[Any, float, float, float]] = []
        if two:
            self.z[0] = 1
            before = 1 - self.z
            for w, low, high in zip(p.bound_weights, p.bound_lower, p.bound_upper):
                slack = (n + 8) * EPS * (np.abs(w).sum() + sum(abs(x) for x in (low, high) if math.isfinite(x)))
                self.rows.append((np.bincount(self.component, self.sign * w, count), low, high, slack))
            while not np.array_equal(before, self.z):
                before, self.rows = self.z, [self._tightened(*row) for row in self.rows]
                self.z = self.z if (z := self.implied(self.z)) is None else z
        else:
            self.z[self.component[p.known_index]] = p.known_values + 1
        self.labels = self.sign * self.z[self.component]  # of points, 0 where open
        self.is_symmetric = two and not self.labels.any() and bool(np.all(p.decision_lower == -p.decision_upper)) and (
            all(abs(low + high) <= slack for _, low, high, slack in self.rows))

    def _tightened(self, c: Any, low: float, high: float, slack: float) -> tuple[Any, float, float, float]:
        free = np.abs(c[(self.z == 0) & (c != 0)])
        fixed, reach, unit = float(c @ self.z), math.fsum(free), 0.0
        low, high = max(low, fixed - reach), min(high, fixed + reach)
        for w in np.unique(free)[::-1]:
            while w > 1e-6 * free.max():
                unit, w = float(w), abs(math.remainder(unit, w))
        whole = np.rint(free / unit).astype(int) if unit else np.zeros(0, int)
        if unit and np.abs(free - unit * whole).sum() <= slack and whole.sum() <= MOST:
            bits = 1
            for w in whole.tolist():
                bits |= bits << w
            raw = np.frombuffer(bits.to_bytes(int(whole.sum()) // 8 + 1, "little"), np.uint8)
            sums = fixed - reach + 2 * unit * np.flatnonzero(np.unpackbits(raw, bitorder="little"))
            sums = sums[(sums >= low - slack) & (sums <= high + slack)]
            low, high = (float(sums[0]), float(sums[-1])) if len(sums) else (low, high)
        return c, low, high, slack

    def implied(self, z: Any) -> Any:
        """Return z with the signs that bounds force, None when nothing of B is left."""
        before = z - 1
        while not np.array_equal(before, z):
            before = z
            for c, low, high, slack in self.rows:
                size, free = np.abs(c), z == 0
                most, fewest = c @ z + size[free].sum() + slack, c @ z - size[free].sum() - slack
                up, down = free & (most - 2 * size < low), free & (fewest + 2 * size > high)
                if most < low or fewest > high or np.any(up & down):
                    return None
                z = np.where(up | down, np.where(up, 1, -1) * np.sign(c).astype(int), z)
        return z


def broken(p: Proof, y: Any) -> list[str]:
    """Return which declared constraints labels y break."""
    two, out = p.clusters == 2, []
    if y.shape != (p.n,) or not np.all(np.isin(y, [-1, 1] if two else np.arange(p.clusters))):
        return [f"labels are not {p.n} of {'+1 and -1' if two else f'0..{p.clusters - 1}'}"]
    (i, j), (k, m) = p.must.T, p.cannot.T
    for name, bad in (("must-link", y[i] != y[j]), ("cannot-link", y[k] == y[m]),
                      ("known label", y[p.known_index] != p.known_values)):
        out += [f"labels break {name} {int(np.argmax(bad))}"] if bad.any() else []
    for number, (w, low, high) in enumerate(zip(p.bound_weights, p.bound_lower, p.bound_upper)):
        total, slack = math.fsum(w * y), (p.n + 8) * EPS * (np.abs(w).sum() + np.minimum(abs(low), abs(high)))
        out += [] if low - slack <= total <= high + slack else [f"labels break bound {number}: the sum is {total}"]
    sizes = np.bincount(np.where(y > 0, 1, 0) if two else y, minlength=p.clusters)
    return out + (["labels break cluster sizes"] if np.any((sizes < p.at_least) | (sizes > p.at_most)) else [])


# Bounds: each function returns what a kind of proof proves, rounding taken off, without the constant.


def inverse_factor(p: Proof, q: Any, eta: Any, H: Any) -> tuple[Any, float]:
    """Return (F, shrink): FF' >= HP^-1H', P = ridge I - Phi'qPhi + sum eta s s'; shrink q, eta if H = 0."""
    phi, sigma, sizes = p.wide, p.decision_weights @ p.wide, np.abs(p.decision_weights) @ np.abs(p.wide)
    P = p.ridge * np.diag(np.append(np.ones(p.phi.shape[1]), np.zeros(int(p.free_bias))))
    if np.any(q) or np.any(eta):
        P = P - phi.T @ (q[:, None] * phi) + sigma.T @ (eta[:, None] * sigma)
    elif not p.free_bias:
        return H / math.sqrt(p.ridge), 0.0
    slack = (p.n + len(P)) * EPS * (p.ridge + np.abs(q) @ np.sum(phi**2, axis=1) + eta @ np.sum(sizes**2, axis=1))
    first = H[:, :0]
    if p.free_bias and (np.any(P[-1]) or np.any(H[:, -1])):
        corner = P[-1, -1] - slack
        if corner <= 0:
            raise Unsound("the dual point does not hold the free bias")
        first, H = H[:, -1:] / math.sqrt(corner), H[:, :-1] - np.outer(H[:, -1], P[-1, :-1]) / corner
        P = P[:-1, :-1] - np.outer(P[-1, :-1], P[-1, :-1]) / corner
    elif p.free_bias:
        P, H = P[:-1, :-1], H[:, :-1]
    values, vectors = np.linalg.eigh((P + P.T) / 2)
    values = values - slack
    if not np.any(H) and not np.any(first):
        return H, max(0.0, -float(values[0]) / p.ridge)
    if values[0] <= 0:
        raise Unsound("the quadratic form of the dual point is not positive definite")
    return np.column_stack([H @ vectors / np.sqrt(values), first]), 0.0


def missing(d: Any, V: Any, kappa: Any, T: Any, F: Any) -> float:
    """Return what Diag(d) + V kappa V' - T - FF' >= 0 may lack, in units of the sum over a unit diagonal."""
    held = (d > 0) | np.any(F, axis=1) | np.any(V * kappa, axis=1) | (np.any(T, axis=1) if T is not None else False)
    d, V, F, T = d[held], V[held], F[held], None if T is None else T[np.ix_(held, held)]
    N, ways = len(d), []
    if not N:
        return 0.0
    if T is None and d.min() > 0:
        X, Y = F / np.sqrt(d)[:, None], V * np.sqrt(kappa) / np.sqrt(d)[:, None]
        if X.shape[1] + Y.shape[1] < N:
            R: Any = np.linalg.qr(np.column_stack([X, Y]), mode="r")
            X, Y = R[:, :X.shape[1]], R[:, X.shape[1]:]
        if len(X) <= LARGEST:
            slack = (N + F.shape[1] + 8) * EPS * (1 + np.sum(X**2) + np.sum(Y**2))
            ways.append((slack - np.linalg.eigvalsh(np.eye(len(X)) + Y @ Y.T - X @ X.T)[0]) * math.fsum(d))
    if N <= FULL or (not ways and N <= LARGEST):
        S = np.diag(d) + (V * kappa) @ V.T - F @ F.T - (0 if T is None else T)
        size = np.abs(d).max() + kappa @ np.sum(V**2, axis=0) + np.sum(F**2) + (0 if T is None else np.linalg.norm(T))
        ways.append((((N + F.shape[1] + 8) * EPS * size) - np.linalg.eigvalsh((S + S.T) / 2)[0]) * N)
    if not ways:
        raise Unaffordable(f"a matrix of order {N}")
    return max(0.0, float(min(ways)))


def lift_bound(p: Proof, B: LabelSet) -> float:
    """Return the bound of a lifted dual point (u, q, d, kappa, eta, theta)."""
    C, sign, d, N = p.component, p.sign, p.d, len(p.d)
    if np.any(p.kappa < 0) or np.any(p.eta < 0):
        raise Unsound("a multiplier of an inequality is negative")
    same = [B.component, B.sign] if p.clusters == 2 else [B.component, np.ones(p.n, dtype=int)]
    here, turn = np.where(B.labels != 0, -1 if p.clusters == 2 else -B.labels, same[0]), np.where(
        B.labels != 0, B.labels if p.clusters == 2 else 1, same[1])
    first = np.zeros(N, dtype=int)
    first[C[::-1]] = np.arange(p.n)[::-1]
    at = first[C]
    if np.any(here != here[at]) or np.any(sign * sign[at] != turn * turn[at]):
        raise Unsound("components join points that the declaration does not")
    factor = math.sqrt(p.clusters / (p.clusters - 1)) if p.coding == "crammer-singer" else 1.0
    u, q, eta = p.u / factor, p.q, p.eta
    u = np.maximum(u, 0.0) if p.coding == "crammer-singer" else u
    linear, parts, u = least(p, u, q)
    spread, moved, sizes = by_points(p, u[None])
    spread = spread[0] * factor
    H = np.zeros((N, p.wide.shape[1]))
    np.add.at(H, C, (sign * spread)[:, None] * p.wide)
    F, shrink = inverse_factor(p, q, eta, H)
    if shrink:
        eta = (1 - shrink) * eta
        linear, parts, u = least(p, u, (1 - shrink) * q)
    linear, parts, T = linear - float(np.sum(moved)), parts + float(np.sum(sizes)), None
    if len(p.theta):
        T = np.zeros((N, N))
        np.add.at(T, (p.cut_rows, p.cut_columns), p.theta[:, None] * p.cut_products / 2)
        T = T + T.T
        check_cuts(p, here, first)
    radii = np.array([reach(p, B, v, C, sign, turn, here, first) for v in p.vectors.T]).reshape(-1)
    limits = np.maximum(np.abs(p.decision_lower), np.abs(p.decision_upper))
    prices = [*d, *(p.kappa * radii**2), *(eta[eta > 0] * limits[eta > 0] ** 2), *p.theta,
              missing(d, p.vectors, p.kappa, T, F) if np.any(F) or np.any(d < 0) or T is not None else 0.0]
    return linear - math.fsum(prices) / 2 - p.rate * (parts + math.fsum(np.abs(prices)))


def check_cuts(p: Proof, here: Any, first: Any) -> None:
    """Raise unless every cut <T, M> >= -1 (an equality where its multiplier is negative) holds on B."""
    rows, columns, k = first[p.cut_rows], first[p.cut_columns], p.clusters
    if k == 2:  # a triangle of signs
        signs = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
        i, j = p.cut_rows.T, p.cut_columns.T
        sound = (i[0] == i[1]) & (i[2] == j[0]) & (j[1] == j[2]) & np.all(p.cut_products @ signs.T >= -1, axis=1)
    else:  # codes of two clusters have inner product 1 or -1/(k-1)
        apart = {tuple(sorted(pair)) for pair in here[p.cannot].tolist()}
        pairs = list(zip(here[rows[:, 0]].tolist(), here[columns[:, 0]].tolist()))
        equal = [(a < 0 and b < 0 and a != b) or tuple(sorted((a, b))) in apart for a, b in pairs]
        sound = (p.cut_products[:, 0] == k - 1) & ((p.theta >= 0) | equal) & (rows[:, 0] != columns[:, 0])
    if not np.all(sound & ((p.theta >= 0) | (k > 2))):
        raise Unsound("a cut does not hold for every labelling")


def reach(p: Proof, B: LabelSet, v: Any, C: Any, sign: Any, turn: Any, here: Any, first: Any) -> float:
    """Return the largest |v z| over B, from the declared bounds with the direction of v."""
    if p.clusters > 2:
        lower, upper = np.maximum(p.at_least, 0).astype(int), np.minimum(p.at_most, p.n).astype(int)
        known = np.bincount(-here[here < 0] - 1, minlength=p.clusters)
        if not np.array_equal(v, np.bincount(C, minlength=len(v))):
            return float(np.abs(v).sum())
        return math.sqrt(max(0.0, (p.clusters * squares(p.n, np.maximum(lower, known), upper) - p.n**2)
                             / (p.clusters - 1)))
    low, high = -float(np.abs(v).sum()), float(np.abs(v).sum())
    pinned, points = np.flatnonzero(B.labels), np.bincount(C, minlength=len(v))
    place = C[pinned[0]] if len(pinned) else len(v) - 1 if points[-1] == 0 else -1
    z = turn[pinned[0]] * sign[pinned[0]] if len(pinned) else 1
    for w, (_, least_sum, most_sum, _) in zip(p.bound_weights, B.rows):
        c = np.bincount(C, sign * w, len(v))
        other = np.arange(len(v)) != place
        alpha = float(c[other] @ v[other]) / max(float(c[other] @ c[other]), 1e-300)
        beta = (v[place] - alpha * c[place]) * z if place >= 0 else 0.0
        ends = sorted((alpha * least_sum + beta, alpha * most_sum + beta))
        off = float(np.abs(v - alpha * c)[other].sum()) + 8 * EPS * (abs(alpha * c) @ np.ones(len(c)) + abs(beta))
        low, high = max(low, ends[0] - off), min(high, ends[1] + off)
    return max(abs(low), abs(high))


def squares(n: int, lower: Any, upper: Any) -> float:
    """Return the greatest sum of squares of k sizes within limits that sum to n: all but one are at a limit."""
    kinds, many = np.unique(np.column_stack([lower, upper]), axis=0, return_counts=True)
    best = 0.0
    for odd in range(len(kinds)):
        rest = many - (np.arange(len(kinds)) == odd)
        for high in itertools.product(*(range(m + 1) for m in rest)):
            filled = kinds[:, 1] @ high + kinds[:, 0] @ (rest - high)
            if kinds[odd, 0] <= n - filled <= kinds[odd, 1]:
                total = kinds[:, 1] ** 2 @ high + kinds[:, 0] ** 2 @ (rest - high) + (n - filled) ** 2
                best = max(best, float(total))
    return best


def cases_bound(p: Proof, B: LabelSet) -> float:
    """Return the least bound over cases (u, q, tau) that cover B, each for the labels that its path implies."""
    met = covering(p, B) if p.clusters == 2 else [(0, 1, np.where(B.labels == 0, -1, B.z[B.component] - 1))]
    at, turn = np.array([case for case, _, _ in met]), np.array([sign for _, sign, _ in met])
    y, u, q, tau = np.stack([labels for _, _, labels in met]), p.u[at], p.q[at], turn[:, None] * p.tau[at]
    closed, k, tables = y != 0 if p.clusters == 2 else y >= 0, p.clusters, []
    if p.shared and np.any(u[~closed[:, p.points]]):
        raise Unsound("a dual point uses labels that are open")
    u = u if p.shared else np.where(closed if u.ndim == 2 else closed[:, :, None], u, 0.0)
    linear, parts, total = least(p, u if u.ndim == 2 else u.sum(axis=2), q)
    if u.ndim == 3:  # Crammer-Singer: one number a cluster, none for the own one
        if np.any(u < 0):
            raise Unsound("a multiplier of an inequality is negative")
        tables = total[:, :, None] * np.eye(k)[np.maximum(y, 0)] - u
    else:
        total, moved, sizes = by_points(p, total)
        linear, parts = linear - moved, parts + sizes
        codes = y[:, :, None] if k == 2 else math.sqrt(k / (k - 1)) * (np.eye(k) - 1 / k)[np.maximum(y, 0)]
        tables = total[:, :, None] * codes
    sigma, sigmas = p.decision_weights @ p.wide, np.abs(p.decision_weights) @ np.abs(p.wide)
    one, two = np.triu_indices(k, 1)
    pairs = np.array([[1.0]]) if k == 2 else np.eye(k)[one] - np.eye(k)[two]
    low, high = (np.repeat(x, len(pairs)) for x in (p.decision_lower, p.decision_upper))
    worst = math.inf
    for number, table in enumerate(tables):
        t, squares_ = tau[number], q[number]
        w = p.wide.T @ table - np.repeat(sigma, len(pairs), axis=0).T @ (t[:, None] * np.tile(pairs, (len(sigma), 1)))
        size = np.abs(p.wide).T @ np.abs(table) + sigmas.sum(axis=0)[:, None] * np.abs(t).sum()
        if p.free_bias:
            if np.abs(w[-1]).max() > (p.n + 8) * EPS * size[-1].max():
                raise Unsound("the dual point does not balance the free bias")
            w[-1] = 0.0
        factor, shrink = inverse_factor(p, squares_, np.zeros(len(sigma)), w.T)
        if shrink > 0:
            raise Unsound("the quadratic form of the dual point is not positive semidefinite")
        prices = [float(np.sum(factor**2)) / 2, *(np.where(t > 0, high, low)[t != 0] * t[t != 0])]
        rough = float(np.abs(factor).sum()) * float(np.abs(size).max(initial=0.0)) / math.sqrt(p.ridge)
        worst = min(worst, float(linear[number]) - math.fsum(prices) - p.rate * (
            float(parts[number]) + math.fsum(np.abs(prices)) + rough))
    return worst


def by_points(p: Proof, u: Any) -> tuple[Any, Any, Any]:
    """Return duals (C, n) of points, what shifts of rows take off the bound and its size; scalars must balance."""
    if not p.shared:
        return u, 0.0, 0.0
    off = p.costs - u @ p.coupling
    off = np.where(p.nonneg, np.minimum(off, 0.0), off)
    if np.any(np.abs(off) > (u.shape[1] + 8) * EPS * (np.abs(p.costs) + np.abs(u) @ np.abs(p.coupling))):
        raise Unsound("the dual point does not balance the shared scalars")
    spread = np.stack([np.bincount(p.points, line * p.slopes, p.n) for line in u])
    return spread, u @ p.shifts, np.abs(u) @ np.abs(p.shifts)


def covering(p: Proof, B: LabelSet) -> list[tuple[int, int, Any]]:
    """Return (case, sign, labels) of cases that cover B; where B = -B, of one of y and -y."""
    paths, turn, out = np.array(p.paths), np.ones(len(p.paths), dtype=int), []
    if B.is_symmetric and paths.any():
        turn = np.where(paths[:, np.argmax(paths.any(axis=0))] < 0, -1, 1)
        paths = paths * turn[:, None]
    where, signs = B.component[np.abs(paths) - 1], np.sign(paths) * B.sign[np.abs(paths) - 1]
    waiting = [(B.z, np.arange(len(paths)), B.is_symmetric)]
    while waiting:
        z, group, mirrored = waiting.pop()
        known, asked = z[where[group]], signs[group]
        agrees = np.all((asked == 0) | (known == 0) | (known == asked), axis=1)
        done = np.all((asked == 0) | (known == asked), axis=1)
        if done.any():
            case = int(group[np.argmax(done)])
            out.append((case, int(turn[case]), B.sign * z[B.component]))
            continue
        if not agrees.any():
            raise Unsound("the cases leave labellings of B uncovered")
        group, first = group[agrees], int(np.argmax(agrees))
        at = int(np.argmax((asked[first] != 0) & (known[first] == 0)))
        for sign in (1, -1):
            step = z.copy()
            step[where[group[0], at]] = sign
            forced = B.implied(step)
            if forced is not None and not (mirrored and sign != signs[group[0], at]):
                waiting.append((forced, group, False))
    return out


def pool_bound(p: Proof, B: LabelSet) -> float:
    """Return the least over B of the best bound of a pool of dual points."""
    free = np.flatnonzero(B.z == 0)
    if len(free) > MOST.bit_length():
        raise Unaffordable(f"2^{len(free)} labellings")
    first = int(B.is_symmetric)
    linear, parts, u = least(p, p.u, 0 * p.u)
    U, moved, sizes = by_points(p, u)
    rough = np.sum((np.abs(U) @ np.abs(p.wide)) ** 2, axis=1) / p.ridge
    linear, lowest = linear - moved - p.rate * (parts + sizes + rough), math.inf
    for start in range(0, 1 << (len(free) - first), 4096):
        code = np.arange(start, min(start + 4096, 1 << (len(free) - first)))
        Z = np.repeat(B.z[None, :], len(code), axis=0)
        Z[:, free] = 1
        Z[:, free[first:]] = 2 * ((code[:, None] >> np.arange(len(free) - first)) & 1) - 1
        for c, low, high, slack in B.rows:
            Z = Z[(Z @ c >= low - slack) & (Z @ c <= high + slack)]
        if len(Z):
            Y = B.sign * Z[:, B.component]
            values = [a - np.sum(((Y * u) @ p.wide) ** 2, axis=1) / (2 * p.ridge) for a, u in zip(linear, U)]
            lowest = min(lowest, float(np.max(values, axis=0).min()))
    return lowest


BOUNDS = {"lift": lift_bound, "cases": cases_bound, "pool": pool_bound}


def check(header: dict[str, Any], arrays: dict[str, Any]) -> Report:
    """Return what of a proof holds: labels in B, decision values, value, bound, gap and status."""
    p, report = Proof(header, arrays), Report()
    y = np.asarray(p.labels)
    report.failures += broken(p, y)
    if report.failures and report.failures[0].startswith("labels are not"):
        return report
    report.proved += [] if report.failures else ["labels are in B"]
    if p.wide is None:
        report.unverified.append("value and bound: the features are not in the proof")
        return report
    try:
        with np.errstate(all="ignore"):
            check_value(p, y, report)
            if math.isfinite(p.bound):
                check_bound(p, report)
    except (Unsound, Unaffordable, np.linalg.LinAlgError) as error:
        (report.unverified if isinstance(error, Unaffordable) else report.failures).append(f"bound: {error}")
    if not p.bound <= p.value:
        report.failures.append(f"bound {p.bound:.17g} lies above the value {p.value:.17g}")
    if p.state == "OPTIMAL" and not p.value - max(p.bound, -math.inf) <= 1.5 * p.tol * abs(p.value) + p.rounding:
        report.failures.append(f"status: optimal with a gap of {p.value - p.bound:.3g}")
    return report


def check_value(p: Proof, y: Any, report: Report) -> None:
    """Recompute decision values and value from weights, bias and scalars."""
    w, sizes = np.asarray(p.w), np.abs(p.phi) @ np.abs(p.w) + abs(p.bias)
    f, everyone = p.phi @ w + p.bias, np.arange(p.n)
    rounding = (p.n + p.phi.shape[1] + 8) * EPS
    if np.any(np.abs(f - p.decision) > 64 * rounding * sizes):
        report.failures.append(f"decision values are not those of the weights, at point "
                               f"{int(np.argmax(np.abs(f - p.decision).reshape(p.n, -1).max(axis=1)))} for one")
    shrink = (p.clusters - 1) / p.clusters if p.coding == "simplex" else 1.0
    margins, spread = (y * f, sizes) if p.clusters == 2 else (f[everyone, y], sizes.max(axis=1))
    if p.coding == "crammer-singer":
        rest = f.copy()
        rest[everyone, y] = -np.inf
        margins, spread = margins - rest.max(axis=1), 2 * spread
    if p.clusters > 2 and np.any(np.abs(w.sum(axis=1)) > rounding * 64 * np.abs(w).sum(axis=1)):
        report.failures.append("weights of the clusters do not sum to zero")
    parts = loss_parts(p, margins, spread, np.asarray(p.scalars))
    square = shrink * p.ridge / 2 * float(np.sum(w**2))
    value = math.fsum([*parts[:, 0], square, p.constant])
    p.header["rounding"] = 64 * rounding * math.fsum([*np.abs(parts[:, 1]), square, abs(p.constant)])
    if not abs(value - p.value) <= p.rounding:
        report.failures.append(f"value {p.value:.17g} is not that of labels and weights, {value:.17g}")
    pairs = itertools.combinations(f.T, 2) if p.clusters > 2 else [(f, 0 * f)]
    for first, second in pairs:
        total, size = p.decision_weights @ (first - second), np.abs(p.decision_weights) @ (spread + np.abs(f).max())
        if np.any((total < p.decision_lower - 1e-6 * size) | (total > p.decision_upper + 1e-6 * size)):
            report.failures.append("decision values break their bounds")
    if np.any((np.asarray(p.scalars) < 0) & p.nonneg):
        report.failures.append("a non-negative scalar is negative")
    if not report.failures:
        report.proved.append(f"value {value:.12g}")


def check_bound(p: Proof, report: Report) -> None:
    """Recompute the bound from the dual point and compare."""
    if p.kind not in BOUNDS:
        raise Unsound("no dual point proves it")
    bound = BOUNDS[p.kind](p, LabelSet(p))
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
    X = np.asarray(X, dtype=float)
    if not header["linear"]:
        return ["the features are not linear ones of the points, which this script cannot make again"]
    X = X - X.mean(axis=0) if header["centre"] else X
    X = np.column_stack([X, np.ones(len(X))]) if header["penalised"] else X
    phi = arrays["phi"]
    if len(X) != len(phi):
        return [f"the data have {len(X)} points, the proof {len(phi)}"]
    norms = np.sum(X**2, axis=1)
    off = np.abs(X @ X.T - phi @ phi.T) if len(X) <= LARGEST else np.abs(X - phi)
    bad = off > 1e-9 * (np.sqrt(np.outer(norms, norms)) if len(X) <= LARGEST else np.abs(X).max())
    return ["the features are not those of the data"] if bad.any() else []


if __name__ == "__main__":
    header, arrays = load(sys.argv[1])
    report = check(header, arrays)
    if len(sys.argv) > 2:
        data = np.load(sys.argv[2]) if sys.argv[2].endswith(".npy") else np.loadtxt(sys.argv[2], delimiter=",")
        report.failures += check_data(header, arrays, data)
    print(report)
    sys.exit(0 if report else 1)
