"""Options of solve, path and compare: read at the door, before anything is solved."""

import warnings

import numpy as np
import pytest

import margindsl as md
from margindsl.errors import DeclarationError, TrivialityWarning, UnknownNameError

X = np.array([[-2.0], [-1.5], [-1.0], [1.0], [1.6], [2.0]])


def problem(weight=4.0):
    y, f = md.Labels(len(X)), md.Hyperplane(X)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + weight * md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= 0])


@pytest.mark.parametrize("options", [
    {"max_iter": np.uint8(50)}, {"tol": np.float32(1e-5)}, {"time_limit": np.int32(30)},
    {"random_state": np.uint16(3)}], ids=str)
def test_numbers_of_numpy_are_numbers(options):
    plain = {name: value.item() for name, value in options.items()}
    assert problem().solve("cccp", **{"random_state": 0} | options).value == problem().solve(
        "cccp", **{"random_state": 0} | plain).value


@pytest.mark.parametrize("options,words", [
    ({"max_iter": 0}, "max_iter=0.: expected a positive integer"),
    ({"max_iter": True}, "max_iter=True"), ({"max_iter": 2.0}, "max_iter=2.0"), ({"max_iter": np.nan}, "max_iter=nan"),
    ({"tol": 0.0}, "tol=0.0.: expected a number between"), ({"tol": True}, "tol=True"), ({"tol": "1"}, "tol='1'"),
    ({"tol": np.nan}, "tol=nan"), ({"tol": np.array([1e-3])}, "tol=array"), ({"tol": 1e-3j}, "tol=0.001j"),
    ({"time_limit": 0}, "time_limit=0.: expected a positive number"), ({"time_limit": "1"}, "time_limit='1'"),
    ({"time_limit": True}, "time_limit=True"), ({"time_limit": np.nan}, "time_limit=nan"),
    ({"random_state": -1}, "random_state=-1"), ({"random_state": 1.5}, "random_state=1.5"),
    ({"random_state": "0"}, "random_state='0'"), ({"callback": 3}, "callback=3"),
    ({"warm_start": [[1], [-1]]}, "given list, expected an earlier Solution, or one label for each point")], ids=str)
def test_other_values_are_refused_at_every_door(options, words):
    lam = md.Parameter(4.0)
    doors = (lambda: problem().solve("cccp", **options), lambda: md.compare(problem(), "cccp", **options),
             lambda: problem().compile("cccp").solve(**options),
             lambda: problem(lam).path(lam, [1.0], relaxation="cccp", **options))
    for door in doors:
        with pytest.raises(DeclarationError, match=words):
            door()


def test_unknown_options_are_refused_at_every_door():
    lam = md.Parameter(4.0)
    for door in (lambda: problem().solve("cccp", tolerance=1), lambda: md.compare(problem(), "cccp", tolerance=1),
                 lambda: problem().compile("cccp").solve(tolerance=1),
                 lambda: problem(lam).path(lam, [1.0], tolerance=1)):
        with pytest.raises(UnknownNameError, match="unknown option of solve .* 'tolerance'. Did you mean 'tol'"):
            door()


@pytest.mark.parametrize("start", [np.ones(6), ["mixed"], None, "mixd"], ids=str)
def test_starts_that_are_none_list_those_there_are(start):
    with pytest.raises(UnknownNameError, match="start of Alternating .* Known: consensus, kmeans, known, mixed"):
        md.Alternating(start=start)


def test_compare_takes_one_name_as_well_as_several():
    expected = problem().solve("cccp", "newton", random_state=0).value
    for relaxations, solvers in (("cccp", "newton"), (md.CCCP(), md.Solver("newton")), (("cccp",), ["newton"]),
                                 ({"cccp": 1}, iter(["newton"]))):
        (row,) = md.compare(problem(), relaxations, solvers, random_state=0).rows
        assert (row.relaxation, row.solver, row.solution.value) == ("cccp", "newton", expected)


@pytest.mark.parametrize("relaxations,solvers,words", [
    (["cccp", "ccp"], None, "unknown relaxation 'ccp'. Did you mean 'cccp'"),
    (["cccp"], ["newtn"], "unknown solver 'newtn'. Did you mean 'newton'"),
    (["cccp", 3], None, "relaxation=3: expected a name"), ("cccp", [3.5], "solver=3.5: expected a name"),
    (7, None, "relaxation=7: expected a name"), ("newton", None, "'newton' is a solver")])
def test_compare_refuses_what_does_not_exist_before_it_solves(relaxations, solvers, words):
    seen = []
    with pytest.raises((UnknownNameError, DeclarationError), match=words):
        md.compare(problem(), relaxations, solvers, progress=seen.append)
    assert not seen


def test_what_a_relaxation_refuses_keeps_its_row():
    table = md.compare(problem(), ["supervised", "cccp"], random_state=0)
    assert [row.solution is None for row in table.rows] == [True, False]
    assert "label components are unknown" in table.rows[0].refusal


def test_path_names_a_value_before_it_solves_any():
    lam, seen = md.Parameter(4.0, name="lam"), []
    with pytest.raises(DeclarationError, match="given 'x', expected a finite real number"):
        problem(lam).path(lam, [1.0, "x"], callback=lambda progress: seen.append(progress))
    assert lam.value == 4.0 and not seen
    with pytest.raises(DeclarationError, match="`lam`: is -1 and turns a loss concave"):
        problem(lam).path(lam, iter([1.0, -1.0]), callback=lambda progress: seen.append(progress))
    assert lam.value == 4.0 and not seen


@pytest.mark.parametrize("call", [
    lambda bare: bare.solve("cccp"), lambda bare: md.compare(bare, "cccp"),
    lambda bare: bare.path(bare.parameters[0], [1.0], relaxation="cccp")], ids=["solve", "compare", "path"])
def test_warnings_point_at_the_line_that_called(call):
    y, f = md.Labels(len(X)), md.Hyperplane(X, bias=True)
    bare = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.Parameter(4.0) * md.mean(md.hinge(y * f))))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(bare)
    assert {one.filename for one in caught if issubclass(one.category, TrivialityWarning)} == {__file__}


@pytest.mark.parametrize("relaxation", ["alternating", "sdp", "minimax", "exact"])
def test_seconds_of_the_stages_add_up_to_the_total(relaxation):
    declared = problem()
    for solution in (declared.solve(relaxation, random_state=0), declared.compile(relaxation).solve(random_state=0)):
        stages = dict(solution.timings)
        total = stages.pop("total")
        assert 0.9 * total - 0.02 <= sum(stages.values()) <= total + 1e-3


def test_formulations_over_seeds_are_compared_by_name():
    X = np.random.default_rng(0).normal(size=(30, 2)) + 3 * (np.arange(30)[:, None] % 2)
    made = {}
    for name, loss in (("odm", md.odm), ("hinge", md.hinge)):
        y, f = md.Labels(30), md.Hyperplane(X)
        made[name] = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 5 * md.mean(loss(y * f))), [md.sizes(y, 10)])
    table = md.compare(made, "alternating", truth=np.arange(30) % 2, seeds=3, verbose=0)
    assert [(row.problem, row.seed) for row in table.rows] == [(name, seed) for name in made for seed in range(3)]
    spread, alike = table.summary(), table.agreement()
    assert list(spread["problem"]) == ["odm", "hinge"] and alike.shape == (6, 6) and np.allclose(np.diag(alike), 1)
    assert np.allclose(spread["agreement"], [np.mean(alike.to_numpy()[k:k + 3, k:k + 3][np.triu_indices(3, 1)])
                                             for k in (0, 3)])
    assert "problem" in str(table) and "bound" not in repr(table) and table.bound == -np.inf
    assert table.only("odm").best().value == min(row.solution.value for row in table.rows[:3])
    with pytest.raises(ValueError, match=r"table.only\('odm'\).best\(\)"):
        table.best()
    for first in (3, np.int64(3)):
        seeded = md.compare(made["odm"], "alternating", seeds=2, random_state=first, verbose=0)
        assert [row.solution.origin["random_state"] for row in seeded.rows] == [3, 4]
    with pytest.raises(DeclarationError, match="seeds=0"):
        md.compare(made, "alternating", seeds=0)


@pytest.mark.parametrize("relaxation,width,loss", [
    (None, 0.01, md.hinge), ("exact", 0.01, md.logistic), ("sdp", 0.1, md.logistic), ("alternating", 0.1, md.odm)])
def test_errors_that_the_caller_has_numpy_raise_do_not_end_a_solve(relaxation, width, loss):
    X = np.random.default_rng(0).normal(size=(14, 3))
    with np.errstate(all="raise"):
        y, f = md.Labels(14), md.Hyperplane(X, kernel=md.RBF(width))
        found = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(loss(y * f))), [abs(md.sum(y)) <= 4]).solve(
            relaxation, random_state=0)
        assert np.all(np.isfinite(found.decision_function(50 * X)))
