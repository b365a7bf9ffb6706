"""Engines: the iterative methods that solvers are option tables of. `Course` runs them all."""

from margindsl_solvers.engines.course import TOLERANCE, Bracket, Course, Judged, limited

__all__ = ["TOLERANCE", "Bracket", "Course", "Judged", "limited"]
