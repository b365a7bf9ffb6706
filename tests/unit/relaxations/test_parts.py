"""Bounds by parts: below the optimum by enumeration, no lower than the weight lift's, judged group by group."""

from __future__ import annotations

import joblib
import numpy as np
import pytest

import margindsl as md
from margindsl.errors import DeclarationError, RefusalError
from margindsl.proof.check import check
from margindsl.runtime.judging import written
from margindsl.runtime.problem import choose_relaxation

pytestmark = pytest.mark.filterwarnings("ignore::margindsl.errors.TrivialityWarning")


def clouds(n: int, d: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) + 1.5 * rng.choice([-1, 1], n)[:, None] / np.sqrt(d)


def declared(X: np.ndarray, constraints: int = 0, k: int = 2, loss: object = md.odm, **plane: object) -> md.Problem:
    y, f = md.Labels(len(X), k), md.Hyperplane(X, **{"centre": False, **plane})
    margin = y * f if k == 2 else md.margin(y, f, coding="simplex")
    rules = [y[0] == y[1], y[2] != y[3], y[4] == 1, abs(md.sum(f)) <= 3, *([abs(md.sum(y)) <= 2] if k == 2 else [])]
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 5 * md.mean(loss(margin))), rules[:constraints])


@pytest.mark.parametrize(("constraints", "k", "groups", "loss"), [
    (0, 2, "exact", md.odm), (3, 2, "lift", md.odm), (5, 2, "exact", md.hinge), (4, 2, "lift", md.logistic),
    (2, 3, "lift", md.hinge)])
def test_bounds_are_below_the_optimum_and_above_the_weight_lift(constraints, k, groups, loss):
    problem = declared(40.0 * clouds(9 if constraints in (0, 3) else 7, 2, constraints), constraints, k, loss)
    optimum = problem.solve(md.Exact(), random_state=0).value
    lifted = problem.solve("weight-lifting", random_state=0)
    with joblib.parallel_config("threading"):
        solution = problem.solve(md.Parts(size=4, groups=groups, n_jobs=2), random_state=0)
    assert lifted.bound - 1e-6 * abs(optimum) <= solution.bound <= optimum * (1 + 1e-9)
    report = solution.verify()
    assert report and not report.unverified


def test_one_group_of_all_points_proves_the_optimum():
    solution = declared(clouds(12, 2)).solve(md.Parts(size=12, groups="exact"), random_state=0)
    assert solution.bound == pytest.approx(solution.value, rel=2e-3)


def test_the_judge_believes_no_forged_group():
    lifted, solution = (declared(clouds(60, 2), 3).solve(relaxation, random_state=0)
                        for relaxation in ("weight-lifting", md.Parts(size=30)))
    assert solution.bound > 1.2 * lifted.bound
    header, arrays = written(solution)
    assert header["kind"] == "parts" and check(header, arrays)
    forgeries = [
        {"shares": arrays["shares"] * 1.01}, {"owner": 0 * arrays["owner"]}, {"ceilings": 2 * arrays["ceilings"]},
        {"A:0": 2 * arrays["A"], "B:0": 2 * arrays["B"]}, {"owner": np.roll(arrays["owner"], 1)},
        {"cannot:0": np.array([[2, 3]])}, {"d:0": 0.9 * arrays["d:0"]}, {"q:1": 1.1 * arrays["q:1"]},
        {"u:1": 1.2 * arrays["u:1"]}, {"theta:0": 2 * arrays["theta:0"]}]
    for change in forgeries:
        assert not check(header | {"bound": 0.5 * (header["bound"] + header["value"])}, arrays | change), list(change)


def test_what_joins_groups_is_refused():
    for plane, loss in (({"bias": True}, md.odm), ({}, lambda g: md.pos(md.Scalar(nonneg=True) - g))):
        with pytest.raises(RefusalError, match="of their own"):
            declared(clouds(9, 2), 4, loss=loss, **plane).solve(md.Parts())


def test_groups_have_ten_times_as_many_points_as_columns():
    for columns, most, count in ((2, None, 4), (10, None, 2), (10, 40, 6), (30, None, 2)):
        relaxation = md.Parts(largest=most, cut_rounds=0, polish="none")
        solution = declared(4.0 * clouds(240, columns)).solve(relaxation, random_state=0)
        assert sum(record.stage == "parts" for record in solution.history) == count


def test_groups_that_a_stop_leaves_open_prove_what_their_losses_do():
    problem, seen = declared(2.0 * clouds(100, 2)), []
    lifted = problem.solve("weight-lifting", random_state=0)
    solution = problem.solve(md.Parts(size=20), random_state=0, callback=lambda progress: (
        seen.append(progress.stage) or seen.count("parts") == 4))
    assert solution.status == "interrupted" and solution.message == "1 of 5 groups were not bounded to the end"
    assert solution.bound > lifted.bound and solution.verify()


def test_groups_whose_known_points_cancel_are_judged():
    X = np.array([[0.0], [2.0], [1.0]])
    y, f = md.Labels(3), md.Hyperplane(X)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 0.855 * md.mean(md.odm(y * f, 0.4, 0.2))),
                         [y[:2] == [-1, -1], abs(md.sum(y)) <= 2])
    solution = problem.solve(md.Parts(size=2, groups="exact"), random_state=0)
    assert solution.bound == pytest.approx(solution.value, rel=1e-6) and solution.verify()


def test_auto_takes_groups_where_squares_bound_them():
    lifts = "weight-lifting"
    for columns, loss, chosen in ((3, md.odm, "parts"), (3, md.hinge, lifts), (11, md.odm, lifts)):
        program = declared(clouds(210, columns), loss=loss).program()
        assert choose_relaxation(program).name == chosen
    problem = declared(2.0 * clouds(210, 3))
    lifted, solution = problem.solve(lifts, random_state=0), problem.solve(random_state=0)
    assert solution.bound > lifted.bound + 0.05 * lifted.value
    assert solution.verify()


def test_groups_that_begin_too_small_grow():
    problem = declared(2.0 * clouds(60, 5))
    small, grown = (problem.solve(md.Parts(size=5, largest=most), random_state=0) for most in (None, 30))
    assert small.bound == pytest.approx(problem.solve("weight-lifting", random_state=0).bound, rel=1e-3)
    assert grown.bound > small.bound + 0.05 * abs(grown.value) and grown.verify()
    with pytest.raises(DeclarationError, match="largest is at least the size"):
        md.Parts(size=60, largest=30)
