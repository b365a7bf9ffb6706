"""Solvers behind CVXPY: five by names of their own, and any other that CVXPY finds installed as ``cvxpy:NAME``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from margindsl.contract import Domain, integers
from margindsl_solvers.engines.conic import modelling as cp
from margindsl_solvers.engines.conic.bridge import ConicSolver


class Clarabel(ConicSolver):
    """Solve with Clarabel: accurate, for semidefinite cones of order up to about a hundred."""

    name: ClassVar[str] = "clarabel"
    summary: ClassVar[str] = "interior point, all cones, accurate; semidefinite forms of small order"
    requires: ClassVar[tuple[str, ...]] = ("clarabel", "cvxpy")
    engine = "CLARABEL"


@dataclass(frozen=True, kw_only=True, init=False)
class SCS(ConicSolver):
    """Solve with SCS: moderate accuracy, for semidefinite cones of order up to a few hundred."""

    name: ClassVar[str] = "scs"
    summary: ClassVar[str] = "operator splitting, all cones, moderate accuracy; larger semidefinite forms"
    requires: ClassVar[tuple[str, ...]] = ("scs", "cvxpy")
    engine: ClassVar[str] = "SCS"

    max_psd_order: int = integers(0).option(260)


class ECOS(ConicSolver):
    """Solve with ECOS: problems without semidefinite cones; it has no time limit of its own."""

    name: ClassVar[str] = "ecos"
    summary: ClassVar[str] = "interior point, second-order and exponential cones; no time limit of its own"
    requires: ClassVar[tuple[str, ...]] = ("ecos", "cvxpy")
    engine = "ECOS"


class OSQP(ConicSolver):
    """Solve with OSQP: fixed-label problems with piecewise linear-quadratic losses."""

    name: ClassVar[str] = "osqp"
    summary: ClassVar[str] = "operator splitting for quadratic programs; fixed labels only"
    requires: ClassVar[tuple[str, ...]] = ("osqp", "cvxpy")
    engine = "OSQP"


class HiGHS(ConicSolver):
    """Solve with HiGHS: fixed-label problems with piecewise linear-quadratic losses, by active sets."""

    name: ClassVar[str] = "highs"
    summary: ClassVar[str] = "active set for quadratic programs; fixed labels only"
    requires: ClassVar[tuple[str, ...]] = ("highspy", "cvxpy")
    engine = "HIGHS"


def _read_engine(value: Any) -> str | None:
    if value is not None and str(value).upper() not in cp.installed_solvers():
        raise ValueError
    return None if value is None else str(value).upper()


@dataclass(frozen=True, kw_only=True, init=False)
class CVXPY(ConicSolver):
    """Solve with a solver that CVXPY finds installed: ``md.Solver("cvxpy:PIQP")``, or the one it chooses itself.

    Parameters
    ----------
    engine : str or None
        Its name in CVXPY; None leaves the choice to CVXPY.
    """

    name: ClassVar[str] = "cvxpy"
    summary: ClassVar[str] = "whatever CVXPY chooses, or by cvxpy:NAME any solver that it finds installed"
    requires: ClassVar[tuple[str, ...]] = ("cvxpy",)

    engine: str | None = Domain(  # type: ignore[misc]
        "the name of a solver in cvxpy.installed_solvers() or None", _read_engine).option(None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.engine is not None:
            object.__setattr__(self, "name", f"cvxpy:{self.engine}")
