"""What every relaxation is: options, refusals with reasons, a form to lower to, and a way to run."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from margindsl.contract import Domain, Offer, Refusal, Status, integers, read_options
from margindsl.drivers.run import Run
from margindsl.errors import DeclarationError, UnknownNameError, one_of
from margindsl.features import FeatureOperator
from margindsl.program.certificates import Certificate
from margindsl.program.forms import Form
from margindsl.program.passes import Answer
from margindsl.program.program import MarginProgram
from margindsl.typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Outcome:
    """Represent what a relaxation found, before rounding and certifying.

    Parameters
    ----------
    candidates : tuple of (n,) int arrays
        Labellings in B to consider.
    vectors : tuple of ((n, p) float array or features, int)
        Vectors of the points to round, and how many labellings are drawn from each.
    answer : Answer or None
        Polished labels, fitted: of local methods at once, of others at the end.
    estimate : float
        Uncertified value of the relaxation, in units of the program.
    message : str
        The solver's own words where it did not end well.
    """

    status: Status
    candidates: tuple[IntArray, ...] = ()
    vectors: tuple[tuple[FloatArray | FeatureOperator, int], ...] = ()
    answer: Answer | None = None
    certificate: Certificate | None = None
    estimate: float = float("nan")
    label_weights: tuple[IntArray, FloatArray] | None = None  # labellings (T, n), weights (T,)
    label_matrix: Any = None  # (n, p), a factor of it
    message: str = ""
    is_cut: bool = False  # by the end of the time, Ctrl-C or a solver that failed

    @property
    def is_open(self) -> bool:
        """Return whether labels are left to be found from what the relaxation returned."""
        return self.answer is None and not self.is_cut


@dataclass(frozen=True, kw_only=True)
class Relaxation(ABC):
    """Say what happens to the unknown labels. Subclasses are frozen dataclasses of their options.

    Class attributes: `name`, `summary` (one line), `bound` (what kind of bound it certifies), `most_clusters` (the
    largest number it takes) and `why_so_few` (the reason users read), `minimises` (whether the labels are those of the
    lowest objective it found), `polishes` (whether rounded labels may be polished), `by_label` (whether it takes losses
    by label), `alternatives` (solvers that take over, in turn, where the default one fails).

    Parameters
    ----------
    polish : {"auto", "none", "alternate", "search"} or bool
        What is done to rounded labels: nothing, alternation with the exact oracle, or alternation with flips and swaps
        of components, without limit ("search") or for as long as it pays ("auto", True). That is: beyond some tenths of
        a second the certified gap has to leave room for it, beyond a second or half of what the relaxation took the
        value has to fall by 1e-4 a pass over the points. It is counted in multiply-adds, alike on every machine.
    """

    name: ClassVar[str]
    summary: ClassVar[str] = ""
    bound: ClassVar[str] = "none"
    most_clusters: ClassVar[float] = 2
    why_so_few: ClassVar[str] = "its labels are signs"
    minimises: ClassVar[bool] = True
    alternatives: ClassVar[tuple[str, ...]] = ()
    polishes: ClassVar[bool] = True
    by_label: ClassVar[bool] = False

    polish: str | bool = "auto"

    def __new__(cls, **options: Any) -> Relaxation:
        for key in options:
            if key not in cls.option_names():
                raise UnknownNameError(f"option of relaxation {cls.name!r}", key, cls.option_names())
        return super().__new__(cls)

    def __post_init__(self) -> None:
        how = ("auto" if self.polish else "none") if isinstance(self.polish, bool) else self.polish
        if how not in (("none", "alternate", "search", "auto") if self.polishes else ("none",)):
            expected = "'none', 'alternate', 'search' or 'auto'" if self.polishes else "'none' alone"
            raise DeclarationError(f"{type(self).__name__}(polish={self.polish!r}): expected {expected}")
        object.__setattr__(self, "polish", how)
        read_options(self, type(self).__name__)

    def offer(self, program: MarginProgram) -> Offer | Refusal:
        """Return the answer of `accepts`, or a refusal of more clusters than the relaxation knows."""
        if program.clusters > self.most_clusters:
            return Refusal(f"{program.clusters} clusters were declared, and {self.name!r} takes {self.most_clusters}: "
                           f"{self.why_so_few}", "Use relaxation='minimax', 'alternating' or 'cccp'")
        if program.gauge is not None and not program.gauge.is_squared and self.bound.startswith("certified"):
            return Refusal(f"{self.name!r} bounds squared norms, and the norm here is not squared",
                           "Use relaxation='alternating' or 'exact', or add md.sq_norm(f) with a small weight")
        if program.outside is not None and (not program.kind.absorbs_labels or self.name == "exact"):
            return Refusal(f"{self.name!r} proves values by dual points, of which terms and constraints of CVXPY have "
                           "none here", "Use relaxation='alternating', or 'sdp' for a bound without them")
        if program.outside is not None and self.bound.startswith("certified") and not program.outside.checked(
                program.features.rank):
            return Refusal("the terms of CVXPY may be negative, so that no bound without them is one with them",
                           "Use relaxation='alternating', or write terms whose sign CVXPY knows")
        if program.losses.is_turned and not self.by_label:
            return Refusal(f"a loss by label is a function of y f and of f, and {self.name!r} sees margins y f alone",
                           "Use relaxation='sdp', 'exact' or 'alternating'")
        return self.accepts(program)

    @classmethod
    def priority(cls, program: MarginProgram) -> float:
        """Return how early ``"auto"`` asks this relaxation: the greatest number that accepts is taken, 0 never.

        A subclass does not inherit its place. Those here: supervised 100, exact 90, sdp 85, parts 82, weight-lifting
        80, minimax 70, cccp and alternating about 30; exact 88 where a tree of a few seconds is short.
        """
        return 0.0

    @classmethod
    def chosen(cls, program: MarginProgram) -> Relaxation:
        """Return what ``"auto"`` takes where it chooses this relaxation."""
        return cls()

    @abstractmethod
    def accepts(self, program: MarginProgram) -> Offer | Refusal:
        """Return an `Offer`, or a `Refusal` with the reason and what to change."""

    def lower(self, program: MarginProgram) -> Form:
        """Return the standard form handed to the solver (the first one of a loop), by default of fixed labels."""
        form: Form = program.fix_labels(program.labels.any_member())
        return form

    def form_of(self, run: Run) -> Any:
        """Return the form a run begins with, lowered once; of a run that was made without, lowered now."""
        return self.lower(run.program) if run.form is None else run.form

    def default_solver(self, form: Form) -> str:
        """Return the name of the solver used when none is given."""
        return "newton"

    def solver_order(self, form: Form) -> tuple[str, ...]:
        """Return the names of the solvers tried when none is given: the default one, then the alternatives."""
        first = self.default_solver(form) if getattr(form, "outside", None) is None else "clarabel"
        return (first, *(name for name in self.alternatives if name != first))

    @abstractmethod
    def run(self, run: Run) -> Outcome:
        """Solve and return what was found; honours the budget of the run."""

    @classmethod
    def option_names(cls) -> tuple[str, ...]:
        """Return the names of the options."""
        return tuple(f.name for f in dataclasses.fields(cls) if f.init)


def refuse_split(program: MarginProgram) -> Refusal | None:
    """Return why Crammer-Singer margins of a program cannot be handled, None when they can or there are none."""
    obstacle = program.kind.obstacle(program)
    return Refusal(obstacle, "Use md.margin(y, f, coding='simplex'), whose margins take any loss") if obstacle else None


def count_or(*names: str) -> Domain:
    """Return the integers of at least 0, and a few names."""
    count = integers(0)
    return Domain(" or ".join((count.words, *map(repr, names))),
                  lambda value: value if isinstance(value, str) and value in names else count.read(value))


def check_choice(owner: Any, name: str, choices: tuple[str, ...]) -> None:
    """Raise unless an option is one of the choices."""
    one_of(f"{name} of {type(owner).__name__}", getattr(owner, name), choices)
