"""Decision values computed again over the same points agree, over others they do not; what is shown of an answer."""

import dataclasses

import numpy as np
import pytest

import margindsl as md
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


@pytest.mark.parametrize("written", [
    {"scalars": {"margin_mean": 99.0}}, {"scalars": {}}, {"coding": "simplex"}, {"bias": None}, {"value": "x"},
    {"weights": None}, {"decision": np.array(["a"] * 8)}, {"labels": np.ones((8, 1))},
    {"features": DenseFeatures(np.ones((8, 2)), NoMap(), "others")}], ids=lambda written: next(iter(written)))
def test_what_is_written_over_an_answer_fails(written):
    X = np.random.default_rng(0).normal(size=(8, 2))
    y, f = md.Labels(8), md.Hyperplane(X)
    solution = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean_variance(y * f, 1.0, 5.0)),
                          [abs(md.sum(y)) <= 2]).solve("exact", random_state=0)
    assert solution.verify() and not dataclasses.replace(solution, **written).verify()


def test_a_certificate_of_no_numbers_fails():
    y, f = md.Labels(8), md.Hyperplane(np.random.default_rng(0).normal(size=(8, 2)))
    solution = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.odm(y * f))), [abs(md.sum(y)) <= 2]).solve(
        "sdp", random_state=0)
    proof = dataclasses.replace(solution.certificate, arrays={
        **solution.certificate.arrays, "u": solution.certificate.arrays["u"].astype(object)})
    assert solution.verify() and not dataclasses.replace(solution, certificate=proof).verify()


def test_several_variances_have_a_mean_each():
    y, f = md.Labels(8), md.Hyperplane(np.random.default_rng(0).normal(size=(8, 2)))
    spread = md.var(y * f) + 2 * md.var((y * f)[:4]) + md.mean(md.odm(y * f))
    solution = md.Problem(md.Minimize(md.sq_norm(f) / 2 + spread), [abs(md.sum(y)) <= 2]).solve("exact", random_state=0)
    means = [solution.margins.mean(), solution.margins[:4].mean()]
    assert np.allclose(sorted(solution.scalars.values()), sorted(means), atol=1e-5)
    assert solution.verify()


def test_bounds_are_on_the_hyperplane_that_they_name():
    X, Z = np.random.default_rng(0).normal(size=(2, 6, 2))
    y, f, g = md.Labels(6), md.Hyperplane(X, name="f"), md.Hyperplane(Z, name="g")
    values = [md.Problem(md.Minimize(md.sq_norm(f) + md.sq_norm(g) + 4 * md.mean(md.hinge(y * margins))), [
        g[0] >= 0.5, abs(md.sum(y)) <= 2]).solve("exact").value for margins in (f + g, g + f)]
    assert values[0] == pytest.approx(values[1], rel=1e-6)
