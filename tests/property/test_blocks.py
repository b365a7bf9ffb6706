"""Several hyperplanes and rows without a label in one objective: against enumeration and models written by hand."""

import dataclasses
from itertools import product

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest

import margindsl as md
from margindsl.errors import DeclarationError, GrammarError
from margindsl.labelset.codes import simplex_codes
from margindsl.runtime.compiled import no_worse

N = 6
rng = np.random.default_rng(0)
X1, X2 = rng.normal(size=(N, 2)), rng.normal(size=(N, 3))
Z1, Z2 = X1 - X1.mean(axis=0), X2 - X2.mean(axis=0)
A = rng.normal(size=(2, N))
LIFT, MINIMAX = md.SDP(polish="none"), md.Minimax(polish="none")  # bounds hold whatever labels are found
WEIGHTS = md.WeightLifting(polish="none")


def squared(w):
    return cp.sum_squares(w) / 2


def views(y, a, b):
    return (md.sq_norm(a) / 2 + md.sq_norm(b) + 2 * md.mean(md.hinge(y * a)) + 3 * md.mean(md.squared_hinge(y * b)),
            lambda z, f, g, w, v: squared(w) + 2 * squared(v) + (
                2 * cp.sum(cp.pos(1 - cp.multiply(z, f))) + 3 * cp.sum_squares(cp.pos(1 - cp.multiply(z, g)))) / N)


def summed(y, a, b):
    return (md.sq_norm(a) / 2 + md.sq_norm(b) / 2 + 2 * md.mean(md.hinge(y * (a - 2 * b))) + md.mean(
        md.pos(abs(y * a + y * b - 1) - 0.1)),
            lambda z, f, g, w, v: squared(w) + squared(v) + (
                2 * cp.sum(cp.pos(1 - cp.multiply(z, f - 2 * g)))
                + cp.sum(cp.pos(cp.abs(cp.multiply(z, f + g) - 1) - 0.1))) / N)


def together(y, a, b):
    """Return co-regularised views with a linear loss of a mean, soft links and a bound on decision values."""
    return (md.sq_norm(a) / 2 + md.sq_norm(b) / 2 + 2 * md.mean(md.hinge(y * a) + md.hinge(y * b))
            + 0.5 * md.mean((a - b) ** 2) + (md.mean(a[:3]) - md.mean(b)) ** 2 + 0.3 * md.sum(A @ (a + b))
            + md.must_link(y, [(0, 3)], weight=0.2),
            lambda z, f, g, w, v: squared(w) + squared(v) + (
                2 * cp.sum(cp.pos(1 - cp.multiply(z, f)) + cp.pos(1 - cp.multiply(z, g)))
                + 0.5 * cp.sum_squares(f - g)) / N + cp.square(cp.sum(f[:3]) / 3 - cp.sum(g) / N)
            + 0.3 * cp.sum(A @ (f + g)) + 0.1 * cp.abs(z[0] - z[3]))


def without_labels(y, a, b):
    """Return points between clusters, an order of points and sums of decision values, with a scalar beside margins."""
    s = md.Scalar()
    return (md.sq_norm(a) / 2 + md.sq_norm(b) / 2 + 2 * md.mean(md.hinge(y * a))
            + 0.2 * md.sum(md.pos(abs(b[:2]) - 0.1)) + 0.3 * md.hinge(b[1] - b[3]) + 0.1 * md.sum(md.huber(A @ a))
            + s + 2 * md.mean(md.pos(1 - y * b - s)),
            lambda z, f, g, w, v: squared(w) + squared(v) + 2 * cp.sum(cp.pos(1 - cp.multiply(z, f))) / N
            + 0.2 * cp.sum(cp.pos(cp.abs(g[:2]) - 0.1)) + 0.3 * cp.pos(1 - g[1] + g[3]) + 0.1 * cp.sum(cp.huber(A @ f))
            + (t := cp.Variable()) + 2 * cp.sum(cp.pos(1 - cp.multiply(z, g) - t)) / N)


@pytest.mark.parametrize("model,bounded,relaxations", [
    (views, False, (LIFT, WEIGHTS, "cccp")), (summed, True, (MINIMAX, WEIGHTS, "alternating")),
    (together, True, (LIFT, MINIMAX, "cccp")), (without_labels, False, (LIFT, WEIGHTS, "alternating"))])
def test_every_relaxation_bounds_them(model, bounded, relaxations, tmp_path):
    y, a, b = md.Labels(N), md.Hyperplane(X1, name="a"), md.Hyperplane(X2, name="b")
    objective, by_hand = model(y, a, b)
    held = [abs(md.sum(y)) <= 2, y[0] != y[1]] + ([abs(a[0] + b[1]) <= 0.2] if bounded else [])
    problem = md.Problem(md.Minimize(objective), held)

    w, v, signs = cp.Variable(2), cp.Variable(3), cp.Parameter(N)
    f, g = Z1 @ w, Z2 @ v
    written = cp.Problem(cp.Minimize(by_hand(signs, f, g, w, v)), [cp.abs(f[0] + g[1]) <= 0.2] if bounded else [])

    def value(z):
        signs.value = z
        return written.solve("CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)

    labellings = [z for z in map(np.array, product((-1, 1), repeat=N)) if abs(z.sum()) <= 2 and z[0] != z[1]]
    least = min(map(value, labellings))
    for z in labellings[::7]:
        assert problem.at_labels(z).solve("supervised").value == pytest.approx(value(z), rel=1e-7)
    for relaxation in ("exact", *relaxations):
        found = problem.solve(relaxation, random_state=0)
        assert found.bound <= least + 1e-6 and found.value >= least - 1e-6 and found.verify(), relaxation
        if relaxation == "exact":
            assert found.value == pytest.approx(least, abs=1e-6) and found.status == "optimal"
    assert np.allclose(found.decision, found.decision_function([X1, X2])) and len(found.decision) == N
    parts = found.decision_function([X1, None]), found.decision_function([None, X2])
    assert np.allclose(sum(parts), found.decision) and np.allclose(np.concatenate(found.w), found.weights)
    assert np.allclose(Z1 @ found.w[0], parts[0]) or model is summed
    found.save(tmp_path / "views.npz")
    alone, loaded = (md.Solution.load(tmp_path / "views.npz", *more) for more in ((), (problem,)))
    assert np.allclose(alone.decision_function([X1, X2]), found.decision) and not loaded.unverified and loaded.verify()
    assert np.array_equal(loaded.predict([X1[:2], X2[:2]]), found.predict([X1[:2], X2[:2]]))
    warm = problem.solve("alternating", warm_start=found, random_state=0)
    assert warm.value <= found.value + 1e-9


def test_points_of_several_tasks_and_points_without_labels():
    """Tasks have hyperplanes over their own points beside a common one; some of its points have no label."""
    y, common = md.Labels(N), md.Hyperplane(np.vstack([X1, X2[:, :2]]), name="c", centre=False)
    own = [md.Hyperplane(X1[:3], name="a", centre=False), md.Hyperplane(X1[3:], name="b", centre=False)]
    objective = (md.sq_norm(common) / 2 + sum(md.sq_norm(task) for task in own)
                 + md.sum(md.hinge(y[:3] * (common[:3] + own[0]))) + md.sum(md.hinge(y[3:] * (common[3:6] + own[1])))
                 + 0.3 * md.sum(abs(common[N:])))
    problem = md.Problem(md.Minimize(objective), [abs(md.sum(y)) <= 0])

    def value(z):
        w, u, v = (cp.Variable(2) for _ in range(3))
        f = X1 @ w + cp.hstack([X1[:3] @ u, X1[3:] @ v])
        return cp.Problem(cp.Minimize(squared(w) + 2 * squared(u) + 2 * squared(v) + cp.sum(
            cp.pos(1 - cp.multiply(z, f))) + 0.3 * cp.norm1(X2[:, :2] @ w))).solve("CLARABEL")

    least = min(value(z) for z in map(np.array, product((-1, 1), repeat=N)) if z.sum() == 0)
    found = problem.solve("exact")
    assert found.value == pytest.approx(least, abs=1e-6) and found.status == "optimal" and found.verify()
    assert len(problem.lower().rows.parents) == N and found.labels.shape == (N,)  # rows of points need no copies
    with pytest.raises(DeclarationError, match="a list of as many arrays"):
        found.predict(X1)
    with pytest.raises(DeclarationError, match=r"have \[2, 3\] rows"):
        found.predict([X1[:3], X1[:2], None])


def test_views_have_names_of_their_own_columns(tmp_path):
    y, a, b = md.Labels(N), md.Hyperplane(X1), md.Hyperplane(pd.DataFrame(X2, columns=list("uvw")))
    losses = md.mean(md.hinge(y * a) + md.hinge(y * b))
    problem = md.Problem(md.Minimize(md.sq_norm(a) + md.sq_norm(b) + 3 * losses), [abs(md.sum(y)) <= 2])
    found = problem.solve("alternating", random_state=0)
    found.save(tmp_path / "named.npz")
    for solution in (found, md.Solution.load(tmp_path / "named.npz")):
        assert np.array_equal(solution.predict([X1, b.X]), np.sign(found.decision))
        with pytest.raises(DeclarationError, match="in another order"):
            solution.predict([X1, pd.DataFrame(X2, columns=list("uvw"))[["w", "u", "v"]]])


@pytest.mark.parametrize("coding", ["simplex", "crammer-singer"])
def test_several_clusters(coding):
    n, y = 4, md.Labels(4, clusters=3)
    a, b = md.Hyperplane(X1[:n], centre=False), md.Hyperplane(X2[:n], bias="penalised", centre=False)
    losses = [md.mean(md.hinge(md.margin(y, plane, coding=coding))) for plane in (a, b - 2 * a)]
    problem = md.Problem(md.Minimize(md.sq_norm(a) / 2 + md.sq_norm(b) / 2 + 2 * losses[0] + 3 * losses[1]),
                         [md.sizes(y, at_least=1), y[0] != y[1]])
    codes = simplex_codes(3) if coding == "simplex" else np.eye(3)

    def value(z):
        W, V = cp.Variable((2, codes.shape[1])), cp.Variable((4, codes.shape[1]))
        f, g = X1[:n] @ W @ codes.T, np.column_stack([X2[:n], np.ones(n)]) @ V @ codes.T

        def margins(F):
            if coding == "simplex":
                return [F[i, z[i]] for i in range(n)]
            return [F[i, z[i]] - cp.max(cp.hstack([F[i, c] for c in range(3) if c != z[i]])) for i in range(n)]

        loss = [sum(cp.pos(1 - m) for m in margins(F)) / n for F in (f, g - 2 * f)]
        return cp.Problem(cp.Minimize(squared(W) + squared(V) + 2 * loss[0] + 3 * loss[1])).solve("CLARABEL")

    every = [z for z in map(np.array, product(range(3), repeat=n)) if len(set(z)) == 3 and z[0] != z[1]]
    names = [z for z in every if all(z[i] <= max(z[:i], default=-1) + 1 for i in range(n))]  # up to their order
    least = min(map(value, names))
    for relaxation in ("exact", LIFT if coding == "simplex" else MINIMAX, "alternating"):
        found = problem.solve(relaxation, random_state=0)
        assert found.bound <= least + 1e-6 and found.value >= least - 1e-6 and found.verify(), relaxation
        if relaxation == "exact":
            assert found.value == pytest.approx(least, abs=1e-6) and found.status == "optimal"
    assert found.decision.shape == (n, 3) and np.allclose(found.decision, found.decision_function([a.X, b.X]))
    both = md.hinge(md.margin(y, a, coding=coding) + md.margin(y, b, coding=coding))
    if coding == "simplex":
        md.Problem(md.Minimize(md.sq_norm(a) + md.sq_norm(b) + md.mean(both)))
    else:
        with pytest.raises(GrammarError, match="mixes margins"):
            md.Problem(md.Minimize(md.sq_norm(a) + md.sq_norm(b) + md.mean(both)))


def test_features_are_views(monkeypatch):
    y, a, b = md.Labels(N), md.Hyperplane(X1, kernel=md.RBF(1.0)), md.Hyperplane(X2)
    objective, _ = together(y, a, b)
    problem = md.Problem(md.Minimize(objective), [abs(md.sum(y)) <= 2])
    held = problem.solve("alternating", random_state=0)
    monkeypatch.setattr("margindsl.features.stacked.DENSE", 0)
    viewed = md.Problem(problem.objective, problem.constraints).solve("alternating", random_state=0)
    assert viewed.value == pytest.approx(held.value, rel=1e-8) and viewed.verify()
    phi = problem.program().normal.declared.features
    assert np.allclose(phi.gram(), phi.toarray().T @ phi.toarray()) and not phi.base.is_dense


def test_a_free_bias_of_points_with_and_without_labels():
    y, c = md.Labels(N), md.Hyperplane(np.vstack([X1, X2[:2, :2]]), bias=True, centre=False)
    objective = md.sq_norm(c) / 2 + 2 * md.sum(md.hinge(y * c[:N])) + md.sum(md.pos(abs(c[N:]) - 0.1)) + md.sum(
        (c[1:3] - c[3:5]) ** 2)
    problem = md.Problem(md.Minimize(objective), [abs(md.sum(y)) <= 2, y[0] == 1])

    def value(z):
        w, b = cp.Variable(2), cp.Variable()
        f = np.vstack([X1, X2[:2, :2]]) @ w + b
        return cp.Problem(cp.Minimize(squared(w) + 2 * cp.sum(cp.pos(1 - cp.multiply(z, f[:N]))) + cp.sum(
            cp.pos(cp.abs(f[N:]) - 0.1)) + cp.sum_squares(f[1:3] - f[3:5]))).solve("CLARABEL")

    least = min(value(z) for z in map(np.array, product((-1, 1), repeat=N)) if abs(z.sum()) <= 2 and z[0] == 1)
    for relaxation in ("exact", "alternating", "cccp"):
        found = problem.solve(relaxation, random_state=0)
        assert found.bound <= least + 1e-6 and found.value >= least - 1e-6 and found.verify(), relaxation
        assert np.allclose(found.decision, found.decision_function(X1))
        assert relaxation != "exact" or found.value == pytest.approx(least, abs=1e-6)


def test_squares_of_codes_of_several_clusters():
    """DIFFRAC of three clusters: |c_y - V'phi|^2 is 1 - 2 gamma + |V'phi|^2."""
    n, y, f = 5, md.Labels(5, clusters=3), md.Hyperplane(X1[:5])
    g = md.margin(y, f, coding="simplex")
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.sum(1 - 2 * g) + md.sum(md.square(f))),
                         [md.sizes(y, at_least=1)])
    Z, codes = X1[:n] - X1[:n].mean(axis=0), simplex_codes(3)

    def value(z):
        V = np.linalg.solve(np.eye(2) + 2 * Z.T @ Z, 2 * Z.T @ codes[z])
        return np.sum(V**2) / 2 + np.sum((codes[z] - Z @ V) ** 2)

    least = min(value(z) for z in map(np.array, product(range(3), repeat=n)) if len(set(z)) == 3)
    for relaxation in ("exact", LIFT, "alternating"):
        found = problem.solve(relaxation, random_state=0)
        assert found.bound <= least + 1e-6 and found.value >= least - 1e-6 and found.verify(), relaxation
        assert relaxation != "exact" or found.value == pytest.approx(least, abs=1e-6)


@pytest.mark.parametrize("further", [
    lambda f: md.pos(abs(f[3]) - 0.1), lambda f: md.pos(abs(f[3]) - 0.1) + md.square(f[0]),
    lambda f: md.hinge((f[1:2] - 0.5 * f[1:2])[0])])
def test_points_in_no_margin_have_the_decision_values_of_the_others(further):
    X = np.random.default_rng(4).normal(size=(7, 2))
    y, f = md.Labels(7), md.Hyperplane(X)
    found = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 3 * md.mean(md.hinge(y * f)[1:]) + further(f)), [
        y[0] == y[2]]).solve("alternating", random_state=0)
    np.testing.assert_allclose(found.decision, found.decision_function(X), atol=1e-12)
    assert found.verify()


def test_a_warm_start_that_is_kept_brings_the_values_of_its_rows():
    X = np.random.default_rng(4).normal(size=(7, 2))
    y, f = md.Labels(7), md.Hyperplane(X)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 3 * md.mean(md.hinge(y * f)) + md.pos(abs(f[3]) - 0.1)), [
        abs(md.sum(y)) <= 3])
    best = problem.solve("exact", random_state=0)
    rough = problem.solve("alternating", md.Solver("newton", tol=1e-2), random_state=0, tol=1e-2)
    kept = no_worse(dataclasses.replace(rough, value=best.value + 1.0), best)
    assert kept.value == best.value and kept.basis.beyond is best.basis.beyond and kept.verify()
