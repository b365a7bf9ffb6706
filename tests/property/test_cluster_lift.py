"""The label lift of k clusters: below the enumerated optimum, the same through every solver, labels in B."""

import itertools
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

import margindsl as md
from margindsl.contract import Budget
from margindsl.errors import DeclarationError, RefusalError
from margindsl.labelset.codes import simplex_codes
from margindsl.program.cuts import MatrixCuts
from margindsl.program.moment_certificate import repair_moment_lift
from margindsl.relaxations.cluster_lift import lift_clusters, violated_products
from margindsl.relaxations.triangles import MIXED

CLUSTERS = 3
WEIGHTS = np.array([2.0, 1.0, 0.5, 1.5, 1.0, 3.0])


def declare(seed, loss="odm", coding="simplex", lam=20.0, n=6, constrained=True):
    X = np.random.default_rng(seed).standard_normal((n, 2))
    y, f = md.Labels(n, clusters=CLUSTERS), md.Hyperplane(X)
    g = md.margin(y, f, coding=coding)
    losses = {"odm": lambda: md.odm(g, 0.4, 0.2), "hinge": lambda: md.hinge(g),
              "weighted hinge": lambda: WEIGHTS * md.hinge(g), "own widths": lambda: md.pos(WEIGHTS - g)}[loss]()
    constraints = [y[0] == y[1], y[2] != y[3], md.sizes(y, at_least=1, at_most=3)] if constrained else []
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + lam * md.mean(losses)), constraints)


def codes():
    corners = np.eye(CLUSTERS) - 1.0 / CLUSTERS
    return np.linalg.svd(corners)[0][:, :CLUSTERS - 1] * np.sqrt(CLUSTERS / (CLUSTERS - 1.0))


def members(n, constrained):
    """Yield the labellings of B, of those that differ in the names of the clusters one."""
    for labels in itertools.product(range(CLUSTERS), repeat=n):
        if list(dict.fromkeys(labels)) != [*range(len(set(labels)))]:
            continue
        sizes = np.bincount(labels, minlength=CLUSTERS)
        if not constrained or (labels[0] == labels[1] and labels[2] != labels[3] and sizes.min() >= 1
                               and sizes.max() <= 3):
            yield np.array(labels)


def optimum(problem, coding, loss, lam, constrained=True):
    """Return the least value over B by a conic solver, written from the definition of the margins."""
    X = problem.hyperplane.X - problem.hyperplane.X.mean(axis=0)
    n = len(X)
    own = cp.Parameter((n, CLUSTERS), nonneg=True)  # of a point one in its cluster's column
    if coding == "simplex":
        W = cp.Variable((2, CLUSTERS - 1))
        gamma = cp.sum(cp.multiply(own, X @ W @ codes().T), axis=1)
    else:
        W = cp.Variable((2, CLUSTERS))
        F = X @ W
        rivals = cp.vstack([cp.max(F[:, [p for p in range(CLUSTERS) if p != q]], axis=1) for q in range(CLUSTERS)]).T
        gamma = cp.sum(cp.multiply(own, F - rivals), axis=1)
    if loss == "hinge":
        total = cp.sum(cp.pos(1 - gamma))
    elif loss == "weighted hinge":
        total = WEIGHTS @ cp.pos(1 - gamma)
    elif loss == "own widths":
        total = cp.sum(cp.pos(WEIGHTS - gamma))
    else:
        total = cp.sum(cp.square(cp.pos(0.8 - gamma)) + 0.4 * cp.square(cp.pos(gamma - 1.2))) / 0.8**2
    written, values = cp.Problem(cp.Minimize(cp.sum_squares(W) / 2 + lam / n * total)), []
    for labels in members(n, constrained):
        own.value = np.eye(CLUSTERS)[labels]
        values.append(written.solve(solver=cp.CLARABEL))
    return min(values)


@pytest.mark.parametrize("coding,loss", [
    ("simplex", "odm"), ("simplex", "hinge"), ("crammer-singer", "hinge"), ("crammer-singer", "weighted hinge"),
    ("crammer-singer", "own widths")])
@pytest.mark.parametrize("seed", [0])
def test_the_bound_is_below_the_enumerated_optimum(seed, coding, loss):
    problem = declare(seed, loss, coding)
    best = optimum(problem, coding, loss, 20.0)
    solution = problem.solve(relaxation="sdp", solver="clarabel", random_state=0)
    assert solution.bound <= best * (1 + 1e-6)
    assert solution.value >= best * (1 - 1e-6)
    assert solution.value <= best * (1 + 1e-5)  # so small an instance is searched through
    assert solution.verify()
    assert problem.program().labels.contains(solution.labels)
    assert solution.bound > 0.3 * best


@pytest.mark.filterwarnings("ignore::margindsl.errors.TrivialityWarning")
def test_cuts_tighten_and_never_cross_the_optimum():
    problem = declare(3, "hinge", constrained=False)
    best = optimum(problem, "simplex", "hinge", 20.0, constrained=False)
    plain = problem.solve(relaxation=md.SDP(cuts="none"), solver="clarabel", random_state=0)
    cut = problem.solve(relaxation=md.SDP(cuts="products"), solver="clarabel", random_state=0)
    assert plain.bound <= cut.bound + 1e-6 <= best * (1 + 1e-6) + 1e-6
    assert cut.bound > plain.bound * 1.01


@pytest.mark.filterwarnings("ignore::margindsl.errors.TrivialityWarning")
@pytest.mark.parametrize("coding,clusters,seed", [
    ("simplex", 3, 6), ("simplex", 4, 6), ("crammer-singer", 3, 2), ("crammer-singer", 4, 2)])
def test_triangles_of_codes_tighten_and_never_cross_the_optimum(coding, clusters, seed):
    X = np.random.default_rng(seed).normal(size=(8, 3))
    y, f = md.Labels(8, clusters=clusters), md.Hyperplane(X)
    held = [y[0] == 1, y[1] == 0, y[3] != y[0], md.sizes(y, at_least=1)] if coding == "crammer-singer" else []
    objective = md.sq_norm(f) / 2 + 20 * md.mean(md.hinge(md.margin(y, f, coding=coding)))
    problem, bounds = md.Problem(md.Minimize(objective), held), []
    best = problem.solve("exact", random_state=0).value
    for cuts in ("products", "triangle"):
        solution = problem.solve(md.SDP(cuts=cuts, polish="none"), "clarabel", random_state=0)
        assert solution.verify(), cuts
        bounds.append(solution.bound)
    assert bounds[0] * (1 - 1e-6) <= bounds[1] <= best * (1 + 1e-6)
    assert bounds[1] > bounds[0] * (1 + 1e-4)


@pytest.mark.parametrize("clusters", [2, 3, 4, 5])
def test_cuts_hold_for_all_codes(clusters):
    corners = simplex_codes(clusters)
    corners = corners / np.linalg.norm(corners[0])
    V = np.array([corners[list(three)] for three in itertools.product(range(clusters), repeat=3)])
    products = MatrixCuts.codes(clusters, np.array([0]), np.array([1]), np.array([False]))
    triangles = MatrixCuts.triangles(np.array([[0, 1, 2]] * len(MIXED)), MIXED)
    least = np.min([cut.factor_values(v) for cut in (products.joined(triangles),) for v in V], axis=0)
    assert np.allclose(least, -1.0)


def test_the_native_engine_and_conic_solvers_agree_with_cuts():
    form = lift_clusters(declare(4, "odm").program())
    rows, columns = np.triu_indices(form.count, 1)
    every = MatrixCuts.codes(CLUSTERS, rows, columns, np.zeros(len(rows), dtype=bool))
    form = replace(form, cuts=form.cuts.joined(every))
    assert form.cuts.count == len(rows) and form.cuts.equal.sum() == 1
    bounds = []
    for name in ("clarabel", "burer-monteiro", "scs"):
        raw = md.Solver(name).solve(form, Budget(tol=1e-6))
        certificate = repair_moment_lift(form, raw["u"], None, raw.get("d"), raw.get("kappa"), raw.get("eta"),
                                         raw.get("tau"))
        bounds.append(certificate.bound)
    assert np.allclose(bounds, bounds[0], rtol=5e-3)


def test_known_clusters_are_merged_and_kept_apart():
    X = np.random.default_rng(0).standard_normal((8, 2))
    y, f = md.Labels(8, clusters=CLUSTERS), md.Hyperplane(X)
    objective = md.Minimize(md.sq_norm(f) / 2 + 5 * md.mean(md.hinge(md.margin(y, f, coding="simplex"))))
    known = np.array([0, 0, 1, 2])
    problem = md.Problem(objective, [y[[0, 1, 2, 3]] == known])
    form = lift_clusters(problem.program())
    assert form.count == 7 and form.cuts.count == 3 and form.cuts.equal.all()
    solution = problem.solve(relaxation="sdp", random_state=0)
    assert np.array_equal(solution.labels[:4], known) and solution.bound <= solution.value


def test_what_is_violated_is_found():
    V = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    cuts = violated_products(V, CLUSTERS, 10)
    assert cuts.rows.tolist() == [[0]] and cuts.columns.tolist() == [[1]]
    assert violated_products(codes(), CLUSTERS, 10).count == 0
    assert np.allclose(cuts.values(V @ V.T), cuts.factor_values(V))
    tau = np.array([0.7])
    assert np.isclose(np.sum(cuts.adjoint(tau, 3) * (V @ V.T)), float(tau @ cuts.values(V @ V.T)))


def test_what_cannot_be_lifted_is_refused():
    problem = declare(0)
    with pytest.raises(RefusalError, match="second moments are those of signs"):
        problem.solve(relaxation=md.SDP(moments=True))
    X = np.random.default_rng(0).standard_normal((4, 2))
    y, f = md.Labels(4), md.Hyperplane(X)
    binary = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= 2])
    with pytest.raises(RefusalError, match="least inner product of two codes is -1"):
        binary.solve(relaxation=md.SDP(cuts="products"))
    with pytest.raises(DeclarationError, match="a pair of components i < j"):
        MatrixCuts.codes(3, np.array([1]), np.array([1]), np.array([False]))
    with pytest.raises(DeclarationError, match="one entry a cut"):
        MatrixCuts.codes(3, np.array([1]), np.array([2]), np.array([False, True]))
