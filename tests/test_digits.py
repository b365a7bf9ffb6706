"""Digits 3 against 8 (scikit-learn): four relaxations of one declaration, with links, balance and honest bounds."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

import margindsl as md
from margindsl.errors import RefusalError
from margindsl.metrics import clustering_accuracy

pytestmark = pytest.mark.slow
NU, THETA, LAM = 0.4, 0.2, 10.0


def digits():
    data = load_digits()
    chosen = np.isin(data.target, [3, 8])
    return data.data[chosen] / 16, np.where(data.target[chosen] == 3, 1, -1)


def random_links(truth, rng, count=10):
    """Return must-links and cannot-links drawn from the truth."""
    pairs = rng.integers(0, len(truth), (60 * count, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    same = truth[pairs[:, 0]] == truth[pairs[:, 1]]
    return pairs[same][:count], pairs[~same][:count]


def declare(X, truth):
    must, cannot = random_links(truth, np.random.default_rng(0))
    y, f = md.Labels(len(X)), md.Hyperplane(X)
    problem = md.Problem(
        md.Minimize(md.sq_norm(f) / 2 + LAM * md.mean(md.odm(y * f, NU, THETA))),
        [abs(md.sum(y)) <= 0.03 * len(X), md.must_link(y, must), md.cannot_link(y, cannot)])
    return problem, must, cannot


def objective(X, solution):
    """Return the objective of the labels, the hyperplane fitted and evaluated with numpy alone."""
    n, Phi, y = len(X), X - X.mean(axis=0), solution.labels
    w = np.zeros(Phi.shape[1])
    rows = y[:, None] * Phi
    for _ in range(200):  # Newton on a piecewise quadratic: ends in finitely many steps
        margins = rows @ w
        low, high = 1 - THETA - margins, margins - 1 - THETA
        gradient = w + 2 * LAM / n / (1 - THETA) ** 2 * rows.T @ (NU * np.maximum(high, 0) - np.maximum(low, 0))
        weight = 2 * LAM / n / (1 - THETA) ** 2 * ((low > 0) + NU * (high > 0))
        step = np.linalg.solve(np.eye(len(w)) + rows.T @ (weight[:, None] * rows), gradient)
        w = w - step
        if np.linalg.norm(gradient) < 1e-13:
            break
    margins = rows @ w
    loss = np.maximum(1 - THETA - margins, 0) ** 2 + NU * np.maximum(margins - 1 - THETA, 0) ** 2
    return 0.5 * w @ w + LAM * np.mean(loss) / (1 - THETA) ** 2


def assert_honest(X, solution, must, cannot):
    y = solution.labels
    assert set(np.unique(y)) == {-1, 1} and abs(y.sum()) <= 0.03 * len(y)
    assert np.all(y[must[:, 0]] == y[must[:, 1]]) and np.all(y[cannot[:, 0]] != y[cannot[:, 1]])
    assert solution.value == pytest.approx(objective(X, solution), rel=1e-8)
    assert solution.bound <= solution.value
    if solution.certificate is not None:
        assert solution.verify()


@pytest.fixture(scope="module")
def data():
    return digits()


@pytest.mark.parametrize("relaxation,solver", [
    ("alternating", "newton"), ("alternating", "lbfgs"), ("cccp", "newton"), ("minimax", "mirror-prox")])
def test_all_points(data, relaxation, solver):
    X, truth = data
    problem, must, cannot = declare(X, truth)
    solution = problem.solve(relaxation, solver, random_state=0, time_limit=60)
    assert_honest(X, solution, must, cannot)
    assert clustering_accuracy(truth, solution.labels) >= 0.95
    if relaxation == "minimax":
        assert 0 < solution.bound < solution.value and solution.estimate <= solution.value


def test_a_subsample_by_the_label_sdp(data):
    X, truth = data
    chosen = np.random.default_rng(1).choice(len(X), 60, replace=False)
    problem, must, cannot = declare(X[chosen], truth[chosen])
    solution = problem.solve("sdp", random_state=0)
    assert_honest(X[chosen], solution, must, cannot)
    assert 0 < solution.bound <= solution.value
    assert abs(solution.bound - solution.estimate) <= 0.01 * abs(solution.estimate)
    other = problem.solve("alternating", random_state=0)
    assert solution.bound <= other.value


def test_the_size_of_the_conic_form_is_refused_with_an_override(data):
    problem, _, _ = declare(*data)
    with pytest.raises(RefusalError) as caught:
        problem.compile("sdp", "clarabel")
    words = str(caught.value)
    assert "order" in words and "above the limit 100" in words
    assert "Raise it with Solver('clarabel', max_psd_order=" in words and "subsample" in words
    order = int(words.split("max_psd_order=")[1].split(")")[0])
    compiled = problem.compile("sdp", md.Solver("clarabel", max_psd_order=order))
    assert compiled.solver.max_psd_order == order
