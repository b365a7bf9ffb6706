"""One-slack cutting planes for fixed labels."""

from margindsl_solvers.cutting_plane.solver import CuttingPlane

__all__ = ["CuttingPlane"]
