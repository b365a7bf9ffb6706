"""Options of solvers are checked when the solver is made, and every value let through ends in a status."""

import dataclasses
import math

import numpy as np
import pytest

import margindsl as md
from margindsl.contract import OF_SOLVE, Budget, Solver, integers
from margindsl.errors import DeclarationError, UnknownNameError
from margindsl.runtime.options import SolveOptions
from margindsl.testing.solvers import standard_forms

NAMES = [info.name for info in md.solvers()]
WRONG = {
    "tol": (0, -1, math.nan, math.inf, "a", True),
    "max_iter": (0, -1, 2.5, math.nan, "a", True),
}


def options():
    """Return every option of every solver."""
    return [(name, field.name) for name in NAMES for field in dataclasses.fields(md.Solver(name))]


def test_every_option_declares_its_values():
    for name in NAMES:
        solver = type(md.Solver(name))
        assert set(solver.domains()) == set(solver.option_names())


@pytest.mark.parametrize(("name", "option"), options())
def test_values_of_a_wrong_kind_are_refused_at_once(name, option):
    for value in (math.nan, -1, "a", [1], *WRONG.get(option, ())):
        with pytest.raises(DeclarationError) as caught:
            md.Solver(name, **{option: value})
        assert str(caught.value).startswith(f"{name}({option}={value!r}): expected ")


@pytest.mark.parametrize(("name", "option"), options())
def test_none_is_a_value_only_where_the_words_say_so(name, option):
    words = type(md.Solver(name)).domains()[option].words
    if words.endswith("or None"):
        assert getattr(md.Solver(name, **{option: None}), option) is None
    else:
        with pytest.raises(DeclarationError, match=r"=None\): expected"):
            md.Solver(name, **{option: None})


@pytest.mark.parametrize(("name", "options", "words"), [
    ("newton", {"max_iter": None}, "newton(max_iter=None): expected an integer of at least 1"),
    ("newton", {"growth": 1}, "newton(growth=1): expected a finite number above 1"),
    ("mirror-prox", {"primal_weight": 0}, "mirror-prox(primal_weight=0): expected a positive finite number or None"),
    ("burer-monteiro", {"seed": -1}, "burer-monteiro(seed=-1): expected an integer of at least 0"),
    ("lbfgs", {"memory": 0}, "lbfgs(memory=0): expected an integer from 1 to 1000"),
    ("clarabel", {"verbose": 0}, "clarabel(verbose=0): expected True or False"),
    ("highs", {"verbose": 0}, "highs(verbose=0): expected True or False"),
    ("scs", {"max_iter": 0}, "scs(max_iter=0): expected an integer from 1 to 2147483647 or None"),
    ("clarabel", {"max_iter": 2**32}, "expected an integer from 1 to 2147483647 or None"),
    ("alternating-mu", {"exponent": 3}, "alternating-mu(exponent=3): expected a number in (0, 2]"),
    ("mirror-descent", {"sampling": "all"}, "(sampling='all'): expected one of 'auto', 'none', 'progressive'"),
])
def test_messages_name_solver_option_and_values(name, options, words):
    with pytest.raises(DeclarationError) as caught:
        md.Solver(name, **options)
    assert words in str(caught.value)


def test_numbers_of_numpy_are_taken_as_python_numbers():
    solver = md.Solver("newton", max_iter=np.int64(7), tol=np.float32(0.5), penalty=2)
    assert (type(solver.max_iter), type(solver.tol), type(solver.penalty)) == (int, float, float)
    assert solver == md.Solver("newton", max_iter=7, tol=0.5, penalty=2.0)
    assert md.Solver("scs", verbose=np.bool_(True)).verbose is True


@pytest.mark.parametrize(("name", "option", "words"), [
    ("newton", "time_limit", "Give problem.solve(time_limit=...)"),
    ("clarabel", "tol", "Give problem.solve(tol=...)"),
    ("newton", "verbose", "Give problem.solve(verbose=...)"),
    ("osqp", "time_limit", "Give problem.solve(time_limit=...)"),
])
def test_names_of_solve_are_led_to_it(name, option, words):
    with pytest.raises(UnknownNameError) as caught:
        md.Solver(name, **{option: 1})
    assert words in str(caught.value)


def test_names_of_solve_are_known_to_solvers():
    assert set(OF_SOLVE) == set(SolveOptions.__dataclass_fields__)


def test_a_solver_without_declared_options_is_checked_for_names_alone():
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Own(Solver):
        name = "own"
        free: object = None
        width: int = integers(2, 4).option(3)

        def accepts(self, form):
            raise NotImplementedError

        def open(self, form):
            raise NotImplementedError

    assert Own(free="anything").width == 3
    with pytest.raises(DeclarationError, match=r"own\(width=5\): expected an integer from 2 to 4"):
        Own(width=5)


EXTREME = {"tol": 1, "max_iter": 1, "penalty": 1e-9, "growth": 1.001, "dense_limit": 0, "memory": 1000,
           "patience": 1, "mix": 1e-12, "keep": 0, "seed": 2**70, "random_state": None, "primal_weight": 1e-6,
           "newton_limit": 0, "tau": 1e-9, "step_factor": 1e9, "exponent": 1e-9, "width": 10**9, "eta": 1e9,
           "max_basis": 10**12, "per_round": 10**12, "max_psd_order": 10**12, "max_entries": 10**12}


@pytest.mark.parametrize("name", NAMES)
def test_extreme_values_end_in_a_status(name):
    _, form = next((n, f) for n, f in standard_forms() if md.Solver(name).accepts(f))
    for option in type(md.Solver(name)).option_names():
        if option in EXTREME:
            beside = {"sampling": "labels"} if option in ("tau", "step_factor") else {}  # steps as printed have them
            if beside:
                with pytest.raises(DeclarationError, match="give sampling='labels', too"):
                    md.Solver(name, **{option: EXTREME[option]})
            solver = md.Solver(name, **{option: EXTREME[option]}, **beside)
            raw = solver.solve(form, Budget.within(5.0, tol=1e-4, max_iter=50))
            assert raw.status.value


@pytest.mark.parametrize(("recipe", "arguments", "words"), [
    ("ssodm", ([1, -1, 0, 0, 0, 0],), "mirror-prox(max_iter=0): expected an integer of at least 1"),
    ("odmc", (), "mirror-prox(max_iter=0): expected an integer of at least 1"),
])
def test_recipes_refuse_a_number_of_iterations_that_is_none(recipe, arguments, words):
    X = np.arange(12.0).reshape(6, 2)
    with pytest.raises(DeclarationError) as caught:
        getattr(md.recipes, recipe)(X, *arguments, max_iter=0)
    assert words in str(caught.value)
