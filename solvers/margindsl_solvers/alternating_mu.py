"""The solver `alternating-mu`: the closed-form masses of ODMSSC in turn with the problem at fixed masses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from margindsl.contract import Budget, Offer, RawSolution, Refusal, integers, numbers
from margindsl.program.forms import Form, SaddleForm
from margindsl_solvers.engines.course import EngineSolver, Solve
from margindsl_solvers.engines.saddle.alternation import AlternationRun
from margindsl_solvers.engines.saddle.model import SaddleModel
from margindsl_solvers.engines.saddle.run import refuse_unconjugated, starting_masses

RESERVE = 1e-6  # mass spread over all labellings at a warm start


@dataclass(frozen=True, kw_only=True)
class AlternatingMu(EngineSolver):
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
    """

    name: ClassVar[str] = "alternating-mu"
    summary: ClassVar[str] = "closed-form masses in turn with Newton, for the minimax master (ODMSSC)"
    solves: ClassVar[str] = "minimax masters"

    max_iter: int = integers(1).option(2000)
    exponent: float = numbers(most=2.0).option(1.0)
    dense_limit: int = integers(0).option(4000)

    def offer(self, form: Form) -> Offer | Refusal:
        if form.is_biased:  # type: ignore[attr-defined]
            return Refusal("the closed form of the masses holds without a bias: with one the losses depend on the "
                           "masses themselves", "use solver='mirror-prox' or 'clarabel'")
        refusal = refuse_unconjugated(self.name, form)
        return Offer("closed-form masses, semismooth Newton at fixed masses") if refusal is None else refusal

    def solve_saddle(self, form: SaddleForm, budget: Budget, start: RawSolution | None) -> RawSolution:
        """Solve a saddle form."""
        model = SaddleModel(form)
        return AlternationRun(model, budget, starting_masses(model, start, RESERVE), self.exponent,
                              self.dense_limit).solve()

    takes: ClassVar[Mapping[type[Form], Solve]] = {SaddleForm: solve_saddle}
