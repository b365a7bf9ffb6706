"""Terms and constraints that are written in CVXPY: kept by every fit, against enumeration by hand."""

import itertools

import cvxpy as cp
import numpy as np
import pytest

import margindsl as md
from margindsl.errors import DeclarationError, GrammarError, InfeasibleError, RefusalError

N = 6


def model(seed, bias=False, scale=1.0):
    rng = np.random.default_rng(seed)
    X, y = scale * rng.normal(size=(N, 2)), md.Labels(N)
    return X - X.mean(axis=0), y, md.Hyperplane(X, bias=bias)


@pytest.mark.parametrize("seed, bias, scale", [(1, True, 1.0), (2, False, 100.0)])
def test_the_best_labels_and_weights_of_all_labellings(seed, bias, scale):
    phi, y, f = model(seed, bias, scale)

    def term(w, b):
        return scale * cp.norm1(w) + cp.square(b)

    def rules(w, b):
        return [w[0] >= 0.1 / scale, w[1] <= 0.2 / scale]

    problem = md.Problem(
        md.Minimize(md.sq_norm(f) / 2 + 2 * md.mean(md.hinge(y * f)) + 0.2 * md.cvxpy_term(f, term)),
        [abs(md.sum(y)) <= 2, md.cvxpy_constraint(f, rules)])
    w, b, z = cp.Variable(2), cp.Variable() if bias else 0.0, cp.Parameter(N)
    hand = cp.Problem(cp.Minimize(cp.sum_squares(w) / 2 + cp.sum(cp.pos(1 - cp.multiply(z, phi @ w + b))) / 3
                                  + 0.2 * term(w, b)), rules(w, b))
    values = {}
    for labels in itertools.product([-1, 1], repeat=N):
        if abs(sum(labels)) <= 2:
            z.value = np.array(labels, dtype=float)
            values[labels] = hand.solve(solver="CLARABEL", tol_gap_rel=1e-10, tol_gap_abs=1e-10)
    least = min(values.values())
    for relaxation in ("alternating", "cccp", *(() if bias else (md.SDP(polish="none"), md.Minimax(polish="none")))):
        found = problem.solve(relaxation, random_state=0)
        assert found.value == pytest.approx(values[tuple(found.labels)], rel=1e-6)
        assert found.bound <= least and found.weights[0] >= 0.1 / scale * (1 - 1e-4)
        report = found.verify()
        assert report and "not known to proofs" in str(report)
    fixed = problem.at_labels(np.array([1, 1, 1, -1, -1, -1])).solve("supervised")
    assert fixed.value == pytest.approx(values[1, 1, 1, -1, -1, -1], rel=1e-7)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_labels_whose_best_weights_are_zero_fail_no_relaxation(seed):
    X, y = np.random.default_rng(seed).normal(size=(24, 3)) + np.repeat([[-1.0], [1.0]], 12, axis=0), md.Labels(24)
    f = md.Hyperplane(X)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 5 * md.mean(md.hinge(y * f))),
                         [abs(md.sum(y)) <= 4, md.cvxpy_constraint(f, lambda w, b: w >= 0)])
    found = [problem.solve(relaxation, random_state=0) for relaxation in ("sdp", "weight-lifting", "alternating")]
    assert "failed" not in {one.status for one in found} and min(one.weights.min() for one in found) >= -1e-5


def test_no_bound_is_given_that_a_negative_term_would_break():
    _, y, f = model(0)
    term = md.cvxpy_term(f, lambda w, b: cp.sum(w) - 3)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(y * f)) + term), [md.sum(y) == 0])
    with pytest.raises(RefusalError, match="may be negative"):
        problem.solve("sdp")
    with pytest.raises(RefusalError, match="none here"):
        problem.solve("exact")
    with pytest.raises(RefusalError, match="knows nothing of the terms"):
        problem.solve("alternating", "newton")
    assert problem.solve("alternating", "scs", random_state=0).bound == -np.inf


@pytest.mark.parametrize("function, words", [
    (lambda w, b: -cp.sum_squares(w), "expected one convex number"), (lambda w, b: w, "expected one convex number")])
def test_what_is_not_convex_is_refused(function, words):
    _, y, f = model(0)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(y * f)) + md.cvxpy_term(f, function)))
    with pytest.raises(DeclarationError, match=words):
        problem.solve("alternating")
    rule = md.cvxpy_constraint(f, lambda w, b: cp.norm(w) >= 1)
    with pytest.raises(DeclarationError, match="no convex constraint"):
        md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(y * f))), [rule]).solve("alternating")


def test_they_say_what_they_cannot_stand_beside():
    _, y, f = model(0)
    with pytest.raises(GrammarError, match="a function of a hyperplane"):
        md.cvxpy_term(y, lambda w, b: 0)
    with pytest.raises(GrammarError, match="beside other norms"):
        md.Problem(md.Minimize(md.sq_norm(f) + md.norm(f) + md.mean(md.hinge(y * f)) + md.cvxpy_term(f, cp.norm)))


def test_one_problem_is_kept_and_its_parameters_live():
    _, y, f = model(0)
    lam = md.Parameter(2.0, name="lam")
    fixed = [y == np.array([1, 1, 1, -1, -1, -1])]
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + lam * md.mean(md.hinge(y * f))), fixed)
    compiled = problem.compile("supervised", "clarabel")
    kept = compiled.cvxpy
    for lam.value in (2.0, 5.0):
        assert compiled.cvxpy is kept
        assert kept.solve(solver="CLARABEL") == pytest.approx(problem.solve().value, rel=1e-5)
        assert compiled.solve().value == pytest.approx(problem.solve().value, rel=1e-5)
    assert "weights" in {parameter.name() for parameter in kept.parameters()}


@pytest.mark.parametrize("relaxation", ["supervised", "alternating", "sdp"])
def test_a_changed_copy_comes_back_as_it_judges_the_declared_problem(relaxation):
    phi, y, f = model(1)
    known = [y == np.array([1, 1, 1, -1, -1, -1])] if relaxation == "supervised" else [abs(md.sum(y)) <= 2]
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 4 * md.mean(md.hinge(y * f))), known)
    compiled, least = problem.compile(relaxation, "clarabel"), problem.solve("exact").value
    kept = compiled.cvxpy
    first = next(x for x in kept.variables() if x.name() == ("d" if relaxation == "sdp" else "V"))
    changed = cp.Problem(kept.objective, [*kept.constraints, first[-1] == 0 if first.ndim == 2 else first[-1] >= 0.1])
    found = compiled.solve_cvxpy(changed, random_state=0)
    assert found.verify() and found.bound <= least + 1e-9 and found.value >= least - 1e-7
    assert "changed in CVXPY" in found.message
    if relaxation == "supervised":
        w = cp.Variable()
        margins = cp.multiply([1, 1, 1, -1, -1, -1], phi[:, 0] * w)
        hand = cp.Problem(cp.Minimize(cp.square(w) / 2 + 2 * cp.sum(cp.pos(1 - margins)) / 3)).solve(solver="CLARABEL")
        assert found.value == pytest.approx(hand, rel=1e-6) and abs(found.weights[1]) < 1e-7
    with pytest.raises(RefusalError, match="over the variables of compiled.cvxpy"):
        compiled.solve_cvxpy(cp.Problem(cp.Minimize(cp.square(cp.Variable()))))


@pytest.mark.parametrize("name, package, options, one", [
    ("PIQP", "piqp", {"eps_abs": 1e-12, "eps_rel": 1e-12}, {"max_iter": 1}),
    ("QOCO", "qoco", {"abstol": 1e-11, "reltol": 1e-11}, {"max_iters": 1}), ("DAQP", "daqp", {}, {"iter_limit": 1})])
def test_any_solver_of_cvxpy_by_name_equals_newton_and_takes_its_options(name, package, options, one):
    pytest.importorskip(package)
    _, y, f = model(2)
    fixed = [y == np.array([1, 1, 1, -1, -1, -1])]
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 4 * md.mean(md.odm(y * f))), fixed)
    compiled = problem.compile("supervised", md.Solver(f"cvxpy:{name}", **options))
    kept = compiled.cvxpy
    found = compiled.solve_cvxpy(kept, tol=1e-9)  # fitted by it alone
    assert found.value == pytest.approx(problem.solve("supervised", "newton").value, rel=1e-7)
    try:
        assert problem.solve("supervised", md.Solver(f"cvxpy:{name}", **one)).status == "iteration_limit"
    except md.errors.SolverError as error:
        assert name in str(error)


@pytest.mark.parametrize("relaxation", ["alternating", "sdp"])
def test_constraints_that_exclude_each_other_are_infeasible(relaxation):
    _, y, f = model(1)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 2 * md.mean(md.hinge(y * f))),
                         [md.cvxpy_constraint(f, lambda w, b: [w[0] >= 1, w[0] <= -1])])
    with pytest.raises(InfeasibleError, match="no hyperplane satisfies the constraints written in CVXPY"):
        problem.solve(relaxation, random_state=0)
