"""Warnings about declarations that nothing keeps from a trivial answer."""

from __future__ import annotations

import sys
import warnings

import numpy as np

from margindsl.calculus.accuracy import rounding
from margindsl.errors import TrivialityWarning
from margindsl.program.bounded_bias import sum_vanishes
from margindsl.program.losses import LossTerm
from margindsl.program.program import MarginProgram

UNBALANCED = (
    "neither a balance constraint, known labels nor cannot-links exclude the all-equal labelling, and decision values "
    "may all have one sign; add abs(md.sum(y)) <= b")
UNSIZED = ("neither cluster sizes, known labels nor cannot-links exclude a single cluster, and one may win everywhere; "
           "add md.sizes(y, at_least=m)")


def warn_if_trivial(program: MarginProgram) -> None:
    """Warn when one label for all points is allowed and may be better than w = 0."""
    if program.decision or not program.labels.admits_one or _gains_nothing(program):
        return
    said = UNBALANCED if program.clusters == 2 else UNSIZED
    warnings.warn(f"{said}, or declare the hyperplane centred and without a bias, with "
                  "equal weights of the points",
                  TrivialityWarning, stacklevel=_level_of_user())


def _gains_nothing(program: MarginProgram) -> bool:
    """Return whether one label for all points is known to be no better than w = 0, which every labelling has.

    The decision values of a hyperplane without bias over centred features have mean zero, and by Jensen's inequality
    losses of equal weights cost at least what they cost at the mean. In one of k Crammer-Singer clusters margins are
    concave in the decision values, so that their mean is at most zero: no better for losses that fall below zero.
    """
    plane = getattr(program.source, "hyperplane", None)
    if plane is None or program.free_bias or plane.bias == "penalised":
        return False
    terms = program.losses.terms
    if program.coding == "crammer-singer" and not all(map(_falls_below_zero, terms)):
        return False
    even = all(_is_even(term, program.n) for term in terms)
    return even and sum_vanishes(program.features, np.ones(program.n))


def _falls_below_zero(term: LossTerm) -> bool:
    """Return whether no row rises with its margin where that is negative."""
    slopes = term.slopes * np.asarray(term.loss.derivative(term.shifts))
    return not term.coupling.any() and bool(np.all(slopes <= 0.0))


def _is_even(term: LossTerm, n: int) -> bool:
    """Return whether rows of one argument have equal weights over all points."""
    rows = np.column_stack([term.slopes, term.shifts, term.coupling])
    group = np.zeros(term.rows, dtype=int)
    if not np.all(rows == rows[:1]):
        group = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
    for kind in range(int(group.max()) + 1):
        own = group == kind
        weights = np.bincount(term.points[own], weights=term.weights[own], minlength=n)
        if float(np.ptp(weights)) > rounding(float(weights.max()), n):
            return False
    return True


def _level_of_user() -> int:
    """Return the stack level, seen from the caller, of the first frame outside the library: where a warning belongs."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "margindsl":
        frame, level = frame.f_back, level + 1
    return level


__all__ = ["warn_if_trivial"]
