"""Slopes of envelopes lie in the domain of the conjugate and do not fall, however far out the argument is."""

from __future__ import annotations

import numpy as np
import pytest

from margindsl.calculus import PLQ, absolute
from margindsl_solvers.engines.rows.model import Block, Group

FAR = np.concatenate([-np.logspace(18, -3, 64), [0.0], np.logspace(-3, 18, 64)])
HINGE = PLQ.affine(-1, 1).positive_part()
EPSILON = absolute().precompose(1.0, -0.3)


@pytest.mark.parametrize("kappa", [1e-3, 1.0, 1e3, 1e9])
@pytest.mark.parametrize("rho", [HINGE, EPSILON, HINGE + EPSILON], ids=["hinge", "absolute", "both"])
def test_a_row_far_out_has_the_slope_of_its_end(rho, kappa):
    slopes = Group(rho, slice(0, len(FAR))).slopes(FAR, kappa)
    low, high = rho.conjugate().domain
    assert np.all(np.diff(slopes) >= 0)
    assert slopes[0] == low and slopes[-1] == high and np.all((slopes >= low) & (slopes <= high))


@pytest.mark.parametrize("kappa", [1e-3, 1.0, 1e3, 1e9])
def test_a_block_far_out_has_the_slope_of_its_end(kappa):
    m = np.column_stack([FAR, FAR + 0.5])
    slopes = Block(HINGE, slice(0, m.size), width=2).slopes(m.ravel(), kappa).reshape(m.shape)
    totals = slopes.sum(axis=1)
    assert np.all(slopes <= 0) and np.all(totals >= -1 - 1e-12) and np.all(np.diff(totals) >= -1e-12)
    assert totals[0] == -1.0 and totals[-1] == 0.0


@pytest.mark.parametrize("kappa", [0.1, 1.0, 30.0])
def test_blocks_have_the_gradient_of_their_envelope(kappa):
    rng = np.random.default_rng(0)
    block, m, h = Block(HINGE, slice(0, 60), width=3), rng.normal(size=(20, 3)), 1e-6

    def envelope(m):
        t = block.level(m, kappa)[0]
        short = np.maximum(t[:, None] - m, 0.0)
        return HINGE(t) + 0.5 * kappa * np.sum(short**2, axis=1)

    slopes = block.slopes(m.ravel(), kappa).reshape(m.shape)
    for q in range(3):
        step = h * np.eye(3)[q]
        assert np.allclose((envelope(m + step) - envelope(m - step)) / (2 * h), slopes[:, q], atol=1e-5 * kappa + 1e-6)
