"""What the packages behind cvxpy call tolerances and limits, which cones they take, and in which words they end."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from margindsl_solvers.engines.conic import modelling as cp


@dataclass(frozen=True)
class Package:
    """Represent what has to be known of a package beyond what cvxpy says of it."""

    tolerances: tuple[str, ...] = ()
    share: float = 1.0  # of the tolerance: a hundredth is cheap for interior points, a tenth is asked where no gap is
    between: tuple[float, float] = (0.0, math.inf)  # which tolerances it is asked for
    caps: tuple[str, ...] = ()
    capped: Mapping[str, int] = field(default_factory=dict)  # where no cap is given
    clock: str = ""
    options: str = ""  # its options' names, or "module:class" of an object that has them
    # above so many parameter values, compiling with their values each time is faster than compiling once
    parameter_limit: int = 3000

    def settings(self, tol: float, max_iter: int | None, seconds: float) -> dict[str, Any]:
        """Return the package's own options for a tolerance, an iteration cap and a time (inf for none)."""
        least, most = self.between
        found: dict[str, Any] = dict.fromkeys(self.tolerances, min(max(self.share * tol, least), most))
        found |= self.capped if max_iter is None else dict.fromkeys(self.caps, max_iter)
        return found | ({self.clock: seconds} if self.clock and math.isfinite(seconds) else {})

    def names(self) -> list[str]:
        """Return the names of the package's own options, none where they are not known."""
        module, _, kind = self.options.partition(":")
        found = dir(getattr(importlib.import_module(module), kind)) if kind else self.options.split()
        return [name for name in found if not name.startswith("_")]


PACKAGES: Mapping[str, Package] = {
    "CLARABEL": Package(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-2, (1e-9, math.inf), ("max_iter",),
                        clock="time_limit", options="clarabel:DefaultSettings"),
    "SCS": Package(("eps_abs", "eps_rel"), caps=("max_iters",), capped={"max_iters": 50_000}, clock="time_limit_secs",
                   options="acceleration_interval acceleration_lookback adaptive_scale alpha eps eps_abs eps_infeas "
                           "eps_rel gpu linear_solver log_csv_filename max_iters normalize rho_x scale time_limit_secs "
                           "use_indirect write_data_filename"),
    "ECOS": Package(("abstol", "reltol", "feastol"), 1e-2, (1e-9, math.inf), ("max_iters",), parameter_limit=600,
                    options="abstol abstol_inacc feastol feastol_inacc max_iters reltol reltol_inacc"),
    "OSQP": Package(("eps_abs", "eps_rel"), 0.1, caps=("max_iter",), capped={"max_iter": 50_000}, clock="time_limit",
                    options="osqp.ext_builtin:OSQPSettings"),
    # An active set ends exactly: only its feasibility is asked. It changed a few hundred times on 9 points, and then
    # went round without an end.
    "HIGHS": Package(("primal_feasibility_tolerance", "dual_feasibility_tolerance"), 1e-2, (1e-10, 1e-6),
                     ("simplex_iteration_limit", "qp_iteration_limit", "ipm_iteration_limit"),
                     {"qp_iteration_limit": 100_000}, "time_limit", "highspy:HighsOptions"),
    "CVXOPT": Package(("abstol", "reltol", "feastol"), 1e-2, (1e-9, math.inf), ("max_iters",)),
    "DAQP": Package(("primal_tol", "dual_tol"), 1e-2, (1e-10, 1e-6), ("iter_limit",)),
    "PIQP": Package(("eps_abs", "eps_rel"), 1e-2, (1e-10, math.inf), ("max_iter",)),
    "PROXQP": Package(("eps_abs", "eps_rel"), 0.1, caps=("max_iter",)),
    "QOCO": Package(("abstol", "reltol"), 1e-2, (1e-9, math.inf), ("max_iters",)),
}


def package_of(name: str | None) -> Package:
    """Return what is known of a package, by the name cvxpy has for it."""
    return PACKAGES.get(name or "", Package())


@cache
def cones_of(name: str | None) -> frozenset[str]:
    """Return what cvxpy says a solver takes beside linear programs; what any installed one takes where none is named.

    These are "quadratic" objectives, for which second-order cones serve, too, and the cones "soc", "exp" and "psd".
    """
    if name is None:
        return frozenset().union(*map(cones_of, cp.installed_solvers()))
    tables = importlib.import_module("cvxpy.reductions.solvers.defines")
    solvers = [table[name] for table in (tables.SOLVER_MAP_QP, tables.SOLVER_MAP_CONIC) if name in table]
    words = {"SOC": "soc", "ExpCone": "exp", "PSD": "psd", "SvecPSD": "psd"}
    cones = {words.get(cone.__name__, "") for solver in solvers for cone in solver.SUPPORTED_CONSTRAINTS} - {""}
    is_quadratic = "soc" in cones or name in tables.SOLVER_MAP_QP or any(s.supports_quad_obj() for s in solvers)
    return frozenset(cones | {"quadratic"} if is_quadratic else cones)


def words_of(outcome: Any) -> str:
    """Return the package's own words for how it ended."""
    def part(of: Any, name: str) -> Any:
        return of.get(name) if isinstance(of, Mapping) else getattr(of, name, None)

    names = "infostring", "status", "model_status"
    sentence = [part(of, name) for of in (part(outcome, "info"), outcome) for name in names]
    return next((str(word) for word in sentence if word is not None), "")
