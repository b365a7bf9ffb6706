"""Registry, compile, solve, solution, compare."""

from margindsl.runtime.assessment import Assessment, certify
from margindsl.runtime.compare import Comparison, compare
from margindsl.runtime.compiled import Compiled
from margindsl.runtime.problem import Problem
from margindsl.runtime.registry import make_solver, relaxation_names, solvers
from margindsl.runtime.solution import Solution

load = Solution.load

__all__ = ["Assessment", "Comparison", "Compiled", "Problem", "Solution", "certify", "compare", "load", "make_solver",
           "relaxation_names", "solvers"]
