"""Shared scalars beside Crammer-Singer margins: duality, plain cvxpy, all labellings, two clusters."""

import dataclasses
import itertools
import warnings

import numpy as np
import pytest
from instances import majorant

import margindsl as md
from margindsl.contract import Budget
from margindsl.errors import AccuracyWarning, TrivialityWarning
from margindsl.program.certificates import certify_fixed_labels
from margindsl.program.clusters import runner_up
from margindsl.program.split import SplitLosses, parted

LOSSES = {
    "threshold": lambda g, s, t: 3 * md.mean(md.pos(s - g)) - s,
    "signed": lambda g, s, t: 3 * md.mean(md.square(md.pos(t - g))) - t + md.mean(md.hinge(g)),
    "logistic": lambda g, s, t: 3 * md.mean(md.logistic(s - g)) - s,
    "alone": lambda g, s, t: 2 * md.mean(md.pos(s - g)) + 0.6 * md.mean(md.square(0 * g + t - s + 0.3)) - s - 0.1 * t,
    "mixed": lambda g, s, t: md.mean(md.square(SLOPES * g - s)) + 2 * md.mean(md.hinge(g)) + 0.2 * s,
    "mean-variance": lambda g, s, t: md.mean_variance(g, 1.0, 5.0),
    "variance": lambda g, s, t: md.var(g) + 2 * md.mean(md.hinge(g))}
QUICK = (md.Minimax(rounding=1, polish="none", tighten=False, tol=1e-3), md.SDP(rounding=1, polish="none", tol=1e-3))
FALLING = ("threshold", "signed", "logistic", "alone")
N, SLOPES = 8, np.array([1.0, -0.5, 2.0, 0.0, 1.5, -1.0, 0.7, 1.0])


def declared(loss, k=3, seed=0, n=N, constraints=lambda y, f: [], weight=2.0, **options):
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % k
    X = rng.normal(size=(n, 2)) + 2.0 * np.eye(k, 2)[truth]
    y, f = md.Labels(n, clusters=k), md.Hyperplane(X, **options)
    objective = LOSSES[loss](md.margin(y, f), md.Scalar(), md.Scalar(nonneg=True, name="t"))
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + weight * objective), constraints(y, f)), truth


def by_hand(form, runner):
    """Return the value of the majorised problem by cvxpy, from the rows as they were declared."""
    import cvxpy as cp

    losses, Phi, k = form.losses, form.features.toarray(), form.clusters
    W, s = cp.Variable((Phi.shape[1], k)), cp.Variable(losses.scalars.count)
    f, held = Phi @ W, [s[np.flatnonzero(losses.scalars.nonneg)] >= 0]
    total = cp.sum_squares(W) / 2 + losses.scalars.costs @ s
    for term in losses.terms:
        down, up = term.loss.split()
        for i, c, a, d, b in zip(term.points, term.weights, term.slopes, term.shifts, term.coupling):
            y = form.labels[i]
            least, at_runner = cp.Variable(1), cp.reshape(f[i, y] - f[i, runner[i]], (1,), order="C")
            held += [least <= f[i, y] - f[i, q] for q in range(k) if q != y]
            falls, rises = (down, up) if a >= 0 else (up, down)
            for rho, margin in ((falls, least), (rises, at_runner)):
                cost, more = rho.conic(cp, a * margin + b @ s + d)
                total, held = total + c * cp.sum(cost), [*held, *more]
    problem = cp.Problem(cp.Minimize(total), held)
    return problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)


@pytest.mark.parametrize("loss", LOSSES)
def test_parts_add_up_at_any_scalars(loss):
    program, rng = declared(loss)[0].program(), np.random.default_rng(1)
    losses, parts = program.losses, SplitLosses.of(program.losses)
    for _ in range(5):
        margins, s = 2.0 * rng.normal(size=N), rng.normal(size=losses.scalars.count)
        added = parts.falling.value(margins, s) + parts.rising.value(margins, s) + parts.constant
        assert np.isclose(added, losses.value(margins, s))
        lower = parts.falling.value(margins + rng.random(N), s)
        assert lower <= parts.falling.value(margins, s) + 1e-12
        assert parts.rising.value(margins - rng.random(N), s) <= parts.rising.value(margins, s) + 1e-12
    assert all(np.all(part.term.slopes >= 0) for part in parted(losses))


@pytest.mark.parametrize("loss, k", [*zip(LOSSES, itertools.cycle([3, 4]))])
def test_solvers_of_fixed_clusters_agree_with_cvxpy(loss, k):
    problem, truth = declared(loss, k)
    runner = runner_up(np.random.default_rng(k).normal(size=(N, k)), truth)
    form = dataclasses.replace(problem.program().fix_labels(truth), runner=runner)
    value = by_hand(form, runner)
    for name in ("newton", "cutting-plane", "clarabel"):
        raw = md.Solver(name).solve(form, Budget(tol=1e-8))
        reached = majorant(form, raw["w"], raw["bias"], raw["scalars"])
        dual = form.dual_objective(raw["u"], raw["tau"], raw["t"])
        assert np.allclose([reached, dual], value, rtol=1e-6, atol=1e-8)
        assert form.dual_error(raw["u"], raw["tau"], raw["t"]) <= 1e-5
        assert form.primal_residual(raw["w"], raw["bias"], raw["scalars"]) <= 1e-9


@pytest.mark.parametrize("loss", FALLING)
def test_duals_prove_the_value_and_never_more(loss):
    def repaired(form, answer):
        return certify_fixed_labels(form, form.duals(answer), answer.get("tau"))

    problem, truth = declared(loss)
    form = problem.program().fix_labels(truth)
    raw, rng = md.Solver("newton").solve(form, Budget(tol=1e-9)), np.random.default_rng(2)
    value = form.objective(raw["w"], raw["bias"], raw["scalars"])
    assert np.isclose(repaired(form, raw).bound, value, rtol=1e-7)
    for _ in range(5):
        moved = dict(raw.variables) | {"u": raw["u"] * rng.uniform(0.5, 1.5, raw["u"].shape)}
        found = repaired(form, moved)
        assert found is None or found.bound <= value + 1e-9 * abs(value)


@pytest.mark.parametrize("limit", [4000, 1])
def test_large_systems_agree_with_dense_ones(limit):
    problem, truth = declared("signed")
    form = problem.program().fix_labels(truth)
    raw = md.Solver("newton", dense_limit=limit).solve(form, Budget(tol=1e-8))
    assert np.isclose(raw.objective, md.Solver("cutting-plane").solve(form, Budget(tol=1e-8)).objective, rtol=1e-7)


@pytest.mark.parametrize("loss", FALLING)
def test_exact_is_the_best_of_all_labellings_and_bounds_lie_below(loss):
    problem, _ = declared(loss, n=5, constraints=lambda y, f: [md.sizes(y, at_least=1), md.must_link(y, [(0, 3)])])
    program = problem.program()
    members = [y for y in map(np.array, itertools.product(range(3), repeat=5)) if program.labels.contains(y)]
    named = {tuple(list(dict.fromkeys(y.tolist())).index(c) for c in y): y for y in members}  # clusters by appearance
    best = min(by_hand(program.fix_labels(y), (y + 1) % 3) for y in named.values())
    found = problem.solve("exact", random_state=0)
    assert np.isclose((found.value - program.constant) / program.scale, best, rtol=1e-6, atol=1e-8) and found.verify()
    assert found.bound >= found.value - 1e-5 * abs(found.value)
    for relaxation in QUICK:
        lower = problem.solve(relaxation, random_state=0)
        assert (lower.bound - program.constant) / program.scale <= best + 1e-7 * abs(best) and lower.verify()


@pytest.mark.parametrize("loss", LOSSES)
def test_two_clusters_are_the_binary_program(loss):
    """γ = ⟨w_1 − w_0, φ⟩ y and ½(‖w_0‖² + ‖w_1‖²) = ¼‖w_1 − w_0‖² at w_0 = −w_1, whatever the scalars."""
    X = np.random.default_rng(3).normal(size=(N, 2))
    y, f = md.Labels(N), md.Hyperplane(X)
    labels = 1 - np.arange(N) % 2
    objective = LOSSES[loss](y * f, md.Scalar(), md.Scalar(nonneg=True, name="t"))
    plain, doubled = (md.Problem(md.Minimize(md.sq_norm(f) / 2 + c * objective)).program() for c in (4.0, 8.0))
    paired = dataclasses.replace(plain, coding="crammer-singer")
    found, other = (md.Solver("newton").solve(program.fix_labels(labels), Budget(tol=1e-10))
                    for program in (paired, doubled))
    assert np.isclose(found.objective, 0.5 * other.objective, rtol=1e-8, atol=1e-10)


def test_a_saved_proof_of_scalars_is_checked_again(tmp_path):
    problem, _ = declared("alone", constraints=lambda y, f: [y[np.arange(N)] == np.arange(N) % 3])
    solution = problem.solve()
    solution.save(tmp_path / "answer.npz")
    loaded = md.Solution.load(tmp_path / "answer.npz", problem)
    assert solution.status == "optimal" and loaded.verify() and loaded.bound == solution.bound
    assert dict(loaded.scalars) == dict(solution.scalars)


@pytest.mark.parametrize("loss", ["mean-variance", "variance", "mixed"])
def test_rising_losses_end_below_their_start_with_bounds_below(loss):
    problem, _ = declared(loss, constraints=lambda y, f: [md.sizes(y, at_least=2)])
    with warnings.catch_warnings():
        warnings.simplefilter("error", AccuracyWarning)
        warnings.simplefilter("ignore", TrivialityWarning)
        ends = [problem.solve(relaxation, random_state=0) for relaxation in (
            md.Alternating(restarts=1, polish="none"), md.CCCP(restarts=1, polish="none"), *QUICK)]
    assert all(end.verify() for end in ends)
    assert max(end.bound for end in ends) <= min(end.value for end in ends)
