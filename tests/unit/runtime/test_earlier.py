"""Weights orthogonal to those of earlier solutions, where these leave nothing of the points."""

import warnings

import numpy as np
import pytest

import margindsl as md


@pytest.mark.parametrize("relaxation, scale", [
    ("alternating", 1e-3), ("minimax", 1e3), ("exact", 1.0), ("exact", 1e3), ("sdp", 1e-3)])
def test_points_of_one_line_are_all_zero_once_it_is_used(relaxation, scale):
    rng = np.random.default_rng(0)
    X = scale * np.outer(rng.normal(size=5), rng.normal(size=4))
    y, f = md.Labels(5), md.Hyperplane(X, centre=False)
    objective = md.Minimize(md.sq_norm(f) / 2 + 3 * md.mean(md.hinge(y * f)))
    first = md.Problem(objective, [md.sum(y) == 1]).solve("alternating", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second = md.Problem(objective, [md.sum(y) == 1, md.orthogonal(f, first)]).solve(relaxation, random_state=0)
    assert np.max(np.abs(second.decision)) <= 1e-9 * np.max(np.abs(first.decision))
    assert second.value == pytest.approx(3.0, rel=1e-9)  # the hinge of five zero margins
    assert second.bound <= 3.0 * (1 + 1e-12)


@pytest.mark.parametrize("ratio", [1.0, 1e-8])
def test_points_of_a_plane_are_all_zero_once_two_solutions_of_any_sizes_used_it(ratio):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(6, 2)) @ rng.normal(size=(2, 4))
    y, f = md.Labels(6), md.Hyperplane(X, centre=False)

    def solve(weight, *earlier):
        objective = md.Minimize(md.sq_norm(f) / 2 + weight * md.mean(md.hinge(y * f)))
        constraints = [md.sum(y) == 0, *(md.orthogonal(f, solution) for solution in earlier)]
        return md.Problem(objective, constraints).solve("alternating", random_state=0)

    first = solve(3.0)
    second = solve(3.0 * ratio, first)
    third = solve(3.0, first, second)
    assert np.any(second.weights) and np.max(np.abs(third.decision)) <= 1e-9 * np.max(np.abs(first.decision))
    assert third.value == pytest.approx(3.0, rel=1e-9) and third.verify()
