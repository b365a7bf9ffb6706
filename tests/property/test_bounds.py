"""On every small problem: exact >= minimax >= lifted labels, exact >= lift of both, and everything is recomputed."""

import dataclasses
import warnings

import cvxpy as cp
import numpy as np
import pytest
from instances import random_instance
from loss_families import LOSS_FAMILIES

import margindsl as md
from margindsl.calculus import PLQ
from margindsl.contract import Budget
from margindsl.errors import RefusalError, TrivialityWarning, UnansweredError
from margindsl.program.split import merged_rows

INSTANCES = 10  # tests/fuzz/run.py draws as many more as one wants
CHUNKS = 2
SEED = 20240

EXACT = md.Exact(starts=1)
MINIMAX = md.Minimax(oracle="exhaustive", rounding=2, polish="none", tol=1e-5)
SDP = md.SDP(rounding=2, polish="none", cuts="none")


def instance_number(k, **restrictions):
    return random_instance(np.random.default_rng([SEED, *np.atleast_1d(k)]), **restrictions)


def solve(instance, relaxation, solver=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrivialityWarning)
        return instance.problem.solve(relaxation, solver, random_state=0, **options)


def scale_of(*values):
    return max(1.0, *map(abs, values))


def assert_recomputed(instance, solution):
    """Labels lie in B, and the value is what plain numpy makes of labels, f, w and s."""
    assert instance.admits(solution.labels)
    norm = float(solution.weights @ solution.weights)
    value = instance.objective(solution.labels, solution.decision, norm, dict(solution.scalars))
    assert solution.value == pytest.approx(value, rel=1e-8, abs=1e-8)
    factor = instance.factor()
    residual = solution.decision - (solution.bias if instance.bias is True else 0.0)
    w, *_ = np.linalg.lstsq(factor, residual, rcond=None)
    assert np.allclose(factor @ w, residual, atol=1e-6 * scale_of(np.abs(residual).max()))
    assert float(w @ w) <= norm * (1 + 1e-6) + 1e-9  # the least norm that gives these decision values
    if instance.decision is not None:
        assert abs(solution.decision.sum()) <= instance.decision + 1e-6


def assert_certificate(solution):
    """It is proved; claiming one per cent more, or keeping the claim with another dual point, is not."""
    certificate, bound = solution.certificate, solution.bound
    assert solution.verify() and "\n" not in certificate.words
    assert not dataclasses.replace(solution, bound=bound + max(1e-3, 0.01 * abs(bound))).verify()
    if abs(bound) > 1e-6 and not certificate.is_trivial:
        far = dataclasses.replace(certificate, arrays={**certificate.arrays, "u": 3.0 * certificate.arrays["u"]})
        assert not dataclasses.replace(solution, certificate=far).verify()


def assert_fixed_label_duality(instance, labels):
    """Primal and dual values of the form agree at fixed labels, and weak duality holds."""
    program = instance.problem.program()
    form = program.fix_labels(program.labels.names.read(labels))
    raw = md.Solver("newton").solve(form, Budget(tol=1e-9))
    primal = form.objective(raw["w"], raw["bias"], raw["scalars"])
    dual = form.dual_objective(raw["u"], raw["tau"])
    assert primal == pytest.approx(dual, rel=1e-6, abs=1e-7)
    assert dual <= primal + 1e-9 * scale_of(primal)


def assert_weight_lifting(instance, exact):
    """Where the loss allows it, weight lifting is a lower bound too; else the refusal says why."""
    if not md.WeightLifting().accepts(instance.problem.program()):
        with pytest.raises(RefusalError, match="weight-lifting"):
            solve(instance, "weight-lifting")
        return
    lifted = solve(instance, md.WeightLifting(rounding=2, polish="none"))
    assert_recomputed(instance, lifted)
    assert lifted.verify()
    assert not dataclasses.replace(lifted, bound=lifted.bound + 0.01 * max(abs(lifted.bound), 0.01)).verify()
    assert lifted.bound <= lifted.value and lifted.bound <= exact.value + 1e-7 * scale_of(exact.value)


def assert_sound(instance, solution, exact):
    """What holds of every answer, however its solver ended."""
    assert_recomputed(instance, solution)
    assert solution.bound <= solution.value
    assert solution.bound <= exact.value + 1e-7 * scale_of(exact.value)
    assert exact.value <= solution.value + 2e-5 * scale_of(exact.value)
    if solution.certificate is not None:
        assert_certificate(solution)


def accurate(instance, exact, relaxation, solver, other, **options):
    """Return the answer of an interior-point method, or of another solver where it stalls, which it says, and whether.

    Where rounding stops it depends on the processor.
    """
    try:
        solution = solve(instance, relaxation, solver)
    except UnansweredError as error:
        assert repr(solver) in str(error)
    else:
        assert_sound(instance, solution, exact)
        if solution.status in ("optimal", "converged"):
            return solution, False
        assert solution.status in ("inaccurate", "failed")
        assert solution.certificate is not None or solution.message
    return solve(instance, relaxation, other, **options), True


def assert_chain(instance, lift=False):
    """Return how often an interior-point method stalled."""
    exact = solve(instance, EXACT)
    sdp, stalled = accurate(instance, exact, SDP, "clarabel", "interior", tol=1e-7)
    other = sdp if stalled else solve(instance, SDP, "interior", tol=1e-7)
    tol = 2e-5 * scale_of(exact.value, sdp.estimate)
    for solution in (exact, sdp, other):
        assert_sound(instance, solution, exact)
        assert solution.certificate is not None
    assert exact.status == "optimal" or exact.value - exact.bound <= 1e-8  # a relative gap means nothing at 0
    assert sdp.bound <= sdp.estimate + tol
    assert sdp.bound >= sdp.estimate - 50 * tol  # the repair costs little
    assert sdp.estimate <= exact.value + tol
    assert other.estimate == pytest.approx(sdp.estimate, abs=50 * tol)
    assert_fixed_label_duality(instance, exact.labels)
    assert_fixed_label_duality(instance, instance.truth)
    if lift:
        assert_weight_lifting(instance, exact)
    if instance.bias is True and instance.decision is None:
        with pytest.raises(RefusalError, match="trivial with a free bias"):
            solve(instance, MINIMAX)
        return stalled
    minimax, again = accurate(instance, exact, MINIMAX, "clarabel", "ecos")
    assert_sound(instance, minimax, exact)
    assert minimax.certificate is not None
    assert exact.value >= minimax.estimate - tol
    if instance.bias is not True and instance.decision is None:
        assert minimax.estimate >= sdp_by_hand(instance, squares=False) - tol
    assert minimax.bound == pytest.approx(minimax.estimate, abs=50 * tol)
    return stalled + again


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_order_of_values(chunk):
    stalls, numbers = 0, range(chunk, INSTANCES, CHUNKS)
    for k in numbers:
        instance = instance_number(k)
        try:
            stalls += assert_chain(instance, lift=k % 6 == 0)
        except Exception as error:
            error.add_note(f"instance {k}: {instance!r}, parameters {instance.parameters}")
            raise
    assert stalls <= len(numbers) / 2  # the interior-point method is what is tried here


# -- by hand, in cvxpy -----------------------------------------------------------------------------------

HAND = {
    "hinge": lambda m, s, p: p["C"] * cp.sum(cp.pos(1 - m)) / m.size,
    "squared-hinge": lambda m, s, p: p["C"] * cp.sum_squares(cp.pos(1 - m)) / m.size,
    "odm": lambda m, s, p: p["C"] / m.size * (
        cp.sum_squares(cp.pos(1 - p["theta"] - m)) + p["nu"] * cp.sum_squares(cp.pos(m - 1 - p["theta"]))
    ) / (1 - p["theta"]) ** 2,
    "epsilon-insensitive": lambda m, s, p: p["C"] * cp.sum(cp.pos(cp.abs(1 - m) - p["eps"])) / m.size,
    "least-squares": lambda m, s, p: p["C"] * cp.sum_squares(1 - m) / m.size,
    "logistic": lambda m, s, p: p["C"] * cp.sum(cp.logistic(-m)) / m.size,
    "huber": lambda m, s, p: p["C"] * cp.sum(cp.huber(1 - m, p["M"])) / m.size,
    "plq": lambda m, s, p: p["C"] * cp.sum(cp.square(cp.pos(1 - m)) + 0.5 * cp.pos(m - 1)) / m.size,
    "maximum": lambda m, s, p: p["C"] * cp.sum(cp.maximum(cp.square(1 - m), p["k"] - 3 * m)) / m.size,
    "custom-sum": lambda m, s, p: p["C"] / m.size * cp.sum(
        cp.pos(1 - m) + p["a"] * cp.square(m - 1.5) + 0.3 * cp.abs(m - p["a"])),
    "mixture": lambda m, s, p: p["C"] * cp.sum(cp.pos(1 - m[::2])) / m.size
    + p["mix"] * cp.sum_squares(1 - m[1::2]) / (m.size // 2),
    "weighted": lambda m, s, p: p["C"] / m.size * cp.sum(
        cp.multiply(np.linspace(0, 2, m.size), cp.square(cp.pos(1 - m)))),
    "adaptive-threshold": lambda m, s, p: p["C"] * cp.sum(cp.pos(cp.pos(s[0]) - m)) / m.size - s[0],
    "two-sided": lambda m, s, p: p["C"] / m.size * (
        cp.sum(cp.pos(s[0] - m)) + 0.3 * cp.sum_squares(cp.pos(m - s[1]))) - s[0] + 0.2 * s[1],
    "mean-variance": lambda m, s, p: -p["eta"] * s[0] + p["C"] * cp.sum_squares(m - s[0]) / m.size,
}
NONNEG = {"adaptive-threshold", "two-sided"}


def loss_by_hand(instance, margins, scalars):
    return HAND[instance.family.name](margins, scalars, instance.parameters)


def test_every_family_is_written_by_hand():
    assert set(HAND) == set(LOSS_FAMILIES)


def fixed_by_hand(instance, y):
    """Return the optimum at fixed labels from cvxpy."""
    factor = instance.factor()
    w, b, s = cp.Variable(factor.shape[1]), cp.Variable(), cp.Variable(2)
    f = factor @ w + (b if instance.bias is True else 0.0)
    constraints = [s[0] >= 0] if instance.family.name in NONNEG else []
    if instance.decision is not None:
        constraints.append(cp.abs(cp.sum(f)) <= instance.decision)
    objective = instance.ridge / 2 * cp.sum_squares(w) + loss_by_hand(instance, cp.multiply(y, f), s)
    problem = cp.Problem(cp.Minimize(objective), constraints)
    problem.solve(solver=cp.CLARABEL, tol_gap_rel=1e-9, tol_gap_abs=1e-9)
    return problem.value


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted(LOSS_FAMILIES))
def test_exact_is_the_optimum_of_an_enumeration_by_hand(family):
    """All of B (n <= 6), each labelling solved by cvxpy, against the compiler and the pruned enumeration."""
    instance = instance_number([7, 0], n_max=6, family=family)
    members = list(instance.labellings())
    if instance.problem.program().labels.is_symmetric:
        members = [y for y in members if y[0] > 0]
    best = min(fixed_by_hand(instance, y) for y in members)
    exact = solve(instance, "exact")
    assert exact.value == pytest.approx(best, rel=2e-6, abs=2e-6), instance


def sdp_by_hand(instance, squares=True):
    """Return the lift of all labels and weights without contraction: links are M_ij = +-1, bounds have a constant row.

    Bounds are taken at the smallest and largest sum attained, as a presolve may. With `squares` a piecewise quadratic
    loss is the hull of (t, t², loss), a mixture of its pieces; without it is a function of the first moment.
    """
    n, factor = instance.n, instance.factor()
    order = n + 1 + factor.shape[1]
    Q, s = cp.Variable((order, order), symmetric=True), cp.Variable(2)
    M, W = Q[:n + 1, :n + 1], Q[n + 1:, n + 1:]
    margins = cp.sum(cp.multiply(factor, Q[:n, n + 1:]), axis=1)
    constraints = [Q >> 0, cp.diag(M) == 1]
    constraints += [M[i, j] == 1 for i, j in instance.must] + [M[i, j] == -1 for i, j in instance.cannot]
    constraints += [M[i, n] == v for i, v in instance.known.items()]
    members = np.array(list(instance.labellings()))
    for weights, _, _ in instance.bounds:
        low, high = (members @ weights).min(), (members @ weights).max()
        vector = np.append(weights, -(low + high) / 2)
        constraints.append(vector @ M @ vector <= ((high - low) / 2) ** 2 + 1e-9)
    if instance.family.name in NONNEG:
        constraints.append(s[0] >= 0)
    program = instance.problem.program()
    losses = merged_rows(program.losses, np.zeros(n, dtype=bool))
    if squares and not losses.scalars.count and all(isinstance(term.loss, PLQ) for term in losses.terms):
        loss = program.constant
        for term in losses.terms:
            for i, weight in zip(term.points, program.scale * term.weights):
                p, g, z = (cp.Variable(len(term.loss.pieces)) for _ in range(3))
                for k, (low, high, square, slope, constant) in enumerate(term.loss.pieces):
                    constraints += [p[k] >= 0, cp.SOC(p[k] + z[k], cp.hstack([2 * g[k], p[k] - z[k]]))]
                    constraints += [g[k] >= low * p[k]] if np.isfinite(low) else []
                    constraints += [g[k] <= high * p[k]] if np.isfinite(high) else []
                    constraints += [(low + high) * g[k] - z[k] >= low * high * p[k]] if np.isfinite(high - low) else []
                    loss = loss + weight * (constant * p[k] + slope * g[k] + square * z[k])
                constraints += [cp.sum(p) == 1, cp.sum(g) == margins[i], cp.sum(z) == factor[i] @ W @ factor[i]]
    else:
        loss = loss_by_hand(instance, margins, s)
    problem = cp.Problem(cp.Minimize(instance.ridge / 2 * cp.trace(W) + loss), constraints)
    try:
        problem.solve(solver=cp.CLARABEL)
    except cp.SolverError:  # a flat set of dual points stops interior-point methods early
        problem.solve(solver=cp.SCS, eps_abs=1e-8, eps_rel=1e-8, max_iters=200_000)
    return problem.value


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted(LOSS_FAMILIES))
def test_the_contracted_sdp_is_the_uncontracted_one(family):
    instance = instance_number([11, 0], n_max=8, family=family, free_bias=0.0)
    contracted = solve(instance, SDP, "clarabel")
    assert contracted.estimate == pytest.approx(sdp_by_hand(instance), rel=2e-4, abs=2e-4), instance
