"""Cutting planes outside, labels inside: the order of CPMMC's slides (Zhao et al., SDM 2008)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from margindsl.contract import Offer, Refusal, integers, numbers
from margindsl.drivers.run import Run
from margindsl.drivers.starts import keep_starts
from margindsl.drivers.working_set import WorkingSet
from margindsl.program.program import NOBODY, MarginProgram
from margindsl.relaxations.cccp import CCCP
from margindsl.typing import FloatArray, IntArray

MOST_CUTS = 400  # a working set of a start; the dual has one variable a cut
LOST = 1e-6  # above the highest value that cuts can have: more is no rounding of a sound programme
# Cuts in a row after which no lower objective is expected: on digits it fell at least every 18; where clouds overlap
# labels move with every cut, and the violation need not vanish at all.
PATIENCE = 50


@dataclass(frozen=True, kw_only=True)
class CutsOutside(CCCP):
    """Start the concave-convex procedure at the end of a sequence of tighter and tighter relaxations (Eq. 5-8).

    A set Ω of cuts c ∈ {0, 1}^n begins with the cut of w = 0, all ones. Problem 8 over Ω is solved by the
    concave-convex procedure; then the most violated cut, c_i = 1 where |f_i| < 1 (Eq. 6), joins Ω, until none is
    violated by more than ε (Eq. 5). Labels thus move while the problem is coarse, as in a continuation; only the last
    labels are kept, or the best where fifty cuts in a row have not lowered the objective.

    Parameters
    ----------
    epsilon : float
        Violation ε of the mean loss at which no cut is added, and relative decrease at which a step is the last.
    restarts, start, rounds, polish, continuation, continuation_start
        As for `margindsl.CCCP`, one k-means start by default.
    """

    name: ClassVar[str] = "cuts-outside"
    summary: ClassVar[str] = "cutting planes outside, labels absorbed and linearised inside"

    restarts: int = integers(1).option(1)
    start: str = "kmeans"
    epsilon: float = numbers().option(0.01)

    def accepts(self, program: MarginProgram) -> Offer | Refusal:
        offer = super().accepts(program)
        if isinstance(offer, Refusal):
            return offer
        if program.losses.scalars.count or not program.bias.is_finite:
            return Refusal("cuts outside begin with one cut, under which nothing holds shared scalars or a free bias "
                           "without bounds on both sides of decision values", "Use relaxation='cccp'")
        if np.any(program.kind.rivals(np.zeros(program.n, dtype=int), program.no_decision()) != NOBODY):
            if not program.is_convex:
                return Refusal("a cut fixes the rival of every point, and ρ(f_y - f_q) of a fixed rival lies below the "
                               "loss of its margin only where ρ falls", "Use relaxation='cccp'")
            if not np.all(np.isfinite(program.losses.least_losses())):
                return Refusal("a cut says of a point in the cluster of its rival only that its loss is no lower than "
                               "the least, which these losses do not have", "Use relaxation='cccp'")
        return offer

    def starts(self, run: Run) -> Iterator[IntArray]:
        keep_starts(run)
        for labels in super().starts(run):
            with run.share(0.8):
                found = self._tighten(run, labels)
            yield found

    def _tighten(self, run: Run, labels: IntArray) -> IntArray:
        """Return the labels at which no cut is violated by more than ε, or the best ones where cuts lower nothing."""
        program = run.program
        cuts = WorkingSet(program, labels)
        loss = program.losses.value(np.zeros(program.n))
        # Cuts lie below the loss: no minimum over them is above the value of w = 0, where bounds allow that.
        highest = loss + LOST * abs(loss) if all(b.lower <= 0 <= b.upper for b in program.decision) else np.inf
        lowest, best, most = np.inf, labels, MOST_CUTS
        while True:
            run.current = cuts.labels
            f, value = self._settle(run, cuts, highest)
            if not value <= highest:
                return best
            violation = cuts.loss(f) - cuts.slack
            stop = run.record("cuts", cuts.count, value + violation)
            if violation <= self.epsilon * loss or stop or run.stopped:
                return cuts.labels
            if value + violation < lowest:
                lowest, best, most = value + violation, cuts.labels, min(MOST_CUTS, cuts.count + PATIENCE)
            if cuts.count >= most:
                return best
            cuts.add(f)

    def _settle(self, run: Run, cuts: WorkingSet, highest: float) -> tuple[FloatArray, float]:
        """Return decision values and value of Problem 8 over the cuts, labels moved by the concave-convex procedure.

        A value above `highest` says that the cuts are lost in rounding.
        """
        before = np.inf
        while True:
            f, value = cuts.solve()
            if not value <= highest:
                return f, value
            same = not cuts.relabel(run.program.labels.maximise(run.program.gains(f)))
            if same or before - value <= self.epsilon * abs(value) or run.stopped:
                return f, value
            before = value
