"""HiGHS within the time of the solve it is part of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from margindsl.host.clock import turns

_LIMIT_MET = 1


def solve_within(call: Callable[[float], Any]) -> Any:
    """Return what `scipy.optimize` makes of a programme, given the time left.

    HiGHS neither hears Ctrl-C nor goes on from where it stopped: it is begun again with twice the time, so that a
    solve can be left after at most as long again as it has taken.

    Parameters
    ----------
    call : callable
        Solves within so many seconds.
    """
    for seconds in turns():
        answer = call(seconds)
        if answer.status != _LIMIT_MET:
            break
    return answer
