"""Relaxations: one file each; lowers a margin program to standard forms and says what it refuses and why."""

from margindsl.relaxations.alternating import Alternating
from margindsl.relaxations.cccp import CCCP
from margindsl.relaxations.cuts_outside import CutsOutside
from margindsl.relaxations.exact import Exact
from margindsl.relaxations.first_cut import FirstCut
from margindsl.relaxations.gmmc import GMMC
from margindsl.relaxations.minimax import Minimax
from margindsl.relaxations.relaxation import Outcome, Relaxation
from margindsl.relaxations.safe import Safe
from margindsl.relaxations.sdp import SDP
from margindsl.relaxations.supervised import Supervised
from margindsl.relaxations.transductive import Transductive
from margindsl.relaxations.weight_lifting import WeightLifting

__all__ = [
    "CCCP", "GMMC", "SDP", "Alternating", "CutsOutside", "Exact", "FirstCut", "Minimax", "Outcome", "Relaxation",
    "Safe", "Supervised", "Transductive", "WeightLifting"]
