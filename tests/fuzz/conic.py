"""A small conic modeller over Clarabel's direct interface: rows of linear expressions with squares of variables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import clarabel
import numpy as np
from scipy import sparse


@dataclass
class Rows:
    """Represent m expressions: constant + Σ coefficient · x[column] + Σ coefficient · x[column]²."""

    constant: np.ndarray
    terms: tuple[tuple[np.ndarray, np.ndarray], ...] = ()
    squares: tuple[tuple[np.ndarray, np.ndarray], ...] = ()

    def times(self, factor: Any) -> Rows:
        return Rows(self.constant * factor, tuple((c, v * factor) for c, v in self.terms),
                    tuple((c, v * factor) for c, v in self.squares))

    def plus(self, other: Rows) -> Rows:
        return Rows(self.constant + other.constant, self.terms + other.terms, self.squares + other.squares)

    def squared(self) -> Rows:
        """Return the squares of rows that are single variables."""
        (column, unit), = self.terms
        return Rows(np.zeros(len(self.constant)), (), ((column, unit**2),))


@dataclass
class Builder:
    """Collect variables and cones. Every variable stands for `unit` times itself."""

    unit: float = 1.0
    count: int = 0
    zero: list[tuple[Rows, np.ndarray | None]] = field(default_factory=list)
    positive: list[Rows] = field(default_factory=list)
    cones: list[list[Rows]] = field(default_factory=list)
    exponentials: list[tuple[Rows, Rows]] = field(default_factory=list)
    scalars: list[int] = field(default_factory=list)

    def columns(self, m: int) -> np.ndarray:
        self.count += m
        return np.arange(self.count - m, self.count)

    def new(self, m: int) -> Rows:
        return Rows(np.zeros(m), ((self.columns(m), np.full(m, self.unit)),))

    def scalar(self, number: int, m: int) -> Rows:
        return Rows(np.zeros(m), ((np.full(m, self.scalars[number]), np.full(m, self.unit)),))

    def equal(self, left: Rows, right: Rows) -> None:
        self.zero.append((left.plus(right.times(-1.0)), None))

    def at_least(self, left: Rows, right: Rows) -> None:
        self.positive.append(left.plus(right.times(-1.0)))

    def exponential(self, above: Rows, power: Rows) -> None:
        """Add above ≥ exp(power)."""
        self.exponentials.append((power, above))

    def plain(self, rows: Rows) -> Rows:
        """Return rows without squares that are at least as large as the given ones."""
        if not rows.squares:
            return rows
        m = len(rows.constant)
        z = self.new(m)
        room = z.plus(Rows(rows.constant, rows.terms).times(-1.0))  # room ≥ Σ q x²
        one = Rows(np.ones(m))
        self.cones.append([room.plus(one), room.plus(one.times(-1.0)),
                           *(Rows(np.zeros(m), ((c, 2 * np.sqrt(q)),)) for c, q in rows.squares)])
        return z


@dataclass
class Solved:
    x: np.ndarray
    z: np.ndarray
    primal: float
    dual: float
    status: str


class Program:
    """Hold ½ xᵀPx + qᵀx + constant under the cones of a builder; rows may be re-signed between solves.

    Parameters
    ----------
    builder : Builder
    objective : Rows of length one
    quadratic : (r, r) array on the first r columns, added to P
    """

    def __init__(self, builder: Builder, objective: Rows, quadratic: np.ndarray) -> None:
        N, r = builder.count, len(quadratic)
        self.q, diagonal = np.zeros(N), np.zeros(N)
        for c, v in objective.terms:
            np.add.at(self.q, c, v)
        for c, v in objective.squares:
            np.add.at(diagonal, c, 2 * v)
        self.constant = float(objective.constant.sum())
        P = np.diag(diagonal)
        P[:r, :r] += quadratic
        self.P = sparse.csc_matrix(np.triu(P))
        zero = [rows for rows, _ in builder.zero]
        blocks, m0 = [_dense(rows, N) for rows in zero], sum(len(rows.constant) for rows in zero)
        m1 = 0
        for rows in builder.positive:
            blocks.append(_dense(rows, N))
            m1 += len(rows.constant)
        self.kinds: list[Any] = [clarabel.ZeroConeT(m0)] if m0 else []
        self.kinds += [clarabel.NonnegativeConeT(m1)] if m1 else []
        for cone in builder.cones:
            parts = [_dense(rows, N) for rows in cone]
            for i in range(len(cone[0].constant)):
                blocks.append((np.vstack([A[i] for A, _ in parts]), np.array([b[i] for _, b in parts])))
                self.kinds.append(clarabel.SecondOrderConeT(len(parts)))
        for power, above in builder.exponentials:
            (A, a), (B, b) = _dense(power, N), _dense(above, N)
            for i in range(len(a)):
                blocks.append((np.vstack([A[i], np.zeros(N), B[i]]), np.array([a[i], 1.0, b[i]])))
                self.kinds.append(clarabel.ExponentialConeT())
        # Clarabel wants A x + s = b with s in the cone, the rows being s.
        self.A = sparse.csc_matrix(-np.vstack([A for A, _ in blocks]))
        self.b = np.concatenate([b for _, b in blocks])
        self.base = self.A.data.copy()

    def entries(self, rows: range, columns: range) -> list[np.ndarray]:
        """Return, for every one of the rows, the places of its entries in the given columns."""
        column = np.repeat(np.arange(self.A.shape[1]), np.diff(self.A.indptr))
        inside = (column >= columns.start) & (column < columns.stop)
        return [np.flatnonzero(inside & (self.A.indices == i)) for i in rows]

    def solve(self, tight: bool = False) -> Solved:
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.max_threads = 1
        settings.presolve_enable = False
        if tight:
            settings.tol_gap_rel = settings.tol_feas = 1e-11
            settings.tol_gap_abs = 1e-13
        found = clarabel.DefaultSolver(self.P, self.q, self.A, self.b, self.kinds, settings).solve()
        return Solved(np.array(found.x), np.array(found.z), found.obj_val + self.constant,
                      found.obj_val_dual + self.constant, str(found.status))


def _dense(rows: Rows, columns: int) -> tuple[np.ndarray, np.ndarray]:
    m = len(rows.constant)
    A = np.zeros((m, columns))
    for c, v in rows.terms:
        np.add.at(A, (np.arange(m), c), v)
    return A, np.asarray(rows.constant, dtype=float)
