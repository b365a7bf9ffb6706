"""LapSVM: the convex objective by hand, and labels carried along the graph."""

import numpy as np
import pytest
import scipy.sparse as sp

import margindsl as md
from margindsl.errors import DeclarationError
from margindsl.recipes.lapsvm import neighbour_graph


def moons(n=80, seed=0):
    from sklearn.datasets import make_moons

    X, classes = make_moons(n, noise=0.05, random_state=seed)
    truth = np.where(classes == 1, 1, -1)
    y = np.zeros(n, dtype=int)
    for sign in (-1, 1):
        y[np.flatnonzero(truth == sign)[0]] = sign
    return X, truth, y


def test_the_value_is_that_of_the_formulation():
    import cvxpy as cp
    from sklearn.neighbors import kneighbors_graph

    X, _, y = moons(30)
    one_way = kneighbors_graph(X, 4)
    W = one_way.maximum(one_way.T).toarray()
    laplacian, known, Z = np.diag(W.sum(axis=1)) - W, y != 0, X - X.mean(axis=0)
    w, b = cp.Variable(2), cp.Variable()
    f = Z @ w + b
    hinge = cp.sum(cp.pos(1 - cp.multiply(y[known], f[known]))) / known.sum()
    expected = cp.Problem(cp.Minimize(
        hinge + 0.05 * cp.sum_squares(w) + 2.0 / 30**2 * cp.quad_form(f, cp.psd_wrap(laplacian)))).solve(
            solver="CLARABEL")
    solution = md.recipes.lapsvm(X, y, gamma_A=0.05, gamma_I=2.0, neighbours=4).solve()
    assert solution.value == pytest.approx(expected, rel=1e-5)
    assert solution.gap <= 1e-5 and (solution.relaxation, solution.solver) == ("supervised", "newton")
    given = md.recipes.lapsvm(X, y, gamma_A=0.05, gamma_I=2.0, graph=sp.csr_matrix(W)).solve()
    assert given.value == pytest.approx(solution.value, rel=1e-9)


def test_labels_follow_the_moons():
    X, truth, y = moons()
    kernel = md.RBF(0.35)
    without = md.recipes.lapsvm(X, y, gamma_A=1e-3, gamma_I=0.0, kernel=kernel).solve()
    solution = md.recipes.lapsvm(X, y, gamma_A=1e-3, gamma_I=10.0, kernel=kernel).solve()
    assert np.mean(solution.labels == truth) >= 0.97 > np.mean(without.labels == truth)
    fresh, classes, _ = moons(60, seed=1)
    assert np.mean(solution.predict(fresh) == classes) >= 0.95


def test_sparse_points_make_the_same_graph():
    X, _, y = moons(40)
    assert md.recipes.lapsvm(sp.csr_matrix(X), y).solve().value == pytest.approx(
        md.recipes.lapsvm(X, y).solve().value, rel=1e-6)


@pytest.mark.parametrize("neighbours", [0, 10, 2.5, True])
def test_bad_neighbours(neighbours):
    with pytest.raises(DeclarationError, match="for 10 points; expected an integer from 1 to 9"):
        md.recipes.lapsvm(np.arange(20.0).reshape(10, 2), [1, -1] + [0] * 8, neighbours=neighbours)


def test_without_points_a_graph_is_needed():
    X, _, y = moons(40)
    kernel = md.Precomputed(X @ X.T)
    with pytest.raises(DeclarationError, match="X=None: neighbours are found among points; without them give graph="):
        md.recipes.lapsvm(None, y, kernel=kernel, neighbours=2)
    graph = neighbour_graph(X, 2)
    assert md.recipes.lapsvm(None, y, kernel=kernel, graph=graph).solve().value == pytest.approx(
        md.recipes.lapsvm(X, y, graph=graph).solve().value, rel=1e-6)
