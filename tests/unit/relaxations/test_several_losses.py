"""Several losses at one point share what the proof of a weight lift gives it: none of them needs a part of its own."""

import numpy as np
import pytest

import margindsl as md

rng = np.random.default_rng(2)
X = rng.normal(size=(14, 3)) + np.where(np.arange(14) < 7, 1.0, -1.0)[:, None]
SOME = np.array([0, 1, 2, 5, 8, 10, 13])
TOTALS = {
    "part of the points": lambda g: md.mean(md.squared_hinge(0.1 * g)) / 10 + md.sum(md.odm(g, 0.4, 0.2)[SOME]),
    "weights of their own": lambda g: md.mean(np.linspace(0.1, 2, 14) * md.odm(g, 0.4, 0.2)) + md.mean(abs(1 - g)),
    "a square and a fall": lambda g: md.mean(np.linspace(1, 2, 14) * (g + 2.5) ** 2) - md.sum(3 * g) / 5}


@pytest.mark.parametrize("total, solver", [*zip(TOTALS, ["clarabel", "burer-monteiro", "clarabel"])])
def test_the_bound_is_no_less_than_the_value_of_the_relaxation(total, solver):
    y, f = md.Labels(14), md.Hyperplane(X)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + TOTALS[total](y * f)), [abs(md.sum(y)) <= 4])
    solution = problem.solve(md.WeightLifting(polish="none"), solver, random_state=0)
    size = abs(solution.estimate) + abs(solution.value)
    assert solution.bound >= solution.estimate - 1e-3 * size and solution.verify()
    assert solution.bound <= solution.estimate <= problem.solve("exact").value * (1 + 1e-6)


def test_one_loss_in_two_terms_is_one_loss():
    y, f = md.Labels(14), md.Hyperplane(X)
    whole, parts = (md.Problem(md.Minimize(md.sq_norm(f) / 2 + total)).solve(
        md.WeightLifting(polish="none"), "clarabel", random_state=0) for total in (
            3 * md.mean(md.odm(y * f, 0.4, 0.2)),
            2 * md.mean(md.odm(y * f, 0.4, 0.2)) + md.sum(np.full(14, 1 / 14) * md.odm(y * f, 0.4, 0.2))))
    assert whole.bound == pytest.approx(parts.bound, rel=1e-5)
