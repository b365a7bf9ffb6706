"""The lift on whole problems: below the optimum, its settings one value, known labels never forgotten."""

import itertools
from dataclasses import replace
from types import MappingProxyType

import cvxpy as cp
import numpy as np
import pytest

import margindsl as md
from margindsl.contract import Budget, Status
from margindsl.drivers.branching import outer_duals
from margindsl.errors import DeclarationError, RefusalError, UnknownNameError
from margindsl.program.exhaustion import members
from margindsl.program.lift import Cuts, LiftForm
from margindsl.program.lift_certificate import repair_lift
from margindsl.program.nodes import JointNodes, balls, within
from margindsl.proof.check import check
from margindsl.relaxations.lift import cut_lift, lift, referred, violated_products, violated_triangles, widened
from margindsl.runtime.judging import written
from margindsl_solvers.conic import Clarabel
from margindsl_solvers.interior import Interior

pytestmark = pytest.mark.filterwarnings("ignore::margindsl.errors.TrivialityWarning")

PLAIN = md.SDP(polish="none", rounding=2)
LOSSES = {"hinge": md.hinge, "squared hinge": md.squared_hinge, "odm": lambda g: md.odm(g, 0.2, 0.5),
          "least squares": lambda g: md.square(1 - g), "huber": lambda g: md.huber(1 - g, 1.0),
          "logistic": lambda g: md.logistic(-g)}
SETS = {
    "nothing": lambda y, f: [], "balance": lambda y, f: [abs(md.sum(y)) <= 2],
    "links": lambda y, f: [y[0] == y[1], y[2] != y[3], y[3] != y[5]],
    "known": lambda y, f: [y[[0, 1, 2]] == [1, -1, -1]],
    "all": lambda y, f: [y[0] == 1, y[1] == -1, y[2] == y[3], md.sum(y) <= 3, md.sum(y) >= -1, abs(md.sum(f[:4])) <= 1]}


def declared(loss="odm", labels="balance", seed=0, n=8, weight=20.0, **options):
    rng = np.random.default_rng(seed)
    y, f = md.Labels(n), md.Hyperplane(rng.normal(size=(n, 3)), **options)
    return md.Problem(md.Minimize(0.5 * md.sq_norm(f) + weight * md.mean(LOSSES[loss](y * f))), SETS[labels](y, f))


def value_of(form):
    return repair_lift(form, Clarabel().solve(form, Budget(tol=1e-9))).bound


@pytest.mark.parametrize("loss, labels", [
    (loss, labels) for i, loss in enumerate(LOSSES) for j, labels in enumerate(SETS) if (i + 2 * j) % 3 == 0])
def test_every_setting_is_below_the_optimum_and_no_point_needs_a_component_that_nothing_sees(loss, labels):
    problem = declared(loss, labels)
    best = problem.solve("exact", random_state=0)
    program = problem.program()
    least, whole, alone = lift(program), lift(program, whole=True), lift(program, rows=False)
    assert alone.count <= least.count <= whole.count
    values = [value_of(form) for form in (alone, least, whole)]
    assert values[0] <= values[1] * (1 + 1e-6)
    assert values[1] == pytest.approx(values[2], rel=2e-5)
    assert values[1] <= (best.value - program.constant) / program.scale * (1 + 1e-7)
    solution = problem.solve(PLAIN, "clarabel", random_state=0, tol=1e-8)
    assert solution.verify() and solution.bound == pytest.approx(program.to_user(values[1]), rel=2e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_known_labels_are_never_forgotten(loss):
    problem = declared(loss, "known", n=12)
    y, f = md.Labels(3), md.Hyperplane(problem.program().features.toarray()[:3], centre=False)
    objective = 0.5 * md.sq_norm(f) + 20 / 12 * md.sum(LOSSES[loss](y * f))
    supervised = md.Problem(md.Minimize(objective), [y == np.array([1, -1, -1])]).solve("supervised").value
    form = lift(problem.program(), rows=False)
    assert form.count == 1 and form.reference == 0 and form.absorbed.sum() == 9
    for relaxation in (md.SDP(polish="none"), md.WeightLifting(polish="none")):
        assert problem.solve(relaxation, "clarabel", random_state=0).bound >= supervised * (1 - 1e-6)


MORE = (lambda y: [], lambda y: [y[3] == y[4], y[5] != y[6]], lambda y: [abs(md.sum(y)) <= 4])


@pytest.mark.parametrize("loss, seed", [  # every loss with one rule or two, every rule with two losses or three
    (loss, seed) for i, loss in enumerate(list(LOSSES)[:5]) for seed in range(len(MORE)) if (i + seed) % 2 == 0])
def test_decision_values_within_intervals_prove_no_less_and_trees_of_them_the_optimum(loss, seed):
    rng = np.random.default_rng(seed)
    y, f = md.Labels(9), md.Hyperplane(rng.normal(size=(9, 3)), centre=False)
    known = [y[[0, 1, 2]] == [[1, -1, -1], [-1, -1, -1], [1, 1, -1]][seed]]
    problem = md.Problem(md.Minimize(0.5 * md.sq_norm(f) + md.sum(LOSSES[loss](y * f))), known + MORE[seed](y))
    best = problem.solve(md.Exact(method="enumeration"), random_state=0)
    plain, within = (problem.solve(md.SDP(cuts=cuts), random_state=0) for cuts in ("none", "auto"))
    assert plain.bound * (1 - 1e-3) <= within.bound <= best.value * (1 + 1e-9) and within.verify()
    tree = problem.solve(md.Exact(method="branching", nodes="joint", starts=seed), random_state=0)
    assert tree.value == pytest.approx(best.value, rel=1e-5) and tree.verify() and tree.gap <= 2e-4


@pytest.mark.parametrize("cuts", ["auto", "all"])
def test_a_solver_that_gets_nowhere_within_intervals_proves_what_it_does_without(cuts):
    class Halting(Interior):
        def solve_lift(self, form, budget, start):
            raw = super().solve_lift(form, budget, start)
            if form.domain is not None:
                far = {name: 1e-3 * raw[name] for name in ("u", "q", "d", "gamma")}
                raw = replace(raw, status=Status.INACCURATE, variables=raw.variables | far)
            return raw

        takes = MappingProxyType({LiftForm: solve_lift})

    problem = declared("squared hinge", "known")
    plain = problem.solve(replace(PLAIN, cuts="none"), random_state=0)
    halted = problem.solve(replace(PLAIN, cuts=cuts), Halting(), random_state=0)
    assert halted.bound == pytest.approx(plain.bound, rel=1e-4) and halted.status == "inaccurate"
    assert problem.solve(replace(PLAIN, cuts=cuts), random_state=0).bound > 1.01 * plain.bound  # intervals are in use


@pytest.mark.parametrize("loss, labels", [
    (loss, labels) for i, loss in enumerate(list(LOSSES)[:5]) for j, labels in enumerate(SETS) if (i + 2 * j) % 3 == 1])
def test_losses_conditional_on_labels_prove_no_less_and_any_of_their_multipliers_a_bound(loss, labels):
    problem = declared(loss, labels, seed=1, n=7)
    best, rng = problem.solve(md.Exact(method="enumeration"), random_state=0), np.random.default_rng(0)
    program = problem.program()
    form = referred(replace(lift(program, whole=True), conditional=True))[0]
    form = replace(form, cuts=violated_triangles(-np.ones((form.count, 1)), 30).joined(
        violated_triangles(rng.normal(size=(form.count, 9)) / 3, 10)))
    plain, more = (repair_lift(held, md.Solver("interior").solve(held, Budget(tol=1e-7))).bound
                   for held in (replace(form, conditional=False), form))
    optimum = (best.value - program.constant) / program.scale
    assert np.count_nonzero(form.conditioned) > 2 and plain * (1 - 1e-6) <= more <= optimum * (1 + 1e-7)
    m, size = form.losses.rows, form.losses.weights.max()
    for scale in (0.1, 1.0):
        point = {name: scale * size * rng.normal(size=m) for name in "uqve"} | {
            "gamma": scale * size * rng.random(form.cuts.count), "d": np.zeros(form.count)}
        assert repair_lift(form, point).bound <= optimum * (1 + 1e-9)
    solution = problem.solve(md.SDP(cuts="all"), random_state=0)
    assert solution.verify() and solution.bound <= best.value * (1 + 1e-9)
    assert solution.bound >= problem.solve(md.SDP(cuts="none"), random_state=0).bound - 1e-3 * abs(best.value)


@pytest.mark.parametrize("loss", ["hinge", "squared hinge"])
@pytest.mark.parametrize("columns", [2, 20])
def test_decision_values_of_better_labels_lie_in_their_intervals(loss, columns):
    rng = np.random.default_rng(1)
    y, f = md.Labels(9), md.Hyperplane(rng.normal(size=(9, columns)), centre=False)
    program = md.Problem(md.Minimize(0.5 * md.sq_norm(f) + 0.5 * md.sum(LOSSES[loss](y * f))),
                         [y[[0, 1, 2]] == [-1, -1, 1]]).program()
    fits = [(form.objective(raw["w"], raw["bias"], raw["scalars"]), program.features.apply(raw["w"])) for form in map(
        program.fix_labels, members(program)) for raw in [md.Solver("newton").solve(form, Budget(tol=1e-10))]]
    value = float(np.median([height for height, _ in fits]))
    nodes = JointNodes(program, lift(program), known=lambda: value)
    nodes = replace(nodes, outer=outer_duals(nodes))
    ends = within(nodes.contraction(np.asarray(program.labels.pinned))[0], value, *nodes.around)
    met = np.array([outputs for height, outputs in fits if height < value])
    assert len(met) > 10 and np.all(ends[:, 0] <= met + 1e-7) and np.all(met <= ends[:, 1] + 1e-7)
    phi = program.features.toarray()
    w = cp.Variable(phi.shape[1])
    lost = cp.pos(1 - cp.multiply([-1, -1, 1], phi[:3] @ w)) ** (1 + (loss != "hinge"))
    for i, side in ((0, 1), (4, -1), (8, 1)):  # of smooth losses they are hardly wider than they need be
        far = cp.Problem(cp.Maximize(side * phi[i] @ w), [0.5 * cp.sum_squares(w) + 0.5 * cp.sum(lost) <= value])
        found, least = side * ends[i, int(side > 0)], far.solve(solver="CLARABEL")
        assert least - 1e-6 <= found <= least + (0.02 if loss == "squared hinge" else np.ptp(ends[i]))


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_decision_values_lie_in_their_intervals_beside_pairs_of_labels_that_cost(seed):
    rng = np.random.default_rng(seed)
    y, f = md.Labels(8), md.Hyperplane(rng.normal(size=(8, 3)), bias="penalised" if seed % 2 else False)
    links = md.must_link(y, [(3, 4), (5, 6), (0, 7)], weight=0.4) + md.cannot_link(y, [(1, 5), (4, 6)], weight=0.3)
    costs = md.sum(rng.normal(size=8) * y) / 5 if seed > 1 else 0
    known = [y[[0, 1]] == [-1, 1]] if seed != 1 else []
    problem = md.Problem(md.Minimize(0.5 * md.sq_norm(f) + 0.5 * md.sum(md.hinge(y * f)) + links + costs), known)
    program = problem.program()
    fits = [(form.objective(raw["w"], raw["bias"], raw["scalars"]), program.features.apply(raw["w"])) for form in map(
        program.fix_labels, members(program)) for raw in [md.Solver("newton").solve(form, Budget(tol=1e-10))]]
    value = float(np.median([height for height, _ in fits]))
    nodes = JointNodes(program, cut_lift(program), known=lambda: value)
    pinned, none = np.asarray(program.labels.pinned), nodes.lift.losses.held
    form = nodes.contraction(pinned)[0]
    met = np.array([outputs for height, outputs in fits if height < value])
    ways = [balls(form, none[None])] + [replace(nodes, outer=outer_duals(nodes)).around for _ in known]
    all_ends = np.array([within(form, value, *way) for way in ways])
    assert len(met) > 10 and np.all(np.isfinite(all_ends))
    assert np.all(all_ends[:, None, :, 0] <= met + 1e-7) and np.all(met <= all_ends[:, None, :, 1] + 1e-7)
    # proofs that use them hold, whatever duals they are looked for with
    best = min(height for height, _ in fits) * program.scale + program.constant
    found = problem.solve("sdp", random_state=0)
    header, arrays = written(found)
    assert found.verify() and "inner" in arrays and found.bound >= problem.solve(
        md.SDP(cuts="none"), random_state=0).bound - 1e-3 * abs(best)
    tree = problem.solve(md.Exact(method="branching"), random_state=0)  # by a gap of all of the value
    assert tree.status == "optimal" and tree.value == pytest.approx(best, rel=1e-6)
    for size in (0.0, 0.5, 1.0, 2.0):
        duals = size * arrays["inner"] + 0.1 * (size == 2) * rng.normal(size=arrays["inner"].shape)
        assert check(header | {"bound": -1e9}, arrays | {"inner": duals}).bound <= best + 1e-7 * abs(best)


@pytest.mark.parametrize("known", [True, False])
def test_linear_losses_alone_are_bounded_no_less_than_by_the_weight_lift(known):
    rng = np.random.default_rng(3)
    y, f = md.Labels(7), md.Hyperplane(rng.normal(size=(7, 2)), bias="penalised")
    links = md.must_link(y, [(0, 1), (2, 3)], weight=0.2)
    for objective in (md.sq_norm(f) / 2 - 3 * md.mean(y * f), md.sq_norm(f) / 2 - 3 * md.mean(y * f) + links):
        problem = md.Problem(md.Minimize(objective), [y[:2] == [1, -1]] if known else [abs(md.sum(y)) <= 1])
        best = problem.solve("exact", random_state=0).value
        least = problem.solve("weight-lifting", random_state=0).bound - 1e-5 * abs(best)
        for way in (md.SDP(cuts="none"), md.SDP(), md.SDP(cuts="all"), md.Exact(method="branching")):
            found = problem.solve(way, None if way.name == "exact" else "interior", random_state=0)
            assert least <= found.bound <= best + 1e-9 * abs(best) and found.verify(), way


@pytest.mark.parametrize("seed", range(4))
def test_labels_that_a_bound_forces_say_where_weights_are_in_words_that_a_proof_knows(seed):
    y, f = md.Labels(6), md.Hyperplane(np.random.default_rng(seed).normal(size=(6, 2)), centre=False)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.sum(md.squared_hinge(y * f))),
                         [y[0] == y[1], y[1] == y[2], y[2] == y[3], md.sum(y) >= -1])  # four are +1
    best = problem.solve(md.Exact(method="enumeration"), random_state=0)
    for relaxation in ("sdp", md.SDP(cuts="all"), md.Exact(method="branching", nodes="joint")):
        solution = problem.solve(relaxation, random_state=0)
        assert solution.verify() and "proves" not in solution.message and solution.bound <= best.value * (1 + 1e-9)


def test_the_upper_branch_of_odm_counts():
    """Seed 3 of fourteen normal points in R³: labels alone .816 and 1.213, both moments 1.195 and 7.495."""
    X = np.random.default_rng(3).standard_normal((14, 3))
    y, f = md.Labels(14), md.Hyperplane(X, centre=False)
    for weight, expected, least in ((10.0, 1.195, 2.051), (100.0, 7.495, 15.384)):
        problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + weight * md.mean(md.odm(y * f, theta=0.2, nu=0.4))))
        for relaxation in (replace(PLAIN, cuts="none"), md.WeightLifting(polish="none")):
            solution = problem.solve(relaxation, random_state=0)
            assert solution.bound == pytest.approx(expected, rel=1e-3) and solution.bound < least


def primal_by_hand(form):
    """Return the value of the lift of (z, w) with the hull of (t, t², ρ(t)) written piece by piece."""
    F, N = form.features.toarray(), form.count
    Q = cp.Variable((N + F.shape[1],) * 2, PSD=True)
    M, P, cross = Q[:N, :N], Q[N:, N:], Q[:N, N:]
    cost, constraints = 0.5 * cp.trace(P), [cp.diag(M) == 1] if N else []
    constraints += [b.vector @ M @ b.vector <= b.radius**2 for b in form.balance]
    constraints += [b @ M @ b >= 1 for b in form.cuts.matrix(N).toarray()]
    for term in form.losses.terms:
        for i, weight in zip(term.points, term.weights):
            p, g, z = (cp.Variable(len(term.loss.pieces)) for _ in range(3))
            for k, (a, b, q, s, c) in enumerate(term.loss.pieces):
                constraints += [p[k] >= 0, cp.SOC(p[k] + z[k], cp.hstack([2 * g[k], p[k] - z[k]]))]
                constraints += [g[k] >= a * p[k]] if np.isfinite(a) else []
                constraints += [g[k] <= b * p[k]] if np.isfinite(b) else []
                if np.isfinite(b - a):
                    constraints.append((a + b) * g[k] - z[k] >= a * b * p[k])
                cost = cost + weight * (c * p[k] + s * g[k] + q * z[k])
            constraints += [cp.sum(p) == 1, cp.sum(z) == F[i] @ P @ F[i]]
            if not form.absorbed[i]:
                margin = form.sign[i] * cp.sum(cp.multiply(F[i], cross[form.component[i]]))
                constraints.append(cp.sum(g) == margin)
    problem = cp.Problem(cp.Minimize(cost), constraints)
    problem.solve(solver=cp.CLARABEL)
    return problem.value


@pytest.mark.parametrize("labels, triangles", [
    ("nothing", False), ("balance", False), ("links", False), ("known", False), ("balance", True), ("known", True)])
def test_the_value_is_that_of_the_primal_by_hand(labels, triangles):
    form = lift(declared("odm", labels, seed=1).program(), whole=triangles)
    if triangles:
        every = [(three, signs) for three in itertools.combinations(range(form.count), 3)
                 for signs in [(1, 1, 1), (1, 1, -1), (1, -1, 1), (-1, 1, 1)]]
        form = replace(form, cuts=Cuts.odd(*(np.array(part) for part in zip(*every))))
    assert value_of(form) == pytest.approx(primal_by_hand(form), rel=1e-5)


@pytest.mark.parametrize("loss", ["least squares", "hinge"])
def test_triangles_tighten_and_never_cross_the_optimum(loss):
    problem = declared(loss, "balance", seed=2)
    best = problem.solve("exact", random_state=0).value
    tight = replace(PLAIN, cuts="all", cut_rounds=8)
    plain, cut = (problem.solve(relaxation, "clarabel", random_state=0) for relaxation in (PLAIN, tight))
    assert cut.verify() and plain.bound * (1 + 1e-3) <= cut.bound <= best * (1 + 1e-7)


@pytest.mark.parametrize("seed", range(3))
def test_cuts_of_rounds_raise_bounds_to_at_most_the_optimum(seed):
    loss, labels = (("odm", "balance"), ("squared hinge", "links"), ("least squares", "known"))[seed % 3]
    problem = declared(loss, labels, seed=10 + seed)
    best = problem.solve("exact", random_state=0).value
    ways = [md.SDP(cuts=cuts, polish="none") for cuts in ("none", "auto", "all")]
    found = [problem.solve(way, "interior", random_state=0) for way in ways]
    assert all(solution.verify() for solution in found)
    bounds = np.array([solution.bound for solution in found])
    assert bounds[0] <= min(bounds[1:]) + 1e-6 * best and max(bounds) <= best * (1 + 1e-7)


def test_separation_finds_the_worst_triangle_and_none_for_labellings():
    rng = np.random.default_rng(0)
    for N in range(3, 9):
        V = rng.normal(size=(N, 3))
        V /= np.linalg.norm(V, axis=1, keepdims=True)
        worst = min(float(np.sum((np.array([1, s, r]) @ V[list(three)]) ** 2))
                    for three in itertools.combinations(range(N), 3) for s in (1, -1) for r in (1, -1))
        cuts = violated_triangles(V, 5)
        assert (cuts.count > 0) == (worst < 1 - 2e-4)
        if cuts.count:
            assert cuts.values(V)[0] == pytest.approx(worst)
        assert violated_triangles(rng.choice([-1.0, 1.0], (N, 1)), 5).count == 0


def test_wider_cuts_add_the_best_pair_and_hold_for_labellings():
    rng = np.random.default_rng(0)
    V = rng.normal(size=(8, 3))
    V /= np.linalg.norm(V, axis=1, keepdims=True)
    three = violated_triangles(V, 1)
    wider = widened(three, V, tol=-9.0)
    b = three.matrix(8).toarray()[0]
    lowest = min(np.sum(((b + s * np.eye(8)[i] + t * np.eye(8)[j]) @ V) ** 2) for i, j in itertools.combinations(
        np.flatnonzero(b == 0), 2) for s in (1, -1) for t in (1, -1))
    assert wider.values(V)[0] == pytest.approx(lowest)
    seven = widened(wider, V, tol=-99.0)
    for z in itertools.product([-1.0, 1.0], repeat=8):
        assert min(cuts.values(np.array(z)[:, None])[0] for cuts in (wider, seven)) >= 1.0
    assert seven.positions.shape == (1, 7) and widened(seven, V).count == 0


# -- several clusters --------------------------------------------------------------------------------------


def clustered(seed, loss="odm", coding="simplex", n=6, clusters=3, held=True):
    X = np.random.default_rng(seed).standard_normal((n, 2))
    y, f = md.Labels(n, clusters=clusters), md.Hyperplane(X)
    objective = md.sq_norm(f) / 2 + 20 * md.mean(LOSSES[loss](md.margin(y, f, coding=coding)))
    return md.Problem(md.Minimize(objective), [
        y[0] == y[1], y[2] != y[3], md.sizes(y, at_least=1, at_most=3)] if held else [])


@pytest.mark.parametrize("coding,loss,clusters", [
    ("simplex", "odm", 3), ("simplex", "hinge", 4), ("crammer-singer", "hinge", 3)])
def test_bounds_of_codes_rise_with_their_cuts_to_at_most_the_optimum(coding, loss, clusters):
    problem = clustered(0, loss, coding, clusters=clusters)
    best = problem.solve("exact", random_state=0).value
    ways = md.WeightLifting(), md.SDP(cuts="none"), md.SDP(cuts="auto"), md.SDP(cuts="all")
    found = [problem.solve(replace(way, polish="none"), "clarabel", random_state=0) for way in ways]
    assert all(solution.verify() for solution in found)
    bounds = [solution.bound for solution in found]
    assert np.all(np.diff(bounds) >= -1e-5 * best) and 0.3 * best < bounds[-1] <= best * (1 + 1e-6)


def test_cuts_of_products_raise_the_bound():
    problem = clustered(3, "hinge", held=False)
    plain, cut = (problem.solve(md.SDP(cuts=cuts, polish="none"), "clarabel", random_state=0).bound
                  for cuts in ("none", "auto"))
    assert cut > 1.01 * plain
    form = lift(problem.program())
    assert form.count == 0, "without them labels are minimised out"
    assert value_of(form) == pytest.approx(value_of(lift(problem.program(), whole=True)), rel=1e-5)


def test_known_clusters_are_merged_and_kept_apart():
    X = np.random.default_rng(0).standard_normal((8, 2))
    y, f = md.Labels(8, clusters=3), md.Hyperplane(X)
    known = np.array([0, 0, 1, 2])
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 5 * md.mean(md.hinge(md.margin(y, f, coding="simplex")))),
                         [y[:4] == known])
    form = md.SDP().lower(problem.program())
    assert (form.count, form.cuts.count, form.cuts.equal.all()) == (7, 3, True)
    assert lift(problem.program(), rows=False).count == 3
    solution = problem.solve("sdp", random_state=0)
    assert np.array_equal(solution.labels[:4], known) and solution.bound <= solution.value


def test_native_and_conic_solvers_agree_with_all_cuts_of_codes():
    form = lift(clustered(4).program(), whole=True)
    every = Cuts.codes(3, np.array(list(itertools.combinations(range(form.count), 2))))
    form = replace(form, cuts=form.cuts.joined(every))
    assert form.cuts.count == len(every.positions) and form.cuts.equal.sum() == 1
    bounds = [repair_lift(form, md.Solver(name).solve(form, Budget(tol=1e-6))).bound
              for name in ("clarabel", "burer-monteiro", "scs")]
    assert np.allclose(bounds, bounds[0], rtol=5e-3)


def test_what_is_violated_is_found():
    V = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    assert violated_products(V, 3, 10).positions.tolist() == [[0, 1]]
    assert violated_products(np.eye(3) - 1 / 3, 3, 10).count == 0


# -- answers and refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", ["nothing", "balance", "links", "known"])
def test_the_answer_is_a_label_matrix(labels):
    solution = declared("odm", labels).solve(PLAIN, random_state=0)
    M = solution.label_matrix
    assert np.allclose(np.diag(M), 1.0) and np.linalg.eigvalsh(M)[0] >= -1e-9
    if labels == "balance":
        assert M.sum() <= 2**2 * (1 + 1e-3)
    if labels == "links":
        assert M[0, 1] == pytest.approx(1.0) and M[2, 3] == pytest.approx(-1.0)


@pytest.mark.parametrize("records", [1, 6])
def test_a_solve_stopped_at_any_time_has_labels_and_a_sound_bound(records):
    problem = declared("squared hinge", "balance", n=40)
    left = iter(range(records - 1))
    answer = problem.solve(md.SDP(), solver="burer-monteiro", callback=lambda record: next(left, None) is None,
                           random_state=0)
    whole = problem.solve(PLAIN, solver="clarabel", random_state=0)
    assert answer.verify() and answer.bound <= whole.estimate * (1 + 1e-6) and set(answer.labels) <= {-1, 1}


def test_scs_agrees_with_clarabel():
    problem = declared()
    values = [problem.solve(PLAIN, solver, random_state=0).bound for solver in ("clarabel", "scs")]
    assert values[0] == pytest.approx(values[1], rel=1e-3)


def test_what_is_refused():
    with pytest.raises(UnknownNameError, match="cuts of SDP"):
        md.SDP(cuts="triangle")
    with pytest.raises(DeclarationError, match="cut_rounds=-1"):
        md.SDP(cut_rounds=-1)
    for relaxation in ("sdp", "weight-lifting"):
        with pytest.raises(RefusalError, match=f"free bias makes {relaxation} trivial"):
            declared(bias=True).solve(relaxation)
    y, f = md.Labels(6, clusters=3), md.Hyperplane(np.random.default_rng(0).normal(size=(6, 2)))
    with pytest.raises(RefusalError, match="the sign of one direction"):
        md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(md.margin(y, f))))).solve(md.SDP(rounding="sign"))


def test_a_balance_that_does_not_bind_leaves_answers_accurate():
    for seed in range(4):  # its multiplier, zero, comes back as 1e-10 below
        y, f = md.Labels(10), md.Hyperplane(np.random.default_rng(seed).normal(size=(10, 3)))
        loss = np.random.default_rng(2).uniform(0.2, 2, 10) * md.odm(y * f, 0.4, 0.2)
        problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(loss)), [abs(md.sum(y)) <= 3])
        assert problem.solve(md.SDP(cuts="none"), "clarabel", random_state=0).status in ("optimal", "converged")


def test_bounds_that_links_make_alike_prove_what_both_say():
    """Of one whole sum within -3..3 and below -2 the proof knows that it is -2."""
    X = np.random.default_rng(0).normal(size=(6, 2))
    y, f = md.Labels(6), md.Hyperplane(X, bias="penalised")
    loose, tight, near = abs(md.sum(y)) <= 3, md.count(y[2:] == 1) <= 1, md.sum(y[2:]) == -2
    found = [md.Problem(md.Minimize(md.sq_norm(f) / 2 + 4 * md.mean(md.hinge(y * f))), [y[0] != y[1], *rules]).solve(
        "sdp", random_state=0) for rules in ([loose, tight], [tight, loose], [near])]
    assert all(s.verify() and s.bound == pytest.approx(found[2].bound, rel=1e-5) for s in found)


@pytest.mark.parametrize("loss, rule", [*zip(LOSSES, [
    lambda y: md.sum(y[:5]) == 1, lambda y: md.sum(y[:5]) >= 1] * 3)])
def test_a_sum_of_some_labels_is_proved_as_one_of_all(loss, rule):
    """No other point is coupled to any; the middle of the sum is that of none."""
    X = np.random.default_rng(0).normal(size=(9, 2))
    y, f = md.Labels(9), md.Hyperplane(X, bias=False)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 9 * md.mean(LOSSES[loss](y * f))), [rule(y)])
    solution = problem.solve("sdp", random_state=0)
    assert solution.verify() and solution.bound == pytest.approx(solution.estimate, rel=1e-4)
    assert solution.bound <= problem.solve("exact").value * (1 + 1e-7)


def test_labels_that_nothing_couples_are_cut():
    gaps = []
    for seed in range(4):
        y, f = md.Labels(9), md.Hyperplane(np.random.default_rng(seed).normal(size=(9, 3)))
        problem = md.Problem(md.Minimize(0.5 * md.sq_norm(f) + 2 * md.sum(md.odm(y * f, 0.4, 0.2))))
        best = problem.solve(md.Exact(method="enumeration"), random_state=0)
        plain, cut = (problem.solve(md.SDP(cuts=cuts), random_state=0) for cuts in ("none", "auto"))
        assert plain.bound * (1 - 1e-6) <= cut.bound <= best.value * (1 + 1e-9) and cut.verify()
        gaps.append([best.value - plain.bound, best.value - cut.bound])
    assert np.sum(gaps, axis=0)[1] <= 0.3 * np.sum(gaps, axis=0)[0]
