"""MMC and LG-MMC: the hinge under label balance, relaxed to the label matrix and to the hull of labellings."""

import cvxpy as cp
import numpy as np
import pytest

import margindsl as md
from margindsl.errors import DeclarationError, UnknownNameError


def points(n=12, seed=0):
    rng = np.random.default_rng(seed)
    truth = np.where(np.arange(n) < n // 2, -1, 1)
    return rng.standard_normal((n, 2)) + truth[:, None] * [1.2, 0.0], truth


def hinge_svm(Phi, y, C):
    w = cp.Variable(Phi.shape[1])
    loss = cp.sum(cp.pos(1 - cp.multiply(y, Phi @ w))) * C / len(y)
    return cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + loss)).solve("CLARABEL")


def xu_sdp(K, C, beta):
    """Return Xu's semidefinite program with the rows |Me| ≤ β written out."""
    n = len(K)
    M, g, t = cp.Variable((n, n), PSD=True), cp.Variable((n, 1)), cp.Variable((1, 1))
    matrix = cp.bmat([[cp.multiply(K, M), g], [g.T, 2 * t]])
    rows = [cp.diag(M) == 1, matrix >> 0, cp.abs(cp.sum(M, axis=1)) <= beta,
            cp.sum(M) <= beta**2]
    return cp.Problem(cp.Minimize(t[0, 0] + C / n * cp.sum(cp.pos(1 - g))), rows).solve("CLARABEL")


def test_mmc_has_the_value_of_the_published_program():
    X, _ = points()
    Z = X - X.mean(axis=0)
    solution = md.recipes.mmc(X, C=8.0, balance=0.2).solve(solver="clarabel", random_state=0)
    value = xu_sdp(Z @ Z.T + 1e-9 * np.eye(12), 8.0, 2.4 // 2 * 2)
    assert solution.estimate == pytest.approx(value, rel=1e-4)
    assert solution.bound <= solution.estimate * (1 + 1e-6) and solution.verify()


def test_mmc_of_three_clusters_keeps_their_sizes_and_is_bounded():
    rng = np.random.default_rng(2)
    centres = np.array([[3.0, 0.0], [-2.0, 2.5], [-2.0, -2.5]])
    truth = np.arange(16) % 3
    problem = md.recipes.mmc(centres[truth] + rng.normal(size=(16, 2)) / 2, 3, balance=0.1)
    found, best = problem.solve(random_state=0), problem.solve("exact")
    assert found.cluster_sizes in {(6, 5, 5), (5, 6, 5), (5, 5, 6)} and found.verify()
    assert found.bound <= best.value * (1 + 1e-7) and found.value == pytest.approx(best.value, rel=1e-4)


def test_the_label_hull_is_tighter_than_the_label_matrix():
    X, _ = points(seed=3)
    Z = np.column_stack([X - X.mean(axis=0), np.ones(12)])
    hull = md.recipes.lgmmc(X, C=8.0, balance=0.2)
    exact = hull.solve("exact")
    assert exact.value == pytest.approx(hinge_svm(Z, exact.labels, 8.0), rel=1e-5)
    minimax = hull.solve(md.Minimax(oracle="exhaustive"), random_state=104)
    matrix = hull.solve("sdp", "clarabel")
    slack = 1e-5 * exact.value
    assert matrix.bound - slack <= minimax.bound <= exact.value + slack
    assert minimax.bound > matrix.estimate + slack


@pytest.mark.parametrize("seed", [17, 45, 54])
def test_masters_of_the_hinge_close_where_kinks_leave_duals_open(seed):
    hull = md.recipes.lgmmc(points(seed=seed)[0], C=80.0, balance=0.2)
    method = md.Minimax(oracle="exhaustive", polish="none")
    own, other = (hull.solve(method, solver, random_state=seed) for solver in ("mirror-prox", "clarabel"))
    assert own.status == other.status == "converged"
    assert own.estimate == pytest.approx(other.estimate, rel=1e-5) and own.bound <= other.estimate * (1 + 1e-6)


def test_both_keep_the_balance_and_find_two_clouds():
    rng = np.random.default_rng(1)
    X = np.vstack([rng.normal(-3, 0.5, (15, 2)), rng.normal(3, 0.5, (16, 2))])
    for problem in (md.recipes.mmc(X), md.recipes.lgmmc(X), md.recipes.lgmmc(X, labels="rounded")):
        labels = problem.solve(random_state=0).labels
        assert abs(labels.sum()) == 1
        assert len(set(labels[:15])) == 1 and labels[0] != labels[-1]


def test_a_parameter_may_be_followed():
    C = md.Parameter(1.0, name="C")
    X, _ = points(seed=4)
    first, second = md.recipes.mmc(X, C=C).path(C, [1.0, 5.0], random_state=0)
    assert first.bound < second.bound and first.bound <= first.value


def test_wrong_options_are_refused():
    with pytest.raises(DeclarationError, match="non-negative fraction"):
        md.recipes.mmc(np.eye(4), balance=-0.1)
    with pytest.raises(DeclarationError, match="non-negative fraction"):
        md.recipes.lgmmc(np.eye(4), balance=-0.1)
    with pytest.raises(UnknownNameError, match="rounded"):
        md.recipes.lgmmc(np.eye(4), labels="votes")
