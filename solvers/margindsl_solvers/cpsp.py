"""The solver `cpsp`: its options, and a session that keeps basis vectors and cuts across labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from margindsl.contract import Budget, Offer, RawSolution, Refusal, choices, integers, numbers
from margindsl.program.forms import FixedLabelForm, Form
from margindsl.typing import FloatArray
from margindsl_solvers.engines.course import EngineSession, RowsSolver, Solve
from margindsl_solvers.engines.cuts.basis import Basis, PreImages, expansion
from margindsl_solvers.engines.cuts.pursuit import PursuitRun
from margindsl_solvers.engines.rows.plane import PlaneRows


@dataclass
class CPSPSession(EngineSession):
    """Solve forms one after the other; basis vectors found for earlier labels are kept (SKMMC, section 3.3)."""

    basis: Basis | None = None
    w: FloatArray = field(default_factory=lambda: np.zeros(0))
    points: list[FloatArray] = field(default_factory=list)

    def solve_plane(self, form: FixedLabelForm, budget: Budget, start: RawSolution | None) -> RawSolution:
        """Solve a fixed-label form."""
        options, rows = self.solver, PlaneRows(form)
        if (refusal := rows.refusal()) is not None:
            return refusal
        x, _, warm = rows.start(start)
        most = options.max_basis or form.features.rank
        basis = self._kept_basis(form, most)
        # Without a start nothing says that the last labels were near these.
        points = [p for p in self.points if warm and len(p) == basis.size * form.width + rows.border]
        run = PursuitRun(rows, budget, basis, x, points, options.eta, most, options.per_round)
        answer = run.solve()
        self.basis, self.points = run.basis, run.bundle.kept(options.keep)
        self.w = np.asarray(answer.get("w", self.w))
        return answer

    def _kept_basis(self, form: FixedLabelForm, cap: int) -> Basis:
        if self.basis is None or self.basis.features is not form.features:
            self.points = []
            return (PreImages if self.solver.basis == "preimages" else Basis).empty(form.features)
        if self.basis.size < min(cap, form.features.rank) or self.basis.size == form.features.rank:
            return self.basis
        # A full basis has no room for other labels: the half that carried the last hyperplane stays.
        self.points = []
        return self.basis.shrunk(form.unpack(self.w), cap // 2)


@dataclass(frozen=True, kw_only=True)
class CPSP(RowsSolver):
    """Solve fixed-label problems by cutting planes in the span of few basis vectors.

    The hyperplane is sought as w = Σ_j β_j φ(b_j) over few points b_j of the data. Inside their span the
    one-slack cutting plane works on n × p numbers. Its dual point, judged on the whole problem, says what
    the span misses: gap = gap in the span + ½‖(I − P)Ψ‖², Ψ = Σ_i u_i y_i φ_i − Σ_j τ_j σ_j; the points
    that approximate (I − P)Ψ best enter the basis, until the gap is closed or the basis is full. Time and
    memory are linear in n; the answer carries β and b as variables ``coefficients`` and ``basis``.

    The papers find each b anywhere in space by fixed-point steps for the Gaussian kernel (SKMMC Eq. 44-49,
    Algorithm 4): ``basis="preimages"``, which the answer carries under that name. Points of the data serve every
    kernel, and one product finds those of a round. ε and J_o (Eq. 14, 15, 42) are `margindsl.FirstCut.epsilon`.

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
        Least number of basis vectors added at once, N of Algorithm 4; the paper takes 1.
    basis : {"points", "preimages"}
        Where basis vectors are looked for.
    max_iter : int
        Cap on cuts, unless the budget sets one.
    keep : int
        Cuts recomputed at the next labels of a session.

    References
    ----------
    J. Wu, X.-L. Zhang (2012). Sparse kernel maximum margin clustering, Eq. 24-30, 43-49 and Algorithm 3.
    T. Joachims, C.-N. Yu (2009). Sparse kernel SVMs via cutting-plane training.
    """

    name: ClassVar[str] = "cpsp"
    summary: ClassVar[str] = "one-slack cutting planes in the span of few basis vectors"
    takes: ClassVar[Mapping[type[Form], Solve]] = {FixedLabelForm: CPSPSession.solve_plane}

    eta: float | None = numbers().or_none().option(None)
    max_basis: int | None = integers(1).or_none().option(None)
    per_round: int = integers(1).option(8)
    basis: str = choices("points", "preimages").option("points")
    max_iter: int = integers(1).option(5000)
    keep: int = integers(0).option(20)

    def offer(self, form: Form) -> Offer | Refusal:
        if self.basis == "preimages":
            try:
                expansion(form.features, np.zeros((form.features.rank, 1)))
            except TypeError as other:
                return Refusal(f"the steps to pre-images (SKMMC Eq. 46) are for a Gaussian kernel, not for {other}",
                               "use kernel=md.RBF(width), or basis='points'")
        return Offer("hyperplanes spanned by few points; no n x n matrix")

    def keeper(self, form: Form) -> CPSPSession:
        return CPSPSession(self)
