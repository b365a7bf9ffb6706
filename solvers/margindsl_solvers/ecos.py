"""ECOS: an interior-point method for second-order and exponential cones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from margindsl_solvers.engines.conic.bridge import ConicSolver


@dataclass(frozen=True, kw_only=True)
class ECOS(ConicSolver):
    """Solve with ECOS: problems without semidefinite cones; it has no time limit of its own."""

    name: ClassVar[str] = "ecos"
    summary: ClassVar[str] = "interior point, second-order and exponential cones; no time limit of its own"
    requires: ClassVar[tuple[str, ...]] = ("ecos", "cvxpy")
    engine: ClassVar[str] = "ECOS"
    elsewhere: ClassVar[Mapping[str, str]] = {
        "abstol": "tol", "reltol": "tol", "feastol": "tol", "max_iters": "max_iter"}
    parameter_limit: ClassVar[int] = 600
    cones: ClassVar[frozenset[str]] = frozenset({"soc", "exp"})

    def settings(self, tol: float, max_iter: int | None, seconds: float) -> dict[str, Any]:
        tight = max(1e-2 * tol, 1e-9)
        options: dict[str, Any] = {"abstol": tight, "reltol": tight, "feastol": tight}
        if max_iter is not None:
            options["max_iters"] = max_iter
        return options

    def words(self, outcome: Any) -> str:
        return str(outcome["info"]["infostring"])
