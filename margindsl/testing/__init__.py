"""Conformance suites for relaxations and solvers and a zoo of problems with known optima.

Run your class against them before registering it:

>>> from margindsl.testing import check_relaxation
>>> check_relaxation("alternating", only=["refusals_give_a_reason"]).passed
True
"""

from margindsl.testing.relaxations import RELAXATION_CHECKS, check_relaxation
from margindsl.testing.report import Check, ConformanceError, Report
from margindsl.testing.solvers import SOLVER_CHECKS, check_solver
from margindsl.testing.zoo import KnownProblem, zoo

__all__ = ["RELAXATION_CHECKS", "SOLVER_CHECKS", "Check", "ConformanceError", "KnownProblem", "Report",
           "check_relaxation", "check_solver", "zoo"]
