"""Cutting-plane subspace pursuit for fixed labels."""

from margindsl_solvers.cpsp.solver import CPSP

__all__ = ["CPSP"]
