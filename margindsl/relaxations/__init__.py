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
        classes = [(name, point.load()) for name, point in sorted(registered(RELAXATIONS).items())]
        return Listing(RelaxationInfo(name, one.bound, one.summary) for name, one in classes)


sys.modules[__name__].__class__ = _Room

__all__ = ["Outcome", "Relaxation"]
