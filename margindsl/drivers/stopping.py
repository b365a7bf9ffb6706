"""Whether improving labels still pays: what the value falls by, for what is spent on it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from margindsl.host.clock import Incumbent
from margindsl.program.program import MarginProgram

PRODUCT = 2e4  # multiply-adds that take as long as what surrounds one product
FREE, ROOM = 1e8, 1e9  # multiply-adds spent in any case (tenths of a second), and where a gap leaves room
FEW = 2000  # points up to which there is all that room: of more, a move of one of them is worth as much less
HOPE = 1e7  # the same where no bound says that there is room: of what search without limit wins, three quarters
A_LABEL = 2.0  # fits for every other label that points may have, which there is room for where no bound is near
HALF = 0.5  # of what the relaxation spent, where that is more than the latter
PRICE = 1e-4  # relative fall of the value that a pass over the points has to bring beyond that
WINDOW = 20.0  # passes over which it is looked for: what one fit takes of signs and of simplex codes


@dataclass
class StoppingRule:
    """Say when to stop improving labels, by counts that are the same on every machine.

    The first `FREE` multiply-adds are free. Beyond them the certified gap has to be worth a fit at `PRICE` a pass, that
    is a product with the features and one with their transpose; beyond `ROOM`, which is less of more than `FEW` points,
    without a bound beyond `HOPE`, or half of what the relaxation took, the value has to fall at that price. Of three
    and more clusters bounds are never near: without one there is room for `A_LABEL` fits a label, `ROOM` at most.

    Where fits take more than `WINDOW` passes, as those of Crammer-Singer margins do, passes count for as much more, and
    the room is greater by the root of that: a search needs a number of fits, and users wait for seconds.

    Parameters
    ----------
    bound : float
        A certified lower bound in units of the program, −inf without one.
    """

    incumbent: Incumbent
    program: MarginProgram
    bound: float = -math.inf
    value: float = field(init=False, default=math.inf)

    def __post_init__(self) -> None:
        features, begun = self.program.features, self.incumbent.work
        self.a_pass = 2.0 * (float(features.n) * features.rank + PRODUCT)
        self.free = begun + FREE
        room = max(FREE, ROOM * min(1.0, FEW / max(features.n, 1)))
        if not math.isfinite(self.bound):
            # Descents of more than two clusters end so far apart that search wins much, whatever bounds say.
            others = features.n * (self.program.clusters - 1) * (self.program.clusters > 2)
            room = max(HOPE, min(room, A_LABEL * others * WINDOW * self.a_pass))
        self.begun, self.room = begun, room
        self.mark = begun + max(room, HALF * begun)

    def ends(self, value: float, a_fit: float = 0.0) -> bool:
        """Return whether to stop at the best value so far.

        Parameters
        ----------
        a_fit : float
            What one fit has taken on average; 0 where none is known.
        """
        work, size = self.incumbent.work, abs(value)
        if work > self.free and value - self.bound <= PRICE * size * WINDOW:
            return True
        dear = max(1.0, a_fit / (WINDOW * self.a_pass))
        mark = max(self.mark, self.begun + self.room * math.sqrt(dear))
        if work <= mark or not math.isfinite(self.value):
            self.value = value
            return False
        passes = (work - mark) / (self.a_pass * dear)
        if self.value - value < PRICE * size * max(passes, 1):
            return passes > WINDOW
        self.value, self.mark = value, work
        return False
