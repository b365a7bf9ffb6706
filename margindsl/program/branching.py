"""The node problem of branch and bound in weight space: some labels fixed, the others absorbed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from margindsl.calculus import PLQ
from margindsl.calculus.accuracy import rounding
from margindsl.errors import CalculusError, DeclarationError
from margindsl.features import FeatureOperator
from margindsl.host.frozen import freeze_fields, frozen_property
from margindsl.program.absorption import absorbed_terms
from margindsl.program.answers import Variable
from margindsl.program.bounded_bias import NO_BIAS, Interval
from margindsl.program.forms import Form
from margindsl.program.losses import Losses
from margindsl.typing import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class PointLosses:
    """Represent one piecewise quadratic h_i a point, the sum of the rows at it, as a table of K pieces.

    h_i(x) = q x² + s x + c between consecutive knots; shorter rows are padded with empty pieces.

    Parameters
    ----------
    knots : (n, K−1) float array
        Interior knots, +inf where padded.
    """

    knots: FloatArray
    q: FloatArray  # (n, K)
    s: FloatArray  # (n, K)
    c: FloatArray  # (n, K)

    def __post_init__(self) -> None:
        freeze_fields(self)

    @classmethod
    def build(cls, losses: Losses) -> PointLosses:
        """Return the table of losses."""
        losses = absorbed_terms(losses)
        rows: list[list[tuple[int, float]]] = [[] for _ in range(losses.n)]
        for index, term in enumerate(losses.terms):
            if not isinstance(term.loss, PLQ) or np.any(np.isfinite(term.loss.domain)):
                raise CalculusError(f"branching takes finite piecewise quadratic losses, not {term.loss!r}")
            for point, weight in zip(term.points.tolist(), term.weights.tolist()):
                rows[point].append((index, weight))
        keys = [tuple(row) for row in rows]
        ranks = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        pieces = []
        for key in ranks:
            total = PLQ.constant(0.0)
            for index, weight in key:
                loss = losses.terms[index].loss
                assert isinstance(loss, PLQ)
                total = PLQ.__add__(total, weight * loss)  # type: ignore[assignment]
            pieces.append(total.pieces)
        n, K = len(pieces), max(len(row) for row in pieces)
        knots, table = np.full((n, K - 1), np.inf), np.zeros((n, K, 3))
        for i, row in enumerate(pieces):
            knots[i, : len(row) - 1] = [piece[1] for piece in row[:-1]]
            table[i, : len(row)] = [piece[2:] for piece in row]
            table[i, len(row):] = row[-1][2:]
        found = cls(knots, table[:, :, 0].copy(), table[:, :, 1].copy(), table[:, :, 2].copy())
        return found.take(np.array([ranks[key] for key in keys]))

    def take(self, index: IntArray) -> PointLosses:
        """Return the rows of some points."""
        return PointLosses(self.knots[index], self.q[index], self.s[index], self.c[index])

    def split_kinks(self) -> tuple[PointLosses, FloatArray]:
        """Return (smooth, jumps) with h(x) = smooth(x) + Σ_k jumps_k (x − knot_k)₊, jumps (n, K−1) ≥ 0."""
        x = np.where(np.isfinite(self.knots), self.knots, 0.0)
        jumps = 2 * np.diff(self.q, axis=1) * x + np.diff(self.s, axis=1)
        size = np.abs(self.s).max(axis=1) + np.abs(self.q).max(axis=1) * (1.0 + np.abs(x).max(axis=1, initial=0.0))
        jumps = np.where(np.isfinite(self.knots) & (jumps > 1e-9 * size[:, None]), jumps, 0.0)
        s, c = self.s.copy(), self.c.copy()
        s[:, 1:] -= np.cumsum(jumps, axis=1)
        c[:, 1:] += np.cumsum(jumps * x, axis=1)
        return PointLosses(self.knots, self.q, s, c), jumps

    def at(self, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the (n,) values, derivatives and curvatures of h at x (n,)."""
        piece = (x[:, None] > self.knots).sum(axis=1)
        rows = np.arange(len(x))
        q, s = self.q[rows, piece], self.s[rows, piece]
        return (q * x + s) * x + self.c[rows, piece], 2 * q * x + s, 2 * q

    def value(self, x: FloatArray) -> FloatArray:
        """Return the (n,) values of h at x (n,)."""
        return self.at(x)[0]

    def tilted_minimum(self, u: FloatArray, a: FloatArray) -> FloatArray:
        """Return (n,) minima of h(x) + u x + ½ a x² over x ∈ R; −inf if unbounded."""
        n = len(u)
        low = np.concatenate([np.full((n, 1), -np.inf), self.knots], axis=1)
        high = np.concatenate([self.knots, np.full((n, 1), np.inf)], axis=1)
        q, s = self.q + 0.5 * a[:, None], self.s + u[:, None]
        s = np.where(np.abs(s) <= rounding(np.abs(self.s)), 0.0, s)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            inner = np.where(q > 0, np.clip(-s / (2 * q), low, high), low)
            ends = np.stack([low, high, inner])
            curve = np.where(q == 0, 0.0, q * ends * ends)
            line = np.where((s == 0) | (np.isinf(ends) & (q != 0)), 0.0, s * ends)
            value = np.min(curve + line, axis=0) + self.c
        value = np.where((low > high) | np.isposinf(low), np.inf, value)
        return np.asarray(value.min(axis=1))


@dataclass(frozen=True, eq=False)
class BranchNodeForm(Form):
    """Represent a node of branch and bound: labels fixed at some points, with codes y_i, absorbed at the others.

    min over [[1, wᵀ], [w, P]] ⪰ 0 of ½ tr P + Σ_{y≠0} H_i(y_iφ_iᵀw, φ_iᵀPφ_i) + Σ_{y=0} h_i(√(φ_iᵀPφ_i)),
    H_i the convex hull of (t, t², h_i(t)) (the moment lift), h_i the sum of the rows at point i; where labels are
    absorbed, h_i(√z) stands for its convex envelope in z, over both signs. Of k clusters w is V (r, k−1), and where
    labels are fixed h_i(⟨y_i, Vᵀφ_i⟩) stands for H_i, of margins that are the least of several h_i(min_p ⟨y_ip, Vᵀφ_i⟩)
    with a falling h_i. Dual, for D − Σ a_iφ_iφ_iᵀ ≻ 0, D = I, and u ≥ 0 where there are several:
    Σ_{y≠0} min_t[h_i(t) + Σ_p u_ip t + ½a_i t²] + Σ_{y=0} min_t[h_i(t) + ½a_i t²] − ½ vᵀ(D − Σ aφφᵀ)⁻¹v,
    v = Σ_{y≠0} u_ip y_ip φ_i. A bias within limits is a last coordinate t of w, not penalised, with t² ≤ ℓ²: D ends
    with η ≥ 0, v with −τ, and the dual pays ½ηℓ² + max τt.

    A solver returns ``u`` (n,) or (n, p), ``a`` (n,), ``w`` (r [+1],), ``z`` (n,) the values φᵀPφ, with a bias ``eta``
    () and ``tau`` (), and may return ``Y``, the lifted matrix of order r + 1 [+1], as a warm start.

    Parameters
    ----------
    codes : (n, q) or (n, p, q) float array
        −1 or +1, those of a simplex, or differences of codes with zeros where there is none; zero where the label is
        absorbed.
    target : float
        A dual value at which the node is settled.
    accuracy : float
        Absolute gap at which the solver may stop.
    table : PointLosses
        The losses by points; shared by all nodes of a problem.
    absorbed : PointLosses, optional
        Envelopes of the losses for points whose labels are absorbed; the losses themselves where they need none.
    bias : Interval
        Limits of the bias.
    """

    codes: FloatArray
    target: float = field(default=float("inf"), kw_only=True)
    accuracy: float = field(default=1e-6, kw_only=True)
    table: PointLosses = field(kw_only=True)
    absorbed: PointLosses = field(default=None, kw_only=True)  # type: ignore[assignment]  # the table where left out
    bias: Interval = field(default=NO_BIAS, kw_only=True)

    def __post_init__(self) -> None:
        if self.absorbed is None:
            object.__setattr__(self, "absorbed", self.table)
        super().__post_init__()
        if self.codes.shape[:1] != (self.n,) or self.codes.ndim not in (2, 3):
            raise DeclarationError(f"codes of a node: given shape {self.codes.shape}, expected ({self.n}, q)")
        if self.free_bias or self.decision:
            raise DeclarationError("a branch node has neither a free bias nor decision bounds, but limits of the bias")

    def variables(self) -> dict[str, Variable]:
        q, r = self.codes.shape[-1], self.features.rank + int(self.bias.reach > 0)
        return {"u": Variable(self.codes.shape[:-1]), "a": Variable((self.n,)), "w": Variable((q * r,)),
                "eta": Variable((), default=0.0, least=0.0), "tau": Variable((), default=0.0),
                "z": Variable((self.n,), least=0.0), "Y": Variable((q + r, q + r), needed=False)}

    def bracket(self, answer: Mapping[str, FloatArray]) -> tuple[float, float]:
        duals = answer["u"], answer["a"], self.bias, float(answer["eta"]), float(answer["tau"])
        return node_dual(self.table, self.columns, self.codes, *duals), np.inf

    @frozen_property
    def columns(self) -> FloatArray:
        """Return the features (n, r), with a column of ones for a bias."""
        return with_bias(self.features, self.bias)

    @frozen_property
    def free(self) -> BoolArray:
        """Return which points have no label."""
        return np.asarray(~self.codes.reshape(self.n, -1).any(axis=1))


def with_bias(features: FeatureOperator, bias: Interval) -> FloatArray:
    """Return features densely, with a column of ones where there is a bias."""
    phi = np.asarray(features.toarray(), dtype=float)
    return np.column_stack([phi, np.ones(len(phi))]) if bias.reach > 0 else phi


def node_dual(table: PointLosses, phi: FloatArray, codes: FloatArray, u: FloatArray, a: FloatArray,
              bias: Interval = NO_BIAS, eta: float = 0.0, tau: float = 0.0) -> float:
    """Return the dual objective of a node, less a margin for the rounding of its evaluation.

    Parameters
    ----------
    phi : (n, r [+1]) float array
        With a last column of ones for a bias.
    u, codes : (n,) and (n, q), or (n, p) and (n, p, q) float arrays
        Of labels, zero where there is none. Of more than two clusters squares of margins are at most |Vᵀφ|²: a ≥ 0.
    eta, tau : float
        Multipliers of its square and of the bias itself.
    """
    u = np.where(codes.any(axis=-1), u, 0.0)
    gains = table.tilted_minimum(u.reshape(len(a), -1).sum(axis=1), a)
    total, price = float(gains.sum()), 0.0
    if not np.isfinite(total) or eta < 0 or (codes.shape[-1] > 1 and np.any(a < 0)) or (u.ndim > 1 and np.any(u < 0)):
        return float("-inf")
    v = phi.T @ (u[..., None] * codes).reshape(len(a), -1, codes.shape[-1]).sum(axis=1)
    if bias.reach > 0:
        v[-1] -= tau
        price = 0.5 * eta * bias.reach**2 + (float(bias.support(np.array([tau]))) if tau else 0.0)
        if eta > 0:
            unit = np.append(np.ones(len(v) - 1), np.sqrt(eta))
            phi, v = phi / unit, v / unit[:, None]
        elif np.any(v[-1]) or np.any(a):
            return float("-inf")
        else:
            phi, v = phi[:, :-1], v[:-1]
    slack = np.eye(phi.shape[1]) - (phi.T * a) @ phi
    try:
        L = np.linalg.cholesky(slack)
    except np.linalg.LinAlgError:
        return float("-inf")
    if np.min(np.diag(L), initial=1.0) < 1e-6 * np.max(np.diag(L), initial=1.0):
        return float("-inf")
    half = np.linalg.solve(L, v)
    quadratic = 0.5 * float(np.sum(half**2))
    return total - quadratic - price - 1e-11 * (float(np.abs(gains).sum()) + quadratic + abs(price))
