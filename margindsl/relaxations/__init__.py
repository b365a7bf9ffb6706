"""Relaxations: one file each; lowers a margin program to standard forms and says what it refuses and why.

The classes are registered as entry points of the group ``margindsl.relaxations``, where ``md.SDP`` and the others come
from.
"""

from margindsl.relaxations.relaxation import Outcome, Relaxation

__all__ = ["Outcome", "Relaxation"]
