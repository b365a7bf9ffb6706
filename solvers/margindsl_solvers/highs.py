"""HiGHS: active-set and interior-point methods for linear and convex quadratic programs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from margindsl_solvers.engines.conic.bridge import ConicSolver


@dataclass(frozen=True, kw_only=True)
class HiGHS(ConicSolver):
    """Solve with HiGHS: fixed-label problems with piecewise linear-quadratic losses, by active sets."""

    name: ClassVar[str] = "highs"
    summary: ClassVar[str] = "active set for quadratic programs; fixed labels only"
    requires: ClassVar[tuple[str, ...]] = ("highspy", "cvxpy")
    engine: ClassVar[str] = "HIGHS"
    largest: ClassVar[float] = 1e12  # one of 2.5e15 in the Hessian of 30 variables ended the process, 1e13 never ended
    elsewhere: ClassVar[Mapping[str, str]] = {
        "primal_feasibility_tolerance": "tol", "dual_feasibility_tolerance": "tol",
        "simplex_iteration_limit": "max_iter", "qp_iteration_limit": "max_iter", "ipm_iteration_limit": "max_iter",
        "output_flag": "verbose", "log_to_console": "verbose"}

    def settings(self, tol: float, max_iter: int | None, seconds: float) -> dict[str, Any]:
        tight = min(max(1e-2 * tol, 1e-10), 1e-6)
        options: dict[str, Any] = {"primal_feasibility_tolerance": tight, "dual_feasibility_tolerance": tight,
                                   "output_flag": bool(self.verbose)}
        options |= {"qp_iteration_limit": CYCLES} if max_iter is None else dict.fromkeys(_ITERATION_LIMITS, max_iter)
        if math.isfinite(seconds):
            options["time_limit"] = seconds
        return options

    def words(self, outcome: Any) -> str:
        return str(outcome["model_status"])


CYCLES = 100_000  # changes of its active set, of which 9 points took a few hundred and then went round without an end
_ITERATION_LIMITS = ("simplex_iteration_limit", "qp_iteration_limit", "ipm_iteration_limit")
