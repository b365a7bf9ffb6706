"""Sweeps in random order with shrinking, block by block, until the gap closes."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from margindsl.calculus import PLQ
from margindsl.contract import Budget, Status
from margindsl.features.points import row_blocks
from margindsl.typing import BoolArray, FloatArray, IntArray
from margindsl_solvers.engines.course import Course
from margindsl_solvers.engines.rows.envelopes import Pair
from margindsl_solvers.engines.rows.plane import PlaneRows

RARE = 1.25  # the gap is looked at after sweeps k, RARE k, RARE² k, …


@dataclass(frozen=True, eq=False)
class Tables:
    """Represent the derivatives of piecewise quadratic functions, packed for the compiled sweep."""

    first: IntArray  # (T+1,)
    knots: FloatArray
    coefficients: FloatArray  # (2q, s)

    @classmethod
    def build(cls, losses: list[PLQ]) -> Tables:
        """Pack the breakpoints and pieces of some functions, one after the other."""
        first = np.concatenate([[0], np.cumsum([len(loss.breakpoints) for loss in losses])])
        table = np.concatenate([loss.coefficients[:, :2] * [2.0, 1.0] for loss in losses])
        return cls(first.astype(np.int64), np.concatenate([loss.breakpoints for loss in losses]), table)


class CoordinateRun(Course[Pair]):
    """Sweep over the rows in random order until the gap closes.

    Parameters
    ----------
    u : float array
        A dual point inside the domains of the conjugates.
    rng : numpy Generator
        Orders the coordinates.
    """

    stage, counted = "dual-coordinate", "sweeps"

    def __init__(self, model: PlaneRows, budget: Budget, u: FloatArray, shrinking: bool,
                 rng: np.random.Generator) -> None:
        super().__init__(budget)
        self.model, self.u, self.shrinking, self.rng = model, u, shrinking, rng
        self.keep: BoolArray = np.ones(model.form.losses.rows, dtype=bool)
        self.look, self.idle = 1, 0

    def init(self) -> None:
        self._judge()

    def step(self) -> Status | None:
        threshold = np.inf
        while True:
            threshold = self._epoch(threshold)
            self.iterations += 1
            settled = threshold <= 1e-14 * self._reach
            if self.iterations >= self.look or settled or self.spent():
                break
        self.look = max(self.iterations + 1, int(RARE * self.iterations))
        self._judge()
        self.keep[:] = True
        self.idle = self.idle + 1 if settled else 0
        return Status.INACCURATE if self.idle >= 3 else None

    def variables(self) -> dict[str, FloatArray]:
        assert self.best is not None
        return self.model.variables(self.best)

    def _judge(self) -> None:
        """Judge the pair (w(u), u), with w recomputed so that rounding does not pile up in it."""
        self.w = np.ascontiguousarray(self.model.form.dual_direction(self.u))
        self.certify(self.model.judge(self.w, self.model.normalised(-self.u, self.model.loss_rows)))

    # -- sweeps -------------------------------------------------------------------------------------

    def _epoch(self, threshold: float) -> float:
        """Visit every active row once; return the largest change of an argument."""
        losses, tables, worst = self.model.form.losses, self._tables, 0.0
        limit = threshold if self.shrinking else np.inf
        for rows, place, Phi in self._blocks():
            if self.budget.expired:
                break
            order = rows[self.rng.permutation(len(rows))]
            worst = max(worst, self._sweep(
                order, Phi, place, self._slopes, losses.shifts, losses.weights, self._norms, self._terms, tables.first,
                tables.knots, tables.coefficients, self.u, self.w, limit, self.keep))
        return worst

    def _blocks(self) -> Iterator[tuple[IntArray, IntArray, FloatArray]]:
        """Yield (active rows, the row of Phi for every row, Phi) of blocks of points, in random order."""
        if self._whole is not None:
            yield np.flatnonzero(self.keep), self._points, self._whole
            return
        features = self.model.form.features
        place = np.zeros(len(self._points), dtype=np.int64)
        for k in self.rng.permutation(len(self._parts)):
            rows = self._parts[k][self.keep[self._parts[k]]]
            if not len(rows):
                continue
            used, position = np.unique(self._points[rows], return_inverse=True)
            place[rows] = position
            # A contiguous run of points is read as a slice: no index, one read.
            whole = used[-1] - used[0] + 1 == len(used)
            run: Any = slice(int(used[0]), int(used[-1]) + 1) if whole else used
            yield rows, place, np.ascontiguousarray(features.rows(run), dtype=float)

    @cached_property
    def _parts(self) -> list[IntArray]:
        """Return the rows of each block of points."""
        form = self.model.form
        order = np.argsort(self._points, kind="stable")
        ends = [block.start for block in row_blocks(form.n, form.features.rank)][1:]
        return np.split(order, np.searchsorted(self._points[order], ends))

    @cached_property
    def _whole(self) -> FloatArray | None:
        """Return all features where they are in memory or fit in one block."""
        features = self.model.form.features
        if features.is_dense:
            return np.ascontiguousarray(features.matrix, dtype=float)
        if len(row_blocks(features.n, features.rank)) <= 1:
            return np.ascontiguousarray(features.toarray(), dtype=float)
        return None

    @cached_property
    def _sweep(self) -> Callable[..., float]:
        kernel = importlib.import_module("margindsl_solvers.engines.coordinate.kernel")
        return kernel.sweep

    @cached_property
    def _tables(self) -> Tables:
        losses = [term.loss for term in self.model.form.losses.terms]
        return Tables.build([loss for loss in losses if isinstance(loss, PLQ)])

    @cached_property
    def _points(self) -> IntArray:
        return np.ascontiguousarray(self.model.form.losses.points, dtype=np.int64)

    @cached_property
    def _slopes(self) -> FloatArray:
        return self.model.form.losses.slopes * self.model.signs[self._points]

    @cached_property
    def _norms(self) -> FloatArray:
        return np.ascontiguousarray(self.model.form.features.row_norms()[self._points], dtype=float)

    @cached_property
    def _terms(self) -> IntArray:
        terms = self.model.form.losses.terms
        return np.repeat(np.arange(len(terms)), [term.rows for term in terms]).astype(np.int64)

    @cached_property
    def _reach(self) -> float:
        """Return the size of arguments, in which changes are measured."""
        knots = np.abs(self._tables.knots)
        return 1.0 + float(np.abs(self.model.form.losses.shifts).max(initial=0.0)) + float(knots.max(initial=0.0))
