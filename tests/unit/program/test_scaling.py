"""Dual points brought to the scale of a lift."""

import numpy as np
import pytest

import margindsl as md
from margindsl.program.lift_certificate import repair_lift
from margindsl.relaxations.lift import lift

LOSSES = {"hinge": md.hinge, "odm": lambda m: md.odm(m, theta=0.2, nu=0.4)}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("weight", [1.0, 100.0])
@pytest.mark.parametrize("factor", [0.2, 1.0, 5.0])
def test_a_point_from_elsewhere_is_brought_to_its_best_scale(name, weight, factor):
    X = np.random.default_rng(0).normal(size=(20, 4))
    y, f = md.Labels(20), md.Hyperplane(X)
    form = lift(md.Problem(md.Minimize(md.sq_norm(f) / 2 + weight * md.mean(LOSSES[name](y * f))),
                           [abs(md.sum(y)) <= 4, md.must_link(y, [(0, 1)])]).program())
    u = factor * form.losses.weights * np.random.default_rng(1).uniform(0.2, 1.0, form.losses.rows)
    found = repair_lift(form, {"u": u})
    price = 0.5 * (found.arrays["d"].sum() + found.arrays["kappa"] @ form.limits[0])
    ray = [-form.losses.conjugate_value(t * found.arrays["u"]) - t * t * price for t in np.linspace(0.0, 2.0, 401)]
    assert found.bound >= max(ray) - 1e-6 * abs(max(ray))
