"""Two clusters through what several clusters go through: the answers of the zoo are those of signs."""

import dataclasses

import numpy as np
import pytest

from margindsl.contract import Budget
from margindsl.drivers.alternation import alternate
from margindsl.drivers.enumeration import enumerate_labels
from margindsl.drivers.run import Run
from margindsl.drivers.search import search
from margindsl.labelset import Clusters, presolve
from margindsl.runtime.registry import as_relaxation, make_solver
from margindsl.testing import zoo


def clustered(program):
    """Return a program of signs as one of clusters 0 and 1, None where sums of labels are no sizes."""
    labels, n = program.labels, program.n
    if program.free_bias or program.decision or any(
            not np.allclose(bound.omega @ labels.indicator.toarray().T, 1.0) or np.any(labels.size > 1)
            for bound in labels.bounds):
        return None
    first = labels.first[labels.component]
    same = labels.sign == labels.sign[first]
    pairs = np.stack([first, np.arange(n)], axis=1)
    pinned = labels.at_points(labels.pinned)
    known = np.flatnonzero(pinned)
    sizes = [(np.array([n - b.upper, n + b.lower]) / 2, np.array([n - b.lower, n + b.upper]) / 2)
             for b in labels.bounds]
    general = presolve(n, Clusters(2), must=pairs[same & (first != np.arange(n))], cannot=pairs[~same],
                       known=(known, (pinned[known] + 1) // 2), sizes=sizes)
    return dataclasses.replace(program, labels=general, coding="simplex")


PAIRS = {known.name: (known.problem.program(), clustered(known.problem.program())) for known in zoo()}
TAKEN = [name for name, (_, general) in PAIRS.items() if general is not None]


def runs(name, solver="newton", tol=1e-10):
    return [Run(program, make_solver(solver), make_solver("newton"), Budget(tol=tol), np.random.default_rng(0))
            for program in PAIRS[name]]


def test_most_of_the_zoo_is_taken():
    assert 2 * len(TAKEN) > len(PAIRS)


@pytest.mark.parametrize("name", TAKEN)
def test_label_sets_have_the_same_members(name):
    signs, general = (program.labels for program in PAIRS[name])
    if signs.count <= 12:
        members = {tuple((y + 1) // 2) for y in signs.enumerate()}
        assert members == {tuple(y) for y in general.enumerate()}
    table = np.random.default_rng(1).normal(size=(signs.n, 2))
    assert np.array_equal((signs.maximise(table) + 1) // 2, general.maximise(table))


@pytest.mark.parametrize("name", TAKEN)
def test_descents_and_searches_end_at_the_same_values(name):
    start = PAIRS[name][0].labels.sample(np.random.default_rng(2), 1)[0]
    fits = [alternate(run, labels, tol=1e-10) for run, labels in zip(runs(name), (start, (start + 1) // 2))]
    assert np.isclose(fits[0].value, fits[1].value, rtol=1e-8, atol=0.0)
    assert np.array_equal((fits[0].labels + 1) // 2, fits[1].labels)
    ends = [search(run, fit, tol=1e-10).value for run, fit in zip(runs(name), fits)]
    assert np.isclose(*ends, rtol=1e-8, atol=0.0)


@pytest.mark.parametrize("name", [name for name in TAKEN if PAIRS[name][0].labels.count <= 10])
def test_enumerations_prove_the_same_optimum(name):
    done = [enumerate_labels(run, tol=1e-10) for run in runs(name)]
    assert np.isclose(done[0].fit.value, done[1].fit.value, rtol=1e-8, atol=0.0)
    assert np.isclose(done[0].certificate.bound, done[1].certificate.bound, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("name", TAKEN)
def test_label_lifts_prove_the_same_bound(name):
    method = as_relaxation("sdp")
    certificates = [method.run(run).certificate for run in runs(name, "clarabel", 1e-9)]
    assert np.isclose(*(proof.bound for proof in certificates), rtol=1e-5)  # of dual points to clarabel's accuracy
