"""CPMMC, CutS3VM and MME: the concave-convex procedure with cutting planes."""

import importlib

import cvxpy as cp
import numpy as np
import pytest
from sklearn.datasets import load_digits

import margindsl as md
from margindsl.errors import DeclarationError, GrammarError, RefusalError, UnknownNameError
from margindsl.metrics import clustering_accuracy


def points(n=40, seed=0):
    rng = np.random.default_rng(seed)
    truth = np.where(np.arange(n) < n // 2, -1, 1)
    return rng.standard_normal((n, 3)) + truth[:, None] * [1.4, 0.5, 0.0] + 2.0, truth


def embedding(*args, **options):
    return importlib.import_module(md.recipes.mme.__module__).maximum_margin_embedding(*args, **options)


def by_hand(X, y, weights, l=None, normal=()):
    """Return the value of Eq. 1 at fixed labels with weighted hinges, Eq. 8's balance and Eq. 23's orthogonality."""
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    f = X @ w + b
    loss = cp.sum(cp.multiply(weights, cp.pos(1 - cp.multiply(y, f)))) / len(y)
    rows = ([] if l is None else [cp.abs(cp.sum(f)) <= l]) + [v @ w == 0 for v in normal]
    return cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + loss), rows).solve("CLARABEL")


@pytest.mark.parametrize("outer", ["labels", "cuts"])
@pytest.mark.parametrize("C, l", [(1.0, 5.0), (20.0, None)])
def test_cpmmc_is_equation_8_at_a_fixed_point_of_equation_11(C, l, outer):
    X, _ = points()
    solution = md.recipes.cpmmc(X, C=C, l=l, epsilon=1e-7, outer=outer).solve(random_state=0)
    l = 0.03 * 40 if l is None else l
    assert solution.value == pytest.approx(by_hand(X, solution.labels, C, l), rel=1e-5)
    assert abs(solution.decision.sum()) <= l * (1 + 1e-5)
    absorbed = 0.5 * solution.weights @ solution.weights + C * np.maximum(1 - abs(solution.decision), 0).mean()
    assert absorbed == pytest.approx(solution.value, rel=1e-6)  # labels are the signs of f
    values = np.array([record.value for record in solution.history if record.stage == "cccp"])
    assert np.all(np.diff(values) <= 1e-5 * values[:-1])


def test_cpmmc_never_beats_the_optimum_and_the_tolerance_is_kept():
    X, _ = points(n=8, seed=1)
    problem = md.recipes.cpmmc(X, C=5.0)
    exact = problem.solve("exact", "newton")
    assert problem.solve(random_state=0).value >= exact.value * (1 - 1e-6)
    assert exact.value == pytest.approx(by_hand(X, exact.labels, 5.0, 0.24), rel=1e-5)


@pytest.mark.parametrize("pair, printed", [((2, 7), 0.0), ((1, 7), 0.0), ((3, 8), 3.08), ((8, 9), 2.26)])
def test_cpmmc_on_digits_is_near_the_printed_error(pair, printed):
    images, digits = load_digits(return_X_y=True)
    chosen = np.isin(digits, pair)
    labels = md.recipes.cpmmc(images[chosen] / 16).solve(random_state=0).labels
    assert 100 * (1 - clustering_accuracy(digits[chosen], labels)) <= printed + 2.0


def test_an_unknown_outer_loop_is_named():
    with pytest.raises(UnknownNameError, match="outer loop of cpmmc 'cut'"):
        md.recipes.cpmmc(points()[0], outer="cut")


def test_a_negative_bound_is_refused():
    with pytest.raises(GrammarError, match="asks a modulus to be at most -1"):
        md.recipes.cpmmc(np.eye(4), l=-1.0)


def test_cuts3vm_is_equation_20_and_keeps_the_known_labels():
    X, truth = points(n=60, seed=2)
    y = np.where(np.arange(60) % 10 == 0, truth, 0)
    y[0] = -y[0]
    solution = md.recipes.cuts3vm(X, y, C_l=30.0, C_u=4.0, epsilon=1e-7).solve(random_state=0)
    known = y != 0
    assert np.array_equal(solution.labels[known], y[known])
    assert np.array_equal(solution.labels[~known], np.where(solution.decision[~known] >= 0, 1, -1))
    assert solution.value == pytest.approx(by_hand(X, solution.labels, np.where(known, 30.0, 4.0)), rel=1e-5)


def test_cuts3vm_uses_the_unlabelled_points():
    X, truth = points(n=200, seed=3)
    y = np.zeros(200, int)
    y[[0, 1, 198, 199]] = truth[[0, 1, 198, 199]]
    unknown = y == 0
    alone = md.recipes.svm(X, y, C=10.0).solve()
    together = md.recipes.cuts3vm(X, y).solve(random_state=0)
    assert np.mean(together.labels[unknown] == truth[unknown]) >= np.mean(alone.labels[unknown] == truth[unknown])
    with pytest.raises(DeclarationError, match="cuts3vm: no point is labelled -1"):
        md.recipes.cuts3vm(X, np.ones(200))


@pytest.mark.parametrize("kernel", ["linear", md.RBF(2.0)], ids=["linear", "rbf"])
def test_directions_of_an_embedding_are_orthogonal(kernel):
    X, _ = points(seed=4)
    found = embedding(X, 3, kernel=kernel, random_state=0)
    W = np.column_stack([solution.weights for solution in found])
    norms = np.linalg.norm(W, axis=0)
    assert np.all(norms > 1e-3)
    assert (W.T @ W) / np.outer(norms, norms) == pytest.approx(np.eye(3), abs=1e-7)


def test_each_direction_is_equation_23():
    X, _ = points(seed=5)
    first = md.recipes.mme(X, C=6.0).solve(random_state=0)
    assert first.value == pytest.approx(md.recipes.cpmmc(X, C=6.0).solve(random_state=0).value)
    second = md.recipes.mme(X, [first], C=6.0, epsilon=1e-7).solve(random_state=0)
    assert second.value == pytest.approx(by_hand(X, second.labels, 6.0, 1.2, [first.weights]), rel=1e-5)


def test_wrong_embeddings_are_refused():
    with pytest.raises(DeclarationError, match="integer of at least 1"):
        embedding(np.eye(4), 0)
    with pytest.raises(DeclarationError, match="expected earlier solutions"):
        md.recipes.mme(np.eye(4), [np.ones(4)])


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("outer", ["cuts", "labels"])
def test_a_loss_without_weight_has_the_zero_hyperplane(outer):
    X, _ = points()
    C = md.Parameter(1.0)
    changing = md.recipes.cpmmc(X, C=C, outer=outer)
    C.value = 0.0
    for problem in (md.recipes.cpmmc(X, C=0, outer=outer), changing):
        solution = problem.solve(random_state=0)
        assert solution.value == pytest.approx(0.0, abs=1e-12) and np.allclose(solution.weights, 0.0)
        assert set(np.unique(solution.labels)) <= {-1, 1}


@pytest.mark.filterwarnings("error::RuntimeWarning", "ignore::margindsl.errors.TrivialityWarning")
def test_a_loss_without_weight_of_three_clusters_has_the_zero_hyperplane():
    X, _ = points()
    y, f = md.Labels(len(X), clusters=3), md.Hyperplane(X, centre=False)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 0 * md.mean(md.hinge(md.margin(y, f)))),
                         [abs(md.sum(f)) <= 1])
    solution = problem.solve("cuts-outside", md.Solver("cutting-plane", tol=0.01), random_state=0)
    assert solution.value == pytest.approx(0.0, abs=1e-12) and np.allclose(solution.weights, 0.0)


def test_cuts3vm_takes_parameters():
    X, truth = points()
    y = np.where(np.arange(len(X)) % 10 == 0, truth, 0)
    C = md.Parameter(3.0, name="C")
    problem = md.recipes.cuts3vm(X, y, C_l=C, C_u=C)
    assert "C * md.sum" in str(problem.objective) and "/ 40" in str(problem.objective)
    for value in (3.0, 10.0):
        C.value = value
        fixed = md.recipes.cuts3vm(X, y, C_l=value, C_u=value)
        assert problem.solve(random_state=0).value == pytest.approx(fixed.solve(random_state=0).value, rel=1e-9)
    with pytest.raises(RefusalError, match="the loss of every labelled point has weight 0. Make its weight positive"):
        md.recipes.cuts3vm(X, y, C_l=0).solve(random_state=0)


def test_mme_refuses_solutions_over_other_points():
    X, _ = points()
    first = md.recipes.mme(X).solve(random_state=0)
    assert md.recipes.mme(X, [first]).solve(random_state=0).weights @ first.weights == pytest.approx(0.0, abs=1e-9)
    with pytest.raises(DeclarationError, match="an earlier solution has 40 points, these are 30"):
        md.recipes.mme(X[:30], [first])
    for other in (X[::-1], 2 * X):
        with pytest.raises(DeclarationError, match="earlier solution 0 give these points other decision values"):
            md.recipes.mme(other, [first]).solve(random_state=0)
