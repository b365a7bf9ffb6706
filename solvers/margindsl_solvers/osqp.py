"""OSQP: a first-order splitting method for quadratic programs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from margindsl_solvers.engines.conic.bridge import ConicSolver


@dataclass(frozen=True, kw_only=True)
class OSQP(ConicSolver):
    """Solve with OSQP: fixed-label problems with piecewise linear-quadratic losses."""

    name: ClassVar[str] = "osqp"
    summary: ClassVar[str] = "operator splitting for quadratic programs; fixed labels only"
    requires: ClassVar[tuple[str, ...]] = ("osqp", "cvxpy")
    engine: ClassVar[str] = "OSQP"
    elsewhere: ClassVar[Mapping[str, str]] = {"eps_abs": "tol", "eps_rel": "tol"}

    def settings(self, tol: float, max_iter: int | None, seconds: float) -> dict[str, Any]:
        options: dict[str, Any] = {"eps_abs": 0.1 * tol, "eps_rel": 0.1 * tol,
                                   "max_iter": 50_000 if max_iter is None else max_iter}
        if math.isfinite(seconds):
            options["time_limit"] = seconds
        return options

    def words(self, outcome: Any) -> str:
        return str(outcome.info.status)
