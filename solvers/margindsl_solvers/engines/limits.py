"""Where a native solver stops: its own options against the budget of a solve."""

from __future__ import annotations

from typing import Protocol

from margindsl.contract import Budget, numbers

TOLERANCE = numbers(most=1.0).or_none()


class Limited(Protocol):
    """Describe a solver with a tolerance, or None, and a cap on iterations."""

    @property
    def tol(self) -> float | None:
        """Return the relative gap to reach; None takes the budget's."""

    @property
    def max_iter(self) -> int:
        """Return the cap on iterations, unless the budget sets one."""


def tolerance(solver: Limited, budget: Budget) -> float:
    """Return the relative gap to reach."""
    return budget.tol if solver.tol is None else solver.tol


def cap(solver: Limited, budget: Budget) -> int:
    """Return the most iterations."""
    return solver.max_iter if budget.max_iter is None else budget.max_iter
