"""Branch and bound: node bounds against a conic solver, the tree as a proof, limits and refusals."""

import dataclasses
from itertools import product
from types import MappingProxyType

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import linprog

import margindsl as md
from margindsl.calculus import Logistic, pos
from margindsl.contract import Budget, RawSolution, Refusal, Status
from margindsl.drivers import branching
from margindsl.errors import CalculusError, DeclarationError, UnknownNameError
from margindsl.features import build
from margindsl.labelset import presolve
from margindsl.program.branching import BranchNodeForm, PointLosses, node_dual
from margindsl.program.forms import FixedLabelForm
from margindsl.program.lift import LiftForm
from margindsl.program.losses import Losses, LossTerm
from margindsl.program.nodes import PartialNodes
from margindsl.relaxations import exact
from margindsl.runtime.registry import make_solver
from margindsl_solvers.engines.hull import MomentHull, SoftKinks
from margindsl_solvers.interior import Interior

HINGE = pos().precompose(-1, 1)


def odm(nu=0.5, theta=0.2):
    low, high = pos().precompose(-1, 1 - theta), pos().precompose(1, -1 - theta)
    return (low.square() + nu * high.square()) * (1 / (1 - theta) ** 2)


def separable(n, loss, weight):
    return Losses(n, (LossTerm(loss, np.arange(n), np.full(n, weight / n), np.ones(n), np.zeros(n), np.zeros((n, 0))),))


def node(X, loss, weight, labels, **options):
    losses = separable(len(X), loss, weight)
    codes = np.asarray(labels, dtype=float)[:, None]
    return BranchNodeForm(build(X), losses, codes, table=PointLosses.build(losses), **options)


def problem_of(n=24, C=10.0, seed=0, kind="odm", links=True):
    rng = np.random.default_rng(seed)
    truth = np.where(np.arange(n) % 2, 1, -1)
    X = rng.normal(size=(n, 3)) + 0.7 * truth[:, None]
    X -= X.mean(axis=0)
    y = md.Labels(n)
    f = md.Hyperplane(X)
    loss = md.hinge(y * f) if kind == "hinge" else md.odm(y * f, 0.5, 0.2)
    constraints = [abs(md.sum(y)) <= n // 5] + ([y[0] == y[2], y[1] != y[4]] if links else [])
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + C * md.mean(loss)), constraints)


# -- losses by points --------------------------------------------------------------------------------


def test_tables_sum_the_rows_of_a_point():
    n, rng = 5, np.random.default_rng(0)
    first = LossTerm(odm(), np.arange(n), rng.uniform(0.5, 2, n), np.ones(n), np.zeros(n), np.zeros((n, 0)))
    second = LossTerm(HINGE, np.array([1, 3]), np.ones(2), np.array([1.0, 0.5]), np.array([0.2, 0.0]), np.zeros((2, 0)))
    losses = Losses(n, (first, second))
    table, x = PointLosses.build(losses), rng.normal(size=n)
    assert table.value(x).sum() == pytest.approx(losses.value(x), rel=1e-12)
    smooth, jumps = table.split_kinks()
    knots = np.where(np.isfinite(table.knots), table.knots, 0.0)
    kinks = jumps * np.maximum(x[:, None] - knots, 0.0)
    assert smooth.value(x) + kinks.sum(axis=1) == pytest.approx(table.value(x), abs=1e-12)
    assert np.count_nonzero(jumps) == 2


def test_tilted_minima_are_those_of_a_grid():
    rng, n = np.random.default_rng(1), 40
    table = PointLosses.build(separable(n, odm(), 20.0))
    u, a = rng.normal(size=n), rng.uniform(-0.7, 2.0, n)
    grid = np.linspace(-60.0, 60.0, 240_001)
    h = table.q[0, 0] / odm().pieces[0][2] * odm()(grid)
    expected = [np.min(h + ui * grid + 0.5 * ai * grid**2) for ui, ai in zip(u, a)]
    assert table.tilted_minimum(u, a) == pytest.approx(expected, abs=1e-4)
    below = table.tilted_minimum(u, np.full(n, -2.1 * table.q[0].max()))
    assert np.all(np.isneginf(below))


def test_losses_that_are_not_piecewise_quadratic_are_refused():
    with pytest.raises(CalculusError, match="finite piecewise quadratic losses"):
        PointLosses.build(separable(3, Logistic(), 1.0))


@pytest.mark.parametrize("nu", [0.4, 2.5])
def test_the_hull_of_the_moment_curve_is_that_of_a_linear_programme(nu):
    rng, n = np.random.default_rng(0), 10
    hull = MomentHull.build(PointLosses.build(separable(n, odm(nu), float(n))))
    f = rng.normal(1, 1, n)
    z = f * f + 0.01 + rng.exponential(0.5, n) * rng.choice([0.02, 1.0, 5.0], n)
    bend, grid = hull.at(f, z), np.linspace(-40, 40, 8001)
    for i in range(n):
        rows = np.stack([np.ones_like(grid), grid, grid**2])
        best = linprog(odm(nu)(grid), A_eq=rows, b_eq=[1, f[i], z[i]]).fun
        # the grid ends at 40, where the hull may use atoms at infinity
        assert 0.95 * best - 2e-3 <= bend.value[i] <= best + 1e-3
    for df, dz, slope in ((1e-6, 0.0, bend.by_f), (0.0, 1e-6, bend.by_z)):
        ahead, behind = hull.at(f + df, z + dz), hull.at(f - df, z - dz)
        assert (ahead.value - behind.value) / 2e-6 == pytest.approx(slope, rel=1e-5, abs=1e-7)
        second = bend.ff if df else bend.zz
        change = (ahead.by_f - behind.by_f if df else ahead.by_z - behind.by_z) / 2e-6
        assert change == pytest.approx(second, rel=1e-5, abs=1e-6)


def test_softened_kinks_approach_the_kinks_and_know_their_derivatives():
    x = np.linspace(-3, 3, 13)
    kinks = SoftKinks.build(np.ones((13, 1)), np.full((13, 1), 0.3))
    for tau in (1e-1, 1e-3):
        value, first, second, exact = kinks.at(x, tau)
        ahead, behind = kinks.at(x + 1e-6, tau), kinks.at(x - 1e-6, tau)
        assert (ahead[0] - behind[0]) / 2e-6 == pytest.approx(first, abs=1e-6)
        assert (ahead[1] - behind[1]) / 2e-6 == pytest.approx(second, rel=1e-4, abs=1e-5)
        assert exact == pytest.approx(0.3 * np.maximum(x - 1, 0))
    assert value == pytest.approx(exact, abs=0.05)


# -- nodes -------------------------------------------------------------------------------------------


def conic_value(X, kind, weight, labels):
    """Return the node's value by cvxpy: three moment pieces a labelled point, ρ(√z) a free one."""
    n, r = X.shape
    Y, c = cp.Variable((r + 1, r + 1), PSD=True), weight / n
    w, P = Y[0, 1:], Y[1:, 1:]
    constraints, cost = [Y[0, 0] == 1], 0.5 * cp.trace(P)
    for x, label in zip(X, labels):
        f, z = label * (w @ x), cp.sum(cp.multiply(np.outer(x, x), P))
        if kind == "hinge":
            cost += c * (cp.pos(1 - f) if label else cp.pos(1 - cp.sqrt(z)))
        elif label == 0:
            cost += c / 0.64 * (cp.square(cp.pos(0.8 - cp.sqrt(z))) + 0.5 * above(z, constraints))
        else:
            p, g, m = (cp.Variable(3) for _ in range(3))
            constraints += [cp.sum(p) == 1, cp.sum(g) == f, cp.sum(m) == z, p >= 0]
            constraints += [cp.quad_over_lin(g[k], p[k]) <= m[k] for k in range(3)]
            constraints += [g[0] <= 0.8 * p[0], g[1] >= 0.8 * p[1], g[1] <= 1.2 * p[1], g[2] >= 1.2 * p[2],
                            2.0 * g[1] - 0.96 * p[1] - m[1] >= 0]
            cost += c / 0.64 * (m[0] - 1.6 * g[0] + 0.64 * p[0] + 0.5 * (m[2] - 2.4 * g[2] + 1.44 * p[2]))
    problem = cp.Problem(cp.Minimize(cost), constraints)
    problem.solve(solver=cp.CLARABEL)
    return float(problem.value)


def above(z, constraints):
    """Return the convex (√z − 1.2)₊² of z: z = a + b, a ≤ 1.44 free of charge, charged (√(1.44 + b) − 1.2)²."""
    b = cp.Variable(nonneg=True)
    constraints.append(z <= 1.44 + b)
    return (1.44 + b) - 2.4 * cp.sqrt(1.44 + b) + 1.44


@pytest.mark.parametrize("kind, weight", [("hinge", 20.0), ("odm", 2.0)])
def test_node_values_agree_with_clarabel(kind, weight):
    rng, solver = np.random.default_rng(3), make_solver("node-newton")
    X = rng.normal(size=(9, 2)) - 0.2
    X -= X.mean(axis=0)
    for count in (0, 1, 4, 8):
        labels = np.zeros(9, dtype=int)
        labels[rng.permutation(9)[:count]] = rng.choice([-1, 1], count)
        form = node(X, HINGE if kind == "hinge" else odm(), weight, labels, accuracy=1e-6)
        raw = solver.solve(form)
        expected = conic_value(form.features.toarray(), kind, weight, labels)
        assert form.bracket(raw)[0] == pytest.approx(expected, rel=1e-5, abs=1e-5)
        assert raw.objective == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_any_dual_point_is_below_every_completion():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(6, 2))
    form = node(X, odm(), 8.0, [1, -1, 0, 0, 0, 0])
    phi, losses = form.features.toarray(), form.losses
    completions = [np.array((1, 0, *rest)) for rest in product((0, 1), repeat=4)]
    program_value = min(make_solver("newton").solve(FixedLabelForm(form.features, losses, y)).objective
                        for y in completions)
    tried = [node_dual(form.table, phi, form.codes, rng.normal(size=6), rng.uniform(-0.5, 0.5, 6)) for _ in range(200)]
    assert max(tried) <= program_value + 1e-9
    assert np.isfinite(max(tried))
    assert node_dual(form.table, phi, form.codes, np.zeros(6), np.full(6, 1e3)) == -np.inf


def test_warm_starts_change_no_value_and_wrong_ones_are_ignored():
    X = np.random.default_rng(2).normal(size=(20, 3))
    session = make_solver("node-newton").open(form := node(X, HINGE, 10.0, np.zeros(20, dtype=int), accuracy=1e-5))
    cold = session.solve(form, Budget())
    codes = np.zeros((20, 1))
    codes[3] = 1
    child = dataclasses.replace(form, codes=codes)
    values = [float(session.solve(child, Budget(), start)["bound"])
              for start in (None, cold, RawSolution(Status.OPTIMAL, {"Y": np.eye(2)}))]
    assert values == pytest.approx([values[0]] * 3, abs=2e-5)
    assert values[0] >= float(cold["bound"]) - 2e-5


def test_nodes_refuse_what_they_cannot_hold():
    form = node(np.eye(3), HINGE, 1.0, [0, 0, 0])
    with pytest.raises(DeclarationError, match=r"codes of a node: given shape \(2, 1\), expected \(3, q\)"):
        dataclasses.replace(form, codes=np.zeros((2, 1)))
    with pytest.raises(DeclarationError, match="neither a free bias nor decision bounds"):
        dataclasses.replace(form, free_bias=True)
    wide = node(np.random.default_rng(0).normal(size=(70, 65)), HINGE, 1.0, np.zeros(70, dtype=int))
    answer = make_solver("node-newton").accepts(wide)
    assert isinstance(answer, Refusal) and "too large for Newton's method (at most 60)" in answer.reason


# -- the tree ----------------------------------------------------------------------------------------


def test_implied_labels_and_dead_ends_are_those_of_enumeration():
    labels = presolve(7, must=[(0, 1)], cannot=[(2, 3)], bounds=[(None, -1, 1)])
    members = [labels.contract(y) for y in labels.enumerate()]
    for component, label in product(range(labels.count), (0, 1)):
        other = (component + 1) % labels.count
        path = ((component, label), (other, label))
        inside = [z for z in members if z[component] == label and z[other] == label]
        z = labels.implied(path)
        if z is None:
            assert not inside
        else:
            assert all(np.all((z < 0) | (z == member)) for member in inside)
    assert labels.implied(((0, 1), (0, 0))) is None
    assert np.array_equal(labels.at_points(np.full(labels.count, -1)), np.full(7, -1))


def test_the_certificate_is_checked_leaf_by_leaf():
    solution = problem_of().solve(md.Exact(method="branching", tol=1e-4), random_state=0)
    arrays, leaves = solution.certificate.arrays, len(solution.certificate.arrays["paths"])
    assert solution.verify() and leaves > 2 and f"{leaves} leaves" in solution.certificate.words
    for forged in ({name: x[1:] for name, x in arrays.items()}, {**arrays, "q": 1.5 * arrays["q"] + 1.0}):
        other = dataclasses.replace(solution.certificate, arrays=forged)
        report = dataclasses.replace(solution, certificate=other).verify()
        assert report.failures or report.unverified


@pytest.mark.parametrize(("kind", "n"), [("hinge", 30), ("odm", 40)])
def test_tens_of_points_are_certified(kind, n):
    solution = problem_of(n, kind=kind).solve(md.Exact(tol=1e-3), random_state=0)
    assert solution.value - solution.bound <= 1e-3 * solution.value
    assert solution.verify()
    alternating = problem_of(n, kind=kind).solve(md.Alternating(), random_state=0)
    assert solution.value <= alternating.value * (1 + 1e-3)


@pytest.mark.usefixtures("patience")
def test_callbacks_and_limits_leave_a_valid_gap():
    problem = problem_of(30, C=30.0, kind="hinge")
    best = problem.solve(md.Exact(tol=1e-5), random_state=0).value
    seen = []

    def stop(progress):
        seen.append(progress)
        return progress.stage == "branch and bound"

    method = md.Exact(tol=1e-5, starts=0)
    stopped = [problem.solve(method, callback=stop, random_state=0),
               problem.solve(method, time_limit=1e-9, random_state=0),
               problem.solve(method, max_iter=3, random_state=0)]
    assert [s.status for s in stopped] == ["interrupted", "time_limit", "iteration_limit"]
    for solution in stopped:
        assert np.isfinite(solution.bound) and solution.bound <= best * (1 + 1e-9)
        assert solution.value >= best * (1 - 1e-5)
        assert solution.verify()
    assert seen[-1].bound <= best * (1 + 1e-9) and seen[-1].value >= best * (1 - 1e-5)


@pytest.mark.parametrize("nodes", ["weights", "decided"])
def test_a_tree_ends_while_there_is_time_to_check_it(monkeypatch, nodes):
    best = problem_of(14).solve("exact", random_state=0).value
    monkeypatch.setattr(branching, "speed", lambda: 1e6)  # a machine on which a leaf takes 30 seconds to check
    chosen = md.Exact(method="branching", nodes=nodes, tol=1e-6)
    solution = problem_of(14).solve(chosen, time_limit=60, random_state=0)
    leaves = int(solution.message.partition(" nodes, ")[2].partition(" ")[0])
    assert solution.status == "time_limit" and leaves < 4 and solution.verify()
    assert solution.bound <= best * (1 + 1e-9) and best <= solution.value * (1 + 1e-6)


def test_a_keyboard_interrupt_keeps_the_bound():
    problem, count = problem_of(30, C=30.0, kind="hinge"), [0]

    def interrupt(progress):
        if progress.stage == "branch and bound":
            count[0] += 1
            raise KeyboardInterrupt

    solution = problem.solve(md.Exact(tol=1e-5), callback=interrupt, random_state=0)
    assert count[0] == 1 and solution.status == "interrupted"
    assert np.isfinite(solution.bound) and solution.verify()


def test_a_keyboard_interrupt_in_the_lift_keeps_what_the_tree_has_proved(monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    problem = problem_of(30, C=30.0, kind="hinge")
    grown = problem.solve(md.Exact(max_nodes=20), random_state=0)
    monkeypatch.setattr(md.SDP, "beside", interrupt)
    solution = problem.solve(md.Exact(max_nodes=20), random_state=0)
    assert solution.status == "interrupted" and solution.verify() and 0 < solution.bound <= grown.bound


# -- options and refusals ----------------------------------------------------------------------------


def test_options_are_checked():
    with pytest.raises(UnknownNameError, match="method of Exact"):
        md.Exact(method="branch")
    with pytest.raises(DeclarationError, match=r"Exact\(tol=2\): expected a number in \(0, 1\] or None"):
        md.Exact(tol=2)


def declare(loss, n=20, d=2, bias=False, more=lambda f: []):
    X = np.random.default_rng(0).normal(size=(n, d))
    y = md.Labels(n)
    f = md.Hyperplane(X, bias=bias)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(loss(y * f))), [abs(md.sum(y)) <= 4, *more(f)])


@pytest.mark.parametrize("nodes", ["weights", "joint"])
@pytest.mark.parametrize("known", [0, 6])
def test_a_tree_of_one_node_proves_what_the_lift_does(nodes, known):
    X = np.random.default_rng(known).normal(size=(24, 4))
    y, f = md.Labels(24), md.Hyperplane(X, bias=False)
    rules = [y[i] == (1 if X[i, 0] > 0 else -1) for i in range(known)] or [abs(md.sum(y)) <= 4]
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 0.5 * md.sum(md.squared_hinge(y * f))), rules)
    lift = problem.solve("sdp", random_state=0, tol=1e-5)
    tree = problem.solve(md.Exact(method="branching", nodes=nodes), random_state=0, tol=1e-5, max_iter=1)
    # rounds of cuts end where one brings a thousandth
    assert tree.bound >= lift.bound - 5e-3 * lift.value and tree.bound <= lift.value
    assert tree.verify()


def test_a_tree_is_no_worse_than_the_rounded_labels_of_its_first_node(monkeypatch):
    X = np.random.default_rng(0).normal(size=(14, 8))
    y, f = md.Labels(14), md.Hyperplane(X)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.odm(y * f, 0.5, 0.2))), [abs(md.sum(y)) <= 3])
    best = problem.solve(md.Exact(method="enumeration"))
    monkeypatch.setattr(exact, "round_vectors", lambda *given: [(np.asarray(best.labels) > 0).astype(int)])
    found = problem.solve(md.Exact(method="branching", nodes="joint", starts=1), random_state=0, max_iter=1)
    assert found.value == pytest.approx(best.value, rel=1e-6)  # a local search alone ends a third above


@pytest.mark.parametrize("nodes", ["joint", "decided"])
@pytest.mark.parametrize(("problem", "obstacle"), [
    (declare(md.hinge, n=6, bias=True), "a free bias makes sdp trivial"),
    (declare(md.hinge, n=6, more=lambda f: [f[0] + f[1] <= 1]), "equal limits on both sides"),
    (declare(md.hinge, n=6, more=lambda f: [abs(f[0] + f[1]) <= 1]), None),
    (declare(md.hinge, n=6, d=65), None), (declare(md.logistic, n=6), None),
], ids=["bias", "decision", "both sides", "rank", "logistic"])
def test_nodes_of_the_lift_and_of_the_decided_points_find_the_optimum(problem, obstacle, nodes):
    program, method = problem.program(), md.Exact(method="branching", tol=1e-6, nodes=nodes)
    if nodes == "joint" and obstacle is not None:
        assert obstacle in method.accepts(program).reason
        return
    found = problem.solve(method, random_state=0)
    every = min(_fixed(program, labels) for labels in program.labels.enumerate() if labels[0] == 1)  # and mirrored
    assert found.status == "optimal" and found.verify()
    assert found.value == pytest.approx(every, rel=2e-6, abs=1e-9) and found.bound <= every * (1 + 1e-9) + 1e-12
    assert problem.solve("alternating", random_state=0).value >= found.bound


@pytest.mark.parametrize("seed", [0, 3, 5, 6])
def test_the_tree_of_the_lift_is_enumeration(seed):
    """Links, known labels, bounds on sums of labels and kernels; every proof is judged."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(7, 11))
    y = md.Labels(n)
    f = md.Hyperplane(rng.normal(size=(n, 3)), kernel=["linear", "rbf"][seed % 2], bias=[False, "penalised"][seed // 6])
    loss = [md.odm, md.hinge, md.squared_hinge, lambda g: md.square(1 - g)][seed % 4]
    rules = [abs(md.sum(y)) <= 2 + n % 2, md.sum(y[:4]) >= -2.0, y[0] == y[1], y[2] != y[3], y[4] == 1]
    rules = [rule for number, rule in enumerate(rules) if number == 0 or rng.random() < 0.5]
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.sum(loss(y * f))), rules)
    optimum = problem.solve(md.Exact(method="enumeration"), random_state=0).value
    found = problem.solve(md.Exact(method="branching", nodes="joint"), random_state=0)
    report = found.verify()
    assert found.status == "optimal" and report and not report.unverified
    assert found.value == pytest.approx(optimum, rel=1e-5) and found.bound <= optimum * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_the_tree_of_several_clusters_is_enumeration(seed):
    """Nodes of lifted weights V (r, k−1): links, known labels, sizes and kernels; every proof is judged."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(5, 7)), 3 + seed % 2
    y, centres = md.Labels(n, k), rng.normal(size=(k, 2)) * 2
    f = md.Hyperplane(rng.normal(size=(n, 2)) + centres[rng.integers(0, k, n)], kernel=["linear", "rbf"][seed % 2])
    loss = [md.odm, md.hinge, md.squared_hinge, lambda g: md.square(1 - g)][seed % 4]
    rules = [md.sizes(y, at_least=1), y[0] == y[1], y[2] != y[3], y[4] == 1]
    rules = [rule for number, rule in enumerate(rules) if number == 0 or rng.random() < 0.5]
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 3 * md.mean(loss(md.margin(y, f, coding="simplex")))), rules)
    optimum = problem.solve(md.Exact(method="enumeration"), random_state=0).value
    found = problem.solve(md.Exact(method="branching", nodes="weights"), random_state=0)
    report = found.verify()
    assert found.status == "optimal" and report and not report.unverified
    assert found.value == pytest.approx(optimum, rel=1e-5) and found.bound <= optimum * (1 + 1e-9)


@pytest.mark.filterwarnings("ignore::margindsl.errors.TrivialityWarning")
def test_a_root_that_shared_scalars_close_is_proved():
    """Duals of zero do not pay for the scalar: what stands in the leaf is what was evaluated."""
    y, f, rho = md.Labels(9), md.Hyperplane(np.random.default_rng(1).normal(size=(9, 2)), bias="penalised"), md.Scalar(
        nonneg=True)
    total = md.sq_norm(f) / 2 + 0.45 * md.sum(md.pos(rho - y * f) - 0.5 * rho)
    found = md.Problem(md.Minimize(total), [md.sum(y) >= -1]).solve(
        md.Exact(method="branching", nodes="joint"), random_state=0)
    report = found.verify()
    assert found.status == "optimal" and report and not report.unverified


def test_the_tree_of_the_lift_goes_on_from_a_checkpoint(tmp_path):
    X = np.random.default_rng(3).normal(size=(12, 6))
    y, f = md.Labels(12), md.Hyperplane(X, kernel="rbf")
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.sum(md.hinge(y * f))), [abs(md.sum(y)) <= 4])
    method, kept = md.Exact(method="branching", nodes="joint", tol=1e-5), tmp_path / "tree"
    whole = problem.solve(method, random_state=0)
    problem.solve(method, random_state=0, max_iter=3, checkpoint=kept)
    again = problem.solve(method, random_state=0, checkpoint=kept)
    assert again.status == whole.status == "optimal" and again.verify()
    assert again.value == pytest.approx(whole.value, rel=1e-6)


def _fixed(program, labels):
    return program.to_user(make_solver("newton").solve(program.fix_labels(labels), Budget(tol=1e-10)).objective)


def test_automatic_choice_enumerates_small_label_sets_and_branches_above():
    small, large = problem_of(12, links=False).program(), problem_of(30).program()
    method = md.Exact()
    assert "labellings, pruned" in method.accepts(small).note
    assert "branch and bound over" in method.accepts(large).note
    assert isinstance(method.lower(large), BranchNodeForm)
    assert method.default_solver(method.lower(large)) == "node-newton"
    assert "the lift with its cuts" in md.Exact().accepts(declare(md.logistic, n=30).program()).note
    assert "decided points alone" in md.Exact().accepts(declare(md.logistic, n=30, bias=True).program()).note
    refusal = md.Exact(method="enumeration").accepts(large)
    assert isinstance(refusal, Refusal) and "md.Exact(method='branching')" in refusal.repair


# -- nodes of decided points ---------------------------------------------------------------------------


def test_what_open_points_lose_at_least_is_what_a_node_without_duals_proves():
    program = problem_of(n=8).program()
    bounds = PartialNodes(program)
    z = np.asarray(program.labels.pinned)
    assert bounds.value(z, *bounds.zero) == pytest.approx(bounds.least(z), abs=1e-12)
    assert bounds.least(program.labels.contract(program.labels.sample(np.random.default_rng(0), 1)[0])) == 0.0


@pytest.mark.parametrize("kind, nodes", [("hinge", "weights"), ("affine", "decided")])
def test_nodes_solved_roughly_lead_to_the_best_labelling(kind, nodes):
    X = np.random.default_rng(3).normal(size=(5, 2))
    y, f = md.Labels(5, 3), md.Hyperplane(X - X.mean(axis=0), bias=False)
    margin = md.margin(y, f, coding="crammer-singer")
    loss = md.mean(md.hinge(margin)) if kind == "hinge" else md.mean(-margin)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 3 * loss), [md.sizes(y, at_least=1)])
    program, newton = problem.program(), make_solver("newton")
    forms = [program.fix_labels(np.array(z)) for z in product(range(3), repeat=5) if len(set(z)) == 3 and z[0] == 0]
    answers = [newton.solve(form, Budget(tol=1e-9)) for form in forms]
    best = min(form.objective(raw["w"], raw["bias"]) for form, raw in zip(forms, answers))
    solution = problem.solve(md.Exact(nodes=nodes), random_state=0)
    assert solution.value == pytest.approx(program.to_user(best), rel=1e-6)
    assert solution.status == "optimal" and solution.verify()


def test_nodes_whose_lifts_fail_are_divided_and_their_leaves_prove_the_optimum():
    seen = []

    class Failing(Interior):
        def solve_lift(self, form, budget, start):
            seen.append(form.count)
            raw = super().solve_lift(form, budget, start)
            return raw if form.count > 7 else RawSolution(Status.FAILED, message="as told")

        takes = MappingProxyType({LiftForm: solve_lift})

    rng = np.random.default_rng(4)
    y, f = md.Labels(9), md.Hyperplane(rng.normal(size=(9, 3)))
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 20 * md.mean(md.odm(y * f))), [abs(md.sum(y)) <= 1])
    best = problem.solve(md.Exact(method="enumeration"), random_state=0)
    tree = problem.solve(md.Exact(method="branching", nodes="joint"), Failing(), random_state=0)
    assert min(seen) <= 7 and tree.status == "optimal" and tree.verify()
    assert [tree.value, tree.bound] == pytest.approx([best.value] * 2, rel=1e-5)


@pytest.mark.parametrize("nodes", ["weights", "decided", "joint"])
def test_a_small_tree_that_a_limit_stops_proves_no_less_than_the_lift(nodes):
    problem = problem_of(n=10)
    lifted = problem.solve("sdp", random_state=0)
    stopped = problem.solve(md.Exact(method="branching", nodes=nodes), random_state=0, max_iter=1)
    assert stopped.bound >= lifted.bound - 1e-3 * lifted.value and stopped.verify()


@pytest.mark.parametrize("nodes", ["weights", "joint"])
def test_a_tree_goes_on_from_a_checkpoint_with_a_smaller_tolerance(nodes, tmp_path):
    y, f = md.Labels(18), md.Hyperplane(np.random.default_rng(1).normal(size=(18, 4)))
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 30 * md.mean(md.odm(y * f))), [abs(md.sum(y)) <= 2])
    relaxation = md.Exact(method="branching", nodes=nodes)
    rough, fine = (problem.solve(relaxation, tol=tol, checkpoint=tmp_path / "run", random_state=0)
                   for tol in (3e-2, 1e-6))
    assert fine.status == "optimal" and rough.bound <= fine.bound and fine.gap <= 1e-6 and fine.verify()
    first, again = (problem.solve(relaxation, max_iter=1, checkpoint=tmp_path / "one", random_state=0) for _ in "ab")
    assert again.bound >= first.bound - 3e-3 * first.value  # the root's proof is found anew


def test_what_a_tree_has_proved_is_told_while_it_grows():
    y, f = md.Labels(26), md.Hyperplane(np.random.default_rng(2).normal(size=(26, 4)))
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 30 * md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= 2])
    stopped = problem.solve("exact", random_state=0, callback=lambda progress: progress.gap < 0.3)
    assert stopped.status == "interrupted" and stopped.gap < 0.3


def test_a_tree_of_decided_points_that_a_limit_stops_proves_no_less_than_the_lift():
    truth, known = np.repeat([-1, 1], 13), [0, 1, 2, 24, 25, 23]
    X = np.random.default_rng(1).normal(size=(26, 3)) + 0.8 * truth[:, None]
    y, f = md.Labels(26), md.Hyperplane(X, centre=False)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 30 * md.mean(md.hinge(y * f))),
                         [y[known] == truth[known], md.sum(f) >= -2])
    lifted, stopped = problem.solve("sdp", random_state=0), problem.solve("exact", max_iter=1, random_state=0)
    assert stopped.bound >= lifted.bound - 1e-3 * lifted.value and stopped.verify()


@pytest.mark.parametrize("nodes", ["weights", "joint"])
def test_a_tree_of_few_nodes_has_converged(nodes):
    problem = problem_of(n=30, C=30.0)
    whole = problem.solve(md.Exact(nodes=nodes), random_state=0)
    assert whole.status == "optimal"
    few = problem.solve(md.Exact(nodes=nodes, max_nodes=3, tol=1e-9), random_state=0)
    assert few.status == "converged" and few.bound <= whole.value * (1 + 1e-6) and few.verify()
    least = problem.solve(md.Exact(nodes=nodes, max_nodes=3, tol=1e-9), random_state=0, max_iter=1)
    assert least.status == "iteration_limit" and least.bound <= few.bound * (1 + 1e-9)


@pytest.mark.usefixtures("whole_searches")
def test_auto_grows_a_short_tree():
    free = problem_of(n=40, C=10.0)
    chosen = free.solve(random_state=0)
    assert chosen.relaxation == "exact" and chosen.status == "optimal" and chosen.verify()
    y, f = md.Labels(40), md.Hyperplane(np.random.default_rng(0).normal(size=(40, 30)))
    wide = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 3 * md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= 6])
    ended, lift = wide.solve(random_state=0), wide.solve("sdp", random_state=0)
    assert ended.relaxation == "exact" and ended.status in ("converged", "optimal")
    assert ended.bound >= lift.bound * (1 - 1e-3) and ended.value <= lift.value * (1 + 1e-6)
