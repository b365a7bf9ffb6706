"""Losses as arrays: the cells of all points are those of every point by itself."""

import numpy as np
import pytest

import margindsl as md
from margindsl.proof.tables import loss_tables

LOSSES = {
    "ODM": lambda g: md.mean(md.odm(g, 0.4, 0.2)),
    "hinge and squares": lambda g: md.mean(md.hinge(g)) + 0.3 * md.mean(md.square(1 - g)),
    "hinge and logistic": lambda g: md.mean(md.hinge(g)) + md.mean(md.logistic(-g)),
    "weights of every third": lambda g: md.sum(np.where(np.arange(6) % 3, 1.0, 2.0) * md.hinge(g)),
    "not all points": lambda g: md.sum(md.hinge(g[:4])) + md.sum(md.square(g)),
    "slopes": lambda g: md.sum(md.hinge(np.array([1.0, 1, 1, 2, 2, -1]) * g)),
}


@pytest.mark.parametrize("parted", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_tables_are_those_of_every_point_alone(name, parted):
    y, f = md.Labels(6), md.Hyperplane(np.random.default_rng(0).normal(size=(6, 2)))
    losses = md.Problem(md.Minimize(md.sq_norm(f) / 2 + LOSSES[name](y * f))).program().losses
    weights = np.bincount(losses.points, losses.weights, minlength=6)
    whole = loss_tables(losses, parted)
    for point in range(6):
        alone = losses.restricted(np.array([point]))  # its weights are scaled up to the whole
        share = weights[point] / alone.weights.sum() if len(alone.weights) else 1.0
        cells = loss_tables(alone, parted)
        own = whole["cell"] == point
        for end in ("left", "right"):
            np.testing.assert_allclose(whole[end][own], cells[end], rtol=1e-14)
        if name != "not all points":  # there the terms are scaled up by different factors
            for part in ("A", "B", "C"):
                np.testing.assert_allclose(whole[part][own], share * cells[part], rtol=1e-12, atol=1e-15)
