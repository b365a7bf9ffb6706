"""A sum of decision values held far from where the losses have their unit: every solver finds it and proves it."""

import numpy as np
import pytest

import margindsl as md

X = np.random.default_rng(0).normal(size=(4, 2))


@pytest.mark.parametrize("shift, slope, bias", [  # every shift with and without a bias, every slope with most shifts
    (shift, [-1 / 3, 1.0, 3.0][(i + bias) % 3], bias)
    for i, shift in enumerate([0.0, 1e-6, 1e-3, 0.1, 1.0]) for bias in (True, False)])
def test_squares_near_zero_and_a_sum_of_one(shift, slope, bias):
    y, f = md.Labels(4), md.Hyperplane(X, bias=bias, centre=False)
    total = 4 * md.sq_norm(f) + 10 * md.mean((slope * (y * f) + shift) ** 2)
    problem = md.Problem(md.Minimize(total), [md.sum(f) == 1])
    solution = problem.solve("exact", "newton")
    assert solution.status == "optimal" and solution.verify()
    assert solution.value == pytest.approx(problem.solve("exact", "clarabel").value, rel=1e-6)
