"""Kernels whose values share far more than what tells the points apart."""

import warnings

import numpy as np
import pytest

import margindsl as md
from margindsl.errors import AccuracyWarning

POINTS = np.random.default_rng(0).normal(size=(6, 2))


def solved(X, kernel):
    y, f = md.Labels(6), md.Hyperplane(X, kernel=kernel)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= 2])
    return problem.solve("exact", random_state=0).value


def test_centring_that_leaves_few_digits_says_so():
    with pytest.warns(AccuracyWarning, match="centring leaves . digits"):
        solved(POINTS + 1e6, md.Polynomial(1))


@pytest.mark.parametrize("kernel", ["linear", md.RBF(1.0)])
def test_kernels_that_do_not_see_an_offset_have_the_same_value_in_silence(kernel):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isclose(solved(POINTS + 1e6, kernel), solved(POINTS, kernel), rtol=1e-6)


def test_points_that_coincide_are_no_cancellation():
    with warnings.catch_warnings():
        warnings.simplefilter("error", AccuracyWarning)
        assert np.isclose(solved(np.full((6, 2), 3.0), md.Polynomial(2)), 1.0)
