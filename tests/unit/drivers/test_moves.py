"""Hessians of Newton steps stay regular where the identity in them is lost in rounding."""

import numpy as np
import pytest

import margindsl as md
from margindsl.drivers.moves import regular_hessian

RNG = np.random.default_rng(0)


def centred(X):
    return X - X.mean(axis=0)


def features_of(X):
    y, f = md.Labels(len(X)), md.Hyperplane(X)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(y * f)))).program().features


def test_a_usual_hessian_is_left_as_it_is():
    X, curvature = centred(RNG.normal(size=(9, 3))), RNG.uniform(0, 50, 9)
    expected = X.T @ (curvature[:, None] * X) + np.eye(3)
    np.testing.assert_allclose(regular_hessian(features_of(X), curvature), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", [1e8, 1e12, 1e16, 1e24])
def test_collinear_points_of_large_weight_leave_a_regular_hessian(size):
    X = centred(np.outer(RNG.normal(size=9), [1.0, 1.0, -1.0]))
    hessian = regular_hessian(features_of(X), np.full(9, size))
    largest = size * float(np.sum(X**2))
    np.linalg.cholesky(hessian)
    step = np.linalg.solve(hessian, X[0])
    assert 0 < X[0] @ step <= X[0] @ X[0]  # at most the length of the gradient step
    np.testing.assert_allclose(hessian, size * X.T @ X + np.eye(3), atol=2e-12 * largest)
