"""Dual coordinate descent for fixed labels."""

from margindsl_solvers.dual_coordinate.solver import DualCoordinate

__all__ = ["DualCoordinate"]
