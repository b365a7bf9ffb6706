"""The bound of the minimax relaxation, tightened by the label lift solved from the mixture of labellings."""

import warnings

import numpy as np
import pytest
from instances import random_instance
from sklearn.datasets import load_digits

import margindsl as md
from margindsl.contract import Budget, Progress
from margindsl.drivers.generation import generate
from margindsl.drivers.run import Run
from margindsl.drivers.starts import starting_labels
from margindsl.errors import DeclarationError, TrivialityWarning
from margindsl.relaxations.lift import lift


def clouds(seed, n=30, d=3):
    rng = np.random.default_rng(seed)
    side = np.where(rng.random(n) < 0.5, 1, -1)
    return rng.normal(size=(n, d)) + side[:, None], side


def declare(X, lam=10.0, constraints=None):
    y, f = md.Labels(len(X)), md.Hyperplane(X - X.mean(axis=0))
    extra = [abs(md.sum(y)) <= 0.2 * len(X)] if constraints is None else constraints(y)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + lam * md.mean(md.odm(y * f, theta=0.2, nu=0.4))), extra)


CONSTRAINTS = {
    "balance": None,
    "lopsided": lambda y: [md.sum(y) <= 10, md.sum(y) >= -2],
    "known": lambda y: [y[0] == 1, y[1] == -1, y[2] == -1, md.sum(y) <= 10, md.sum(y) >= -2],
    "links": lambda y: [y[0] == y[1], y[2] == -y[3], abs(md.sum(y)) <= 8],
}


def generated(problem, rounds=12, lift=None):
    program = problem.program()
    run = Run(program, md.Solver("mirror-prox"), md.Solver("newton"), Budget(tol=1e-4), np.random.default_rng(0),
              lift_solver=lift)
    return run, generate(run, starting_labels(run, 3), tol=1e-4, most=rounds, per_round=3, starts=4)


def bound_of(run, done, tighten=True):
    return md.Minimax(tighten=tighten)._certify(run, done, md.WeightLifting().beside(run) if tighten else None)


@pytest.mark.parametrize("k", range(1, 6))
def test_the_bound_is_never_lower_and_never_above_the_value_nor_the_lift(k):
    instance = random_instance(np.random.default_rng([7, k]))
    program = instance.problem.program()
    assert program.clusters == 2
    plain, tight = (md.Minimax(tighten=choice, rounding=4, polish="none", tol=1e-3) for choice in (False, True))
    if not plain.accepts(program):
        assert "minimax" in str(plain.accepts(program))
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrivialityWarning)
        before, after = (instance.problem.solve(r, random_state=0) for r in (plain, tight))
        lifts = [instance.problem.solve(lift, "clarabel", tol=1e-8).estimate
                 for lift in (md.SDP(polish="none", rounding=2), md.WeightLifting(polish="none", rounding=2))
                 if lift.accepts(program)]
    scale = max(1.0, abs(after.value))
    assert after.bound >= before.bound - 1e-7 * scale  # two solves of the masters agree no better
    assert after.bound <= after.value + 1e-9 * scale
    assert after.bound <= max(lifts) + 1e-6 * scale
    assert after.value == pytest.approx(before.value, rel=1e-9, abs=1e-9)  # the labels are not touched


def test_on_digits_it_is_the_bound_of_the_label_lift():
    digits = load_digits()
    problem = declare(digits.data[np.isin(digits.target, (3, 8))] / 16)
    options = {"rounding": 2, "polish": "none", "rounds": 8}
    tight = problem.solve(md.Minimax(**options), random_state=0)
    plain = problem.solve(md.Minimax(tighten=False, **options), random_state=0)
    lift = problem.solve(md.SDP(rounding=2, polish="none"), random_state=0)
    assert plain.bound < 0.99 * lift.bound
    assert tight.bound == pytest.approx(lift.bound, rel=0.01)
    assert tight.bound <= tight.value


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_the_lift_raises_the_certificate(name):
    X, _ = clouds(2, n=20)
    run, done = generated(declare(X, constraints=CONSTRAINTS[name]), lift=lambda _: md.Solver("clarabel"))
    form = lift(run.program)
    first, best = (bound_of(run, done, tighten) for tighten in (False, True))
    assert best.bound >= first.bound
    least = md.Solver("clarabel").open(form).solve(form, Budget(tol=1e-8)).objective
    assert (1 - 5e-3) * least <= best.bound <= least * (1 + 1e-6)


def test_the_certificate_stays_without_a_solver_without_time_and_after_a_stop():
    X, _ = clouds(3)
    problem = declare(X)
    run, done = generated(problem)
    first = bound_of(run, done, False).bound
    assert bound_of(run, done).bound == first
    run.lift_solver = lambda _: md.Solver("newton")  # takes no label lift
    assert bound_of(run, done).bound == first
    run.lift_solver, run.budget = md.Solver, Budget.within(0.0)
    assert bound_of(run, done).bound == pytest.approx(first, rel=1e-2)  # fewer steps of repair

    run.budget = Budget()
    stages = []

    def stop(progress: Progress) -> bool:
        stages.append(progress.stage)
        return progress.stage == "label generation"

    solution = problem.solve(md.Minimax(polish="none"), random_state=0, callback=stop)
    assert solution.bound <= solution.value
    assert not {"interior", "burer-monteiro"} & set(stages[stages.index("label generation"):])


def test_the_option_is_checked():
    with pytest.raises(DeclarationError, match=r"Minimax\(tighten=1\): expected True or False"):
        md.Minimax(tighten=1)
