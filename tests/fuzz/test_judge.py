"""The judge is judged: bugs put into answers and declarations on purpose are caught by the random models."""

import dataclasses
from functools import cache

import numpy as np
import pytest
from generator import draw
from judge import BEST, BOUND, VALUE, judge
from plans import plan

import margindsl as md


@cache
def is_plain(seed):
    """Return whether a model is small, of usual scale, and solved by something quick."""
    model = draw(seed)
    chosen = plan(model)
    quick = chosen.name in ("alternating", "exact", "weight-lifting") and chosen.solver is None and not chosen.warm
    return quick and model.n <= 6 and not model.tags and model.norm == 0.5 and not model.earlier


SEEDS = range(800)


def altered(**changes):
    """Return a mutant of `Problem.solve` whose solutions have some fields changed."""
    def mutate(monkeypatch):
        solve = md.Problem.solve

        def wrong(self, *arguments, **options):
            solution = solve(self, *arguments, **options)
            return dataclasses.replace(solution, **{name: change(solution) for name, change in changes.items()})

        monkeypatch.setattr(md.Problem, "solve", wrong)
    return mutate


def declared(name, change):
    """Return a mutant of the language: a name that means something else."""
    return lambda monkeypatch: monkeypatch.setattr(md, name, change(getattr(md, name)))


def without_last_constraint(problem):
    return lambda objective, constraints: problem(objective, constraints[:-1])


def centred_otherwise(plane):
    return lambda *arguments, centre, **options: plane(*arguments, centre=not centre, **options)


def flipped(solution):
    labels = np.array(solution.labels)
    if solution.coding == "binary":
        labels[0] *= -1
    else:
        labels[0] = (labels[0] + 1) % solution.decision.shape[1]
    return labels


MUTANTS = {
    "bound too high": (altered(bound=lambda s: s.bound + 1e-5 * abs(s.value)), {"wrong bound"}),
    "value too low": (altered(value=lambda s: s.value * (1 - 1e-7)), {"wrong value"}),
    "value too high": (altered(value=lambda s: s.value + 1e-7 * abs(s.value)), {"wrong value"}),
    "a label flipped": (altered(labels=flipped), {"labels outside B", "wrong value"}),
    "weights too short": (altered(weights=lambda s: 0.999 * s.weights), {"wrong value", "unreachable"}),
    "decision values off": (altered(decision=lambda s: s.decision + 1e-3), {"wrong value", "unreachable"}),
    "optimal without a proof": (altered(bound=lambda s: s.bound - 1e-3 * abs(s.value)), {"optimal with a gap"}),
    "centring forgotten": (declared("Hyperplane", centred_otherwise), {"unreachable", "wrong bound"}),
    "a constraint dropped": (declared("Problem", without_last_constraint), {"labels outside B"}),
    "hinge with another kink": (declared("hinge", lambda _: lambda g: md.pos(1.01 - g)), {"wrong value"}),
    "sum for mean": (declared("mean", lambda _: md.sum), {"wrong value"}),
    "a kernel of another width": (declared("RBF", lambda rbf: lambda width: rbf(1.01 * width)),
                                  {"unreachable", "wrong bound", "value above the best at its labels"}),
    "a penalised bias left free": (
        declared("Hyperplane", lambda plane: lambda X, kernel, bias, **o: plane(X, kernel, bool(bias), **o)),
        {"wrong value", "unreachable", "wrong bound"}),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_bug_is_caught(name, monkeypatch):
    mutate, expected = MUTANTS[name]
    mutate(monkeypatch)
    for seed in filter(is_plain, SEEDS):
        if expected & {kind for kind, _ in judge(seed).failures}:
            return
    raise AssertionError(f"{sum(map(is_plain, SEEDS))} models passed with: {name}")


def test_tolerances_are_below_what_a_solve_promises():
    assert max(VALUE, BOUND, BEST) <= 1e-6
