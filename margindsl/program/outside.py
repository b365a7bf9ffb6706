"""Terms and constraints on the weights that are written in CVXPY: they belong to fits, and to no bound."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from margindsl.errors import DeclarationError
from margindsl.typing import FloatArray

HELD = 1e-5  # relative violation of a constraint beyond which weights do not keep it


@dataclass(frozen=True, eq=False)
class Outside:
    """Represent terms Σ c t(w, b) and constraints on weights w and bias b, as functions that return what CVXPY reads.

    Parameters
    ----------
    terms : tuple of (float, callable)
        c ≥ 0 and t, in units of the program.
    rules : tuple of callable
        Which return a constraint or a list of such.
    unit : float
        w of the program times this are the weights that the functions see.
    """

    terms: tuple[tuple[float, Callable[..., Any]], ...]
    rules: tuple[Callable[..., Any], ...]
    unit: float = 1.0

    def written(self, w: Any, b: Any) -> tuple[Any, list[Any]]:
        """Return the sum of the terms and the list of constraints at expressions of CVXPY."""
        total: Any = 0.0
        for factor, term in self.terms:
            total = total + factor * term(self.unit * w, b)
        rules = [rule(self.unit * w, b) for rule in self.rules]
        return total, [one for found in rules for one in (found if isinstance(found, (list, tuple)) else [found])]

    def at(self, w: FloatArray, b: float, least: float) -> tuple[float, float]:
        """Return the value of the terms at numbers, and the largest violation of a constraint, relative to ‖w‖.

        Weights next to nothing count as of a `least` norm.
        """
        cp = importlib.import_module("cvxpy")
        x, y = cp.Variable(len(w)), cp.Variable()
        total, rules = self.written(x, y)
        x.value, y.value = w, b
        worst = max((float(np.max(rule.violation())) for rule in rules), default=0.0)
        size = self.unit * max(float(np.linalg.norm(w)), least) + abs(b)
        return float(getattr(total, "value", total)), worst / size

    def checked(self, rank: int) -> bool:
        """Return whether no term is ever negative, so that what bounds a program without them bounds it with them.

        Raises
        ------
        DeclarationError
            If a term is not a convex number, or a constraint not convex, by the rules of CVXPY.
        """
        cp = importlib.import_module("cvxpy")
        total, rules = self.written(cp.Variable(rank), cp.Variable())
        if isinstance(total, cp.Expression) and not (total.size == 1 and total.is_convex()):
            raise DeclarationError(f"md.cvxpy_term: {total} is of shape {total.shape} and curvature {total.curvature}, "
                                   "expected one convex number by the rules of CVXPY")
        for rule in rules:
            if not isinstance(rule, cp.Constraint) or not rule.is_dcp():
                raise DeclarationError(f"md.cvxpy_constraint: {rule} is no convex constraint by the rules of CVXPY")
        return bool(total.is_nonneg()) if isinstance(total, cp.Expression) else total >= 0
