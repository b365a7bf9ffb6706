"""The solver `mirror-descent`: the algorithm of ODMC, and its full-gradient version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from margindsl.contract import choices
from margindsl.errors import DeclarationError
from margindsl_solvers.engines.saddle.mirror import DESCENT, FULL, Method, MirrorSolver


@dataclass(frozen=True, kw_only=True)
class MirrorDescent(MirrorSolver):
    """Solve the minimax master problem by mirror descent.

    μ ∝ μ exp(−η ∂_μφ/a), u = Π(u + η ∂_uφ/b), φ = Σ μ_k G(u, y_k). With `steps="theorem"` it is Algorithm 1 of
    ODMC: fixed steps for `max_iter` iterations, the average returned when it is best, sampled gradients
    (`sampling="labels"`: i uniform, j ~ μ) or full ones. With `steps="adaptive"`, full gradients only, the
    conjugates enter by their prox, steps by backtracking, with restarts and a Newton finish.

    Parameters
    ----------
    tol : float or None
        Relative gap to reach; None takes the budget's.
    max_iter : int
        The number T of iterations, unless the budget sets one.
    sampling : {"auto", "none", "progressive", "labels", "importance"}
        "progressive" solves growing samples of the points first; "auto", the default, does so from 20,000 points.
    steps : {"adaptive", "theorem"} or None
        None is "theorem" with sampling and "adaptive" without.
    tau : float or None
        Half-width of the box of duals; None takes one that holds the optimum.
    step_factor : float
        Factor on the theorem's step η; above one its bound is given up.
    newton_limit : int
        Largest order of a Newton system of the adaptive version; 0 leaves mirror descent alone.
    random_state : int or None
        Seed of the sampled labellings.

    References
    ----------
    T. Zhang, Z.-H. Zhou (2018). Optimal margin distribution clustering, Algorithm 1 and Theorem 1.

    Examples
    --------
    >>> MirrorDescent(sampling="labels").schedule
    'theorem'
    """

    name: ClassVar[str] = "mirror-descent"
    summary: ClassVar[str] = "mirror descent for the minimax master, sampled (ODMC) or full"
    method: ClassVar[Method] = DESCENT

    sampling: str = choices("auto", "none", "progressive", "labels", "importance").option("auto")
    steps: str | None = choices("adaptive", "theorem").or_none().option(None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sampling not in FULL and self.steps == "adaptive":
            raise DeclarationError("mirror-descent: adaptive steps need full gradients; give sampling='none' or "
                                   "steps='theorem'")

    @property
    def schedule(self) -> str:
        return self.steps or super().schedule
