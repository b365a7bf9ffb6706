"""Weight lifting: the lift with the labels of all points but the known ones minimised out, r × r."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from margindsl.program.lift import LiftForm
from margindsl.program.program import MarginProgram
from margindsl.relaxations.lift import lift
from margindsl.relaxations.relaxation import count_or
from margindsl.relaxations.sdp import SDP

LIFTED_RANK = 2000  # columns up to which "auto" lifts the weights
ROWS = 1500  # points up to which bounds on sums of labels, which couple all of them, are lifted


@dataclass(frozen=True, kw_only=True)
class WeightLifting(SDP):
    """Minimise the labels out, y_i = sign f_i, and lift W = wwᵀ: an r × r convex problem at any number of points.

    It is `margindsl.SDP` without cuts. Known labels are one more row, [[1, wᵀ], [w, W]], linked points one each. Bounds
    on sums of labels, and sizes, couple all points; they are lifted up to 1,500 points, and beyond them honoured by
    rounding alone. Of k clusters the bound is that of two but for the known ones.

    Parameters
    ----------
    rounding : int or "sign"
        Directions sampled from N(0, W); the leading ones are always tried.
    cuts, cut_rounds, tol, polish
        As for `margindsl.SDP`; no cuts by default.
    """

    name: ClassVar[str] = "weight-lifting"
    by_label: ClassVar[bool] = True
    summary: ClassVar[str] = "labels minimised out, weight matrix lifted; r x r"

    cuts: str = "none"
    rounding: int | str = count_or("sign").option(60)

    @classmethod
    def priority(cls, program: MarginProgram) -> float:
        """Give a bound and good labels at the cost of some passes over the data, up to a rank of 2,000."""
        if program.features.rank > LIFTED_RANK or program.losses.scalars.count:
            return 0.0  # losses that share scalars couple all points
        return 80.0 / (program.clusters - 1) ** 2

    def lower(self, program: MarginProgram) -> LiftForm:
        """Return the lift, bounds on sums of labels left out where there are many points."""
        return lift(program, rows=program.n <= ROWS, whole=self.cuts != "none")

    def _words(self, program: MarginProgram) -> str:
        left_out = program.n > ROWS and (program.labels.bounds or program.labels.has_sizes)
        return f"W of order {program.features.rank + int(program.free_bias)}" + (
            "; bounds on sums of labels are used in rounding, not in the bound" if left_out else "")
