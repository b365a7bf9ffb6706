"""The problem a user solves: a formulation with relaxations and solvers chosen at solve time."""

from __future__ import annotations

import copy
import importlib
import time
from collections.abc import Callable, Hashable, Iterable
from numbers import Integral
from typing import Any, Unpack

import numpy as np

from margindsl.contract import Refusal, Solver
from margindsl.drivers.guard import Guarded, offer_of
from margindsl.errors import DeclarationError, RefusalError, TimeLimitError
from margindsl.features.points import is_lazy
from margindsl.host.clock import Cancelled
from margindsl.host.parallel import check_jobs, share_out
from margindsl.host.progress import task
from margindsl.language.constraints import Conditions, Constraint
from margindsl.language.formulation import Formulation, Minimize
from margindsl.language.symbols import Parameter
from margindsl.program.forms import Form
from margindsl.program.passes import Presolved
from margindsl.program.program import MarginProgram
from margindsl.relaxations.relaxation import Relaxation
from margindsl.runtime.compiled import COMPILED, Compiled, check_form, no_worse
from margindsl.runtime.options import SolveArguments, SolveOptions, split_options
from margindsl.runtime.presolve import Draft, Prepared, outline, prepare_features, warn_if_trivial
from margindsl.runtime.registry import (
    RelaxationChoice,
    SolverChoice,
    as_relaxation,
    as_solver,
    make_solver,
    relaxation_classes,
    solvers_for,
)
from margindsl.runtime.solution import Solution
from margindsl.runtime.stages import unfitted
from margindsl.typing import IntArray


class Problem(Formulation):
    """Declare a margin-based clustering problem.

    Parameters
    ----------
    objective : Minimize
    constraints : iterable of Constraint, optional
    relaxation : str or Relaxation, optional
        The default of a bare `solve()`.
    solver : str or Solver, optional
        The default of a bare `solve()`.

    Raises
    ------
    GrammarError
        If a rule of disciplined margin programming is broken; before any solve.

    Examples
    --------
    >>> import numpy as np, margindsl as md
    >>> X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> y, f = md.Labels(4), md.Hyperplane(X)
    >>> problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 4 * md.mean(md.hinge(y * f))),
    ...                      [abs(md.sum(y)) <= 0])
    >>> labels = problem.solve(relaxation="exact").labels
    >>> (labels * labels[0]).tolist()
    [1, 1, -1, -1]
    """

    def __init__(self, objective: Minimize, constraints: Iterable[Constraint] | None = None, *,
                 relaxation: RelaxationChoice = None,
                 solver: SolverChoice = None) -> None:
        super().__init__(objective, constraints)
        self.relaxation = relaxation
        self.solver = solver
        self._prepared: Prepared | None = None
        self._sessions: dict[Hashable, Guarded] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_sessions": {}}

    def with_constraints(self, *constraints: Constraint | Iterable[Constraint]) -> Problem:
        """Return the same problem with further constraints; features that were built are shared.

        Parameters
        ----------
        *constraints : Constraint or list of Constraint
            On `problem.labels` and `problem.hyperplane`.

        Examples
        --------
        >>> import margindsl as md
        >>> y, f = md.Labels(3), md.Hyperplane([[0.0], [1.0], [3.0]])
        >>> problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(y * f))))
        >>> linked = problem.with_constraints(problem.labels[0] == problem.labels[1])
        >>> len(linked.constraints)
        1
        """
        further: list[Any] = [one for c in constraints for one in (c if isinstance(c, (list, tuple)) else (c,))]
        return self._under((*self.constraints, *further)) if further else self

    def at_labels(self, labels: IntArray) -> Problem:
        """Return the problem at known labels (n,), in place of its constraints on labels."""
        kept = []
        for constraint in self.constraints:
            met = Conditions(self.labels, self.hyperplane, self.hyperplanes)
            constraint.lower(met)
            if met.decision or met.orthogonal or met.combined or met.outside:  # else it is on labels alone
                kept.append(constraint)
        return self._under((*kept, self.labels[np.arange(self.labels.n)] == labels))

    def _under(self, constraints: tuple[Constraint, ...]) -> Problem:
        """Return the problem under other constraints; features that were built are shared."""
        other = type(self)(self.objective, constraints, relaxation=self.relaxation, solver=self.solver)
        if all(a is b for a, b in zip(other.hyperplanes, self.hyperplanes)):
            other._prepared = self._prepared
        return other

    def prepared(self) -> Prepared:
        """Return the features, built once and kept.

        Raises
        ------
        DeclarationError
            If points that stay where they are, such as a memory map, are no longer those that were declared.
        """
        self.check_unchanged()
        if self._prepared is None:
            self._prepared = prepare_features(self.hyperplanes, rotate=not self.lower().by_columns)
        return self._prepared

    def program(self) -> MarginProgram:
        """Return the margin program at the present parameter values."""
        return Draft(self).compiled()

    def compile(self, relaxation: RelaxationChoice = None,
                solver: SolverChoice = None) -> Compiled:
        """Lower the problem for a relaxation and a solver.

        Parameters
        ----------
        relaxation : str or Relaxation, optional
            Default: the problem's, else "auto".
        solver : str or Solver, optional
            Default: the problem's, else the relaxation's choice for the form; also when another relaxation than the
            problem's is asked for, whose form the problem's solver does not take. A solver that was chosen, not
            given, hands over to the relaxation's next one where it fails.

        Returns
        -------
        Compiled
            With `.explain()`, `.cvxpy` where one exists, and `.solve()`.

        Raises
        ------
        RefusalError
            If the relaxation refuses the program or the solver the form; the reason and repair are given.
        UnknownNameError, NotInstalledError, ContradictionError, InfeasibleError
        """
        return self._compile(relaxation, solver, Draft(self))

    def _compile(self, relaxation: RelaxationChoice, solver: SolverChoice,
                 draft: Draft) -> Compiled:
        given_relaxation = relaxation if relaxation is not None else self.relaxation
        given_solver = solver if solver is not None else self.solver
        chosen = None if given_relaxation in (None, "auto") else as_relaxation(given_relaxation)
        named = None if given_solver in (None, "auto") else as_solver(given_solver)
        program = draft.compiled()
        began = time.perf_counter()
        method = chosen or choose_relaxation(program)
        answer = method.offer(program)
        if isinstance(answer, Refusal):
            raise RefusalError(f"relaxation {method.name!r} does not accept this program: {answer}")
        presolved = Presolved.of(program)
        form = method.lower(presolved.program)
        departs = relaxation is not None and solver is None  # the problem's own solver is its relaxation's
        if departs and named is not None and isinstance(offer_of(named, form), Refusal):
            named = None
        used = choose_solver(method, form) if named is None else named
        check_form(used, form, method)
        draft.seconds["lower"] = time.perf_counter() - began
        return Compiled(presolved, method, used, form, self.printed(), draft.seconds, self._sessions,
                        hands_over=named is None, unchanged=self.check_unchanged,
                        again=(lambda: Presolved.of(self.program())) if self.parameters else None)

    def solve(self, relaxation: RelaxationChoice = None, solver: SolverChoice = None,
              **options: Unpack[SolveArguments]) -> Solution:
        """Find labels that keep the constraints, their value and, where the relaxation has one, a certified bound.

        Parameters
        ----------
        relaxation : str or Relaxation, optional
            Such as "exact" or ``md.SDP(rounding=50)``; `md.relaxations()` lists them, "auto" chooses.
        solver : str or Solver, optional
            Such as ``md.Solver("scs", eps=1e-5)``; the relaxation's own where none is given, or its next if that fails.
        **options
            `tol`, `time_limit` (seconds), `max_iter`, `warm_start`, `random_state`, `verbose`, `callback`,
            `checkpoint`: see `margindsl.runtime.options.SolveOptions`.

        Returns
        -------
        Solution
            After Ctrl-C, a time limit or a callback's request of the best labels so far, or of a start.

        Raises
        ------
        DeclarationError, RefusalError, UnknownNameError, NotInstalledError, ContradictionError, InfeasibleError
        SolverError, TimeLimitError
            If the solvers fail, or time is up before any labels that keep the constraints are known.
        KeyboardInterrupt
            If Ctrl-C comes while the problem is compiled.
        """
        chosen = SolveOptions.of(options)
        importlib.import_module("scipy.optimize")  # half a second of the first solve, no part of its time limit
        with chosen.watched() as watch:
            draft = Draft(self)
            try:
                streamed = any(is_lazy(one.X) for one in self.hyperplanes)  # whose passes go on to a first answer
                with watch.budget.limit(np.inf if streamed else COMPILED):
                    compiled = self._compile(relaxation, solver, draft)
            except Cancelled:
                if draft.declaration is None or draft.labels is None:
                    raise TimeLimitError(f"the time limit of {chosen.time_limit:g} seconds was up before the label set "
                                         "was known to have members; raise it") from None
                program = outline(draft.declaration, draft.labels, self.text())
                method, engine = (str(getattr(given, "name", given) or "auto") for given in (
                    relaxation or self.relaxation, solver or self.solver))
                found = unfitted(program, chosen, watch.budget, method, engine)
                return watch.ended(no_worse(found, chosen.warm_start), self.printed())
            warn_if_trivial(compiled.program)
            return watch.ended(compiled.answer(chosen, watch), compiled.printed)

    def path(self, parameter: Parameter, values: Iterable[float],
             relaxation: RelaxationChoice = None, solver: SolverChoice = None,
             chain: int | None = None, n_jobs: int | None = None, **options: Unpack[SolveArguments]) -> list[Solution]:
        """Solve along values of a parameter, each solve warm-started with the one before.

        Parameters
        ----------
        parameter : Parameter
            One of the problem's; its value is restored afterwards.
        values : iterable of float
        relaxation, solver, **options
            As for `solve`.
        chain : int or None
            How many values in a row are warm-started one with the other; None all of them. Every chain begins with
            `warm_start`, and chains can be solved at the same time.
        n_jobs : int or None
            Chains at a time, as in scikit-learn: None is one unless `joblib.parallel_config` says otherwise. Each works
            on a copy of the problem. A generator as `random_state` is split among chains, which have answers of their
            own whatever their number at a time.

        Raises
        ------
        DeclarationError
            If the parameter does not occur in the objective, a value is outside its domain, or `chain` is no positive
            number; before any solve.
        """
        if all(parameter is not own for own in self.parameters):
            raise DeclarationError("problem.path: the parameter does not occur in the objective")
        if chain is not None and not (isinstance(chain, Integral) and chain > 0):
            raise DeclarationError(f"problem.path(chain={chain!r}): expected None or a positive number of values")
        check_jobs(n_jobs)
        if not isinstance(values, Iterable):
            raise DeclarationError(f"problem.path(values={values!r}): expected several values of the parameter")
        before, values = parameter.value, list(values)
        try:
            for value in values:  # a value outside its domain is named before hours of solves, not after
                parameter.value = value
                self.lower()
            size = len(values) if chain is None else int(chain)
            chains = [values[start:start + size] for start in range(0, len(values), max(size, 1))]
            arguments: dict[str, Any] = {"relaxation": relaxation, "solver": solver}
            with task("path", len(values), shown=options.get("verbose") is None) as whole:
                if len(chains) <= 1:
                    return _along(self, parameter, values, arguments | {**options}, whole.step)
                found: list[list[Solution]] = [[] for _ in chains]

                def keep(number: int, solutions: list[Solution]) -> None:
                    found[number] = solutions
                    whole.step(done=sum(map(len, found)))

                share_out(_along_copy, [(self, parameter, part, arguments | {**own}) for part, own in zip(
                    chains, split_options(options, len(chains)))], keep, n_jobs)
                return [solution for solutions in found for solution in solutions]
        finally:
            parameter.value = before


def _along(problem: Problem, parameter: Parameter, values: list[float], arguments: dict[str, Any],
           notify: Callable[[], object] = lambda: None) -> list[Solution]:
    solutions: list[Solution] = []
    for value in values:
        parameter.value = value
        solutions.append(problem.solve(**arguments))
        arguments = arguments | {"warm_start": solutions[-1]}
        notify()
    return solutions


def _along_copy(problem: Problem, parameter: Parameter, values: list[float],
                arguments: dict[str, Any]) -> list[Solution]:
    return _along(*copy.deepcopy((problem, parameter)), values, arguments)


def choose_solver(relaxation: Relaxation, form: Form) -> Solver:
    """Return the first solver of a relaxation's order that accepts a form, its default when none does."""
    found = next(solvers_for(form, relaxation.solver_order(form)), None)
    return make_solver(relaxation.default_solver(form)) if found is None else found


def choose_relaxation(program: MarginProgram, proving: bool = False) -> Relaxation:
    """Return the relaxation of "auto": of those that accept the program the one of the greatest `Relaxation.priority`.

    With `proving` only those are asked that prove a bound.

    `supervised` (all labels known); `exact` up to 12 free components, and up to 150 of two clusters, 200 in up to
    twenty columns or of simplex margins in up to sixty, ended early (.4 to 23 s); `sdp` up to 100 components, and to
    750 points where known labels bound the others (1 to 11 s); `parts` up to 2,000 points of rank ten, of losses
    that rise on both sides (2 to 13 s); `weight-lifting` where the feature rank is at most 2,000 (a bound and good
    labels at the cost of some passes over the data); `minimax` up to 5,000 points; `cccp`;
    `alternating`. For k clusters: `supervised`, `exact` (of three up to six free components, or of simplex margins),
    `sdp`, then `alternating`, whose steps end no higher than those of `cccp`. Relaxations of other packages take part
    with a priority of their own.
    """
    asked = (cls for cls in relaxation_classes() if "priority" in vars(cls))  # one that is inherited speaks for another
    ranked = sorted(((cls.priority(program), cls.name, cls) for cls in asked if cls.bound != "none" or not proving),
                    reverse=True)
    sentence = "none asks to be chosen"
    for priority, name, cls in ranked:
        if priority <= 0.0:
            break
        method: Relaxation = cls.chosen(program)
        answer = method.offer(program)
        if answer:
            return method
        sentence = f"{name!r}, the last one asked: {answer}"
    raise RefusalError(f"no relaxation accepts this program; {sentence}")
