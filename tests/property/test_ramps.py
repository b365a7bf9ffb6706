"""Losses with a cap: against enumeration of labels and of what is kept, their outliers, and what is refused."""

import dataclasses
from itertools import product

import cvxpy as cp
import numpy as np
import pytest

import margindsl as md
from margindsl.drivers.apart import Apart
from margindsl.errors import GrammarError

N = 4
rng = np.random.default_rng(3)
X = np.vstack([rng.normal(size=(N - 1, 2)), [[0.3, -6.0]]])
Z = X - X.mean(axis=0)
COSTS = rng.uniform(0.3, 1.0, N)


def optimum(loss, cap, weights, extra=lambda w: 0.0, energy=lambda z: 0.0):
    """Return the least value over labellings and sets of points that are kept; others cost the cap."""
    best, (z, kept), w, t = np.inf, (cp.Parameter(N), cp.Parameter(N, nonneg=True)), cp.Variable(2), cp.Variable(N)
    value = cp.sum_squares(w) / 2 + kept @ t + extra(cp.multiply(z, Z @ w))
    problem = cp.Problem(cp.Minimize(value), [t >= loss(cp.multiply(z, Z @ w)), t >= 0])
    for z.value, keep in product(map(np.array, product((-1, 1), repeat=N)), map(np.array, product((0, 1), repeat=N))):
        if abs(z.value.sum()) <= 3 and z.value[0] > 0:
            kept.value = weights * keep
            best = min(best, problem.solve("CLARABEL") + cap * (weights @ (1 - keep)) + energy(z.value))
    return best


@pytest.mark.parametrize("cap,declare,weights,loss,extra", [
    (1.5, lambda g: 4 * md.mean(md.minimum(md.hinge(g), md.Parameter(1.5))), np.full(N, 4 / N),
     lambda m: cp.pos(1 - m), lambda m: 0.0),
    (0.4, lambda g: md.sum(COSTS * np.minimum(0.4, md.pos(abs(1 - g) - 0.1))) + md.mean(g), COSTS,
     lambda m: cp.pos(cp.abs(1 - m) - 0.1), lambda m: cp.sum(m) / N),
    (1.0, lambda g: md.sum(md.minimum(md.maximum(1 - g, 0.5 * (0.4 - 2 * g), 0), 1) + 0.2 * md.squared_hinge(g)),
     np.ones(N), lambda m: cp.maximum(1 - m, 0.5 * (0.4 - 2 * m), 0), lambda m: 0.2 * cp.sum_squares(cp.pos(1 - m)))])
def test_every_relaxation_bounds_them(cap, declare, weights, loss, extra):
    y, f = md.Labels(N), md.Hyperplane(X)
    linked = 0.2 * md.cannot_link(y, [(0, 1)], weight=1)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + declare(y * f) + linked), [abs(md.sum(y)) <= 3, y[0] == 1])
    least = optimum(loss, cap, weights, extra, lambda z: 0.2 * (z[0] == z[1]))
    others = (md.SDP(polish="none"), "cccp"), (md.Minimax(polish="none"), "alternating")
    for relaxation in ("exact", *others[cap == 1.0]):
        found = problem.solve(relaxation, random_state=0)
        assert found.bound <= least + 1e-6 and found.value >= least - 1e-6 and found.verify(), relaxation
        if relaxation == "exact":
            assert found.value == pytest.approx(least, abs=1e-6) and found.status == "optimal"
            losses = loss(found.margins).value
            assert found.outliers.tolist() == np.flatnonzero(losses > cap).tolist()
    again = problem.solve("alternating", warm_start=problem.solve("exact"), random_state=0)
    assert again.value == pytest.approx(least, abs=1e-6)


def test_a_far_point_is_an_outlier_and_moves_nothing():
    y, near = md.Labels(5), [[2.0, 0.0], [-2.0, 0.0], [2.5, 0.0], [-2.5, 0.1]]
    known, found = y == np.array([1, -1, 1, -1, -1]), []
    for far in (10.0, 30.0):
        f = md.Hyperplane(np.array([*near, [far, 0.0]]), centre=False)
        loss = md.sum(md.minimum(md.hinge(y * f), 2))
        found.append(md.Problem(md.Minimize(md.sq_norm(f) / 2 + loss), [known]).solve("exact"))
    assert [solution.outliers.tolist() for solution in found] == [[4], [4]]
    assert found[0].value == pytest.approx(found[1].value, abs=1e-7) and found[0].verify()


def test_what_has_no_cap_is_refused():
    y, f = md.Labels(N), md.Hyperplane(X)
    g, y3 = y * f, md.Labels(N, clusters=3)
    simplex = md.margin(y3, f, coding="simplex")
    for loss in (md.minimum(md.squared_hinge(g), 1), md.minimum(md.hinge(g), 0), md.minimum(md.hinge(g), g),
                 md.minimum(md.hinge(g - md.Scalar()), 1), md.pos(md.minimum(md.hinge(g), 1) - 0.5)):
        with pytest.raises(GrammarError, match="is not a piecewise linear loss of a margin below a positive cap"):
            md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(loss)))
    with pytest.raises(GrammarError, match="several clusters, beside a loss with a cap"):
        md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.minimum(md.hinge(simplex), 1))))
    with pytest.raises(GrammarError, match="is concave"):
        md.Problem(md.Minimize(md.sq_norm(f) / 2 - md.mean(md.minimum(md.hinge(g), 1))))
    shown = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.minimum(md.hinge(g), 2))))
    assert "md.minimum(md.pos(1 - y * f), 2)" in str(shown) and r"\min\left(" in shown.latex()


def test_bounds_are_those_of_hulls_between_ends_and_can_be_stored(tmp_path):
    y, f = md.Labels(8), md.Hyperplane(np.vstack([rng.normal(size=(4, 2)) - 1, rng.normal(size=(4, 2)) + 1]))
    loss = md.mean(md.minimum(md.hinge(y * f), 2))
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * loss), [abs(md.sum(y)) <= 2])
    for relaxation in ("sdp", "weight-lifting", "minimax"):
        found = problem.solve(relaxation, random_state=0)
        assert 0.5 * found.value < found.bound <= found.value and found.verify()
    found.save(tmp_path / "found.npz")
    assert md.Solution.load(tmp_path / "found.npz", problem).verify().bound >= found.bound - 1e-9
    raised = dataclasses.replace(found, bound=1.01 * found.verify().bound)
    assert not raised.verify()


@pytest.mark.parametrize("priced", ["links", "many links", "costs"])
def test_hulls_bound_them_beside_labels_that_cost(priced, tmp_path):  # kinks alone prove down to −1e4 times the optimum
    rng, n = np.random.default_rng(1), 8
    y, f = md.Labels(n), md.Hyperplane(rng.normal(size=(n, 2)), bias="penalised")
    many = [(i, j) for i in range(5) for j in range(i)]
    term = {"links": md.must_link(y, [(0, 1)], weight=0.5) + md.cannot_link(y, [(2, 3)], weight=0.3),
            "many links": md.must_link(y, many, weight=0.1), "costs": md.sum(np.arange(n) / 20 * (y + 1))}[priced]
    loss = md.sum(md.minimum(md.hinge(y * f), 1.5))
    for weight, relaxation in ((1, "weight-lifting"), (100, "weight-lifting"), (100, md.SDP(polish="none"))):
        problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + weight * loss + term), [abs(md.sum(y)) <= 4])
        found = problem.solve(relaxation, random_state=0)
        assert 0.2 * found.value < found.bound <= found.value and found.verify(), (weight, relaxation)
    found.save(tmp_path / "found.npz")
    assert md.Solution.load(tmp_path / "found.npz", problem).verify().bound >= found.bound - 1e-9
    assert found.outliers.tolist() == np.flatnonzero(1 - found.margins > 1.5).tolist()
    assert not dataclasses.replace(found, bound=1.01 * found.verify().bound).verify()
    assert all(pair[:2] in [*many, (1, 0), (0, 1), (2, 3)] for pair in found.violated_links)


def test_fits_beside_caps_are_fits_in_the_features_of_the_points():
    y, f = md.Labels(N), md.Hyperplane(X)
    loss = md.sum(COSTS * md.minimum(md.hinge(y * f), 0.5)) + md.cannot_link(y, [(0, 1)], weight=0.2)
    program, kept = md.Problem(md.Minimize(md.sq_norm(f) / 2 + loss)).program(), {}
    for labels in program.labels.sample(np.random.default_rng(0), 5):
        form = program.fix_labels(labels)
        part = Apart.of(form, kept)
        assert part.form.features.rank == 2 < form.features.rank
        found = part.whole(md.Solver("newton", tol=1e-10).solve(part.form))
        again = part.whole(md.Solver("newton", tol=1e-10).solve(part.form, start=part.start(found)))
        least = md.Solver("clarabel").solve(form).objective
        for raw in (found, again):
            assert [*form.bracket(raw), raw.objective] == pytest.approx([least] * 3, abs=1e-7)


@pytest.mark.parametrize("relaxation", [md.Alternating, md.CCCP])
def test_wrong_labels_are_outliers_from_what_the_known_labels_say(relaxation):
    rng = np.random.default_rng(3)
    truth = rng.choice([-1, 1], 200)
    given = np.where(np.arange(200) % 10 == 0, -truth, truth)
    y, f = md.Labels(200), md.Hyperplane(rng.normal(size=(200, 3)) + 2 * truth[:, None])
    loss = md.mean(md.minimum(md.hinge(y * f), 1.5))
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * loss), [y[:100] == given[:100]])
    found = problem.solve(relaxation(start="known", polish="none"), random_state=0)
    assert found.outliers.tolist() == list(range(0, 100, 10))


@pytest.mark.parametrize("relaxation", ["sdp", "weight-lifting", md.Exact(method="branching")])
def test_values_of_great_weights_are_those_of_the_check(relaxation):
    X = np.random.default_rng(0).normal(size=(3, 2))
    y, f = md.Labels(3), md.Hyperplane(X)
    solution = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 1e5 * md.mean(md.minimum(md.hinge(y * f), 2))),
                          [y[1] == y[2]]).solve(relaxation, random_state=0)
    assert solution.verify() and np.isfinite(solution.bound)
