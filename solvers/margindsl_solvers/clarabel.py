"""Clarabel: an interior-point method for quadratic, second-order, exponential and semidefinite cones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from margindsl.contract import integers
from margindsl_solvers.engines.conic.bridge import SemidefiniteSolver


@dataclass(frozen=True, kw_only=True)
class Clarabel(SemidefiniteSolver):
    """Solve with Clarabel: accurate, for semidefinite cones of order up to about a hundred.

    Parameters
    ----------
    max_psd_order : int
        Largest order of a semidefinite cone accepted; one iteration costs O(order⁶).
    """

    name: ClassVar[str] = "clarabel"
    summary: ClassVar[str] = "interior point, all cones, accurate; semidefinite forms of small order"
    requires: ClassVar[tuple[str, ...]] = ("clarabel", "cvxpy")
    engine: ClassVar[str] = "CLARABEL"
    elsewhere: ClassVar[Mapping[str, str]] = {"tol_gap_abs": "tol", "tol_gap_rel": "tol", "tol_feas": "tol"}

    max_psd_order: int = integers(0).option(100)

    def settings(self, tol: float, max_iter: int | None, seconds: float) -> dict[str, Any]:
        tight = max(1e-2 * tol, 1e-9)
        options: dict[str, Any] = {"tol_gap_abs": tight, "tol_gap_rel": tight, "tol_feas": tight}
        if max_iter is not None:
            options["max_iter"] = max_iter
        if math.isfinite(seconds):
            options["time_limit"] = seconds
        return options

    def words(self, outcome: Any) -> str:
        return str(outcome.status)
