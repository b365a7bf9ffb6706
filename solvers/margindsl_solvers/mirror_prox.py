"""The solver `mirror-prox`: composite mirror prox with a Newton finish, and the stochastic versions of ssODM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from margindsl.contract import choices, flags, numbers
from margindsl_solvers.engines.saddle.mirror import PROX, Method, MirrorSolver


@dataclass(frozen=True, kw_only=True)
class MirrorProx(MirrorSolver):
    """Solve the minimax master problem by composite mirror prox, finished by Newton steps.

    Entropy on the masses μ of the labellings, the exact prox of the conjugate losses on u, steps by
    backtracking on the condition of Nemirovski (2004, Eq. 3.3), restarts and a primal weight adapted at each
    of them as in PDLP (Applegate et al. 2021, Sections 3.2-3.4). Every value of the trace is a certified
    pair: the primal at W_k = β μ_k Φᵀ(y_k∘ũ), the dual at u.

    Parameters
    ----------
    tol : float or None
        Relative gap to reach; None takes the budget's.
    max_iter : int
        Cap on iterations (mirror-prox and Newton steps alike), unless the budget sets one.
    primal_weight : float or None
        Weight ω > 0 of the step in μ against that in u; None adapts it, or takes the theorem's.
    restarts : bool
        Whether to restart from the better of the last iterate and the average.
    newton_limit : int
        Largest order of a Newton system, the free rows or the rank times the labellings with mass; 0 leaves
        mirror prox alone.
    random_state : int or None
        Seed of every random choice: the order of sampled points, those of a sampled curvature, the sampled labellings.
    sampling : {"auto", "none", "progressive", "labels", "importance", "variance-reduced"}
        "progressive" solves growing samples of the points first, each the start of the next; "auto", the default,
        does so from 20,000 points. All others take all points from the start.
        "labels" is Algorithm 1 of ssODM: i uniform, j ~ μ, fixed steps for `max_iter` iterations, the average
        returned when it is best. "importance" draws i and j by the norms last seen and leaves out what needs
        no sampling. "variance-reduced" keeps a full gradient at an anchor (Alacaoglu and Malitsky 2022).
    tau : float or None
        Half-width of the box of duals of the first two; None takes one that holds the optimum.
    step_factor : float
        Factor on their step η; above one the proved bound is given up.

    References
    ----------
    T. Zhang, Z.-H. Zhou (2018). Semi-supervised optimal margin distribution machines, Algorithm 1.
    A. Nemirovski (2004). Prox-method with rate of convergence O(1/t), Eq. 3.3.
    D. Applegate et al. (2021). Practical large-scale linear programming using primal-dual hybrid gradient.
    A. Alacaoglu, Y. Malitsky (2022). Stochastic variance reduction for variational inequality methods.

    Examples
    --------
    >>> MirrorProx(tol=1e-4).name
    'mirror-prox'
    """

    name: ClassVar[str] = "mirror-prox"
    summary: ClassVar[str] = "mirror prox with Newton finish for the minimax master, certified gap"
    method: ClassVar[Method] = PROX

    primal_weight: float | None = numbers().or_none().option(None)
    restarts: bool = flags().option(True)
    sampling: str = choices("auto", "none", "progressive", "labels", "importance", "variance-reduced").option("auto")

    def _adaptive(self) -> dict[str, Any]:
        return {"weight": self.primal_weight, "restarts": self.restarts}

    def _weighted(self) -> dict[str, float]:
        return {} if self.primal_weight is None else {"weight": self.primal_weight}
