"""Scaling of dual points of the label lift."""

from dataclasses import replace

import numpy as np
import pytest

import margindsl as md
from margindsl.program.label_certificate import repair_label_lift, scale_dual_point
from margindsl.relaxations.sdp import lift_labels


def lifted(loss, weight, seed=0):
    X = np.random.default_rng(seed).normal(size=(20, 4))
    y, f = md.Labels(20), md.Hyperplane(X)
    return lift_labels(md.Problem(md.Minimize(md.sq_norm(f) / 2 + weight * md.mean(loss(y * f))),
                                  [abs(md.sum(y)) <= 4, md.must_link(y, [(0, 1)])]).program())


LOSSES = {"hinge": md.hinge, "odm": lambda m: md.odm(m, theta=0.2, nu=0.4)}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("weight", [1.0, 100.0])
@pytest.mark.parametrize("factor", [0.2, 1.0])
def test_the_scaled_point_is_proved_and_best_on_its_ray(name, weight, factor):
    form = lifted(LOSSES[name], weight)
    u = factor * form.losses.weights * np.random.default_rng(1).uniform(0.2, 1.0, form.losses.rows)
    given = repair_label_lift(form, u)
    found = scale_dual_point(given)
    assert found.bound >= given.bound
    radii = np.array([b.radius**2 for b in form.balance])
    price = 0.5 * (given.d.sum() + given.kappa @ radii)
    ray = [-form.losses.conjugate_value(t * given.u) - t * t * price for t in np.linspace(0.0, 2.0, 401)]
    assert found.bound >= max(ray) - 1e-6 * abs(max(ray))


def test_a_point_too_large_for_the_relaxation_gains():
    form = lifted(LOSSES["odm"], 10.0)
    large = repair_label_lift(form, 5.0 * form.losses.weights)
    assert scale_dual_point(large).bound > large.bound + 0.1 * abs(large.bound)


def test_a_worthless_point_is_returned_as_it_is():
    form = lifted(LOSSES["hinge"], 1.0)
    given = replace(repair_label_lift(form, form.losses.weights), bound=-np.inf)
    assert scale_dual_point(given) is given
