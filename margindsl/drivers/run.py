"""The state of one solve: program, solvers, budget, random numbers, best labels; whether improving them still pays."""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np

from margindsl.calculus.accuracy import EPS
from margindsl.contract import Budget, Progress, RawSolution, Solver, Status
from margindsl.drivers.apart import Apart
from margindsl.drivers.checkpoint import Checkpoint, State
from margindsl.drivers.guard import Guarded, refuse_impossible, unanswered
from margindsl.errors import CalculusError
from margindsl.host.clock import Cancelled, Incumbent, expired
from margindsl.host.frozen import short_key
from margindsl.program.clusters import ClusterForm
from margindsl.program.forms import FixedLabelForm, Form
from margindsl.program.nearest import nearest
from margindsl.program.passes import Answer
from margindsl.program.program import MarginProgram
from margindsl.typing import IntArray

T = TypeVar("T")
FINISHED = 0.8  # of the time in which a fit must end, where its solver is asked to
REMEMBERED = 2_000_000  # decision values of the fits that a run keeps: local searches come back to their labellings
HELD = 1e-6  # how far a fit may break a bound on sums of decision values, relative to the terms of the sum
FIT_STEP, STEP = 9.0, 3.0  # passes over the points that an iteration takes with what surrounds it: 7 to 11, 1 to 4
LATE = (Status.TIME_LIMIT, Status.INTERRUPTED)  # ends of which a solver may have no point yet
PRODUCT = 2e4  # multiply-adds that take as long as what surrounds one product
FREE, ROOM = 1e8, 2e9  # multiply-adds spent in any case (tenths of a second), and where a gap leaves room
FEW = 2000  # points up to which there is all that room: of more, a move of one of them is worth as much less
HOPE = 3e8  # the same where no bound says that there is room: .2 s, which on 8 of 12 public sets won 1 to 97 %
A_LABEL = 4.0  # fits for every label beyond two that points may have, which there is room for where no bound is near
HALF = 0.5  # of what the relaxation spent, where that is more than the latter
PRICE = 1e-4  # relative fall of the value that a pass over the points has to bring beyond that
WIDE = 0.2  # relative gap that leaves all the room; a lesser one, of which less can be won, as much less
WINDOW = 20.0  # passes over which it is looked for: what one fit takes of signs and of simplex codes


@dataclass
class StoppingRule:
    """Say when to stop improving labels, by counts that are the same on every machine.

    The first `FREE` multiply-adds are free. Beyond them the certified gap has to be worth a fit at `PRICE` a pass, that
    is a product with the features and one with their transpose; beyond `ROOM`, which is less of more than `FEW` points
    and at gaps below `WIDE`, without a bound beyond `HOPE`, or half of what the relaxation took, the value has to fall
    at that price. Of three and more clusters bounds are never near: without one there is room for `A_LABEL` fits a
    label beyond two.

    Where fits take more than `WINDOW` passes, as those of Crammer-Singer margins do, passes count for as much more, and
    the room is greater by the root of that: a search needs a number of fits, and users wait for seconds.
    """

    incumbent: Incumbent
    program: MarginProgram
    bound: float = -math.inf  # a certified lower bound in units of the program, −inf without one
    value: float = field(init=False, default=math.inf)

    def __post_init__(self) -> None:
        features, begun = self.program.features, self.incumbent.work
        self.a_pass = 2.0 * (float(features.n) * features.rank + PRODUCT)
        self.free = begun + FREE
        room = max(FREE, ROOM * min(1.0, FEW / max(features.n, 1)))
        if not math.isfinite(self.bound):
            # Descents of more than two clusters end so far apart that search wins much, whatever bounds say.
            others = features.n * (self.program.clusters - 2)
            room = max(HOPE, min(room, A_LABEL * others * WINDOW * self.a_pass))
        self.begun, self.room, self.mark = begun, room, begun + HALF * begun

    def ends(self, value: float, a_fit: float = 0.0) -> bool:
        """Return whether to stop at the best value so far, where a fit has taken `a_fit` on average, 0 if unknown."""
        work, size = self.incumbent.work, abs(value)
        if work > self.free and value - self.bound <= PRICE * size * WINDOW:
            return True
        dear, share = max(1.0, a_fit / (WINDOW * self.a_pass)), min(1.0, (value - self.bound) / (WIDE * size or 1.0))
        mark = max(self.mark, self.begun + self.room * share * math.sqrt(dear))
        if work <= mark or not math.isfinite(self.value):
            self.value = value
            return False
        passes = (work - mark) / (self.a_pass * dear)
        if self.value - value < PRICE * size * max(passes, 1):
            return passes > WINDOW
        self.value, self.mark = value, work
        return False


@dataclass(frozen=True)
class _Known:
    """Remember a fit, the accuracy it has, and what its labelling was proved to be no lower than."""

    fit: Answer
    tol: float = np.inf
    least: float = -np.inf


@dataclass(frozen=True)
class Record:
    """Represent one line of the history of a solve: seconds since it began, and value and bound at that time."""

    seconds: float
    stage: str
    iteration: int
    value: float
    bound: float


class Run:
    """Hold what the outer loops of one solve share.

    Parameters
    ----------
    solver : Solver
        Solves the relaxation's main form.
    fixed_solver : Solver
        Solves fixed-label problems while rounding, polishing and evaluating.
    starts : tuple of (n,) int arrays
        Labellings to start from (a warm start).
    sessions : dict, optional
        Guarded sessions of earlier solves of the same problem, added to; what is compiled there is compiled once.
    lift_solver : function of str, optional
        Makes the solver of a name, for a lift that tightens the bound of another relaxation.
    checkpoint : Checkpoint, optional
        Where the loops of the relaxation keep their state.
    late_solver : Solver, optional
        Fits a labelling where the time was up before the fixed-label solver had a point.
    form : Form, optional
        What the relaxation lowers the program to.
    """

    def __init__(self, program: MarginProgram, solver: Solver, fixed_solver: Solver, budget: Budget,
                 rng: np.random.Generator, starts: tuple[IntArray, ...] = (),
                 sessions: dict[Hashable, Guarded] | None = None, lift_solver: Callable[[str], Solver] | None = None,
                 checkpoint: Checkpoint | None = None, late_solver: Solver | None = None,
                 form: Form | None = None) -> None:
        self.program, self.solver, self.fixed_solver, self.lift_solver = program, solver, fixed_solver, lift_solver
        self.late_solver, self.form = late_solver, form
        self.budget, self.rng, self.starts, self.checkpoint = budget, rng, starts, checkpoint
        self.best: Answer | None = None
        self.current: IntArray | None = None  # where a descent stands, not fitted yet
        self.history: list[Record] = []
        self.seconds: dict[str, float] = {}
        self.fits, self.solved, self.spent = 0, 0, 0.0  # asked for, solved, and what that took
        self.begun = 0  # fits of the first answer, which is worth less than a failure
        self.rule: StoppingRule | None = None  # while labels are improved for as long as that pays
        self._compiled = {} if sessions is None else sessions
        self._own: dict[Hashable, Guarded] = {}
        self.exhausted: set[int] = set()  # where a local search has ended: descents that come by end there too
        self._known: dict[bytes, _Known] = {}
        self._apart: dict[Any, Any] = {}  # features without columns of pairs

    def apart(self) -> Run:
        """Return another run of the same program that leaves the best labels and the history of this one alone."""
        return Run(self.program, self.solver, self.fixed_solver, self.budget, self.rng, sessions=self._compiled)

    def coded(self) -> Run:
        """Return a run of the program of coded margins that bounds this one, or this run where there is no other."""
        try:
            program = self.program.bounding
        except CalculusError:
            return self
        if program is self.program:
            return self
        return Run(program, self.solver, self.fixed_solver, self.budget.replace(callback=None), self.rng)

    # -- solving ------------------------------------------------------------------------------------

    def session(self, form: Form, solver: Solver | None = None) -> Guarded:
        """Return the guarded session for forms of one structure, opened once a structure and solver."""
        solver = solver or self.solver
        structure = form.structure()
        if structure is None:
            return Guarded(solver)
        key = (solver, structure, threading.get_ident())  # a compiled problem holds the numbers of one solve at a time
        # A native session may carry state from solve to solve; only compiled problems that recur outlive a run.
        kept = self._own if solver.native else self._compiled
        if key not in kept:
            kept[key] = Guarded(solver)
        return kept[key]

    def solve(self, form: Form, start: RawSolution | None = None, tol: float | None = None,
              solver: Solver | None = None, **limits: Any) -> RawSolution:
        """Solve a form with the main solver, its compile and solve seconds booked; with other limits of the budget."""
        callback: Any = self.budget.callback
        to_user = self.program.to_user

        def report(progress: Progress) -> Any:  # with the values in the user's units
            return callback(dataclasses.replace(progress, value=to_user(progress.value), bound=to_user(progress.bound)))

        budget = self.budget.replace(tol=self.budget.tol if tol is None else tol,
                                     callback=None if callback is None else report, **limits)
        own, budget, start, whole = self.parted(form, budget, start)
        raw = whole(self.session(own, solver).solve(own, budget, start))
        for stage, seconds in raw.seconds.items():
            self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds
        self.add_work((FIT_STEP if hasattr(form, "labelling") else STEP) * (raw.iterations + 1))
        refuse_impossible(form, raw.status)
        return raw

    def parted(self, form: Form, budget: Budget, start: RawSolution | None) -> tuple[Any, ...]:
        """Return form, budget and start without the weights of pairs, and what makes its answer a whole one."""
        apart = Apart.of(form, self._apart)
        if apart is None:
            return form, budget, start, lambda raw: raw
        return apart.form, budget.replace(cutoff=budget.cutoff - apart.value), apart.start(start), apart.whole

    def known(self) -> float:
        """Return the value of the best labels, infinity before there are any."""
        return np.inf if self.best is None else self.best.value

    def add_work(self, passes: float) -> float:
        """Add so many passes over the points to the work of the solve, and return the work."""
        features = self.program.features
        work = 2.0 * passes * (float(features.n) * features.rank + PRODUCT)
        self.budget.incumbent.work += work
        return work

    def fit(self, labels: IntArray, start: Answer | None = None, tol: float = 1e-7, cutoff: float = np.inf) -> Answer:
        """Fit the hyperplane to a labelling with the fixed-label solver, and remember the best.

        Where the time is up before that solver has a point, the `late_solver` gives one. One that is proved to be no
        lower than `cutoff` may be returned as it is. A labelling that was fitted to this accuracy is not fitted again.
        """
        self.fits += 1
        labels = np.asarray(labels, dtype=np.intp)
        known = self._known.get(short_key(labels))
        if known is not None and (known.tol <= tol or cutoff <= known.least):
            return known.fit
        form = self.program.fix_labels(labels)
        budget = self.budget.replace(tol=tol, max_iter=None, callback=None, cutoff=cutoff)
        own, limits, begun, whole = self.parted(form, budget, start.raw if start else None)
        session = self.session(own, self.fixed_solver)
        raw = session.solve(own, limits, begun, is_judged=False)
        if raw.status is Status.INACCURATE and start is not None:  # multipliers of other labels may lead astray
            again = session.solve(own, limits, is_judged=False)
            raw = min(raw, again, key=lambda one: (one.status is not Status.OPTIMAL, one.objective))
        raw = whole(raw)
        self.solved, self.spent = self.solved + 1, self.spent + self.add_work(FIT_STEP * (raw.iterations + 1))
        if raw.status in LATE and not raw.has_answer and self.late_solver is not None:
            raw = self.session(form, self.late_solver).solve(form, budget, is_judged=False)
        fit = self.adopt(form, raw, self.fixed_solver, tol)
        if raw.status is Status.CONVERGED and cutoff < np.inf:
            self._remember(_Known(fit, least=cutoff))
        return fit

    def _remember(self, known: _Known) -> None:
        if (len(self._known) + 1) * len(known.fit.labels) * self.program.clusters > REMEMBERED:
            self._known.clear()
        self._known[short_key(known.fit.labels)] = known

    def plain_fit(self, labels: IntArray) -> Answer:
        """Return the labelling with the hyperplane w = 0, for which there is always time."""
        raw = RawSolution(Status.TIME_LIMIT, {
            "w": np.zeros(self.program.size_of_w), "bias": np.zeros(self.program.codes.shape[1]),
            "scalars": np.zeros(self.program.losses.scalars.count)},
            "there was no time to fit it, w = 0")
        return self.adopt(self.program.fix_labels(labels), raw)

    def adopt(self, form: FixedLabelForm | ClusterForm, raw: RawSolution, solver: Solver | None = None,
              tol: float = np.inf) -> Answer:
        """Return a fit from a fixed-label form that was solved to some accuracy, and remember it."""
        if not raw.has_answer and raw.status in (Status.TIME_LIMIT, Status.INTERRUPTED) and expired():
            raise Cancelled
        refuse_impossible(form, raw.status)
        if not raw.has_answer:
            raise unanswered(solver or self.solver, raw, "on the fixed-label problem")
        (bias, scalars), w = form.plane(raw.variables), np.asarray(raw["w"])
        if form.decision and form.primal_residual(w, bias) > HELD:  # a fit no more accurate than a first answer
            normals = form.bound_normals
            w, bias = form.split(nearest(form.join(w, bias)[: normals.shape[1]], normals, *form.bound_ends))[:2]
        norm, found = form.regulariser(w, bias), cast(Any, partial(form.outputs, w, bias))
        if form.is_summed:
            value = form.summed(form.packed(w, bias))[0]
        else:
            found = form.outputs(w, bias)
            value = norm + form.losses.value(form.margins(found), scalars)
        if form.outside is None and norm <= EPS * form.units[0]:  # what rounding leaves of w = 0; values may be zero
            zero, none = np.zeros_like(w), form.outputs(np.zeros_like(w), bias)
            least = form.losses.value(form.margins(none), scalars)
            if least - value <= EPS * form.units[0] and form.primal_residual(zero, bias) <= HELD:
                w, found, value = zero, none, least
        fit = self.hold(Answer(np.asarray(form.labels), w, np.asarray(bias), scalars, found, value, raw))
        if raw.status is Status.OPTIMAL and tol < np.inf:
            self._remember(_Known(fit, tol))
        return fit

    def hold(self, fit: Answer) -> Answer:
        """Return a fit, and remember it when it is the best."""
        if self.best is None or fit.value < self.best.value:
            self.best = fit
            if self.budget.callback is not None:  # programs of other weights have none
                incumbent = self.budget.incumbent
                incumbent.value = min(incumbent.value, self.program.to_user(fit.value))
        return fit

    @contextmanager
    def share(self, fraction: float) -> Iterator[None]:
        """Limit what runs inside to a fraction of the time left, so that rounding gets the rest."""
        whole = self.budget
        self.budget = whole.share(fraction)
        try:
            yield
        finally:
            self.budget = whole

    @contextmanager
    def finishing(self, part: float) -> Iterator[None]:
        """Give what runs inside a part of the allowance after the stop, and end it there."""
        whole = self.budget
        self.budget = whole.finishing(FINISHED * part)
        try:
            with self.budget.limit((1.0 - FINISHED) * part):  # loops inside end with the part, not at once
                yield
        finally:
            self.budget = whole

    # -- going on from a file -----------------------------------------------------------------------

    def resume(self, stage: str) -> State | None:
        """Return the state a stage kept, its best labels fitted and its random numbers restored; None without one."""
        found = None if self.checkpoint is None else self.checkpoint.resume(stage)
        if found is None:
            return None
        state, random = found
        if "best" in state:
            self.fit(state["best"])
        if random["bit_generator"] == self.rng.bit_generator.state["bit_generator"]:
            self.rng.bit_generator.state = random
        return state

    def keep(self, stage: str, state: Callable[[], State]) -> None:
        """Note where a stage stands, and the best labels; written every so often and when the solve ends."""
        if self.checkpoint is not None:
            best = {} if self.best is None else {"best": self.best.labels}
            self.checkpoint.keep(stage, lambda: {**state(), **best}, self.rng)

    # -- bookkeeping --------------------------------------------------------------------------------

    @property
    def done(self) -> bool:
        """Return whether improving labels ends: the solve is stopped, or it no longer pays."""
        return self.done_at(np.inf)

    def done_at(self, value: float) -> bool:
        """Return whether it is `done` where labels of some value are about to be fitted."""
        if self.stopped is not None:
            return True
        value = min(value, self.known())
        return self.rule is not None and bool(np.isfinite(value)) and self.rule.ends(
            value, self.spent / max(self.solved, 1))

    def improving(self, items: Iterable[T]) -> Iterator[T]:
        """Yield items until it is `done`, the first one always."""
        for item in items:
            yield item
            if self.done:
                return

    @contextmanager
    def stopping(self, bound: float = -np.inf) -> Iterator[None]:
        """Let labels be improved inside for as long as that pays, given a certified lower bound of the program."""
        before, self.rule = self.rule, StoppingRule(self.budget.incumbent, self.program, bound)
        try:
            yield
        finally:
            self.rule = before

    @property
    def stopped(self) -> Status | None:
        """Return INTERRUPTED once a callback or Ctrl-C has asked to stop, TIME_LIMIT once the time is up, else None."""
        if not self.budget.expired:
            return None
        return Status.INTERRUPTED if self.budget.interrupted else Status.TIME_LIMIT

    def ended_by(self, end: KeyboardInterrupt) -> Status:
        """Return how Ctrl-C, a callback or the time has ended a loop; Ctrl-C asks all that follows to stop too."""
        if not isinstance(end, Cancelled):
            self.budget.request.make()
        return Status.INTERRUPTED if self.budget.interrupted else Status.TIME_LIMIT

    def record(self, stage: str, iteration: int, value: float, bound: float = -np.inf) -> bool:
        """Add a line to the history, report it, and return whether the callback asks to stop."""
        self.history.append(Record(time.monotonic() - self.budget.start, stage, iteration, value, bound))
        to_user = self.program.to_user
        return self.budget.report(stage, iteration, to_user(value), to_user(bound))

    def tell(self, stage: str) -> None:
        """Report the best labels and bound at the end of a stage, unless it was the last to be heard."""
        if not self.budget.expired:
            self.budget.report(stage, self.fits, self.budget.incumbent.value, self.budget.incumbent.bound)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Book the seconds spent inside under a stage, without those that are booked inside under another."""
        began = time.perf_counter() - sum(self.seconds.values())
        try:
            yield
        finally:
            spent = time.perf_counter() - began - sum(self.seconds.values())
            self.seconds[name] = self.seconds.get(name, 0.0) + max(spent, 0.0)
