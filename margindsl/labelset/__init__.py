"""The presolved set of admissible labellings: links, known labels and linear bounds, with an exact oracle."""

from margindsl.labelset.bound import LiftedBound, LinearBound
from margindsl.labelset.labelset import LabelSet
from margindsl.labelset.names import Clusters, Names, Signs, names_of
from margindsl.labelset.orientation import ClusterNames, GlobalSign
from margindsl.labelset.presolve import presolve

__all__ = [
    "ClusterNames", "Clusters", "GlobalSign", "LabelSet", "LiftedBound", "LinearBound", "Names", "Signs", "names_of",
    "presolve"]
