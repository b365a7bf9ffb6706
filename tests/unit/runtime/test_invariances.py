"""What must not change an optimum: order of points, sign, rotation, scale."""

import pickle
from functools import cache

import numpy as np
import pytest

import margindsl as md

RNG = np.random.default_rng(9)
N = 8
X = RNG.normal(size=(N, 3))
X[:4] += 0.8
MUST, CANNOT = [(0, 1)], [(2, 7)]
RELAXATIONS = [("exact", None), ("sdp", "clarabel"), (md.Minimax(oracle="exhaustive"), "clarabel")]
LOSSES = {"hinge": md.hinge, "odm": md.odm, "epsilon": md.epsilon_insensitive}
names = [r if isinstance(r, str) else r.name for r, _ in RELAXATIONS]


def dealt(shift):
    """Return every relaxation with a loss, and every loss with a relaxation."""
    return [pytest.param(*way, loss, id=f"{name}-{kind}") for way, name, (kind, loss) in zip(
        RELAXATIONS, names, [*LOSSES.items()][shift:] + [*LOSSES.items()][:shift])]


@cache
def original(relaxation, solver, loss):
    """Return the solution at the points as they are."""
    return values_of(X, relaxation, solver, loss)


def values_of(points, relaxation, solver, loss, must=MUST, cannot=CANNOT, ridge=1.0, known=(), kernel="linear"):
    y, f = md.Labels(N), md.Hyperplane(points, kernel=kernel)
    constraints = [abs(md.sum(y)) <= 2, md.must_link(y, must), md.cannot_link(y, cannot)]
    constraints += [y[i] == v for i, v in known]
    problem = md.Problem(md.Minimize(ridge / 2 * md.sq_norm(f) + 6 * md.mean(loss(y * f))), constraints)
    return problem.solve(relaxation, solver, random_state=0)


def assert_same(a, b, tol=2e-5):
    assert a.value == pytest.approx(b.value, rel=1e-6)
    assert a.estimate == pytest.approx(b.estimate, rel=tol)
    assert a.bound == pytest.approx(b.bound, rel=1e-3)


@pytest.mark.parametrize("relaxation,solver,loss", dealt(0))
def test_permuting_the_points(relaxation, solver, loss):
    order = RNG.permutation(N)
    place = np.argsort(order)
    a = original(relaxation, solver, loss)
    b = values_of(X[order], relaxation, solver, loss, [tuple(place[list(p)]) for p in MUST],
                  [tuple(place[list(p)]) for p in CANNOT])
    assert_same(a, b)
    if relaxation == "exact":
        back = b.labels[place]
        assert np.array_equal(back, a.labels) or np.array_equal(back, -a.labels)


@pytest.mark.parametrize("relaxation,solver,loss", dealt(1))
def test_rotating_the_features(relaxation, solver, loss):
    Q, _ = np.linalg.qr(RNG.normal(size=(3, 3)))
    padded = np.column_stack([X @ Q, np.zeros(N)]) + 5.0  # a shift is centred away
    assert_same(original(relaxation, solver, loss), values_of(padded, relaxation, solver, loss))


@pytest.mark.parametrize("relaxation,solver,c", [(*way, c) for way, c in zip(RELAXATIONS, [0.1, 10.0, 0.1])])
def test_scaling_the_features_and_the_regulariser(relaxation, solver, c):
    a = original(relaxation, solver, md.odm)
    assert_same(a, values_of(c * X, relaxation, solver, md.odm, ridge=c**2))


@pytest.mark.parametrize("relaxation,solver", RELAXATIONS, ids=names)
def test_flipping_all_signs(relaxation, solver):
    a = values_of(X, relaxation, solver, md.hinge, known=[(0, 1), (5, -1)])
    b = values_of(X, relaxation, solver, md.hinge, known=[(0, -1), (5, 1)])
    assert_same(a, b)
    assert a.labels[0] == 1 and b.labels[0] == -1
    free = values_of(X, relaxation, solver, md.hinge)
    assert free.value <= min(a.value, b.value) + 1e-8
    fixed = values_of(X, relaxation, solver, md.hinge, known=[(0, 1)])
    assert free.value == pytest.approx(fixed.value, rel=1e-6)  # in a symmetric set one sign is free


def test_a_linear_kernel_given_as_a_matrix():
    a = values_of(X, "exact", None, md.odm)
    b = values_of(X, "exact", None, md.odm, kernel=md.Precomputed(X @ X.T))
    c = values_of(X, "exact", None, md.odm, kernel=lambda U, V: U @ V.T)
    d = values_of(X, "exact", None, md.odm, kernel=md.Polynomial(1, 0.0))
    assert a.value == pytest.approx(b.value, rel=1e-7)
    assert a.value == pytest.approx(c.value, rel=1e-7)
    assert a.value == pytest.approx(d.value, rel=1e-7)


def test_links_by_graph_matrix_and_pairs_are_one_thing():
    import networkx as nx
    import scipy.sparse as sp

    graph = nx.Graph(MUST)
    matrix = sp.coo_matrix((np.ones(1), ([0], [1])), shape=(N, N))
    values = {values_of(X, "exact", None, md.hinge, must=links).value for links in (MUST, graph, matrix, set(MUST))}
    assert len(values) == 1


@pytest.mark.parametrize("c", [1.0, 1e4])
@pytest.mark.parametrize("relaxation,solver", RELAXATIONS, ids=names)
def test_a_pickled_solution_still_proves_its_bound(relaxation, solver, c):
    solution = values_of(c * X, relaxation, solver, md.hinge, ridge=c**2)
    again = pickle.loads(pickle.dumps(solution))
    assert again.bound == solution.bound and again.verify()
    assert np.array_equal(again.decision_function(c * X), solution.decision_function(c * X))
