"""The conformance suite of relaxations: what every one must do on the zoo."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from margindsl.contract import Refusal, Status
from margindsl.errors import RefusalError, TrivialityWarning, UnknownNameError
from margindsl.relaxations.relaxation import Relaxation
from margindsl.runtime.registry import SOLVERS, as_relaxation, entry_points, make_solver
from margindsl.runtime.solution import Solution
from margindsl.testing.report import Report, Trial, require, run_checks
from margindsl.testing.zoo import KnownProblem, zoo

TOL = 1e-5


def check_relaxation(relaxation: Any, only: Iterable[str] | None = None) -> Report:
    """Run the conformance suite of relaxations.

    Parameters
    ----------
    relaxation : str, Relaxation, or a subclass of Relaxation
        A registered name, an object with options, or a class, built with its defaults.
    only : iterable of str, optional
        Keys of `RELAXATION_CHECKS`; None runs all.

    Returns
    -------
    Report
        One line a check; `report.require()` raises if one failed.

    Raises
    ------
    UnknownNameError
        If a name is not known.
    """
    subject = relaxation() if isinstance(relaxation, type) else as_relaxation(relaxation)
    trial = Trial(
        subject, lambda: ((known.name, known) for known in zoo() if subject.accepts(known.problem.program())),
        lambda known: solve_quietly(known, subject))
    return run_checks(trial, f"relaxation {subject.name!r}", RELAXATION_CHECKS, only)


def solve_quietly(known: KnownProblem, relaxation: Relaxation, **options: Any) -> Solution:
    """Solve a problem of the zoo with a fixed seed and without warnings on triviality."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrivialityWarning)
        options.setdefault("random_state", 0)
        program, solver = known.problem.program(), None
        if relaxation.accepts(program):  # that its own choice of a solver takes the form is a check of its own
            form = relaxation.lower(program)
            own = make_solver(relaxation.default_solver(form))
            solver = None if own.accepts(form) else make_solver("clarabel")
        return known.problem.solve(relaxation, solver, **options)


def _accepts_something(trial: Trial) -> None:
    """At least one problem of the zoo is accepted."""
    require(bool(trial.cases), "no problem of the zoo is accepted")


def _default_solvers_fit(trial: Trial) -> None:
    """The solver a relaxation chooses by itself accepts its form, and those that take over from it exist."""
    unknown = [name for name in trial.subject.alternatives if name not in entry_points(SOLVERS)]
    require(not unknown, f"alternatives {unknown} are no solvers; known: {', '.join(entry_points(SOLVERS))}")
    for case, known in trial.cases:
        form = trial.subject.lower(known.problem.program())
        name = trial.subject.default_solver(form)
        answer = make_solver(name).accepts(form)
        require(bool(answer), f"{case}: {name!r} is chosen, and refuses: {answer}")


def _labels_are_members(trial: Trial) -> None:
    """Returned labels are ±1 and satisfy every label constraint."""
    for name, known, solution in trial.answers():
        y = solution.labels
        require(set(np.unique(y)) <= {-1, 1}, f"{name}: labels {np.unique(y)}, expected -1 and +1")
        require(bool(known.admits(y)), f"{name}: the labels {y.tolist()} break a constraint")


def _value_is_recomputed(trial: Trial) -> None:
    """The value is the optimum at the returned labels, as numpy and scipy compute it."""
    for name, known, solution in trial.answers():
        expected = known.value_of(solution.labels)
        require(abs(solution.value - expected) <= TOL * abs(expected),
                f"{name}: value {solution.value:.9g}, but the labels have {expected:.9g}")


def _value_is_no_less_than_the_optimum(trial: Trial) -> None:
    """No value lies below the optimum found by enumeration."""
    for name, known, solution in trial.answers():
        require(solution.value >= known.value - TOL * abs(known.value),
                f"{name}: value {solution.value:.9g} below the optimum {known.value:.9g}")


def _bounds_hold(trial: Trial) -> None:
    """Bounds lie below the optimum and below the value; estimates are finite where bounds are promised."""
    for name, known, solution in trial.answers():
        require(solution.bound <= known.value + 1e-7 * abs(known.value),
                f"{name}: bound {solution.bound:.9g} above the optimum {known.value:.9g}")
        require(solution.bound <= solution.value, f"{name}: bound above the value")
        if trial.subject.bound != "none":
            require(bool(np.isfinite(solution.bound)), f"{name}: promises a bound, gave {solution.bound}")
            require(bool(np.isfinite(solution.estimate)), f"{name}: estimate {solution.estimate}")


def _certificates_prove(trial: Trial) -> None:
    """Certificates prove their bounds, and fail once they claim one per cent more."""
    for name, _, solution in trial.answers():
        certificate = solution.certificate
        if certificate is None:
            require(trial.subject.bound == "none", f"{name}: promises a bound, gave no certificate")
            continue
        report = solution.verify()
        require(bool(report), f"{name}: the proof does not hold: {'; '.join(report.failures)}")
        more = certificate.bound + 0.01 * max(abs(certificate.bound), 0.01)
        require(not dataclasses.replace(solution, bound=more).verify(),
                f"{name}: the certificate proves {more:.9g}, more than its bound {certificate.bound:.9g}")


def _optimal_means_optimal(trial: Trial) -> None:
    """The status "optimal" is given only to an optimum."""
    for name, known, solution in trial.answers():
        if solution.state is Status.OPTIMAL:
            require(solution.value <= known.value + TOL * abs(known.value),
                    f"{name}: 'optimal' at {solution.value:.9g}, the optimum is {known.value:.9g}")


def _seeds_repeat(trial: Trial) -> None:
    """The same random_state gives the same labels and value."""
    for name, known, first in list(trial.answers())[::3]:  # whatever is drawn elsewhere is drawn in any of them
        second = solve_quietly(known, trial.subject)
        require(bool(np.array_equal(first.labels, second.labels)), f"{name}: labels differ between runs")
        require(first.value == second.value, f"{name}: values differ between runs")


def _limits_keep_labels(trial: Trial) -> None:
    """A time limit and a stopping callback give labels in B, a finite value and a valid bound."""
    stops: tuple[dict[str, Any], ...] = ({"time_limit": 1e-6}, {"callback": lambda progress: True})
    for name, known in trial.cases:
        for options in stops:
            solution = solve_quietly(known, trial.subject, **options)
            require(bool(known.admits(solution.labels)), f"{name}, {options}: labels break a constraint")
            require(bool(np.isfinite(solution.value)), f"{name}, {options}: value {solution.value}")
            require(solution.bound <= min(solution.value, known.value + 1e-7 * abs(known.value)),
                    f"{name}, {options}: bound {solution.bound:.9g} is not valid")


def _warm_starts_are_used(trial: Trial) -> None:
    """A warm start from the optimum is not made worse by a local method that looks for low objectives."""
    if trial.subject.bound != "none" or not trial.subject.minimises:
        return
    for name, known in trial.cases[::2]:
        warm = solve_quietly(known, trial.subject, warm_start=known.labels)
        require(warm.value <= known.value + TOL * abs(known.value),
                f"{name}: warm-started at {known.value:.9g}, returned {warm.value:.9g}")


def _refusals_give_a_reason(trial: Trial) -> None:
    """A refused problem raises RefusalError with the relaxation's name, a reason and a repair."""
    for known in zoo():
        answer = trial.subject.accepts(known.problem.program())
        if not isinstance(answer, Refusal):
            continue
        require(bool(answer.reason) and bool(answer.repair), f"{known.name}: refused without reason or repair")
        try:
            solve_quietly(known, trial.subject)
        except RefusalError as error:
            require(answer.reason in str(error) and repr(trial.subject.name) in str(error),
                    f"{known.name}: the error does not carry the reason: {error}")
        else:
            require(False, f"{known.name}: refused by accepts, but solved")


def _options_are_checked(trial: Trial) -> None:
    """Options are immutable, and an unknown one is refused by name."""
    try:
        type(trial.subject)(no_such_option=1)
    except UnknownNameError as error:
        require("no_such_option" in str(error), f"the message does not name the option: {error}")
    else:
        require(False, "an unknown option was taken")
    try:
        trial.subject.polish = "none"
    except dataclasses.FrozenInstanceError:
        return
    require(False, "options can be changed after construction")


RELAXATION_CHECKS: dict[str, Callable[[Trial], None]] = {
    check.__name__.lstrip("_"): check for check in (
        _accepts_something, _default_solvers_fit, _labels_are_members,
        _value_is_recomputed, _value_is_no_less_than_the_optimum,
        _bounds_hold, _certificates_prove, _optimal_means_optimal, _seeds_repeat, _limits_keep_labels,
        _warm_starts_are_used, _refusals_give_a_reason, _options_are_checked)}
