"""The presolved set of admissible labellings: links, known labels and linear bounds, with an exact oracle."""

from margindsl.labelset.bound import LiftedBound, LinearBound
from margindsl.labelset.labelset import LabelSet
from margindsl.labelset.orientation import ClusterNames, GlobalSign
from margindsl.labelset.partition import PartitionSet
from margindsl.labelset.partition_presolve import presolve_partition
from margindsl.labelset.presolve import presolve
from margindsl.labelset.signs import SignSet

__all__ = [
    "ClusterNames", "GlobalSign", "LabelSet", "LiftedBound", "LinearBound", "PartitionSet", "SignSet", "presolve",
    "presolve_partition"]
