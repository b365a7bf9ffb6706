"""Alternation between the masses of the labellings, in closed form, and everything else, by Newton steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from margindsl.calculus.accuracy import relative_gap
from margindsl.contract import Budget, Status
from margindsl.program.forms import FixedLabelForm
from margindsl.typing import FloatArray, IntArray
from margindsl_solvers.engines.course import Course
from margindsl_solvers.engines.rows.augmented import NewtonRun
from margindsl_solvers.engines.rows.plane import PlaneRows
from margindsl_solvers.engines.saddle.model import SaddleModel
from margindsl_solvers.engines.saddle.newton import newton_step

DEAD = 1e-12  # mass below which a labelling is left out of the inner problem
STILL, PATIENCE = 1e-3, 50  # of the tolerance: a fall of the value this small, so many times, is a standstill
PARTS = 1.0, 0.4, 0.16, 0.06, 0.02  # of a Newton step of the masses; tuned with `LEVELS` of mirror prox
RENEWED = 20  # times all points that changes of a Gram matrix may sum up to before it is computed anew


def signed_rows(model: SaddleModel, active: IntArray, index: IntArray) -> FloatArray:
    """Return the rows y_i ⊗ φ_i of some points, for some labellings."""
    signs = model.labels[model.coordinates(active)][:, index].T
    phi = model.form.features.rows(index)
    return np.asarray(signs[:, :, None] * phi[:, None, :]).reshape(len(index), len(active) * model.order)


class SignedGram:
    """Hold Σ_i h_i (y_i y_iᵀ) ⊗ φ_iφ_iᵀ over some labellings, and bring it to other weights by the points that differ.
    """

    def __init__(self, model: SaddleModel) -> None:
        self.model, self.active, self.gram = model, np.zeros(0, dtype=int), np.zeros((0, 0))
        self.weights, self.spent = np.zeros(model.form.n), 0

    def at(self, active: IntArray, weights: FloatArray) -> FloatArray:
        """Return it for labellings and non-negative weights (n,), not to be written to."""
        if not np.array_equal(active, self.active):
            order, position = self.model.order, np.searchsorted(self.active, active)
            if np.isin(active, self.active).all():
                kept = (position[:, None] * order + np.arange(order)).ravel()
                self.gram = self.gram[np.ix_(kept, kept)]
            else:
                self.gram = np.zeros((len(active) * order, len(active) * order))
                self.weights, self.spent = np.zeros(len(self.weights)), 0
            self.active = active
        changed = np.flatnonzero(weights != self.weights)
        self.spent += len(changed)
        if self.spent > RENEWED * len(weights):  # what rounding leaves of points that came and went
            self.gram, self.weights, changed = np.zeros_like(self.gram), np.zeros(len(weights)), np.flatnonzero(weights)
            self.spent = 0
        change, width = weights - self.weights, max(2**22 // max(len(self.gram), 1), 1)
        for sign in (1.0, -1.0):  # a square is half the work of a product
            index = changed[sign * change[changed] > 0]
            for begin in range(0, len(index), width):
                part = index[begin:begin + width]
                block = signed_rows(self.model, self.active, part) * np.sqrt(np.abs(change[part]))[:, None]
                self.gram += sign * (block.T @ block)
        self.weights = np.array(weights)
        return self.gram


@dataclass(frozen=True, eq=False)
class StackedFeatures:
    """Represent the features φ̃_i = [√μ_k y_k,i φ_i]_k of the labellings with mass (ODMSSC Eq. 5)."""

    is_dense: ClassVar[bool] = False
    skips_zeros: ClassVar[bool] = False

    model: SaddleModel
    active: IntArray  # (s,)
    root: FloatArray  # (s,), √μ_k
    signed: SignedGram  # of the labellings without their masses

    @property
    def n(self) -> int:
        """Return the number of points."""
        return self.model.form.n

    @property
    def rank(self) -> int:
        """Return the order q·r·s."""
        return len(self.active) * self.model.order

    @property
    def trace(self) -> float:
        """Return ‖Φ̃‖² = Σ_k μ_k ‖Φ‖²."""
        return float(self.root @ self.root) * float(self.model.form.features.trace)

    def apply(self, w: FloatArray) -> FloatArray:
        """Return Φ̃w for w (r·s,) or (r·s, p)."""
        columns = [self.model.margins(self.weights(column)) for column in w.reshape(self.rank, -1).T]
        return np.array(columns).T.reshape(self.n, *w.shape[1:])

    def adjoint(self, R: FloatArray) -> FloatArray:
        """Return Φ̃ᵀR for R (n,) or (n, p)."""
        columns = [(self.root[:, None] * self.model.adjoint(column, self.active)).ravel()
                   for column in R.reshape(self.n, -1).T]
        return np.array(columns).T.reshape(self.rank, *R.shape[1:])

    def rows(self, index: IntArray) -> FloatArray:
        """Return the rows φ̃_i of some points."""
        return np.asarray(signed_rows(self.model, self.active, index) * np.repeat(self.root, self.model.order))

    def gram(self, weights: FloatArray | None = None) -> FloatArray:
        """Return Φ̃ᵀ diag(weights) Φ̃ for non-negative weights."""
        root = np.repeat(self.root, self.model.order)
        gram = self.signed.at(self.active, np.ones(self.n) if weights is None else weights)
        return root[:, None] * gram * root

    def weights(self, w: FloatArray) -> FloatArray:
        """Return the (T, q r) rows w_k = √μ_k w̃_k."""
        W = np.zeros((self.model.count, self.model.order))
        W[self.active] = self.root[:, None] * w.reshape(len(self.active), -1)
        return W


@dataclass(frozen=True, eq=False)
class Turn:
    """Represent one turn: masses, weights w_k, scalars, scaled duals, and what they prove.

    `primal`, `dual`, `residual`: values of both problems, and the violation of Σ b u = q.
    """

    mu: FloatArray  # (T,)
    W: FloatArray  # (T, r)
    scalars: FloatArray  # (S,)
    x: FloatArray  # (m,), −u/c
    norms: FloatArray  # (T,), ‖v_k‖² of the duals
    primal: float
    dual: float
    residual: float
    negligible: float = 0.0

    @property
    def error(self) -> float:
        """Return the relative gap, or the relative residual if it is larger."""
        gap = max(self.primal - self.dual, 0.0)
        return max(relative_gap(self.primal, self.primal - gap, 0.0, self.negligible), self.residual)


class AlternationRun(Course[Turn]):
    """Change the masses and solve at the new ones, in turn.

    `mu`: the first masses; `exponent`: μ_k ∝ μ_k ‖v_k‖^exponent; `dense_limit`: largest dense system of the inner
    problem; `best`: whose duals and scalars the first solve starts from.
    """

    stage, counted = "alternating masses", "changes of the masses"
    turn: Turn

    def __init__(self, model: SaddleModel, budget: Budget, mu: FloatArray, exponent: float, dense_limit: int,
                 best: Turn | None = None) -> None:
        super().__init__(budget)
        self.best = best
        self.model, self.mu, self.exponent, self.dense_limit = model, mu, exponent, dense_limit
        self.last, self.still, self.signed = np.inf, 0, SignedGram(model)

    def init(self) -> Status | None:
        return self._advance()

    def step(self) -> Status | None:
        if self.still >= PATIENCE:
            return Status.INACCURATE
        self.mu = self.masses(self.turn)
        self.iterations += 1
        return self._advance()

    def descend(self) -> Status | None:
        """Change the masses by the longest part of a Newton step that lowers the value, and where none does in turn."""
        turn = self.turn
        self.iterations += 1
        point = self.model.evaluate(turn.mu, turn.x, turn.scalars)
        ahead = newton_step(self.model, point, 1.0, self.dense_limit)
        for change in () if ahead is None else np.outer(PARTS, ahead.mu - turn.mu):
            self.mu = turn.mu + change
            if self._advance() is None and self.turn.primal < turn.primal:
                return None
        self.turn = turn
        return self.step()

    def variables(self) -> dict[str, FloatArray]:
        assert self.best is not None
        turn, model, T = self.best, self.model, self.model.form.count
        mu, W = np.zeros(T), np.zeros((model.order, T))
        mu[model.first], W[:, model.first] = turn.mu / turn.mu.sum(), turn.W.T
        return {"mu": mu, "u": -model.weights * turn.x, "W": W, "scalars": np.asarray(turn.scalars)}

    def _advance(self) -> Status | None:
        """Solve at the masses held, from the duals and scalars of the last turn."""
        model, mu = self.model, np.where(self.mu > DEAD, self.mu, 0.0)
        active = np.flatnonzero(mu)
        stacked = StackedFeatures(model, active, np.sqrt(mu[active]), self.signed)
        form = FixedLabelForm(stacked, model.losses, np.ones(model.form.n, dtype=int))  # type: ignore[arg-type]
        rows = PlaneRows(form)
        x, centre = np.zeros(rows.rank + rows.border), np.zeros(len(rows.weights))
        if self.best is not None:
            centre[rows.loss_rows] = self.best.x
            x[:rows.rank] = stacked.adjoint(model.losses.scatter(-model.weights * self.best.x))
            x[rows.rank:] = self.best.scalars
        budget = self.budget.replace(callback=None, tol=max(STILL * self.tol, 1e-12), max_iter=1000)
        run = NewtonRun(rows, budget, x, centre, warm=2 * (self.best is not None), dense_limit=self.dense_limit)
        if run.run() is Status.UNBOUNDED or run.best is None:
            return Status.UNBOUNDED
        w, _, scalars = form.split(run.best.x)
        W, slopes = stacked.weights(w), run.best.slopes[rows.loss_rows]
        size = float(np.linalg.norm(W, axis=1).sum())
        primal = 0.5 * size**2 + model.losses.value(model.margins(W), scalars)
        V = model.directions(slopes)
        norms = np.einsum("kr,kr->k", V, V)
        dual = -model.losses.conjugate_value(-model.weights * slopes) - 0.5 * float(norms.max())
        turn = Turn(mu, W, scalars, slopes, norms, primal, dual, run.best.residual, model.form.negligible)
        self.still = self.still + 1 if self.last - turn.primal <= STILL * self.tol * abs(turn.primal) else 0
        self.last = min(self.last, turn.primal)
        self.turn = self.certify(turn)
        return None

    def masses(self, turn: Turn) -> FloatArray:
        """Return μ_k ∝ μ_k‖v_k‖^exponent, ‖w_k‖ for exponent one (ODMSSC Eq. 10)."""
        if self.exponent == 1.0:
            new = np.linalg.norm(turn.W, axis=1)
        else:
            new = turn.mu * turn.norms ** (0.5 * self.exponent)
        total = float(new.sum())
        return new / total if total > 0 else turn.mu
