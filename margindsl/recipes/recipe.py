"""What is known of a recipe beside its declaration: its paper, and what its arguments mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

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


__all__ = ["Traits", "recipe", "traits_of"]
