"""Relaxations: one file each; lowers a margin program to standard forms and says what it refuses and why.

The classes are registered as entry points of the group ``margindsl.relaxations``, where ``md.SDP`` and the others come
from; ``md.relaxations()`` lists them.
"""

import sys
from dataclasses import dataclass
from types import ModuleType

from margindsl.host.extensions import RELAXATIONS, registered
from margindsl.relaxations.relaxation import Outcome, Relaxation
from margindsl.views.notebook import Listing


@dataclass(frozen=True)
class RelaxationInfo:
    """Represent one line of the list of relaxations: its name, its bound, what happens to the unknown labels."""

    name: str
    bound: str
    labels: str


class _Room(ModuleType):
    def __call__(self) -> Listing[RelaxationInfo]:
        """Return every relaxation by name."""
        rows = Listing[RelaxationInfo]()
        for name, point in sorted(registered(RELAXATIONS).items()):
            try:
                one = point.load()
                rows.append(RelaxationInfo(name, one.bound, one.summary))
            except (ImportError, AttributeError):  # of another package that is gone, or is no longer that
                rows.append(RelaxationInfo(name, "?", "not installed"))
        return rows


sys.modules[__name__].__class__ = _Room

__all__ = ["Outcome", "Relaxation"]
