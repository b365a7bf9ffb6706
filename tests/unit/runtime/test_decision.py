"""Decision values computed again over the same points agree, over others they do not."""

import numpy as np

from margindsl.features import DenseFeatures
from margindsl.features.maps import NoMap
from margindsl.runtime.presolve import first_other


def test_products_that_cancel_are_those_of_the_same_points():
    rng = np.random.default_rng(0)
    v = rng.normal(size=6)
    points = 1e3 * rng.normal(size=(40, 6))
    points -= np.outer(points @ v, v) / (v @ v)
    weights, decision = np.append(10 * v, 1.0), np.ones(40)  # products of 1e4 leave what is always 1
    features = DenseFeatures(np.hstack([points, np.ones((40, 1))]), NoMap(), "points")
    assert np.ptp(features.apply(weights)) > 0.0
    assert first_other(features, weights, 0.0, decision) is None
    points[7] += 1e-8 * v
    moved = DenseFeatures(np.hstack([points, np.ones((40, 1))]), NoMap(), "points")
    assert first_other(moved, weights, 0.0, decision) == 7
