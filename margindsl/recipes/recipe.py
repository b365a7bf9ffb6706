"""What is known of a recipe beside its declaration, and what the minimax recipes share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeVar

import margindsl as md
from margindsl.errors import DeclarationError, one_of
from margindsl.typing import SolverName

STOCHASTIC_TOL = 1e-2  # sampled gradients leave a gap of more than this, and no round of labels mends it
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class Traits:
    """Say what a recipe is, for tables, and which of its arguments mean what, for those that give them by meaning.

    Parameters
    ----------
    method : str
        The paper.
    declares : str
        What is declared, in a line.
    weight : str
        The argument that weighs the mean loss; empty for none.
    label_share : str
        The argument β of |Σ y| ≤ β n.
    label_free : bool
        Whether None for `label_share` leaves the labels free.
    decision_sum : str
        The argument l of |Σ f| ≤ l.
    """

    method: str = ""
    declares: str = ""
    weight: str = ""
    label_share: str = ""
    label_free: bool = False
    decision_sum: str = ""


def recipe(**traits: Any) -> Callable[[F], F]:
    """Attach `Traits` to a function that declares a published method; the function stays as it is.

    Parameters
    ----------
    **traits
        The fields of `Traits`.

    Examples
    --------
    >>> @recipe(method="Ours", weight="C")
    ... def ours(X, *, C=10.0): ...
    >>> traits_of(ours).weight
    'C'
    """
    known = Traits(**traits)

    def attach(function: F) -> F:
        function.traits = known  # type: ignore[attr-defined]
        return function

    return attach


def traits_of(function: Any, otherwise: Traits = Traits()) -> Traits:
    """Return what is known of a function that declares a problem."""
    return getattr(function, "traits", otherwise)


def minimax(name: str, labels: str, published: str = "sign", tol: float | None = None) -> md.Minimax:
    """Return the minimax relaxation with the published rule for labels, or "rounded": sampled directions, then search.
    """
    if one_of(f"rule for labels in {name}", labels, (published, "rounded")) == "rounded":
        return md.Minimax(tol=tol)
    return md.Minimax(rounding=published, polish="none", tol=tol)


def dual_box(weight: float | md.Parameter, points: int, theta: float | md.Parameter) -> float | None:
    """Return τ = 2c (2−θ)/(1−θ)², c = weight/points: c|ρ'(−1)|, the dual of a point whose margin is −1.

    It holds every saddle point without a margin below −1, and is far smaller than what can be proved before the
    solve; the steps of the stochastic methods grow as τ falls. For a parameter, whose value may change, there is none.
    """
    if not (isinstance(weight, Real) and isinstance(theta, Real)) or not weight > 0:
        return None
    return 2.0 * weight / points * (2.0 - theta) / (1.0 - theta) ** 2


def stochastic(owner: str, sampling: str, published: SolverName, max_iter: int | None, tau: float | None,
               step_factor: float | None, factor: float, box: float | None) -> Any:
    """Return the solver of a stochastic recipe: sampled labellings with variance reduction, or a paper's own steps,
    with the factor and the half-width of the box of duals where none are given.
    """
    if one_of(f"sampling of {owner}", sampling, ("variance-reduced", "labels")) == "labels":
        return md.Solver(published, sampling="labels", max_iter=2000 if max_iter is None else max_iter,
                         tau=box if tau is None else tau, step_factor=factor if step_factor is None else step_factor)
    if tau is not None or step_factor is not None:
        raise DeclarationError(f"{owner}(tau=, step_factor=): they belong to the steps as printed; "
                               "give sampling='labels', too")
    return md.Solver("mirror-prox", sampling="variance-reduced", tol=STOCHASTIC_TOL,
                     max_iter=20_000 if max_iter is None else max_iter)


__all__ = ["STOCHASTIC_TOL", "Traits", "dual_box", "minimax", "recipe", "stochastic", "traits_of"]
