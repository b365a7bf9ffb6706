"""Forms of more than two clusters: codes, margins, duals, and solvers against one another."""

import dataclasses
import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from instances import majorant

import margindsl as md
from margindsl.calculus import ConvexFunction
from margindsl.contract import Budget, RawSolution, Status
from margindsl.errors import CalculusError, DeclarationError
from margindsl.features import build
from margindsl.features.derived import CodedRows, weighted_gram
from margindsl.labelset import presolve
from margindsl.labelset.codes import contrasts, simplex_codes
from margindsl.program.bounds import DecisionBound
from margindsl.program.certificates import certify_fixed_labels
from margindsl.program.clusters import ClusterForm, runner_up
from margindsl.program.losses import Losses, LossTerm
from margindsl.program.program import CODINGS, MarginProgram
from margindsl.program.split import SplitLosses

RNG = np.random.default_rng(7)
N, D, K = 24, 3, 3
LABELS = np.concatenate([np.arange(K), RNG.integers(K, size=N - K)])
X = RNG.normal(size=(N, D)) + 0.8 * np.eye(K, D)[LABELS]
LOSSES = {"hinge": md.hinge, "squared hinge": md.squared_hinge, "logistic": lambda g: md.logistic(-g),
          "odm": lambda g: md.odm(g, 0.4, 0.2), "insensitive": lambda g: md.epsilon_insensitive(g - 1, 0.1)}
CONVEX = ("hinge", "squared hinge", "logistic")


def program(loss, k=K, coding="crammer-singer", weight=4.0, constraints=lambda y, f: [], X=X, **options):
    y, f = md.Labels(len(X), clusters=k), md.Hyperplane(X, **options)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + weight * md.mean(LOSSES[loss](md.margin(y, f, coding)))),
                         constraints(y, f))
    return problem.program()


def newton(form, tol=1e-9, start=None):
    return md.Solver("newton").solve(form, Budget(tol=tol), start)


@pytest.mark.parametrize("k", [2, 3, 4, 10])
def test_codes_are_the_corners_of_a_simplex(k):
    codes, basis = simplex_codes(k), contrasts(k)
    assert np.allclose(codes @ codes.T, np.where(np.eye(k, dtype=bool), 1.0, -1.0 / (k - 1)))
    assert np.allclose(basis.T @ basis, np.eye(k - 1)) and np.allclose(basis.sum(axis=0), 0)
    with pytest.raises(DeclarationError, match="codes of 1 clusters: expected at least 2"):
        contrasts(1)


@pytest.mark.parametrize("k", [2, 3])
def test_coded_rows_are_the_kronecker_products(k):
    base, codes, labels = build(X), simplex_codes(k), LABELS % k
    coded = CodedRows(base, labels, codes)
    dense = np.stack([np.kron(codes[c], phi) for c, phi in zip(labels, base.toarray())])
    w, u = RNG.normal(size=coded.rank), RNG.normal(size=N)
    W, U = RNG.normal(size=(coded.rank, 2)), RNG.normal(size=(N, 2))
    weights = np.where(RNG.random(N) < 0.4, 0.0, RNG.random(N))
    assert np.allclose(coded.rows(np.array([3, 1])), dense[[3, 1]])
    assert np.allclose(coded.apply(w), dense @ w) and np.allclose(coded.apply(W), dense @ W)
    assert np.allclose(coded.adjoint(u), dense.T @ u) and np.allclose(coded.adjoint(U), dense.T @ U)
    assert np.allclose(coded.gram(weights), dense.T @ (weights[:, None] * dense))
    assert np.allclose(coded.fold(lambda rows, u: u @ rows, u), u @ dense)


def test_no_row_is_an_empty_array_of_the_same_width():
    coded = CodedRows(build(np.eye(4)), np.array([0, 1, 2, 1]), simplex_codes(3))
    assert coded.rows(np.zeros(0, dtype=int)).shape == (0, coded.rank) == (0, 8)


def test_simplex_coded_hinge_of_more_columns_than_points_is_solved():
    X = np.random.default_rng(0).normal(size=(60, 80))
    K, F = md.Labels(60, clusters=3), md.Hyperplane(X)
    loss = md.mean(md.hinge(md.margin(K, F, coding="simplex")))
    found = md.Problem(md.Minimize(md.sq_norm(F) / 2 + 10 * loss), [md.sizes(K, at_least=10, at_most=30)]).solve(
        random_state=0, time_limit=2)
    sizes = np.bincount(found.labels, minlength=3)
    assert np.isfinite(found.value) and sizes.min() >= 10 and sizes.max() <= 30


@pytest.mark.parametrize("held", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_a_weighted_gram_of_an_index_is_the_sum_over_it(held):
    base, index = build(held(X)), np.array([4, 9, 2])
    rows, weights = base.rows(index), np.array([1.0, -0.5, 2.0])
    assert np.allclose(weighted_gram(base, index, weights), rows.T @ (weights[:, None] * rows))
    assert np.allclose(weighted_gram(base, index, None), rows.T @ rows)


def test_margins_in_every_cluster_by_hand():
    F = RNG.normal(size=(N, 4))
    table = CODINGS["crammer-singer"].margin_table(F)
    for i, q in itertools.product(range(N), range(4)):
        assert np.isclose(table[i, q], F[i, q] - max(F[i, p] for p in range(4) if p != q))
    assert CODINGS["simplex"].margin_table(F) is F
    labels = RNG.integers(4, size=N)
    runner = runner_up(F, labels)
    assert np.all(runner != labels)
    assert np.allclose(F[np.arange(N), labels] - F[np.arange(N), runner], table[np.arange(N), labels])


@pytest.mark.parametrize("coding", ["crammer-singer", "simplex"])
def test_costs_of_clusters_are_the_losses_of_changed_labels(coding):
    p = program("odm", coding=coding)
    w = RNG.normal(size=D * (K - 1))
    form = p.fix_labels(LABELS)
    costs = p.losses.cluster_costs(CODINGS[coding].margin_table(form.outputs(w)))
    for i, q in [(0, 1), (5, 2), (9, 0)]:
        labels = LABELS.copy()
        labels[i] = q
        change = p.fix_labels(labels).objective(w) - form.objective(w)
        assert np.isclose(change, costs[i, q] - costs[i, LABELS[i]])
    assert np.allclose(-costs, p.gains(form.outputs(w)))
    assert np.allclose(p.margins(LABELS, form.outputs(w)), form.margins(form.outputs(w)))
    assert np.allclose(p.features.apply(p.weights(w)), form.outputs(w))


@pytest.mark.parametrize("loss", LOSSES)
def test_split_losses_add_up(loss):
    p = program(loss)
    margins = RNG.normal(scale=2.0, size=N)
    parts = p.split
    assert np.isclose(parts.falling.value(margins) + parts.rising.value(margins) + parts.constant,
                      p.losses.value(margins))
    assert all(term.loss.is_nonincreasing for term in parts.falling.terms)
    assert all(term.loss.is_nondecreasing for term in parts.rising.terms)
    assert bool(parts.rising.rows) is (loss not in CONVEX)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_majorant_lies_above_and_touches(loss):
    form = program(loss).fix_labels(LABELS)
    w0 = RNG.normal(size=form.size_of_w)
    fixed = dataclasses.replace(form, runner=runner_up(form.outputs(w0), LABELS))
    assert np.isclose(majorant(fixed, w0), form.objective(w0))
    for _ in range(20):
        w = w0 + RNG.normal(size=form.size_of_w)
        assert majorant(fixed, w) >= form.objective(w) - 1e-12


@pytest.mark.parametrize("loss", LOSSES)
def test_weak_duality_at_any_dual_point(loss):
    form = program(loss, constraints=lambda y, f: [abs(md.sum(f)) <= 0.5], centre=False).fix_labels(LABELS)
    fixed = dataclasses.replace(form, runner=runner_up(RNG.normal(size=(N, K)), LABELS))
    scale = 4.0 / N
    for _ in range(20):
        w = RNG.normal(size=form.size_of_w)
        w *= min(1.0, float(np.min(form.bound_ends[1] / np.abs(form.bound_normals @ w))))
        u = scale * RNG.random((form.parts.falling.rows, K)) / K
        u[np.arange(len(u)), LABELS[form.parts.falling.points]] = 0.0
        t = scale * RNG.random(form.parts.rising.rows)
        tau = 0.1 * RNG.normal(size=len(form.bound_normals))
        assert fixed.dual_objective(u, tau, t) <= majorant(fixed, w) + 1e-10
    assert fixed.dual_objective(-np.ones_like(u), tau, t) == -np.inf or not len(u)


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_solvers_agree_and_certify_themselves(loss, balanced):
    options = {"constraints": lambda y, f: [abs(md.sum(f)) <= 0.5], "centre": False} if balanced else {}
    form = program(loss, **options).fix_labels(LABELS)
    assert len(form.bound_normals) == (3 if balanced else 0)
    reference = newton(form)
    fixed = dataclasses.replace(form, runner=reference["runner"])
    assert np.isclose(majorant(fixed, reference["w"]), form.objective(reference["w"]))
    for name in ("newton", "cutting-plane", "clarabel"):
        raw = md.Solver(name).solve(fixed, Budget(tol=1e-7))
        assert raw.status is Status.OPTIMAL and form.primal_residual(raw["w"]) <= 1e-6
        primal, dual = majorant(fixed, raw["w"]), fixed.dual_objective(raw["u"], raw["tau"], raw["t"])
        assert abs(primal - dual) <= 1e-6 * max(1.0, primal)
        assert np.isclose(primal, majorant(fixed, reference["w"]), rtol=1e-6)


def test_a_convex_problem_against_cvxpy_by_hand():
    import cvxpy as cp

    form = program("hinge").fix_labels(LABELS)
    W = cp.Variable((D, K))
    F = (X - X.mean(axis=0)) @ W
    own = cp.sum(cp.multiply(F, np.eye(K)[LABELS]), axis=1)
    rest = cp.max(F - 1e3 * np.eye(K)[LABELS], axis=1)
    by_hand = cp.Problem(cp.Minimize(cp.sum_squares(W) / 2 + 4.0 / N * cp.sum(cp.pos(1 - own + rest))))
    by_hand.solve(solver=cp.CLARABEL)
    assert np.isclose(newton(form).objective, by_hand.value, rtol=1e-6)
    assert np.allclose(program("hinge").weights(newton(form)["w"]), W.value, atol=1e-3)


@pytest.mark.parametrize("name", ["newton", "cutting-plane", "clarabel"])
def test_rising_losses_end_where_their_majorant_is_stationary(name):
    form = program("odm").fix_labels(LABELS)
    raw = md.Solver(name).solve(form, Budget(tol=1e-7))
    again = dataclasses.replace(form, runner=runner_up(form.outputs(raw["w"]), LABELS))
    assert np.isclose(newton(again).objective, form.objective(raw["w"]), rtol=1e-5)
    start = RawSolution(Status.OPTIMAL, {"w": RNG.normal(size=form.size_of_w)})
    assert form.objective(newton(form, start=start)["w"]) <= form.objective(start["w"])


def test_a_warm_start_of_other_labels_reaches_the_same_answer():
    form = program("hinge").fix_labels(LABELS)
    cold = newton(form)
    other = LABELS.copy()
    other[:6] = (other[:6] + 1) % K
    warm = newton(form, start=newton(program("hinge").fix_labels(other)))
    assert np.isclose(warm.objective, cold.objective, rtol=1e-8)
    assert newton(form, start=cold).iterations <= 2


@pytest.mark.parametrize("solver", ["lbfgs", "osqp"])
def test_simplex_coded_forms_go_to_every_solver_of_fixed_labels(solver):
    form = program("squared hinge", coding="simplex").fix_labels(LABELS)
    reference = newton(form)
    raw = md.Solver(solver).solve(form, Budget(tol=1e-7))
    assert np.isclose(form.objective(raw["w"]), form.objective(reference["w"]), rtol=1e-5)
    assert np.isclose(form.dual_objective(reference["u"]), reference.objective, rtol=1e-8)


def test_large_systems_by_conjugate_gradients_agree_with_dense_ones():
    form = program("squared hinge").fix_labels(LABELS)
    dense, iterative = newton(form, 1e-8), md.Solver("newton", dense_limit=1).solve(form, Budget(tol=1e-8))
    assert np.isclose(dense.objective, iterative.objective, rtol=1e-7)


@pytest.mark.parametrize("loss", ["hinge", "odm", "logistic"])
def test_two_clusters_are_the_binary_program(loss):
    """γ = ⟨w_1 − w_0, φ⟩ y and ½(‖w_0‖² + ‖w_1‖²) = ¼‖w_1 − w_0‖² at w_0 = −w_1."""
    y, f, labels = md.Labels(N), md.Hyperplane(X), (LABELS > 0).astype(int)

    def binary(weight):
        problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + weight * md.mean(LOSSES[loss](y * f))))
        return problem.program()

    clustered = dataclasses.replace(binary(4.0), coding="crammer-singer")
    halved = newton(binary(8.0).fix_labels(labels))  # ¼‖w‖² + 4 L = ½ (½‖w‖² + 8 L)
    paired = newton(clustered.fix_labels(labels))
    assert np.isclose(paired.objective, 0.5 * halved.objective, rtol=1e-8)
    weights = clustered.weights(paired["w"])
    assert np.allclose(weights[:, 1] - weights[:, 0], halved["w"], atol=1e-4)


def test_certificates_prove_the_dual_value_of_falling_losses_only():
    form = program("hinge").fix_labels(LABELS)
    raw = newton(form)
    certificate = certify_fixed_labels(form, raw["u"], raw["tau"])
    assert np.isclose(certificate.bound, raw.objective, rtol=1e-8)
    rising = program("odm").fix_labels(LABELS)
    answer = newton(rising)
    assert certify_fixed_labels(rising, answer["u"], answer["tau"]) is None
    assert certify_fixed_labels(form, None, None) is None


def test_what_forms_of_clusters_refuse():
    p = program("hinge")
    parts = p.split
    with pytest.raises(DeclarationError, match="labels: given shape"):
        ClusterForm(p.features, p.losses, LABELS[:-1], parts, codes=contrasts(K))
    with pytest.raises(DeclarationError, match=r"of the form \|sum\| <= l only"):
        ClusterForm(p.features, p.losses, LABELS, parts, codes=contrasts(K),
                    decision=(DecisionBound(np.ones(N), -1.0, 2.0),))
    with pytest.raises(DeclarationError, match="labels of 3 clusters are the whole numbers below 3"):
        ClusterForm(p.features, p.losses, LABELS + 1, parts, codes=contrasts(K))
    with pytest.raises(DeclarationError, match="coding of a margin program is 'other'"):
        MarginProgram(p.features, presolve(N), p.losses, coding="other")


class Cosh(ConvexFunction):
    domain = (-np.inf, np.inf)

    def __call__(self, x):
        return np.cosh(x)

    def derivative(self, x):
        return np.sinh(x)

    def curvature(self, x):
        return np.cosh(x)

    def conic(self, cp, x):
        return (cp.exp(x) + cp.exp(-x)) / 2, []


def test_losses_that_cannot_be_split_are_refused():
    ones = np.ones(N)
    rising = LossTerm(Cosh(), np.arange(N), ones, ones, 0 * ones, np.zeros((N, 0)))
    with pytest.raises(CalculusError, match="cannot be split"):
        SplitLosses.of(Losses(N, (rising,)))


def test_other_solvers_refuse_fixed_clusters():
    form = program("hinge").fix_labels(LABELS)
    for name in ("lbfgs", "mirror-prox"):
        assert not md.Solver(name).accepts(form)
