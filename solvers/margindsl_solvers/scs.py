"""SCS: a first-order splitting method for all cones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from margindsl.contract import integers
from margindsl_solvers.engines.conic.bridge import SemidefiniteSolver


@dataclass(frozen=True, kw_only=True)
class SCS(SemidefiniteSolver):
    """Solve with SCS: moderate accuracy, for semidefinite cones of order up to a few hundred.

    Parameters
    ----------
    max_psd_order : int
        Largest order of a semidefinite cone accepted; one iteration costs O(order³).
    """

    name: ClassVar[str] = "scs"
    summary: ClassVar[str] = "operator splitting, all cones, moderate accuracy; larger semidefinite forms"
    requires: ClassVar[tuple[str, ...]] = ("scs", "cvxpy")
    engine: ClassVar[str] = "SCS"
    elsewhere: ClassVar[Mapping[str, str]] = {
        "eps": "tol", "eps_abs": "tol", "eps_rel": "tol", "max_iters": "max_iter", "time_limit_secs": "time_limit"}

    max_psd_order: int = integers(0).option(260)

    def settings(self, tol: float, max_iter: int | None, seconds: float) -> dict[str, Any]:
        options: dict[str, Any] = {"eps_abs": tol, "eps_rel": tol,
                                   "max_iters": 50_000 if max_iter is None else max_iter}
        if math.isfinite(seconds):
            options["time_limit_secs"] = seconds
        return options

    def words(self, outcome: Any) -> str:
        return str(outcome["info"]["status"])
