"""The solver `alternating-mu`: the closed-form masses of ODMSSC in turn with the problem at fixed masses."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from margindsl.accuracy import relative_gap
from margindsl.contract import Budget, Offer, RawSolution, Refusal, Session, Solver, Status, integers, numbers
from margindsl.errors import CalculusError
from margindsl.program.forms import FixedLabelForm, Form, SaddleForm
from margindsl.typing import FloatArray, IntArray
from margindsl_solvers.engines.limits import TOLERANCE, cap, tolerance
from margindsl_solvers.engines.rows.augmented import Run
from margindsl_solvers.engines.rows.model import RowModel
from margindsl_solvers.engines.saddle.model import SaddleModel

DEAD = 1e-12  # mass below which a labelling is left out of the inner problem
STILL, PATIENCE = 1e-3, 50  # of the tolerance: a fall of the value this small, so many times, is a standstill
PENALTY, GROWTH = 1.0, 10.0
_MESSAGES = {
    Status.OPTIMAL: "relative gap {error:.1e} after {count} changes of the masses",
    Status.INACCURATE: "the alternation stands still at a relative gap of {error:.1e} after {count} changes",
    Status.ITERATION_LIMIT: "{count} changes of the masses done, relative gap {error:.1e}; raise max_iter",
    Status.TIME_LIMIT: "time is up after {count} changes of the masses, relative gap {error:.1e}",
    Status.INTERRUPTED: "the callback stopped the solve after {count} changes, relative gap {error:.1e}",
}


@dataclass(frozen=True, kw_only=True)
class AlternatingMu(Solver):
    """Solve the minimax master problem by alternating between the masses and everything else.

    At fixed μ the problem is min ½‖w̃‖² + Σ cρ(⟨w̃, φ̃_i⟩), φ̃_i = [√μ_k y_k,i φ_i]_k, solved to accuracy by
    semismooth Newton (ODMSSC Eq. 6; its projected gradient, Eq. 8, would do the same more slowly); at fixed
    w_k = √μ_k w̃_k the best masses are μ_k = ‖w_k‖/Σ‖w_k‖ (Eq. 10). Each turn lowers the value; a labelling
    whose mass has vanished cannot return, and the last digits come slowly. Shared scalars are welcome.

    Parameters
    ----------
    tol : float or None
        Relative gap to reach; None takes the budget's.
    max_iter : int
        Cap on changes of the masses, unless the budget sets one.
    exponent : float
        μ_k ∝ μ_k ‖v_k‖^exponent, v_k = w_k/μ_k; 1 is the closed form. At most 2.
    dense_limit : int
        Largest dense system of the inner problem; above it conjugate gradients are used.

    References
    ----------
    T. Zhang, M. Li, H. Jin (2022). Optimal margin distribution machine for semi-supervised clustering, Eq. 6-10.

    Examples
    --------
    >>> AlternatingMu(tol=1e-4).name
    'alternating-mu'
    """

    name: ClassVar[str] = "alternating-mu"
    summary: ClassVar[str] = "closed-form masses in turn with Newton, for the minimax master (ODMSSC)"
    requires: ClassVar[tuple[str, ...]] = ("scipy",)
    warm_starts: ClassVar[bool] = True

    tol: float | None = TOLERANCE.option(None)
    max_iter: int = integers(1).option(2000)
    exponent: float = numbers(most=2.0).option(1.0)
    dense_limit: int = integers(0).option(4000)

    def accepts(self, form: Form) -> Offer | Refusal:
        """Return an `Offer` for saddle forms with finite losses that know their conjugate."""
        if not isinstance(form, SaddleForm):
            return Refusal(f"alternating-mu solves minimax masters, not a {type(form).__name__}")
        if form.is_biased:
            return Refusal("the closed form of the masses holds without a bias: with one the losses depend on the "
                           "masses themselves", "use solver='mirror-prox' or 'clarabel'")
        for term in form.losses.terms:
            if term.loss.domain != (-np.inf, np.inf):
                return Refusal("alternating-mu needs finite losses", "use solver='clarabel'")
            try:
                term.loss.conjugate()
            except CalculusError as error:
                return Refusal(f"alternating-mu needs the conjugate of every loss: {error}", "use solver='clarabel'")
        return Offer("closed-form masses, semismooth Newton at fixed masses")

    def open(self, form: Form) -> Session:
        """Return a session; nothing is compiled beyond the first solve."""
        return AlternatingMuSession(self)


@dataclass(frozen=True)
class AlternatingMuSession(Session):
    """Solve forms one after the other.

    Parameters
    ----------
    solver : AlternatingMu
        The options.
    """

    solver: AlternatingMu

    def solve(self, form: Form, budget: Budget, start: RawSolution | None = None) -> RawSolution:
        """Solve a saddle form; see `margindsl.contract.Session.solve`."""
        assert isinstance(form, SaddleForm)
        begin, options = time.monotonic(), self.solver
        model = SaddleModel(form)
        course = Alternation(model, budget, options, starting_masses(model, start))
        compiled = time.monotonic()
        status = course.run()
        seconds = {"compile": compiled - begin, "solve": time.monotonic() - compiled}
        if course.best is None:
            return RawSolution(status, message=course.words or "no point was found", seconds=seconds)
        message = _MESSAGES[status].format(error=course.best.error, count=course.iterations)
        return RawSolution(status, course.variables(course.best), message, course.best.primal, course.iterations,
                           seconds, tuple(course.trace))


def starting_masses(model: SaddleModel, start: RawSolution | None) -> FloatArray:
    """Return uniform masses, or those of a start for the beginning of the working set, mixed with them."""
    mu = np.full(model.count, 1.0 / model.count)
    given = None if start is None else start.get("mu")
    if given is None or len(given) > model.form.count or not np.all(np.isfinite(given)) or not np.sum(given) > 0:
        return mu
    old = model.merge(np.maximum(given, 0.0))
    unseen = 1.0 - len(np.unique(model.group[:len(given)])) / model.count
    share = 1e-6 + 0.1 * unseen
    return (1 - share) * old / old.sum() + share * mu


@dataclass(frozen=True, eq=False)
class StackedFeatures:
    """Represent the features φ̃_i = [√μ_k y_k,i φ_i]_k of the labellings with mass (ODMSSC Eq. 5).

    Parameters
    ----------
    model : SaddleModel
    active : (s,) int array
    root : (s,) float array
        √μ_k.
    """

    model: SaddleModel
    active: IntArray
    root: FloatArray

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
        if w.ndim == 2:
            return np.stack([self.apply(column) for column in w.T], axis=1)
        return self.model.margins(self.weights(w))

    def adjoint(self, R: FloatArray) -> FloatArray:
        """Return Φ̃ᵀR for R (n,) or (n, p)."""
        if R.ndim == 2:
            columns = [self.adjoint(column) for column in R.T]
            return np.stack(columns, axis=1) if columns else np.zeros((self.rank, 0))
        return (self.root[:, None] * self.model.adjoint(R, self.active)).ravel()

    def rows(self, index: IntArray) -> FloatArray:
        """Return the rows φ̃_i of some points."""
        signs = self.model.labels[self.model.coordinates(self.active)][:, index].T * np.repeat(
            self.root, self.model.width)
        phi = self.model.form.features.rows(index)
        return (signs[:, :, None] * phi[:, None, :]).reshape(len(index), self.rank)

    def gram(self, weights: FloatArray | None = None) -> FloatArray:
        """Return Φ̃ᵀ diag(weights) Φ̃ for non-negative weights."""
        out, width = np.zeros((self.rank, self.rank)), max(2**22 // max(self.rank, 1), 1)
        for begin in range(0, self.n, width):
            index = np.arange(begin, min(begin + width, self.n))
            block = self.rows(index)
            if weights is not None:
                block *= np.sqrt(weights[index])[:, None]
            out += block.T @ block
        return out

    def weights(self, w: FloatArray) -> FloatArray:
        """Return the (T, q r) rows w_k = √μ_k w̃_k."""
        W = np.zeros((self.model.count, self.model.order))
        W[self.active] = self.root[:, None] * w.reshape(len(self.active), -1)
        return W


@dataclass(frozen=True, eq=False)
class Turn:
    """Represent one turn: masses, weights w_k, scalars, scaled duals, and what they prove.

    Parameters
    ----------
    mu : (T,) float array
    W : (T, r) float array
    scalars : (S,) float array
    x : (m,) float array
        −u/c.
    norms : (T,) float array
        ‖v_k‖² of the duals.
    primal, dual, residual : float
        Values of both problems, and the violation of Σ b u = q.
    """

    mu: FloatArray
    W: FloatArray
    scalars: FloatArray
    x: FloatArray
    norms: FloatArray
    primal: float
    dual: float
    residual: float
    floor: float = 0.0

    @property
    def error(self) -> float:
        """Return the relative gap, or the relative residual if it is larger."""
        gap = max(self.primal - self.dual, 0.0)
        return max(relative_gap(self.primal, self.primal - gap, 0.0, self.floor), self.residual)


@dataclass(eq=False)
class Alternation:
    """Carry the state of one solve.

    Parameters
    ----------
    model : SaddleModel
    budget : Budget
    options : AlternatingMu
    mu : (T,) float array
    """

    model: SaddleModel
    budget: Budget
    options: AlternatingMu
    mu: FloatArray
    iterations: int = 0
    words: str = ""
    best: Turn | None = None
    trace: list[tuple[float, float, float]] = field(default_factory=list)
    begin: float = field(default_factory=time.monotonic)

    def run(self) -> Status:
        """Alternate until the gap is closed, the value stands still or a limit is met."""
        tol = tolerance(self.options, self.budget)
        last, still = np.inf, 0
        while True:
            turn = self._turn(max(STILL * tol, 1e-12))
            if turn is None:
                return Status.UNBOUNDED
            still = still + 1 if last - turn.primal <= STILL * tol * abs(turn.primal) else 0
            last = min(last, turn.primal)
            if self.best is None or turn.error < self.best.error:
                self.best = turn
            self.trace.append((time.monotonic() - self.begin, turn.primal, turn.dual))
            status = self._stop(tol, still)
            if status is not None:
                return status
            self.mu = self._masses(turn)
            self.iterations += 1

    def _stop(self, tol: float, still: int) -> Status | None:
        assert self.best is not None
        if self.best.error <= tol:
            return Status.OPTIMAL
        if self.budget.expired:
            return Status.TIME_LIMIT
        if self.iterations >= cap(self.options, self.budget):
            return Status.ITERATION_LIMIT
        if still >= PATIENCE:
            return Status.INACCURATE
        if self.budget.report("alternating masses", self.iterations, self.best.primal, self.best.dual):
            return Status.INTERRUPTED
        return None

    def _turn(self, tol: float) -> Turn | None:
        """Solve at the masses held, from the duals and scalars of the last turn."""
        model, mu = self.model, np.where(self.mu > DEAD, self.mu, 0.0)
        active = np.flatnonzero(mu)
        stacked = StackedFeatures(model, active, np.sqrt(mu[active]))
        form = FixedLabelForm(stacked, model.losses, np.ones(model.form.n, dtype=int))  # type: ignore[arg-type]
        rows = RowModel(form)
        x, centre = np.zeros(rows.rank + rows.border), np.zeros(len(rows.weights))
        if self.best is not None:
            centre[rows.loss_rows] = self.best.x
            x[:rows.rank] = stacked.adjoint(model.losses.spread(-model.weights * self.best.x))
            x[rows.rank:] = self.best.scalars
        warm = GROWTH**2 if self.best is not None else 1.0
        run = Run(rows, self.budget.replace(callback=None), x, centre, PENALTY * warm, tol, 1000, GROWTH, 1e6,
                  self.options.dense_limit)
        if run.run() is Status.UNBOUNDED or run.best is None:
            self.words = "the objective falls without end along a shared scalar"
            return None
        w, _, scalars = rows.split(run.best.x)
        return self._judge(mu, stacked.weights(w), scalars, run.best.slopes[rows.loss_rows], run.best.residual)

    def _judge(self, mu: FloatArray, W: FloatArray, scalars: FloatArray, x: FloatArray, residual: float) -> Turn:
        model, losses = self.model, self.model.losses
        size = float(np.linalg.norm(W, axis=1).sum())
        primal = 0.5 * size**2 + losses.value(model.margins(W), scalars)
        u = -model.weights * x
        V = model.directions(x)
        norms = np.einsum("kr,kr->k", V, V)
        dual = -losses.conjugate_value(u) - 0.5 * float(norms.max())
        return Turn(mu, W, scalars, x, norms, primal, dual, residual, model.form.floor)

    def _masses(self, turn: Turn) -> FloatArray:
        """Return μ_k ∝ μ_k‖v_k‖^exponent, ‖w_k‖ for exponent one (ODMSSC Eq. 10)."""
        if self.options.exponent == 1.0:
            new = np.linalg.norm(turn.W, axis=1)
        else:
            new = turn.mu * turn.norms ** (0.5 * self.options.exponent)
        total = float(new.sum())
        return new / total if total > 0 else turn.mu

    def variables(self, turn: Turn) -> dict[str, FloatArray]:
        """Return what the form asks for: mu (T,), u (m,), W (q r, T), scalars (S,)."""
        model, T = self.model, self.model.form.count
        mu, W = np.zeros(T), np.zeros((model.order, T))
        mu[model.first], W[:, model.first] = turn.mu / turn.mu.sum(), turn.W.T
        return {"mu": mu, "u": -model.weights * turn.x, "W": W, "scalars": np.asarray(turn.scalars)}
