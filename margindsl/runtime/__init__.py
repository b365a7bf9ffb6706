"""Registry, compile, solve, solution, compare."""

from margindsl.runtime.compare import Comparison, compare
from margindsl.runtime.compiled import Compiled
from margindsl.runtime.problem import Problem
from margindsl.runtime.registry import make_solver, relaxation_names, solvers
from margindsl.runtime.solution import Solution

__all__ = ["Comparison", "Compiled", "Problem", "Solution", "compare", "make_solver", "relaxation_names", "solvers"]
