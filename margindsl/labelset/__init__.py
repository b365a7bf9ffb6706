"""The presolved set of admissible labellings: links, known labels and linear bounds, with an exact oracle."""

from margindsl.labelset.bound import LinearBound
from margindsl.labelset.labelset import LabelSet
from margindsl.labelset.names import Names
from margindsl.labelset.presolve import presolve

__all__ = ["LabelSet", "LinearBound", "Names", "presolve"]
