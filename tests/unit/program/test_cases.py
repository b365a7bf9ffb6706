"""Certificates of fixed labels, and of what the losses prove alone."""

from __future__ import annotations

import numpy as np
import pytest

import margindsl as md
from margindsl.calculus import PLQ
from margindsl.program.certificates import certify_fixed_labels, certify_least_value, fixed_label_value
from margindsl.program.equalities import project_duals
from margindsl.program.losses import Losses, LossTerm, SharedScalars


def term(loss, weights, scalars=0):
    n = len(weights)
    return LossTerm(loss, np.arange(n), np.array(weights, float), np.ones(n), np.zeros(n), -np.ones((n, scalars)))


HINGE = PLQ.affine(-1, 1).positive_part()


@pytest.mark.parametrize("nonneg", [False, True])
@pytest.mark.parametrize("cost", [-0.4, -1.5])
def test_duals_are_moved_onto_the_equality_of_a_scalar_and_into_the_domains(nonneg, cost):
    losses = Losses(5, (term(PLQ.affine(-1, 0).positive_part(), [0.5, 0.5, 1.0, 0.0, 0.25], 1),),
                    SharedScalars(np.array([cost]), np.array([nonneg])))
    rng = np.random.default_rng(0)
    for u in (rng.normal(size=5), rng.uniform(size=5), np.zeros(5), np.full(5, 9.0)):
        moved = project_duals(losses, u)
        assert np.all(moved >= 0) and np.all(moved <= losses.weights)
        total = float(np.sum(moved))
        assert total >= -cost - 1e-9 if nonneg else total == pytest.approx(-cost)
        assert np.allclose(project_duals(losses, moved), moved)
        assert losses.scalar_residual(moved) <= 1e-12


def test_duals_inside_their_domains_stay():
    losses = Losses(3, (term(HINGE, [1.0, 2.0, 0.0]),))
    assert np.allclose(project_duals(losses, np.array([0.3, 5.0, 1.0])), [0.3, 2.0, 0.0])
    assert np.allclose(project_duals(losses, np.array([-1.0, 1.5, 0.0])), [0.0, 1.5, 0.0])


def test_the_least_of_the_losses_is_all_they_prove():
    low = certify_least_value(Losses(2, (term(HINGE + 0.5, [1.0, 2.0]),)), bounds=3)
    assert low.is_trivial and low.bound == pytest.approx(1.5) and low.bound <= 1.5
    assert len(low.arrays["eta"]) == 3 and not any(np.any(low.arrays[name]) for name in ("u", "q", "d", "eta"))


@pytest.mark.parametrize("bias", [False, True])
def test_any_dual_point_of_fixed_labels_proves_a_bound_below_the_value(bias):
    rng = np.random.default_rng(1)
    X, labels = rng.normal(size=(8, 2)), np.array([1, 0, 1, 1, 0, 1, 0, 0])
    y, f = md.Labels(8), md.Hyperplane(X, bias=bias, centre=False)
    form = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.sum(md.hinge(y * f))),
                      [abs(md.sum(f)) <= 1.0] if bias else []).program().fix_labels(labels)
    raw = md.Solver("clarabel").solve(form)
    best = form.objective(raw["w"], raw["bias"])
    found = certify_fixed_labels(form, project_duals(form.losses, raw["u"]), raw["tau"])
    assert found.bound == pytest.approx(best, rel=1e-5) and found.bound <= best * (1 + 1e-9)
    u, tau = found.arrays["u"][0], found.arrays["tau"][0]
    assert fixed_label_value(form, u, tau) == found.bound
    if bias:
        assert fixed_label_value(form, 0.5 * u, tau) == -np.inf  # Σ yu = hᵀτ
    assert certify_fixed_labels(form, None, None) is None
    for _ in range(5):
        u, tau = project_duals(form.losses, rng.uniform(size=8)), rng.normal(size=len(form.decision))
        other = certify_fixed_labels(form, u, tau)
        assert other is None or other.bound <= best * (1 + 1e-9)
    point, paths = found.arrays, found.arrays["paths"][0]
    assert np.array_equal(paths, np.arange(8) + 1 + 8 * labels)
    scaled = found.rescaled(2.0, 4.0, 3.0).arrays
    assert np.allclose(scaled["u"], 3.0 * 2.0 / 16 * point["u"]) and np.allclose(scaled["tau"], 3.0 / 8 * point["tau"])
