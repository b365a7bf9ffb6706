"""The solver class: options, what it accepts, sessions that keep basis vectors and cuts across labels."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from margindsl.contract import Budget, Offer, RawSolution, Refusal, Session, Solver, Status, integers, numbers
from margindsl.program.forms import FixedLabelForm, Form
from margindsl.typing import FloatArray
from margindsl_solvers.engines.limits import TOLERANCE, cap, tolerance
from margindsl_solvers.engines.pursuit.basis import Basis
from margindsl_solvers.engines.pursuit.bundle import Limits, Pursuit
from margindsl_solvers.engines.rows.judge import is_feasible, start_point, unbounded, variables
from margindsl_solvers.engines.rows.model import RowModel, refuse_form, refuse_infinite


@dataclass(frozen=True, kw_only=True)
class CPSP(Solver):
    """Solve fixed-label problems by cutting planes in the span of few basis vectors.

    The hyperplane is sought as w = Σ_j β_j φ(b_j) over few points b_j of the data. Inside their span the
    one-slack cutting plane works on n × p numbers. Its dual point, judged on the whole problem, says what
    the span misses: gap = gap in the span + ½‖(I − P)Ψ‖², Ψ = Σ_i u_i y_i φ_i − Σ_j τ_j σ_j; the points
    that approximate (I − P)Ψ best enter the basis, until the gap is closed or the basis is full. Time and
    memory are linear in n; the answer carries β and b as variables ``coefficients`` and ``basis``.

    The papers find each b anywhere in space by fixed-point steps for the Gaussian kernel (SKMMC Eq. 46);
    points of the data need no such steps, serve every kernel, and are found by one product a round.

    Parameters
    ----------
    tol : float or None
        Relative gap to reach; None takes the budget's.
    eta : float or None
        Accept also a gap of eta times the loss at zero margins: for SKMMC's loss C ρ η, which is Eq. 13,
        for the hinge C η, Eq. 41. None asks for `tol` alone.
    max_basis : int or None
        Cap on basis vectors; the status is "inaccurate" where it leaves a gap. None: the features' rank.
    per_round : int
        Least number of basis vectors added at once.
    max_iter : int
        Cap on cuts, unless the budget sets one.
    patience : int
        Rounds without weight after which a cut is dropped.
    keep : int
        Cuts recomputed at the next labels of a session.

    References
    ----------
    J. Wu, X.-L. Zhang (2012). Sparse kernel maximum margin clustering, Eq. 24-30, 43-49 and Algorithm 3.
    T. Joachims, C.-N. Yu (2009). Sparse kernel SVMs via cutting-plane training.

    Examples
    --------
    >>> CPSP(max_basis=50).name
    'cpsp'
    """

    name: ClassVar[str] = "cpsp"
    summary: ClassVar[str] = "one-slack cutting planes in the span of few basis vectors"
    requires: ClassVar[tuple[str, ...]] = ("scipy",)
    warm_starts: ClassVar[bool] = True

    tol: float | None = TOLERANCE.option(None)
    eta: float | None = numbers().or_none().option(None)
    max_basis: int | None = integers(1).or_none().option(None)
    per_round: int = integers(1).option(8)
    max_iter: int = integers(1).option(5000)
    patience: int = integers(1).option(30)
    keep: int = integers(0).option(20)

    def accepts(self, form: Form) -> Offer | Refusal:
        """Return an `Offer` for fixed labels with finite convex losses."""
        if not isinstance(form, FixedLabelForm):
            return refuse_form(self.name, form)
        refusal = refuse_infinite(self.name, (term.loss for term in form.losses.terms))
        return Offer("hyperplanes spanned by few points; no n x n matrix") if refusal is None else refusal

    def open(self, form: Form) -> Session:
        """Return a session, which keeps the basis and the points of the last cuts."""
        return CPSPSession(self)


@dataclass
class CPSPSession(Session):
    """Solve forms one after the other; basis vectors found for earlier labels are kept (SKMMC, section 3.3).

    Parameters
    ----------
    solver : CPSP
        The options.
    """

    solver: CPSP
    basis: Basis | None = None
    w: FloatArray = field(default_factory=lambda: np.zeros(0))
    points: list[FloatArray] = field(default_factory=list)

    def solve(self, form: Form, budget: Budget, start: RawSolution | None = None) -> RawSolution:
        """Solve a fixed-label form; see `margindsl.contract.Session.solve`."""
        assert isinstance(form, FixedLabelForm)
        begin, options = time.monotonic(), self.solver
        if not is_feasible(form):
            return RawSolution(Status.INFEASIBLE, message="no weights and bias satisfy the decision bounds")
        model = RowModel(form)
        x, _, warm = start_point(model, start)
        limits = Limits(tolerance(options, budget), options.eta, cap(options, budget),
                        options.max_basis or model.rank, options.per_round, options.patience)
        basis = self._kept_basis(form, limits.max_basis)
        # Without a start nothing says that the last labels were near these.
        points = [p for p in self.points if warm and len(p) == basis.size + model.border]
        pursuit = Pursuit(model, basis, budget, limits)
        status = pursuit.run(x, points)
        self.basis, self.points = pursuit.basis, pursuit.kept(options.keep)
        return self._answer(pursuit, status, time.monotonic() - begin)

    def _kept_basis(self, form: FixedLabelForm, cap: int) -> Basis:
        if self.basis is None or self.basis.features is not form.features:
            self.points = []
            return Basis.empty(form.features)
        if self.basis.size < min(cap, form.features.rank):
            return self.basis
        if self.basis.size == form.features.rank:
            return self.basis
        # A full basis has no room for other labels: the half that carried the last hyperplane stays.
        self.points = []
        return self.basis.shrunk(self.w, cap // 2)

    def _answer(self, pursuit: Pursuit, status: Status, seconds: float) -> RawSolution:
        spent = {"compile": 0.0, "solve": seconds}
        if status is Status.UNBOUNDED:
            return unbounded(pursuit, spent)
        pair, basis = pursuit.pair(), pursuit.basis
        self.w = pair.x[: pursuit.model.rank]
        message = (f"relative gap {pair.error:.1e} with {basis.size} basis vectors after "
                   f"{pursuit.iterations} cuts")
        if status is Status.INACCURATE and basis.size == pursuit.cap < pursuit.model.rank:
            message += "; a larger max_basis closes it further"
        found = variables(pursuit.model, pair) | {
            "basis": basis.chosen.copy(), "coefficients": basis.coefficients(self.w)}
        return RawSolution(status, found, message, pair.primal, pursuit.iterations, spent, tuple(pursuit.trace))
