"""The conic solvers agree with duality, with one another, and with programs written by hand."""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

import margindsl as md
from margindsl.calculus import PLQ, Logistic
from margindsl.contract import Budget, Status
from margindsl.errors import DeclarationError, UnknownNameError
from margindsl.features import build
from margindsl.program.bounds import DecisionBound, QuadraticBound
from margindsl.program.forms import (
    FixedLabelForm,
    SaddleForm,
)
from margindsl.program.lift import LiftForm
from margindsl.program.lift_certificate import repair_lift
from margindsl.program.losses import Losses, LossTerm, SharedScalars
from margindsl_solvers.conic import CVXPY, ECOS, OSQP, SCS, Clarabel, HiGHS
from margindsl_solvers.engines.conic import bridge
from margindsl_solvers.engines.conic.bridge import judged, lowering_of
from margindsl_solvers.engines.conic.packages import PACKAGES

SOLVERS = {"clarabel": Clarabel(), "scs": SCS(), "ecos": ECOS(), "osqp": OSQP(), "highs": HiGHS()}
CONIC = ["clarabel", "scs", "ecos"]
SEMIDEFINITE = ["clarabel", "scs"]
HINGE = PLQ.affine(-1, 1).positive_part()
BELOW = PLQ.affine(-1, 0).positive_part()
SHORT, LONG = (PLQ.affine(side, -side - 0.2).positive_part().square() for side in (-1, 1))
ODM = (SHORT + 0.5 * LONG) * 1.5625
ANY_LOSS = {"hinge": HINGE, "odm": ODM, "least squares": PLQ.affine(-1, 1).square(), "logistic": Logistic()}


class Matrix:
    """The least a feature operator can be."""

    is_remote = False

    def __init__(self, phi):
        self.phi = np.asarray(phi, dtype=float)
        self.n, self.rank = self.phi.shape
        self.trace, self.trace_error = float(np.sum(self.phi**2)), 0.0

    def apply(self, W):
        return self.phi @ W

    def adjoint(self, R):
        return self.phi.T @ R

    def toarray(self):
        return self.phi


def losses(n, loss=HINGE, weight=5.0):
    one = np.ones(n)
    term = LossTerm(loss, np.arange(n), one * weight / n, one, 0 * one, np.zeros((n, 0)))
    return Losses(n, (term,))


def losses_with_everything(n, weight=5.0):
    """Two terms, repeated points, slopes, shifts, a free and a non-negative scalar."""
    rng = np.random.default_rng(5)
    first = LossTerm(BELOW, np.arange(n), np.full(n, weight / n), np.ones(n), np.zeros(n),
                     np.column_stack([-np.ones(n), np.zeros(n)]))
    points = rng.integers(0, n, n // 2)
    m = len(points)
    second = LossTerm(ODM, points, rng.uniform(0.0, 0.3, m), rng.uniform(0.5, 2, m), rng.normal(size=m) / 5,
                      np.column_stack([np.zeros(m), rng.uniform(0, 1, m)]))
    scalars = SharedScalars(np.array([-0.4 * weight, 0.05]), np.array([False, True]))
    return Losses(n, (first, second), scalars)


def instance(n, rank, seed=0):
    rng = np.random.default_rng(seed)
    phi = rng.normal(size=(n, rank))
    return Matrix(phi - phi.mean(axis=0)), np.where(rng.random(n) < 0.5, 1, 0)


def check_fixed(form, solution, tolerance=3e-5):
    w, bias, s = solution["w"], solution["bias"], solution["scalars"]
    primal, dual = form.objective(w, bias, s), form.dual_objective(solution["u"], solution["tau"])
    scale = max(1.0, abs(primal))
    assert math.isfinite(dual)
    assert primal == pytest.approx(dual, abs=tolerance * scale)
    assert solution.objective == pytest.approx(primal, abs=tolerance * scale)
    assert form.primal_residual(w, bias, s) < tolerance
    assert form.dual_residual(solution["u"], solution["tau"]) < tolerance
    return primal


# -- fixed labels ------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss, shape", [("hinge", (18, 3)), ("odm", (9, 20)), ("least squares", (18, 3))])
def test_fixed_label_values_agree_and_meet_the_dual(loss, shape):
    features, y = instance(*shape)
    form = FixedLabelForm(features, losses(shape[0], ANY_LOSS[loss]), y)
    values = [check_fixed(form, solver.solve(form)) for solver in SOLVERS.values()]
    assert np.ptp(values) < 1e-5 * max(1.0, abs(values[0]))


@pytest.mark.parametrize("name", list(SOLVERS))
def test_fixed_label_form_with_scalars_bias_and_decision_bounds(name):
    features, y = instance(16, 4)
    weights = np.random.default_rng(1).normal(size=(3, 16))
    decision = (DecisionBound(weights[0], -0.1, 0.1), DecisionBound(weights[1], 0.2, 0.2),
                DecisionBound(weights[2], -math.inf, -0.05))
    form = FixedLabelForm(features, losses_with_everything(16), y, decision=decision, free_bias=True)
    solution = SOLVERS[name].solve(form)
    check_fixed(form, solution)
    assert np.abs(solution["tau"]).max() > 1e-3
    features_only = replace(form, decision=(), free_bias=False)
    assert check_fixed(features_only, SOLVERS[name].solve(features_only)) != pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("name", CONIC)
def test_logistic_loss_where_exponential_cones_exist(name):
    features, y = instance(15, 3)
    form = FixedLabelForm(features, losses(15, Logistic()), y)
    check_fixed(form, SOLVERS[name].solve(form))


def test_u_is_minus_the_weighted_derivative_for_a_smooth_loss():
    features, y = instance(14, 4)
    form = FixedLabelForm(features, losses(14, ODM), y)
    solution = Clarabel().solve(form)
    v = form.losses.arguments(form.margins(form.outputs(solution["w"])))
    np.testing.assert_allclose(solution["u"], -form.losses.derivative(v), atol=1e-6)
    np.testing.assert_allclose(solution["w"], form.dual_direction(solution["u"]), atol=1e-5)


@pytest.mark.parametrize("name", list(SOLVERS))
def test_session_is_compiled_once_for_other_labels_and_weights(name):
    features, y = instance(60, 5)
    form = FixedLabelForm(features, losses(60), y)
    session = SOLVERS[name].open(form)
    session.solve(form, Budget())
    problem = session.loaded(form)
    assert problem.is_dcp(dpp=True)
    other = replace(form, labels=np.roll(1 - y, 3), losses=losses(60, weight=9.0))
    assert replace(SOLVERS[name], max_iter=1).solve(form, Budget()).status is Status.ITERATION_LIMIT
    assert replace(SOLVERS[name], max_iter=1).solve(form, Budget(max_iter=10_000)).status is Status.OPTIMAL
    second = session.solve(other, Budget())
    assert session.loaded(other) is problem
    assert check_fixed(other, second) == pytest.approx(Clarabel().solve(other).objective, rel=1e-5)


@pytest.mark.parametrize("name", CONIC)
def test_many_points_are_compiled_once_and_solved_again_with_their_own_labels(name):
    features, y = instance(1500, 4)
    form = FixedLabelForm(features, losses(1500, ODM), y)
    session = SOLVERS[name].open(form)
    problems = set()
    for labels in (y, np.where(features.phi[:, 0] > 0, 1, 0)):
        other = replace(form, labels=labels)
        check_fixed(other, session.solve(other, Budget()))
        problems.add(id(session.loaded(other)))
    assert len(problems) == 1


def test_session_compiles_anew_for_another_structure():
    features, y = instance(12, 3)
    form = FixedLabelForm(features, losses(12), y)
    session = Clarabel().open(form)
    session.solve(form, Budget())
    problem = session.loaded(form)
    other = replace(form, losses=losses(12, ODM))
    check_fixed(other, session.solve(other, Budget()))
    assert session.loaded(other) is not problem


# -- saddle ------------------------------------------------------------------------------------------


def check_saddle(form, solution, tolerance=3e-5):
    value = form.dual_objective(solution["u"])
    scale = max(1.0, abs(value))
    primal = form.primal_objective(solution["W"], solution["scalars"])
    assert primal == pytest.approx(value, abs=tolerance * scale)
    assert form.losses.scalar_residual(solution["u"]) < tolerance
    assert solution["mu"].min() >= 0 and solution["mu"].sum() == pytest.approx(1.0)
    assert solution.objective == pytest.approx(value, abs=tolerance * scale)
    return value


@pytest.mark.parametrize("name", CONIC)
@pytest.mark.parametrize("loss", list(ANY_LOSS))
def test_saddle_primal_meets_dual(name, loss):
    features, _ = instance(14, 3)
    labellings = np.where(np.random.default_rng(2).random((5, 14)) < 0.5, 1, 0)
    form = SaddleForm(features, losses(14, ANY_LOSS[loss]), labellings)
    check_saddle(form, SOLVERS[name].solve(form))


@pytest.mark.parametrize("name", CONIC)
def test_saddle_with_scalars_and_wide_features(name):
    features, _ = instance(12, 30)
    labellings = np.where(np.random.default_rng(3).random((3, 12)) < 0.5, 1, 0)
    form = SaddleForm(features, losses_with_everything(12), labellings)
    solution = SOLVERS[name].solve(form)
    check_saddle(form, solution)
    assert solution["W"].shape == (30, 3)


def test_saddle_of_one_labelling_is_the_fixed_label_value():
    features, y = instance(14, 3)
    saddle = SaddleForm(features, losses(14), y[None])
    fixed = FixedLabelForm(features, losses(14), y)
    expected = Clarabel().solve(fixed).objective
    assert check_saddle(saddle, Clarabel().solve(saddle)) == pytest.approx(expected, rel=1e-6)


def test_saddle_working_set_grows_within_one_compilation():
    features, _ = instance(14, 3)
    labellings = np.where(np.random.default_rng(4).random((6, 14)) < 0.5, 1, 0)
    form = SaddleForm(features, losses(14, ODM), labellings[:1])
    session, problems, values = Clarabel().open(form), [], []
    for count in range(1, 7):
        grown = replace(form, labellings=labellings[:count])
        values.append(check_saddle(grown, session.solve(grown, Budget())))
        problems.append(id(session.loaded(grown)))
    assert len(set(problems)) == 2
    assert all(b <= a + 1e-7 for a, b in itertools.pairwise(values))


# -- lift --------------------------------------------------------------------------------------------


def lift(features, separable, **options):
    n = features.n
    given = {"component": np.arange(n), "sign": np.ones(n, dtype=int), "count": n} | options
    return LiftForm(build(features.toarray(), centre=False), separable, **given)


def shor_value(form):
    """Solve [[M, N], [Nᵀ, W]] ⪰ 0, the lift of (y, w) written out, first moments in the losses."""
    phi = form.features.toarray()
    n, rank = phi.shape
    N, L = form.count, form.losses
    A = np.zeros((n, N))
    A[np.arange(n), form.component] = form.sign
    Q, s = cp.Variable((N + rank, N + rank), PSD=True), cp.Variable(max(L.scalars.count, 1))
    M, W = Q[:N, :N], Q[N:, N:]
    g = cp.sum(cp.multiply(phi, A @ Q[:N, N:]), axis=1)
    v = cp.multiply(L.slopes, g[L.points]) + L.shifts
    objective, constraints = 0.5 * cp.trace(W), [cp.diag(M) == 1]
    if L.scalars.count:
        v, objective = v + L.coupling @ s, objective + L.scalars.costs @ s
        constraints.append(s[np.flatnonzero(L.scalars.nonneg)] >= 0)
    for term, part in L.slices():
        cost, extra = term.loss.conic(cp, v[part])
        objective, constraints = objective + cp.sum(cp.multiply(term.weights, cost)), constraints + extra
    for bound in form.balance:
        constraints.append(cp.sum(cp.multiply(np.outer(bound.vector, bound.vector), M)) <= bound.radius ** 2)
    for bound in form.decision:
        sigma = phi.T @ bound.weights
        constraints.append(cp.sum(cp.multiply(np.outer(sigma, sigma), W)) <= bound.upper ** 2)
    problem = cp.Problem(cp.Minimize(objective), constraints)
    problem.solve(solver="CLARABEL")
    return problem.value


LIFTS = ["free", "outputs", "balance", "links", "links and outputs", "reference"]


def lifted(kind, separable, n=10, rank=3):
    features, _ = instance(n, rank, seed=7)
    options = {}
    component, sign = np.arange(n), np.ones(n, dtype=int)
    if "links" in kind:
        component, sign = np.arange(n) // 2, np.where(np.arange(n) % 4 == 1, -1, 1)
    count = int(component.max()) + 1
    omega = np.bincount(component, weights=sign, minlength=count)
    if kind in ("balance", "links"):
        options["balance"] = (QuadraticBound(omega, 0.5 if kind == "balance" else 2.0),)
    if "outputs" in kind:
        options["decision"] = (DecisionBound(features.phi[:, 0], -0.4, 0.4),)
    if kind == "reference":
        options["balance"], count = (QuadraticBound(np.append(omega, 2.0), 1.0),), count + 1
        options["reference"] = count - 1
    return lift(features, separable, component=component, sign=sign, count=count, **options)


SEPARABLE = [losses(10), losses(10, Logistic()), losses_with_everything(10)]


@pytest.mark.parametrize("name, kind, separable", [  # every lift by all solvers, each with another loss
    (name, kind, SEPARABLE[(i + j) % 3])
    for j, name in enumerate(SEMIDEFINITE) for i, kind in enumerate(LIFTS)])
def test_a_lift_is_the_program_written_by_hand(name, kind, separable):
    """Where losses fall, or share scalars, second moments add nothing."""
    form = lifted(kind, separable)
    solution = SOLVERS[name].solve(form, Budget(tol=1e-7))
    expected = shor_value(form)
    tolerance = 2e-5 * max(1.0, abs(expected))
    assert solution.objective == pytest.approx(expected, abs=tolerance)
    assert repair_lift(form, solution).bound == pytest.approx(expected, abs=5 * tolerance)
    M = solution["V"] @ solution["V"].T
    np.testing.assert_allclose(np.diag(M), 1.0, atol=1e-9)
    for bound in form.balance:
        assert bound.vector @ M @ bound.vector <= bound.radius ** 2 + 1e-3


def test_a_lift_with_more_features_than_points_and_a_free_bias():
    features, _ = instance(8, 20, seed=9)
    bounds = (DecisionBound(np.ones(8), -0.5, 0.5),)
    form = lift(features, losses(8, ODM), decision=bounds, free_bias=True)
    linked = replace(form, balance=(QuadraticBound(np.ones(8), 8.0),))
    values = [Clarabel().solve(f).objective for f in (form, linked)]
    assert values[0] == pytest.approx(values[1], rel=1e-5)
    assert Clarabel().solve(form)["W"].shape[0] == form.order


# -- refusals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["osqp", "highs"])
def test_quadratic_solvers_refuse_cones(name):
    features, y = instance(10, 3)
    solver = SOLVERS[name]
    logistic = solver.accepts(FixedLabelForm(features, losses(10, Logistic()), y))
    assert not logistic and "exponential cone" in str(logistic) and "'clarabel'" in str(logistic)
    saddle = solver.accepts(SaddleForm(features, losses(10), y[None]))
    assert not saddle and "second-order cones" in str(saddle)
    assert not solver.accepts(lift(features, losses(10)))


def test_ecos_refuses_the_semidefinite_cone():
    features, _ = instance(10, 3)
    refusal = ECOS().accepts(lift(features, losses(10)))
    assert "semidefinite" in str(refusal) and "'clarabel' or 'scs'" in str(refusal)


@pytest.mark.parametrize("name", SEMIDEFINITE)
def test_size_refusal_names_estimate_limit_override_and_alternative(name):
    features, _ = instance(400, 20)
    form = lift(features, losses(400), balance=(QuadraticBound(np.ones(400), 40.0),))
    refusal = SOLVERS[name].accepts(form)
    assert not refusal
    for part in ("order 420 (400 components + rank 20)", f"limit {SOLVERS[name].max_psd_order}",
                 f"Solver('{name}', max_psd_order=420)", "subsample"):
        assert part in str(refusal)
    assert type(SOLVERS[name])(max_psd_order=420).accepts(form)
    assert SOLVERS[name].accepts(replace(form, balance=(), count=0, component=np.full(400, -1)))


def test_dense_size_and_unknown_forms_are_refused():
    features, y = instance(10, 3)
    form = FixedLabelForm(features, losses(10), y)
    refusal = Clarabel(max_entries=29).accepts(form)
    assert not refusal and "max_entries=30" in str(refusal)
    unknown = Clarabel().accepts(object())
    assert not unknown and "does not know the form object" in str(unknown)


def test_claims_are_judged_by_the_form():
    features, y = instance(10, 3)
    form = FixedLabelForm(features, losses(10), y)
    solution = dict(Clarabel().solve(form).variables)
    lowering = lowering_of(form)(form)
    assert judged(lowering.error(form, solution), 1e-6, "Solved") == (Status.OPTIMAL, "Solved")
    status, words = judged(lowering.error(form, solution | {"w": solution["w"] + 3e-3}), 1e-9, "Solved")
    assert status is Status.INACCURATE and "disagree" in words
    far = lowering.error(form, solution | {"w": solution["w"] + 10})
    assert judged(far, 1e-6, "Solved")[0] is Status.FAILED


def test_unknown_option_is_named():
    with pytest.raises(UnknownNameError, match="max_psd_order"):
        Clarabel(max_psd_oder=3)
    with pytest.raises(UnknownNameError, match="eps_abs"):
        SCS(eps_bas=1e-3)
    with pytest.raises(UnknownNameError, match="tol_gap_abs"):
        md.Solver("cvxpy:clarabel", settings={"tol_gab_abs": 1e-3})
    for name, settings in (("scs", {"verbose": True}), ("clarabel", {"max_entries": 3})):  # no options of the package
        with pytest.raises(UnknownNameError, match=f"unknown option of solver '{name}' '{next(iter(settings))}'"):
            md.Solver(name, settings=settings)


def test_options_of_the_package_reach_it():
    features, y = instance(30, 4)
    form = FixedLabelForm(features, losses(30), y)
    loose, tight = (OSQP(eps_abs=eps, eps_rel=eps).solve(form, Budget(tol=1e-6)) for eps in (1e-1, 1e-9))
    assert loose.iterations < tight.iterations
    assert replace(OSQP(alpha=1.2), max_iter=7).settings == {"alpha": 1.2}
    assert OSQP(alpha=1.2) != OSQP() and OSQP(alpha=1.2) == OSQP(settings={"alpha": 1.2})
    wrong = Clarabel(direct_solve_method=3).solve(form)
    assert wrong.status is Status.FAILED and "direct_solve_method" in wrong.message


@pytest.mark.parametrize("engine", [None, *cp.installed_solvers()])
def test_any_solver_behind_cxvpy_can_be_named(engine):
    features, y = instance(12, 3)
    form = FixedLabelForm(features, losses(12), y)
    solver = md.Solver("cvxpy" if engine is None else f"cvxpy:{engine.lower()}")
    assert solver.name == ("cvxpy" if engine is None else f"cvxpy:{engine}")
    if engine == "SCIPY":
        assert "linear programs only" in str(solver.accepts(form))
        return
    raw = solver.solve(form)
    if "no multipliers" in raw.message:  # as of solvers of integer programs
        assert raw.status is Status.FAILED
    else:
        check_fixed(form, raw)


def test_cones_are_asked_of_cvxpy():
    assert ({name: solver.cones for name, solver in SOLVERS.items()}) == {
        "clarabel": {"quadratic", "soc", "exp", "psd"}, "scs": {"quadratic", "soc", "exp", "psd"},
        "ecos": {"quadratic", "soc", "exp"}, "osqp": {"quadratic"}, "highs": {"quadratic"}}
    assert CVXPY().cones == CVXPY(engine="SCS").cones and not CVXPY(engine="SCIPY").cones
    with pytest.raises(DeclarationError, match=r"cvxpy\(engine='NOWHERE'\): expected the name of a solver in"):
        md.Solver("cvxpy:NOWHERE")
    with pytest.raises(UnknownNameError):
        md.Solver("newton:PIQP")


# -- failures ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(SOLVERS))
def test_one_iteration_ends_with_a_status_and_never_claims_optimality(name):
    features, y = instance(40, 6)
    form = FixedLabelForm(features, losses_with_everything(40), y)
    solution = type(SOLVERS[name])(max_iter=1).solve(form)
    assert solution.status in (Status.ITERATION_LIMIT, Status.INACCURATE, Status.FAILED)
    assert solution.message
    assert bool(solution.variables) == solution.status.has_answer


@pytest.mark.parametrize("name", ["clarabel", "scs", "osqp", "highs"])
def test_time_limit_is_passed_on(name):
    package = PACKAGES[SOLVERS[name].engine]
    assert 7.5 in package.settings(1e-6, None, 7.5).values()
    assert 7.5 not in package.settings(1e-6, None, math.inf).values()


def test_time_limit_stops_a_long_solve():
    features, _ = instance(60, 60)
    form = lift(features, losses(60), balance=(QuadraticBound(np.ones(60), 6.0),))
    begin = time.process_time()
    solution = SCS().solve(form, Budget.within(0.5, tol=1e-12))
    assert time.process_time() - begin < 8
    assert solution.status is Status.TIME_LIMIT


def test_expired_budget_returns_at_once():
    features, y = instance(10, 3)
    solution = Clarabel().solve(FixedLabelForm(features, losses(10), y), Budget.within(-1.0))
    assert solution.status is Status.TIME_LIMIT and not solution.variables


@pytest.mark.parametrize("name", list(SOLVERS))
def test_infeasible_and_unbounded_problems_carry_no_answer(name):
    features, y = instance(10, 3)
    row = features.phi[:, 0]
    conflicting = (DecisionBound(row, 1.0, 1.0), DecisionBound(row, -1.0, -1.0))
    infeasible = SOLVERS[name].solve(FixedLabelForm(features, losses(10), y, decision=conflicting))
    assert infeasible.status in (Status.INFEASIBLE, Status.FAILED) and not infeasible.variables
    given = losses(10, BELOW)
    term = replace(given.terms[0], coupling=-np.ones((10, 1)))
    steep = Losses(10, (term,), SharedScalars(np.array([-100.0]), np.array([False])))
    unbounded = SOLVERS[name].solve(FixedLabelForm(features, steep, y))
    assert unbounded.status in (Status.UNBOUNDED, Status.FAILED) and not unbounded.variables


def test_infeasible_dual_of_the_master_means_an_unbounded_master():
    features, y = instance(10, 3)
    term = replace(losses(10, BELOW).terms[0], coupling=-np.ones((10, 1)))
    steep = Losses(10, (term,), SharedScalars(np.array([-100.0]), np.array([False])))
    assert Clarabel().solve(SaddleForm(features, steep, y[None])).status is Status.UNBOUNDED


@pytest.mark.parametrize("name", list(SOLVERS))
def test_nothing_is_printed_unless_asked(name, capfd):
    features, y = instance(10, 3)
    form = FixedLabelForm(features, losses(10), y)
    SOLVERS[name].solve(form)
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


def test_keyboard_interrupt_passes_through(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    features, y = instance(10, 3)
    monkeypatch.setattr(bridge, "words_of", interrupt)
    with pytest.raises(KeyboardInterrupt):
        Clarabel().solve(FixedLabelForm(features, losses(10), y))


@pytest.mark.parametrize("bias, loss", [(False, md.squared_hinge), (True, md.hinge)])
def test_the_weight_lift_agrees_with_the_low_rank_engine(bias, loss):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(20, 3)) + np.where(np.arange(20)[:, None] < 10, 0.8, -0.8)
    y, f = md.Labels(20), md.Hyperplane(X, bias=bias)
    balance = [abs(md.sum(f)) <= 2.0] if bias else [abs(md.sum(y)) <= 8]
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 8 * md.mean(loss(y * f))), balance)
    ways = {"burer-monteiro": 1e-5, "clarabel": 1e-6, "scs": 1e-6}
    native, *conic = (problem.solve(md.WeightLifting(tol=tol, polish="none"), name, random_state=0)
                      for name, tol in ways.items())
    assert native.verify()
    for solution in conic:
        assert solution.verify()
        assert solution.bound <= (1 + 1e-4) * native.estimate and native.bound <= (1 + 1e-4) * solution.estimate
        if solution.status == "converged":  # how far SCS comes in its iterations depends on the processor
            assert solution.estimate == pytest.approx(native.estimate, rel=1e-4)
            assert solution.bound == pytest.approx(native.bound, rel=1e-3)


@pytest.mark.parametrize("name, clusters", [("clarabel", 3), ("scs", 2)])
@pytest.mark.filterwarnings("ignore::margindsl.errors.TrivialityWarning")
def test_points_without_any_extent_have_the_loss_at_the_origin(name, clusters):
    """Three points in four columns, all zero: no weights matter."""
    y, f = md.Labels(3, clusters=clusters), md.Hyperplane(np.zeros((3, 4)))
    margins = y * f if clusters == 2 else md.margin(y, f, coding="crammer-singer")
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 3 * md.mean(md.squared_hinge(margins))), [y[0] != y[1]])
    solution = problem.solve("alternating", name, random_state=0)
    assert solution.value == pytest.approx(3.0, rel=1e-6) and not np.any(solution.decision)
