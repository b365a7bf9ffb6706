"""Values and derivatives together and in blocks are those of one number at a time."""

import numpy as np
import pytest

from margindsl.calculus import PLQ, pos

HINGE = pos().precompose(-1, 1)
ODM = pos().precompose(-1, 0.8).square() + 0.4 * pos().precompose(1, -1.2).square()
BOX = HINGE.conjugate()
MANY = PLQ.from_points(np.arange(20.0), np.arange(20.0) ** 2)
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 0.8, 1.0, 1.2, -1.0, 1e300, -1e300])


def one_by_one(function, x):
    return np.array([function(float(v)) for v in x])


@pytest.mark.parametrize(
    "loss", [HINGE, ODM, BOX, MANY, PLQ.constant(2.0)], ids=["hinge", "odm", "box", "many", "flat"])
@pytest.mark.parametrize("count", [1, 100, 20_000])
def test_together_and_in_blocks_is_one_by_one(loss, count):
    x = np.random.default_rng(0).normal(size=count) * 3
    x[: len(SPECIAL)] = SPECIAL[:count]
    with np.errstate(over="ignore", invalid="ignore"):
        value, slope = loss.value_and_derivative(x)
        few = np.random.default_rng(1).integers(count, size=200)
        few[: min(count, len(SPECIAL))] = np.arange(min(count, len(SPECIAL)))
        np.testing.assert_array_equal(value[few], one_by_one(loss, x[few]))
        np.testing.assert_array_equal(slope[few], one_by_one(loss.derivative, x[few]))
        np.testing.assert_array_equal(loss(x), value)
        np.testing.assert_array_equal(loss.derivative(x), slope)


def test_shapes_survive_blocks():
    x = np.random.default_rng(0).normal(size=(300, 50))
    value, slope = ODM.value_and_derivative(x.T)
    assert value.shape == slope.shape == (50, 300)
    np.testing.assert_array_equal(value, ODM(x).T)
    np.testing.assert_array_equal(slope, ODM.derivative(x).T)


def test_numbers_give_numbers():
    value, slope = ODM.value_and_derivative(0.3)
    assert (value, slope) == (ODM(0.3), ODM.derivative(0.3))
    assert isinstance(value, float)
