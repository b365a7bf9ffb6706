"""Every registered relaxation runs the shipped conformance suite, and the suite finds broken ones."""

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from margindsl.contract import Refusal, Status
from margindsl.errors import UnknownNameError
from margindsl.program.certificates import Certificate, fixed_label_case
from margindsl.relaxations.alternating import Alternating
from margindsl.relaxations.exact import Exact
from margindsl.relaxations.relaxation import Outcome
from margindsl.runtime.registry import as_relaxation, relaxation_names
from margindsl.testing import RELAXATION_CHECKS, ConformanceError, check_relaxation, zoo
from margindsl.testing.report import Trial


@pytest.mark.slow
@pytest.mark.parametrize("name", relaxation_names())
def test_registered_relaxations_conform(name):
    relaxation = as_relaxation(name)
    if name in ("weight-lifting", "minimax", "parts"):  # their labels are improved as those of "sdp" are
        relaxation = dataclasses.replace(relaxation, polish="none")
    check_relaxation(relaxation).require()


def test_every_check_states_what_it_requires():
    for check in RELAXATION_CHECKS.values():
        assert (check.__doc__ or "").strip().endswith(".")


def test_an_unknown_check_lists_the_nearest():
    with pytest.raises(UnknownNameError, match="unknown conformance check 'bounds_hol'.*Did you mean 'bounds_hold'"):
        check_relaxation("exact", only=["bounds_hol"])


@pytest.mark.parametrize("index", range(len(zoo())))
def test_the_optima_of_the_zoo_are_those_of_enumeration(index):
    known = zoo()[index]
    value, _ = known.brute_force()
    assert known.value == pytest.approx(value, rel=1e-7, abs=1e-8)
    assert known.admits(known.labels)
    assert known.value_of(known.labels) == pytest.approx(value, rel=1e-7, abs=1e-8)
    labels = known.problem.program().labels
    members = {tuple(labels.names.written(y)) for y in labels.enumerate()}
    assert members == {tuple(y) for y in known.members()}


@dataclass(frozen=True, kw_only=True)
class Careless(Alternating):
    """A relaxation whose certificate proves less than it claims."""

    name: ClassVar[str] = "careless"
    bound: ClassVar[str] = "certified"

    def run(self, run):
        outcome = super().run(run)
        form = run.program.fix_labels(outcome.answer.labels)
        u = np.asarray(outcome.answer.raw["u"])
        tau = np.zeros(len(form.decision))
        claim = Certificate(outcome.answer.value + 1.0, kind="cases", arrays=fixed_label_case(form, u, tau))
        return dataclasses.replace(outcome, certificate=claim, estimate=outcome.answer.value)


@dataclass(frozen=True, kw_only=True)
class Boastful(Alternating):
    """A local method that calls its first labelling optimal."""

    name: ClassVar[str] = "boastful"
    restarts: int = 1

    def run(self, run):
        fit = run.fit(run.program.labels.sample(np.random.default_rng(4), 1)[0], tol=1e-12)
        form = run.program.fix_labels(fit.labels)
        case = fixed_label_case(form, np.asarray(fit.raw["u"]), np.zeros(len(form.decision)))
        claim = Certificate(fit.value, kind="cases", arrays=case)
        return Outcome(Status.OPTIMAL, answer=fit, certificate=claim)


@dataclass(frozen=True, kw_only=True)
class Mute(Exact):
    """A relaxation that refuses without a reason."""

    name: ClassVar[str] = "mute"

    def accepts(self, program):
        return Refusal("")


@dataclass(frozen=True, kw_only=True)
class Misnamed(Alternating):
    """A relaxation that hands over to a solver that does not exist."""

    name: ClassVar[str] = "misnamed"
    alternatives: ClassVar[tuple[str, ...]] = ("newtn",)


def failures(report):
    return {check.name for check in report.checks if not check.passed}


def claimed(known):
    """Return an answer that is called optimal and is not."""
    solution = known.problem.solve("alternating", random_state=0)
    return dataclasses.replace(solution, state=Status.OPTIMAL, value=known.value + 1.0)


def test_the_suite_finds_broken_relaxations():
    some = ["bounds_hold", "certificates_prove"]
    assert failures(check_relaxation(Careless, only=some)) == set(some)
    assert check_relaxation(Boastful, only=["optimal_means_optimal"]).passed  # no false claim leaves the library
    with pytest.raises(ConformanceError, match="'optimal' at .*, the optimum is"):
        RELAXATION_CHECKS["optimal_means_optimal"](Trial(Boastful(), lambda: [("four", zoo()[0])], claimed))
    misnamed = check_relaxation(Misnamed, only=["default_solvers_fit"])
    assert failures(misnamed) == {"default_solvers_fit"} and "['newtn'] are no solvers" in str(misnamed)
    broken = check_relaxation(Mute, only=["accepts_something", "refusals_give_a_reason"])
    assert failures(broken) == {"accepts_something", "refusals_give_a_reason"}
    with pytest.raises(ConformanceError, match="refused without reason or repair"):
        broken.require()
    assert "FAIL  accepts_something: At least one problem of the zoo is accepted." in str(broken)
