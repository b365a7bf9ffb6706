"""Check a proof with numpy alone (see docs/certificates.md): labels, value, bound, status. python check.py PROOF.npz"""
import json
import math
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

FORMAT, VERSION, EPS, MOST = "margindsl-proof", 14, 2.0**-52, 1 << 22  # at most so many numbers in a block or list
CLOSED = 1.5e-3  # the relative gap beyond which nothing is optimal, whatever was asked for
KNOWN = 1e-6  # the relative accuracy beyond which a value is not known
CLOSE = 1e-12  # relative accuracy of features, to the size of their column
CLUSTERS = {"binary": (2, 2), "simplex": (3, 1 << 20), "crammer-singer": (3, 1 << 20)}  # least and most of a coding
SHAPES = {  # of arrays: equal letters are equal lengths; + marks what is not negative, * what may be infinite
    "n": "labels owner", "nr": "phi", "r": "block", "rc": "w", "nc": "decision", "kc": "codes", "ms": "coupling",
    "m": "points slopes bare", "G+": "shares", "G*": "ceilings",
    "s": "costs scalars nonneg", "f": "cell anchor A B C", "f*": "left right", "g": "log_at log_a log_d", "g+": "log_c",
    "x2": "must", "y2": "cannot", "i": "known_index known_values", "jn": "bound_weights",
    "a": "barred_index barred_values", "hn": "group_weights", "hk": "group_least group_most",
    "j*": "bound_lower bound_upper", "k+": "at_least at_most", "ln": "decision_weights",
    "l*": "decision_lower decision_upper", "pmz": "u", "pm": "q v e inner", "Om": "outer", "plo": "tau", "pl+": "eta",
    "pg": "tangents", "e": "tree", "pN+": "d", "pb+": "kappa", "j": "middles units", "tN": "cuts", "pt": "theta"}
WHOLE: dict[str, tuple[Any, Any]] = {  # of whole numbers: the least, and what all are below; a letter is a length
    "labels": (0, "k"), "points": (0, "n"), "nonneg": (0, 2), "cell": (0, "m"), "log_at": (0, "m"), "must": (0, "n"),
    "cannot": (0, "n"), "known_index": (0, "n"), "known_values": (0, "k"), "barred_index": (0, "n"),
    "block": (-1, "r"), "barred_values": (0, "k"), "group_weights": (0, 2), "tree": ("p", "N"), "cuts": (-1, 2),
    "owner": (0, "G")}


def need(holds: Any, words: str) -> Any:
    """Raise ValueError unless something holds."""
    if not holds:
        raise ValueError(words)


def number(x: Any, low: float = -sys.float_info.max, high: float = sys.float_info.max) -> float:
    """Return a number of a header as a float within limits."""
    need(isinstance(x, (int, float)) and not isinstance(x, bool) and low <= x <= high, f"{x!r} is no such number")
    return float(x)


def whole(x: Any, low: int, high: int) -> int:
    """Return a whole number of a header within limits."""
    need(type(x) is int and low <= x <= high, f"{x!r} is no such whole number")
    return int(x)


def gathered(position: Any, X: Any, N: int) -> Any:
    """Return the sums (N, r) of those rows of X (n, r) that have the same place."""
    return np.array([np.bincount(position, x, N) for x in X.T]).reshape(-1, N).T


def coded(coding: str, k: int) -> dict[str, Any]:
    """Return what a coding says of k clusters.

    They are codes (k, c), whose products with decision values are margins; `pairs` (o, c), by which bounds see these,
    and the largest |b|^2 of a bias that moves no pair by more than 1; the least and the greatest part of |f|^2 that a
    squared margin is; `row` (k,) and `turn` of a decided label among the codes of a lift; and lengths of arrays.
    """
    signs, ones, (a, b) = np.array([[-1.0], [1.0]]), np.ones(k), np.triu_indices(k, 1)
    if coding == "binary":
        return {"codes": signs, "pairs": ones[:1, None], "corner": 1.0, "low": 1.0, "stretch": 1.0,
                "row": np.array([0, 0]), "turn": signs[:, 0], "lengths": {"c": 1}}
    scale = {"simplex": 1.0, "crammer-singer": k / (k - 1)}[coding]  # a lift sees f_y less the mean of the others
    codes = scale * (np.eye(k) - 1 / k)
    return {"codes": codes, "pairs": np.eye(k)[a] - np.eye(k)[b], "corner": k // 2 * (k - k // 2) / k, "low": 0.0,
            "stretch": scale**2 * (1 - 1 / k), "row": np.arange(k), "turn": ones, "lengths": {"c": k, "j": 0}}


def least_square(cuts: Any, k: int) -> Any:
    """Return the least square of whole multiples (t, n) of unit codes: (k sum S_c^2 - S^2) / (k - 1), S_c by cluster.

    It is least where the sum S of the multiples is shared out over the clusters as evenly as whole numbers can.
    """
    total = np.abs(cuts.sum(axis=1))
    each, more = np.divmod(total, k)
    return (k * (k * each**2 + more * (2 * each + 1)) - total**2) / (k - 1)


class LabelSet:
    """Hold B: the code of y_i is sign_i times that of z_C, labels of components C, -1 where they are open."""

    def __init__(self, p: Any) -> None:
        self.p, self.k, component, self.sign = p, p.clusters, np.arange(p.n), np.ones(p.n, dtype=int)
        joins = self.k == 2  # a cannot-link says one label by the other
        for i, j, s in [*((i, j, 1) for i, j in p.must), *((i, j, -1) for i, j in p.cannot if joins)]:
            moved = component == component[j]
            self.sign[moved], component[moved] = self.sign[moved] * self.sign[i] * s * self.sign[j], component[i]
        _, self.first, self.component, self.sizes = np.unique(component, True, True, True)
        self.apart, self.turned_sizes = p.cannot[joins * len(p.cannot):], np.bincount(self.component, self.sign < 0)
        self.z, i, self.own = np.full(len(self.sizes), -1), p.known_index, np.append(p.codes[:, 0], 0)
        self.z[self.component[i]] = self.turned(p.known_values, i)
        self.rows, ends = np.vstack([p.bound_weights, np.ones(p.n)]), np.stack([p.bound_lower, p.bound_upper])
        self.sums = np.array([np.bincount(self.component, self.sign * w) for w in p.bound_weights]).reshape(
            -1, len(self.z))
        size, exact = np.abs(p.bound_weights).sum(1), np.all(p.bound_weights % 1 == 0, axis=1)  # sums of whole numbers
        self.slack = np.minimum(2 * (p.n + 8) * EPS * size, np.where(exact & (size <= 2**53), 0.25, np.inf))
        own, here = self.sums * (self.z < 0), self.sums @ self.own[self.z]
        for i, s in ((i, s) for i in np.flatnonzero(exact) for s in (1, -1)):  # links make sums alike
            limits = np.where(exact & np.all(own == s * own[i], axis=1), s * (ends[::s, [i]] - here[i]) + here, ends)
            p.bound_lower, p.bound_upper = np.maximum(p.bound_lower, limits[0]), np.minimum(p.bound_upper, limits[1])
        self.least = np.maximum(p.at_least, p.n - p.at_most.sum() + p.at_most)  # what the others leave
        self.most = np.minimum(p.at_most, p.n - p.at_least.sum() + p.at_least)
        self.groups = gathered(self.component, p.group_weights.T, len(self.sizes)).T  # of several clusters alone
        need(self.k > 2 or not len(self.groups) + len(p.barred_index), "labels of two clusters have no groups")
        alike = [np.ptp(x, axis=-1).max(initial=0) == 0 for x in (self.least, self.most, p.group_least, p.group_most)]
        self.is_symmetric = all([*alike, not len(p.barred_index), np.all(self.z < 0), np.all(ends.sum(axis=0) == 0),
                                 np.all(p.decision_lower == -p.decision_upper)])

    def turned(self, labels: Any, points: Any) -> Any:
        """Return labels of points as those of their components, and the other way round."""
        return np.where(self.sign[points] > 0, labels, self.k - 1 - labels)

    def counts(self, Z: Any) -> Any:
        """Return how many points rows of Z decide to be in every cluster."""
        same, other = self.sizes - self.turned_sizes, self.turned_sizes
        return np.stack([(c == Z) @ same + (self.k - 1 - c == Z) @ other for c in range(self.k)], axis=-1)

    def left(self, Z: Any) -> Any:
        """Return (P, N, k) what labels rows of Z, cannot-links and barred labels leave to components."""
        (i, j), each = self.component[np.vstack([self.apart, self.apart[:, ::-1]]).T], Z[:, :, None]
        left, (row, link) = (each < 0) | (each == np.arange(self.k)), np.nonzero(Z[:, j] >= 0)
        left[row, i[link], Z[row, j[link]]] = left[:, self.component[self.p.barred_index], self.p.barred_values] = False
        return left

    def refuted(self, Z: Any) -> Any:
        """Return which rows of Z, labels of components, no member of B completes."""
        free, left, counts = Z < 0, self.left(Z), self.counts(Z)
        middle, reach = self.own[Z] @ self.sums.T, free @ np.abs(self.sums).T + self.slack
        ends = [middle + reach < self.p.bound_lower, middle - reach > self.p.bound_upper, ~left.any(axis=2),
                counts > self.most, counts + np.einsum("pn,pnk->pk", free * self.sizes, left) < self.least]
        wrong = np.any(np.hstack(ends), axis=1) | (np.maximum(self.least - counts, 0).sum(axis=1) > free @ self.sizes)
        for own, least, most in zip(self.groups, self.p.group_least, self.p.group_most):
            held = np.stack([(c == Z) @ own for c in range(self.k)], axis=1)
            wrong |= np.any(held > most, axis=1) | (np.maximum(least - held, 0).sum(axis=1) > free @ own)
        return wrong

    def leaves(self) -> tuple[Any, Any]:
        """Return labels and numbers of the leaves of a tree that covers B, up to names of clusters where B = -B."""
        Z, begun, found = self.z[None], 0, []
        while len(Z):  # a level: the point that a node decides, 0 where nothing of B is left, -1 - number for a leaf
            node, begun = self.p.tree[begun:begun + len(Z)], begun + len(Z)
            need(len(node) == len(Z) and np.all(self.refuted(Z[node == 0])), "the cases leave labellings uncovered")
            found.append((Z[node < 0], -1 - node[node < 0]))
            Z, at = Z[node > 0], self.component[node[node > 0] - 1, None] == np.arange(Z.shape[1])
            Z = np.concatenate([np.where(at, label, Z)[self.takes(Z, label)] for label in range(self.k)])
        return np.concatenate([labels for labels, _ in found]), np.concatenate([numbers for _, numbers in found])

    def takes(self, Z: Any, label: int) -> Any:
        """Return which rows of Z go on with a label: of names that mean nothing, one that is not used yet counts."""
        return (Z.max(axis=1, initial=-1) >= label - 1) | (not self.is_symmetric)

    def sum_radius(self, j: int, z: Any) -> float:
        """Return how far sum j is from its middle at most, of the completions of z that its bound admits."""
        p, free, slack = self.p, np.abs(self.sums[j][z < 0]), self.slack[j]  # all open ones of one sign, or the other
        first, unit = float(self.sums[j] @ self.own[z]) - math.fsum(free), p.units[j]
        ends = np.array([max(p.bound_lower[j], first), min(p.bound_upper[j], first + 2 * math.fsum(free))])
        counts = np.rint(free / unit)  # of multiples of a unit sums are attained: bit s says whether one is s units
        is_used, are_multiples = p.kappa[:, j].any(), np.abs(free - unit * counts).sum() <= slack
        if is_used and are_multiples and counts.sum() <= MOST:
            attained = 1
            for count in counts.astype(int).tolist():
                attained |= attained << count
            sums = first + 2 * unit * np.flatnonzero([bit == "1" for bit in reversed(f"{attained:b}")])
            ends = sums[(sums >= ends[0] - 2 * slack) & (sums <= ends[1] + 2 * slack)]  # off by `slack` on both sides
        return float(np.max(np.abs(ends - p.middles[j]), initial=0.0) + 3 * slack)

    def code_radius(self, z: Any) -> float:
        """Return the largest |sum of the codes of all|: sqrt((k sum n_c^2 - n^2) / (k - 1)), sizes n_c in limits."""
        n, k, best = self.p.n, self.k, 0  # a sum of squares is greatest with all sizes but one at a limit
        limits = np.clip([np.maximum(self.counts(z), self.least), self.most], 0, n).T.tolist()
        for odd, (least, most) in enumerate(limits):
            squares = {0: 0}
            for pair in limits[:odd] + limits[odd + 1:]:
                squares = dict(sorted((m + x, s + x * x) for m, s in squares.items() for x in pair))
            best = max([best, *(s + (n - m)**2 for m, s in squares.items() if least <= n - m <= most)])
        return math.sqrt(max(0.0, (k * best - n**2) / (k - 1))) * (1 + 4 * EPS)


@dataclass
class Report:
    """Represent what was proved, what failed and what could not be checked; true when nothing failed."""

    proved: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    unverified: list[str] = field(default_factory=list)
    bound: float = -math.inf  # what the dual points prove, rounding taken off

    def __bool__(self) -> bool:
        return not self.failures

    def __str__(self) -> str:
        parts = ("proved", self.proved), ("FAILED", self.failures), ("unverified", self.unverified)
        return "\n".join(f"{word:<11} {words}" for word, sentences in parts for words in sentences)


class Proof(SimpleNamespace):
    """Hold header and arrays of a proof, every number cast and in its range, and find what they prove."""

    def __init__(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        n, k = whole(header["n"], 1, 1 << 40), whole(header["clusters"], *CLUSTERS[header["coding"]])
        need(arrays["codes"].shape[:1] == (k,), "codes: not one a cluster")
        words = coded(header["coding"], k)
        lengths = {"n": n, "N": n + 1, "k": k, "2": 2, "b": len(arrays["bound_lower"]) + 1,
                   "G": len(arrays.get("shares", ())), **words.pop("lengths")}
        found = {name: self.cast(name, mark, arrays[name], lengths)
                 for mark, names in SHAPES.items() for name in names.split() if name in arrays}
        need(np.array_equal(found["codes"], words["codes"]), "the codes are not those of the coding")
        super().__init__(
            **(found | words), n=n, clusters=k, known=math.inf, header=header, arrays=arrays,
            **{name: header[name] for name in ("coding", "kind", "state", "free_bias")},
            bias=np.array(header["bias"], dtype=float), held=whole(header["held"], -1, lengths["l"] - 1),
            ridge=number(header["ridge"], 0.0 if "block" in found else sys.float_info.min),
            constant=number(header["constant"]),
            value=number(header["value"], high=math.inf), bound=number(header["bound"], -math.inf),
            singer=header["coding"] == "crammer-singer")
        self.around: Any = None
        self.group, self.linear = (number(x, 0.0) for x in header.get("gauge", [0.0, 0.0]))
        known = ("block" in found or not self.group + self.linear) and self.group <= self.ridge
        need(known and self.ridge + self.linear > 0, "the norm has no such weights")
        fair = isinstance(self.free_bias, bool) and isinstance(self.state, str) and self.bias.shape in ((), (k,))
        need(fair, "the header contradicts itself")
        need(not self.free_bias or "phi" not in found or np.all(self.phi[:, -1] == 1), "no column of ones for the bias")
        fair = not np.any(self.bare) and np.array_equal(self.decision_lower, -self.decision_upper)
        need(len(self.pairs) == 1 or fair, "several clusters have no losses by label, and differences no sign")

    @staticmethod
    def cast(name: str, mark: str, x: Any, lengths: dict[str, int]) -> Any:
        """Return an array as float64, or int64 of whole numbers, if all are in their range and of the lengths known."""
        axes, asked = mark.strip("+*"), "not such numbers, or not as many as other arrays ask for"
        need(len(axes) == x.ndim and all(lengths.setdefault(a, m) == m for a, m in zip(axes, x.shape)),
             f"{name}: {asked}")
        if name in WHOLE:  # unsigned ones too are compared before they are cast
            low, high = (end if isinstance(end, int) else lengths[end] for end in WHOLE[name])
            low = -low if name == "tree" else low
            need(x.dtype.kind in "iu" + "b" * (name == "nonneg"), f"{name}: not whole numbers")
            need(x.size == 0 or (low <= int(x.min()) and int(x.max()) < high), f"{name}: {asked}")
            return x.astype(np.int64)
        need(x.dtype.kind in "iuf", f"{name}: {asked}")
        x, most = x.astype(np.float64), np.inf if "*" in mark else sys.float_info.max
        need(np.all(np.abs(x) <= most) and ("+" not in mark or np.all(x >= 0)), f"{name}: {asked}")
        return x

    def centre(self) -> None:
        """Write f = <w, phi - c> + t, c = a'phi / sum a, where a bound on a'f = t sum a holds a free bias, t then."""
        (n, r), m, D, self.limits = self.phi.shape, len(self.points), self.decision_weights, np.zeros(2)
        self.columns, self.magnitudes, last = self.phi + 0.0, np.abs(self.phi), np.arange(r) == r - 1
        self.rate, self.norm = (2 * n + m + r + 64) * EPS, np.where(last & self.free_bias, 0.0, self.ridge)
        if self.held >= 0:
            a, size = D[self.held], np.abs(D[self.held]).sum()
            need(self.free_bias and abs(a.sum()) > 4 * self.rate * size, "a bound holds no bias")
            self.columns -= np.where(last, 0.0, a @ self.phi / a.sum())
            self.magnitudes += np.where(last, 0.0, np.abs(a) @ self.magnitudes * 2 * size / a.sum()**2)
            self.limits = np.array([self.decision_lower[self.held], self.decision_upper[self.held]]) / (
                a.sum() * np.abs(self.pairs[0]).sum())  # where clusters share a limit, each has a half of it
            self.columns[:, -1] = self.magnitudes[:, -1] = np.any(self.limits)
        kept = last | (np.arange(len(D))[:, None] != self.held)
        self.sums, self.sizes = kept * (D @ self.columns), kept * (np.abs(D) @ self.magnitudes)

    def valued(self, y: Any) -> tuple[float, float]:
        """Return the value of labels and of weights, whose f and bias must be the solution's, and its rounding."""
        # Loss i at x = slope margin + coupling s: At^2 + Bt + C, t = x - anchor, in a cell, and c log(1 + exp(-ax - d))
        f, sizes, rows = self.phi @ self.w, (np.abs(self.phi) @ np.abs(self.w)).max(axis=1), np.arange(self.n)
        near = np.abs(f - self.decision) <= 64 * EPS * (sum(self.phi.shape) + 8) * sizes.max()
        need(np.all(near), f"decision values are not those of the weights, at point {np.argmin(near.all(axis=1))}")
        need(np.all(self.bias == self.w[-1] * self.free_bias), "the bias is not that of the weights")
        sums, slack = self.decision_weights @ f @ self.pairs.T, 1e-6 * np.abs(self.decision_weights) @ sizes
        near = np.clip(sums.T, self.decision_lower - slack, self.decision_upper + slack)
        need(np.all(near == sums.T) and np.all((self.scalars >= 0) | (self.nonneg == 0)), "decision values are outside")
        margin = np.sum(self.codes[y] * f, axis=1)
        if self.singer:
            others = f.copy()
            others[rows, y] = -np.inf
            margin = f[rows, y] - others.max(axis=1)
        x = margins = self.slopes * margin[self.points] + self.bare * f[self.points, 0] + self.coupling @ self.scalars
        size = 2 * (np.abs(self.slopes) + np.abs(self.bare)) * sizes[self.points]
        size += np.abs(self.coupling) @ np.abs(self.scalars)
        x, reach, rate = x[self.cell], size[self.cell] + np.abs(self.anchor), 64 * (self.n + len(self.w) + 8) * EPS
        here, near = (np.flatnonzero((self.left - e <= x) & (x <= self.right + e)) for e in (0.0, rate * reach))
        here, z = here[np.unique(self.cell[here], return_index=True)[1]], self.log_a * margins[self.log_at] + self.log_d
        need(len(here) == len(size), "the value is infinite: a margin lies outside the domain of its loss")
        t, wide = x - self.anchor, self.log_c * (1.0 + np.abs(self.log_a) * size[self.log_at] + np.abs(self.log_d))
        square, charges = self.norm @ np.sum(self.w**2, axis=1) / 2, self.costs * self.scalars
        if self.group + self.linear:
            squares = self.squares(self.w).sum(axis=1)
            T = np.sqrt(squares).sum()
            square += self.group / 2 * (T * T - squares.sum()) + self.linear * T
        logs, values = self.log_c * np.logaddexp(0.0, -z), ((self.A * t + self.B) * t + self.C)[here]
        parts = ((np.abs(self.A) * reach + np.abs(self.B)) * reach + np.abs(self.C))[near]
        size = math.fsum([*parts, *wide, *np.abs(charges), square, abs(self.constant)])
        return math.fsum([*values, *logs, *charges, square, self.constant]), rate * size

    def squares(self, H: Any) -> Any:
        """Return the sums of squares (b, ...) of H (r, ...) over blocks of columns."""
        return np.array([np.sum(H[self.block == block]**2, axis=0) for block in range(self.block.max() + 1)])

    def conjugate(self, H: Any, sizes: Any) -> Any:
        """Return twice the supremum (z,) over w of H.w - the norm, of directions H (z, c, r) off by rate * sizes.

        With norms h of blocks it is max over t >= 0 of h.t - (p |t|^2 + group (sum t)^2)/2 - linear sum t.
        """
        rest, p = self.block < 0, self.ridge - self.group
        over, far = (np.sqrt(self.squares(x.transpose(2, 0, 1)).sum(axis=2)) for x in (H, sizes))
        top = np.sort(np.maximum(over + self.rate * far - self.linear, 0.0), axis=0)[::-1]
        H, sizes = (np.sqrt(np.sum(x[:, :, rest]**2, axis=1)) for x in (H, sizes))
        beside, free = H + self.rate * sizes, self.norm[rest] == 0
        need(np.all(H[:, free] <= self.rate * sizes[:, free]), "the dual point does not hold the free bias")
        beside = np.sum(beside[:, ~free]**2 / self.norm[rest][~free], axis=1)
        if p <= 0:
            over = np.square(top[0]) / self.group if self.group else np.where(top[0] > 0, np.inf, 0.0)
        else:  # of the blocks with t > 0, the greatest
            share, S = self.group / (p + self.group * np.arange(1, len(top) + 1.0)[:, None]), np.cumsum(top, axis=0)
            last = np.maximum((top > share * S).sum(axis=0) - 1, 0)[None]
            over = np.take_along_axis((np.cumsum(top**2, axis=0) - share * S**2) / p, last, 0)[0]
        return beside + over

    def narrowed(self, f: Any, B: LabelSet, z: Any, u: Any, v: Any) -> Any:
        """Return less of ends f (2, n) of decision values, for all labellings like z of less than the solution's value.

        With duals u, value >= sum min(h + ux) + |w - H/norm|^2/2 - H'H/norm/2, H = sum u y phi, +-|u phi| where open.
        """
        code = B.own[z][B.component] * B.sign
        try:
            low, v, _ = self.least(u, 0 * u, v)
        except ValueError:  # duals that prove nothing, as zeros of linear losses, hold nothing
            return f
        per, H = 1 / self.norm, (code * v) @ self.columns
        size, loose = (np.abs(x) @ self.magnitudes for x in (v, v * (code == 0)))
        parts = abs(self.known) + abs(self.constant) + abs(low) + size**2 @ per
        square = 2 * (self.known - self.constant - low) + (np.abs(H) + loose)**2 @ per + 4 * self.rate * parts
        reach = math.sqrt(max(0.0, square)) * np.sqrt(self.magnitudes**2 @ per)
        middle, far = self.columns @ (H * per), self.magnitudes @ (size * per)
        reach = (reach + self.magnitudes @ (loose * per)) * (1 + self.rate) + 2 * self.rate * far
        return np.stack([np.maximum(f[0], middle - reach), np.minimum(f[1], middle + reach)])

    def ends(self, B: LabelSet, number: int, z: Any) -> Any:
        """Return (2, m) ends of x, of open points for y = 1, for labellings as in `narrowed`."""
        if self.around is None:  # by known labels, for all leaves
            self.around = np.multiply.outer([-np.inf, np.inf], np.ones(self.n))
            for u in self.outer:
                self.around = self.narrowed(self.around, B, B.z, u, self.tangents[number])
        f = self.narrowed(self.around, B, z, self.inner[number], self.tangents[number])
        code = B.own[z][B.component] * B.sign
        return np.sort(self.slopes * (np.where(code == 0, 1, code) * f)[:, self.points], axis=0)

    def least(self, u: Any, q: Any, v: Any, ends: Any = None, by: Any = None) -> tuple[float, Any, Any]:
        """Return the sum over losses of min over x of h(x) + ux + qx^2/2, rounding taken off; u and q as of margins.

        `ends` (2, m) hold x; `by`: codes y (n,), of open points both, -1 between -ends, and v, e (m,), for yv beside u
        and |e| + ye beside h.
        """
        over, parts = u @ self.coupling - self.costs, np.abs(u) @ np.abs(self.coupling) + np.abs(self.costs)
        over = np.where(self.nonneg, over, np.abs(over)) <= (len(u) + 8) * EPS * parts
        need(np.all(over) and not np.any(np.abs(q) @ self.coupling**2), "a dual point does not balance shared scalars")
        need(np.all(q * np.abs(self.bare) <= 0), "a multiplier of a loss by label is negative")
        by_label, here = self.bare != 0, np.flatnonzero((self.left <= 0) & (self.right >= 0))
        own, q, (code, turn, more) = q * by_label, q * ~by_label, by or (np.ones(self.n), 0 * u, 0 * u)
        y, cells = code[self.points[self.cell]], np.arange(len(self.cell))
        order, y = np.append(cells, cells[y == 0]), np.append(np.where(y == 0, 1, y), -np.ones(np.sum(y == 0)))
        i, k, left, right, A, slant, C = (x[order] for x in (
            self.cell, self.anchor, self.left, self.right, self.A, self.B, self.C))
        if ends is not None:
            low, high = np.where(np.arange(len(i)) < len(cells), ends[:, i], -ends[::-1, i])
            left, right = np.maximum(left, low), np.minimum(right, high)
        v = np.clip(v, -1.0, 0.0)  # log(1 + exp(-z)) is no less than vz - its conjugate
        dual = -v * np.log(np.where(v < 0, -v, 1)) + (1 + v) * np.log1p(np.where(v > -1, v, 0))
        slope, strain, rest, size = (np.bincount(self.log_at, self.log_c * z, len(u)) for z in (
            self.log_a * v, np.abs(self.log_a * v), v * self.log_d - dual, np.abs(v * self.log_d) + np.abs(dual)))
        half = np.where(self.singer & (np.minimum(left, self.slopes[i]) < 0), 0, q[i] / 2)  # no square of a fall
        strain, low, total = (np.abs(u) + np.abs(turn) + strain)[i], np.full(len(i), np.inf), np.full(len(u), np.inf)
        steep, size, C = np.abs(slant), np.abs(C) + (size + 2 * np.abs(more))[i], C + (np.abs(more)[i] + y * more[i])
        linear = u[i] + y * turn[i]
        bend, tilt = A + half, linear + (slope[i] + slant - 2 * A * k)  # bend x^2 + tilt x but for a constant
        lowest = np.clip(np.where(bend > 0, -tilt / (2 * bend), k), left, right)
        for x, sign in ((left, 1), (right, -1), (lowest, 0)):
            t, falls = x - k, (bend < 0) | ((bend == 0) & (sign * tilt > 64 * EPS * (strain + steep)))
            parts = (np.abs(A * t) + steep) * np.abs(t) + (strain + np.abs(half * x)) * np.abs(x) + size
            value = (A * t + slant) * t + (half * x + linear + slope[i]) * x + C - 64 * EPS * parts
            low = np.minimum(low, np.where(np.isfinite(x), value, np.where(falls, -np.inf, np.inf)))
        np.minimum.at(total, i, np.where(left <= right, low, np.inf))
        if by_label.any():  # what a loss is for the other label
            t, away = self.anchor[here], np.full(len(u), np.inf)
            parts = (np.abs(self.A[here] * t) + steep[here]) * np.abs(t) + np.abs(self.C[here])
            np.minimum.at(away, i[here], (self.A[here] * t - self.B[here]) * t + self.C[here] - 64 * EPS * parts)
            total = np.where(by_label, np.minimum(total - own, away), total)
            need(not by_label[self.log_at].any(), "a loss by label is not piecewise quadratic")
        need(np.all(np.isfinite(total)), f"a dual point is outside the domain of loss {np.argmin(np.isfinite(total))}")
        v, q = (np.bincount(self.points, z, self.n) for z in (u * self.slopes, q * self.slopes**2))
        return math.fsum(total + rest), v, q

    def squared(self, q: Any) -> Any:
        """Return multiples of |f|^2 that are no less than multiples q of squared margins."""
        return np.where(q > 0, self.stretch, self.low) * q

    def whitened(self, q: Any, eta: Any, H: Any, sizes: Any) -> tuple[Any, Any]:
        """Return F, FF' >= HP^-1H', P = norm - Phi'qPhi + sum eta s s', and how far off rows are, in units of rate."""
        near, far = (self.norm + self.stretch * np.abs(q) @ x**2 + eta @ y**2 for x, y in (
            (self.columns, self.sums), (self.magnitudes, self.sizes)))
        held, scale = near > 0, np.sqrt(near[near > 0])
        need(np.all(np.abs(H[:, ~held]) <= self.rate * sizes[:, ~held]), "the dual point does not hold the free bias")
        F, off = H[:, held] / scale, np.linalg.norm(sizes[:, held] / scale, axis=1)
        if not (np.any(q) or np.any(eta)):
            return F, off
        P = np.diag(self.norm) - (self.columns.T * self.squared(q)) @ self.columns + (self.sums.T * eta) @ self.sums
        values, vectors = np.linalg.eigh(P[held][:, held] / scale / scale[:, None])
        values = values - self.rate * (len(values) + 2) * math.sqrt(np.max(far[held] / near[held], initial=1))
        need(np.all(values > 0), "squares of decision values outweigh the norm")
        return F @ vectors / np.sqrt(values), off / math.sqrt(values.min(initial=1.0))

    def lifted(self, B: LabelSet, number: int, z: Any, v: Any, bare: Any, q: Any, eta: Any, seen: Any, e: Any) -> Any:
        """Return parts of a price no less than z'HP^-1H'z, of the columns seen, for all labels that are like z."""
        # FF' + T theta T' <= c(d + V kappa V') gives c(sum d + kappa r^2) - sum theta l for sums |V'z| <= r and cuts
        # |T'z|^2 >= l (= if theta < 0); c: top eigenvalue of GG', G' = [(F - VW) / sqrt d, W / sqrt kappa], T in F, V
        k, free, linear, held = self.clusters, z < 0, math.sqrt(self.stretch) * v[:, None], int(self.row[-1]) + 1
        d, kappa, theta, cuts = self.d[number], self.kappa[number], self.theta[number], self.cuts
        N = int(free.sum()) + held  # the last rows are of what is decided, the very last of a point of the last cluster
        position = np.append(np.where(free, np.cumsum(free) - 1, N - held + self.row[z])[B.component], N - 1)
        sign = np.append(B.sign * np.where(free, 1, self.turn[z])[B.component], 1)
        e = np.where(self.bare == 0, e, np.sign(self.bare * self.slopes) * self.q[number] / -2)
        rows = np.flatnonzero(e)  # (y + s)^2 is zero for the other label
        states = np.column_stack([np.arange(self.n) == self.points[rows, None], np.sign(e)[rows]])
        cuts, theta = np.vstack([cuts, states.astype(int)]), np.append(theta, np.abs(e)[rows])
        squares = sign * np.vstack([np.column_stack([B.rows, -np.append(self.middles, 0)]), cuts])
        H, sizes, U = (gathered(at, X, N) for at, X in (
            (position[:-1], sign[:-1, None] * linear * self.columns), (position[:-1], np.abs(linear) * self.magnitudes),
            (position, squares.T)))
        H[-1] += bare @ self.columns  # what sees no label is of the code +1
        sizes[-1] += np.abs(bare) @ self.magnitudes
        H, sizes, cut = H * seen, sizes * seen, U.T[len(B.rows):] != 0
        count, total = np.abs(cuts).sum(axis=1), np.abs(cuts.sum(axis=1))
        i, j = cut.argmax(axis=1), N - 1 - cut[:, ::-1].argmax(axis=1)
        apart = np.isin(i * N + j, np.sort(position[B.apart], axis=1) @ [N, 1]) | ((i >= N - held) & (i < j))
        loose = (count != 1) & ((count != 2) | (total != 2) | ~apart)  # what is not an equality
        need(np.all(theta[loose] >= 0) and np.all(v * self.singer >= 0), "a multiplier is negative")
        least, radii = least_square(cuts, k), [*(B.sum_radius(j, z) for j in range(len(B.sums))), B.code_radius(z)]
        weights, d = np.append(kappa, -theta), np.bincount(position, d, N)
        terms, wide = [(weights > 0, weights, np.append(np.square(radii), least)), (d >= 0, d, 1)], self
        if not self.low and np.any(q * ~free[B.component]):  # squares of margins of decided codes, by coordinates
            need(not np.any(q * free[B.component]), "squares of open margins beside those of decided codes")
            one, unit = np.eye(k - 1), (np.diag(np.arange(k)) - np.triu(np.ones((k, k)), 1))[:, 1:]
            unit = unit / np.sqrt(np.arange(1, k) * np.arange(2, k + 1) * (1 - 1 / k))
            H, sizes, U = (np.vstack([np.kron(X[:-k], one), np.ravel(X[-k:].T @ c)]) for X, c in (
                (H, unit), (sizes, np.abs(unit)), (U, unit)))
            weights, d = np.repeat(weights, k - 1), np.append(np.repeat(d[:-k], k - 1), d[-k:].sum())
            wide, eta, own = Proof.__new__(Proof), np.repeat(eta, k - 1), (~free[:, None] * unit[z])[B.component, None]
            vars(wide).update(
                vars(self), low=self.stretch, norm=np.repeat(self.norm, k - 1), sums=np.kron(self.sums, one),
                sizes=np.kron(self.sizes, one), columns=(self.columns[:, :, None] * own).reshape(self.n, -1),
                magnitudes=(self.magnitudes[:, :, None] * np.abs(own)).reshape(self.n, -1))
        F, off = wide.whitened(q, eta, H, sizes)
        met, left = np.any(F, axis=1) | np.any(U * weights, axis=1) | (d != 0), weights > 0
        root, U = np.sqrt(d[met])[:, None], U[met] * np.sqrt(np.abs(weights))
        X, Y = np.hstack([F[met], U[:, ~left]]) / root, U[:, left] / root
        unit, rate = np.sqrt(1 + np.sum(Y**2, axis=0)), self.rate + sum(U.shape) * EPS
        W = np.linalg.solve((np.eye(len(unit)) + Y.T @ Y) / unit / unit[:, None], (Y / unit).T @ X) / unit[:, None]
        G = np.vstack([X - Y @ W, W])
        G = G.T @ G if len(G) > len(G.T) else G @ G.T
        far = off[met] / root[:, 0] + np.linalg.norm(X, axis=1) + np.abs(Y) @ np.linalg.norm(W, axis=1)
        c = np.sqrt(np.max(np.linalg.eigvalsh(G), initial=0.0) + rate * np.trace(G)) + rate * np.linalg.norm(far)
        return np.concatenate([np.where(x == 0, 0.0, np.where(grows, c**2, 1) * x * y) for grows, x, y in terms])

    def leaf_bounds(self, B: LabelSet, number: int, Z: Any) -> Any:
        """Return what a dual point proves for rows of Z, labels of components."""
        (u, q, tau, eta), k = (x[number] for x in (self.u, self.q, self.tau, self.eta)), self.clusters
        turn, e, ends, by = *(vars(self)[x][number] if x in vars(self) else 0 * q for x in "ve"), None, None
        if hasattr(self, "inner") and self.known < math.inf and self.norm.all() and not len(self.log_at):
            ends = self.ends(B, number, Z[0])
        if ends is not None or np.any(turn) or np.any(e):  # what is said of one label of open points
            need(len(Z) == len(self.pairs) == 1 and not self.coupling.any() and not self.bare.any() and (
                self.kind == "lift" or not (np.any(turn) or np.any(e))), "not looked for")
            by = B.own[Z[0]][B.component] * B.sign, turn, e
        low, v, q = self.least(u.sum(axis=1), q, self.tangents[number], ends, by)
        bare = np.bincount(self.points, u.sum(axis=1) * self.bare + turn * self.slopes, self.n)
        if self.kind == "lift":
            seen = [np.ones(len(self.norm), dtype=bool)]
            if self.group == self.ridge > 0 and not (np.any(q) or np.any(eta)):  # (sum t)^2 / 2 is the least over d of
                seen = [(self.block < 0) | (self.block == b) for b in range(self.block.max() + 1)]  # sum t^2 / 2 d
            prices, tau = np.array([max((self.lifted(B, number, z, v, bare, q, eta, columns, e) for columns in seen),
                                        key=np.sum) for z in Z]), 0 * tau
        else:  # cases: all labels that the dual point uses are decided
            one, a = self.singer and u.shape[1] > 1, u * self.slopes[:, None]
            u, met = gathered(self.points, a, self.n), (Z < 0)[:, B.component[self.points[a.any(axis=1)]]]
            own = np.vstack([np.eye(k) if one else self.codes, np.zeros(len(self.codes.T))])[Z]
            force, gain, N, v, far = tau @ self.pairs, np.zeros(len(Z)), Z.shape[1], u.sum(axis=1), gathered(
                self.points, np.abs(a), self.n).sum(axis=1)
            fair = not (a < 0).any() | (own * gathered(B.component, u != 0, N)).any() if one else v * self.singer >= 0
            need(np.all(fair) and self.kind == "cases" and not met.any(), "a dual point uses open labels")
            # A point weighs v times its code, which is its component's times its sign, or v own - u.
            others = u if one else np.zeros((self.n, own.shape[2])) - bare[:, None]
            H, sizes = ((np.tensordot(a, gathered(B.component, w[:, None] * b, N), (1, 0)) - c.T @ b - d.T @ e).reshape(
                -1, b.shape[1]) for a, w, b, c, d, e in (
                    (own, B.sign * v, self.columns, others, force, self.sums),
                    (abs(own), far, self.magnitudes, -abs(others), -abs(force), self.sizes)))
            if self.held >= 0 and not np.any(eta * self.sums[:, -1]):  # nothing but its limits holds the bias
                gain = np.max(H[:, -1:] * self.limits, axis=1) + self.rate * sizes[:, -1] * np.abs(self.limits).max()
                H[:, -1] = sizes[:, -1] = 0.0
            if self.group + self.linear and not (np.any(q) or np.any(eta)):
                squares = self.conjugate(*(np.abs(x).reshape(len(Z), -1, x.shape[1]) for x in (H, sizes)))
            else:
                F, off = self.whitened(q, eta, H, sizes)
                squares = (np.linalg.norm(F, axis=1) + self.rate * off)**2
            prices = np.hstack([x.reshape(len(Z), -1) for x in (squares, 2 * gain)])
        limits = np.where(tau > 0, self.decision_upper[:, None], self.decision_lower[:, None])
        reach = np.maximum(-self.decision_lower, self.decision_upper)**2 * self.corner
        charges = np.append(np.where(tau == 0, 0.0, 2 * tau * limits), np.where(eta == 0, 0.0, eta * reach))
        return low - (prices.sum(1) + charges.sum()) / 2 - self.rate * (
            abs(low) + abs(prices).sum(1) + abs(charges).sum())

    def parts(self) -> Any:
        """Yield shares s and problems of groups with weights of their own: value >= sum s (norm + losses / s)."""
        need(not len(self.costs) and math.fsum(self.shares) <= 1, "groups share scalars, or more than the norm")
        own: Any = {number: {} for number in range(-1, len(self.shares))}
        for name, x in self.arrays.items():
            own[int(name.partition(":")[2] or -1)][name.partition(":")[0]] = x
        rows, x, y = (self.owner[index] for index in (self.points, self.must, self.cannot))
        owners = {"n": self.owner, "m": rows, "f": rows[self.cell], "g": rows[self.log_at],
                  "i": self.owner[self.known_index], "a": self.owner[self.barred_index],
                  "x": np.where(np.ptp(x, axis=1), -1, x[:, 0]), "y": np.where(np.ptp(y, axis=1), -1, y[:, 0])}
        kept, index = dict.fromkeys("jhl", [np.zeros(0, dtype=int)] * len(own)), dict[str, Any]()
        for mark, owner in owners.items():
            order = np.argsort(owner, kind="stable")  # once for all: a pass for every group takes most of an hour
            starts = np.searchsorted(owner[order], np.arange(len(self.shares)))
            kept[mark], index[mark] = np.split(order, starts)[1:], np.argsort(order) - starts[owner]
        for number, share in enumerate(self.shares):
            n, found = len(kept["n"][number]), dict[str, Any]()
            for mark, name in [(m, x) for m, names in SHAPES.items() for x in names.split() if x in vars(self)]:
                x, end = vars(self)[name], WHOLE.get(name, (0, 0))[1]
                for axis, letter in enumerate(mark.strip("+*")):
                    x = np.take(x, kept[letter][number], axis) if letter in kept else x
                found[name] = index[end][x] if end in index else x
            found |= {name: found[name] / share for name in ("A", "B", "C", "log_c")}
            found |= {"at_least": 0 * self.at_least, "at_most": 0 * self.at_most + n}
            part = Proof(self.header | {"n": n, "held": -1, "constant": 0.0, "value": math.inf, "bound": -math.inf,
                                        "kind": "lift" if "d" in own[number] else "cases"}, own[number] | found)
            part.known = float(self.ceilings[number])
            part.centre()
            yield share, part

    def proved(self, B: LabelSet) -> float:
        """Return what the dual points prove of the labels in B, without the constant."""
        if self.kind == "parts":
            bounds = [share * min(part.proved(LabelSet(part)), part.known) for share, part in self.parts()]
            return math.fsum(bounds) - 4 * EPS * math.fsum(map(abs, bounds))
        (Z, leaf), low = B.leaves(), math.inf
        for number, count in zip(*np.unique(leaf, return_counts=True)):
            for part in np.array_split(Z[leaf == number], 1 + count * self.n * self.clusters // MOST):
                low = np.minimum(low, np.min(self.leaf_bounds(B, number, part), initial=math.inf))
        return float(low)

    def judge(self, report: Any) -> None:
        """Add what holds of labels, value, bound and status."""
        B, y, (i, j), (a, b) = LabelSet(self), self.labels, self.must.T, self.cannot.T
        sizes = np.bincount(y, minlength=self.clusters)
        held = [y[self.known_index] == self.known_values, y[i] == y[j], y[a] != y[b], self.at_least <= sizes,
                sizes <= self.at_most, [not B.refuted(B.turned(y[B.first], B.first)[None])[0]]]
        report.proved.append(need(np.all(np.concatenate(held)), "labels are not in B") or "labels are in B")
        need(self.bound <= self.value, f"bound {self.bound:.17g} lies above the value {self.value:.17g}")
        if not hasattr(self, "phi"):
            return report.unverified.append("value and bound: the features are not in the proof")
        self.centre()
        value, rounding = self.valued(y) if hasattr(self, "w") else (math.inf, 0.0)
        need(self.value == value or abs(self.value - value) <= rounding, f"value {value:.17g}, not {self.value:.17g}")
        t, here = -self.anchor, (self.left <= 0) & (self.right >= 0)  # losses at decision values and scalars of zero
        self.known = value + rounding  # what better labels have less than
        start = np.abs(((self.A * t + self.B) * t + self.C)[here]).sum() + self.log_c @ np.logaddexp(0, -self.log_d)
        is_known = value < math.inf and rounding <= KNOWN * (abs(value) + abs(self.constant) + start)
        (report.proved if is_known else report.unverified).append(
            f"value {value:.12g}" if is_known else f"value {value:.12g}, known to {rounding:.3g}")
        gap = self.value - self.bound
        need(self.state != "OPTIMAL" or gap <= CLOSED * abs(self.value) + rounding, f"status: optimal, gap {gap:.3g}")
        if self.bound > -math.inf:
            low = self.proved(B)
            report.bound = max(-math.inf, float(low + self.constant - 2 * EPS * (abs(low) + abs(self.constant))))
            need(self.bound <= report.bound, f"bound {self.bound:.17g} is not proved, {report.bound:.17g} is")
            report.proved.append(f"bound {self.bound:.12g}, {gap:.3g} below the value")


def check(header: dict[str, Any], arrays: dict[str, Any]) -> Report:
    """Return what of a proof is proved, failed or could not be verified, in sentences, and the bound that is proved."""
    report = Report()
    try:
        need([header.get(x) for x in ("format", "version")] == [FORMAT, VERSION], f"no version {VERSION} of {FORMAT}")
        with np.errstate(all="ignore"):
            Proof(header, arrays).judge(report)
    except Exception as error:  # whatever a forged file leads to
        words = f"{error}" if isinstance(error, ValueError) else f"the proof is damaged: {error!r}"
        (report.unverified if isinstance(error, MemoryError) else report.failures).append(words)
    return report


def compare_features(header: dict[str, Any], arrays: dict[str, Any], X: Any) -> list[str]:
    """Return how the features of a proof differ from linear ones of points X (n, d), each column in its own unit."""
    X, phi = np.array(X, dtype=float), np.array(arrays["phi"], dtype=float)
    if header["linear"] is not True:
        return ["the features are not linear ones of the points, and cannot be made again without the problem"]
    if X.ndim != 2 or phi.ndim != 2 or len(X) != len(phi):
        return [f"the data are of shape {X.shape}, the features of shape {phi.shape}"]
    phi = phi[:, :-1] if header["free_bias"] else phi
    size = np.abs(X).max(axis=0, initial=0.0)
    X = X - X.mean(axis=0) if header["centre"] is True else X
    if header["penalised"] is True:
        X, size = np.column_stack([X, np.ones(len(X))]), np.append(size, 1.0)
    if X.shape == phi.shape and np.all(np.abs(X - phi) <= CLOSE * size):
        return []
    if X.shape[1] > len(X) and phi.shape[1] <= len(X) + 1:  # a rotation: products, as far as rounding allows
        norms, rough = np.sqrt(np.sum(X**2, axis=1)), 64 * EPS * np.sqrt(np.sum(size**2) * len(X))
        near = norms[:, None] * (CLOSE * norms + rough) + rough * (norms + rough)
        if np.all(np.abs(X @ X.T - phi @ phi.T) <= near):
            return []
    return ["the features are not those of the data"]


if __name__ == "__main__":
    try:
        content = dict(np.load(sys.argv[1], allow_pickle=False))
        head = json.loads(str(content.pop("header")))
        result = check(head, content)
        if len(sys.argv) > 2:
            result.failures += compare_features(head, content, np.load(sys.argv[2], allow_pickle=False))
    except Exception as error:  # no file, or none of a proof
        sys.exit(f"FAILED      no proof can be read: {error!r}")
    print(result)
    sys.exit(1 if result.failures or result.unverified else 0)
