"""The named functions losses are built from."""

from __future__ import annotations

from margindsl.calculus.plq import PLQ
from margindsl.calculus.protocol import number
from margindsl.errors import CalculusError


def pos() -> PLQ:
    """Return x ↦ max(x, 0)."""
    return PLQ([0.0], [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]])


def absolute() -> PLQ:
    """Return x ↦ |x|."""
    return PLQ([0.0], [[0.0, -1.0, 0.0], [0.0, 1.0, 0.0]])


def square() -> PLQ:
    """Return x ↦ x²."""
    return PLQ([], [[1.0, 0.0, 0.0]])


def huber(threshold: float = 1.0) -> PLQ:
    """Return Huber's function, x² for |x| ≤ M and 2 M |x| − M² beyond, as in cvxpy.

    Parameters
    ----------
    threshold : float, > 0
        The threshold M.

    References
    ----------
    P. J. Huber, Robust estimation of a location parameter, 1964; twice the function printed there.
    """
    m = number(threshold, "threshold")
    if m <= 0:
        raise CalculusError(f"the threshold of a Huber function must be positive; given {m:g}")
    return PLQ([-m, m], [[0.0, -2 * m, -m * m], [1.0, 0.0, 0.0], [0.0, 2 * m, -m * m]])
