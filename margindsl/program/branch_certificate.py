"""The proof of branch and bound: a tree of partial labellings that covers B, one dual point a leaf."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from margindsl.labelset.forcing import Path
from margindsl.program.certificates import Certificate
from margindsl.program.nodes import NodeBounds
from margindsl.typing import FloatArray


@dataclass(frozen=True, eq=False)
class Leaf:
    """Represent one end of the tree: the components decided on the way, their values, and a dual point.

    Parameters
    ----------
    path : tuple of (component, sign or cluster)
        Decisions in the order they were taken.
    u, rest : float arrays
        The dual point of the node (see `NodeBounds`).
    """

    path: Path
    u: FloatArray
    rest: FloatArray


def certify_tree(bounds: NodeBounds, leaves: Sequence[Leaf], bound: float) -> Certificate:
    """Return the certificate of a tree: a case each leaf, whose path names the first points of what it decides."""
    paths = np.zeros((len(leaves), max(len(leaf.path) for leaf in leaves)), dtype=int)
    for row, leaf in zip(paths, leaves):
        row[: len(leaf.path)] = bounds.program.labels.steps(leaf.path)
    cases = [bounds.case(leaf.u, leaf.rest) for leaf in leaves]
    arrays = {name: np.concatenate([case[name] for case in cases]) if name in Certificate.UNITS else x
              for name, x in cases[0].items()}
    return Certificate(bound, kind=bounds.kind, arrays={**arrays, "paths": paths},
                       words=f"branch and bound tree with {len(leaves)} leaves, a dual point each")
