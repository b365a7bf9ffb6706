"""Proofs by cases: trees of partial labellings against the members of B, and certificates of fixed labels."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import margindsl as md
from margindsl.calculus import PLQ
from margindsl.labelset import presolve
from margindsl.program.branch_certificate import covers
from margindsl.program.certificates import certify_fixed_labels, certify_least_value, fixed_label_value
from margindsl.program.equalities import project_duals
from margindsl.program.losses import Losses, LossTerm, SharedScalars

SETS = {"free": {}, "balanced": {"bounds": [(None, 0, 0)]}, "known": {"known": ([0, 2], [1, -1])},
        "tilted": {"bounds": [(None, 0, 2)]}, "linked": {"must": [(0, 1)], "cannot": [(2, 3)]}}


def grown(rng, labels, path=()):
    """Return the leaves of a random tree below a path, split to the end or not."""
    z = labels.implied(path)
    if z is None or (z >= 0).all() or (path and rng.random() < 0.3):
        return [path]
    component = int(rng.choice(np.flatnonzero(z < 0)))
    return [leaf for value in labels.branches(path) for leaf in grown(rng, labels, (*path, (component, value)))]


def is_covered(labels, paths, members):
    """Return whether every member, or its opposite where B is symmetric, follows a path."""
    return all(any(all(z[c] ^ turned == value for c, value in path) for path in paths
                   for turned in range(1 + labels.is_symmetric)) for z in members)


@pytest.mark.parametrize("kind", SETS)
@pytest.mark.parametrize("seed", range(6))
def test_trees_that_are_said_to_cover_do(kind, seed):
    rng = np.random.default_rng(seed)
    labels = presolve(6, **SETS[kind])
    members = [z for z in itertools.product((1, 0), repeat=len(labels.pinned))
               if labels.implied(tuple(enumerate(z))) is not None]
    leaves = grown(rng, labels)
    assert covers(labels, leaves) and is_covered(labels, leaves, members)
    for place, leaf in enumerate(leaves):
        fewer = leaves[:place] + leaves[place + 1:]
        assert covers(labels, fewer) == (bool(fewer) and labels.implied(leaf) is None)
        assert not covers(labels, fewer) or is_covered(labels, fewer, members)
        if leaf:
            assert not covers(labels, [*fewer, (*leaf[:-1], (leaf[-1][0], 3))])
            other = (leaf[-1][0] + 1) % len(labels.pinned)
            siblings = [path for path in fewer if path[: len(leaf) - 1] == leaf[:-1]]
            assert not siblings or not covers(labels, [*fewer, (*leaf[:-1], (other, leaf[-1][1]))])


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
