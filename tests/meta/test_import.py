"""`import margindsl` stays light, and every lazy name resolves."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

import margindsl as md
from margindsl import typing
from margindsl.runtime.options import SolveArguments, SolveOptions

spec = importlib.util.spec_from_file_location("stub", Path(__file__).with_name("stub.py"))
stub = importlib.util.module_from_spec(spec)
spec.loader.exec_module(stub)

HEAVY = ("cvxpy", "scipy", "sklearn", "numba", "pandas", "networkx", "matplotlib")


def run_python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_importing_the_package_loads_nothing_heavy():
    code = f"import sys, margindsl; print([m for m in {HEAVY!r} if m in sys.modules])"
    assert run_python(code) == "[]"


def test_importing_the_package_does_not_import_the_solvers():
    assert run_python("import sys, margindsl; print('margindsl_solvers' in sys.modules)") == "False"


@pytest.mark.parametrize("name", md.__all__)
def test_every_lazy_name_resolves(name):
    assert getattr(md, name) is not None
    assert name in dir(md)


def test_an_unknown_attribute_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'nosuch'"):
        md.nosuch  # noqa: B018


@pytest.mark.parametrize("place", stub.STUBS)
def test_type_checkers_see_the_names_that_are_served(place):
    written = (stub.ROOT / place).read_text(encoding="utf-8")
    assert written == stub.STUBS[place](), "run `python tests/meta/stub.py`"


@pytest.mark.parametrize("name", ["RelaxationName", "SolverName", "KernelName", "RecipeName"])
def test_names_that_can_be_given_are_those_that_are_known(name):
    assert set(get_args(getattr(typing, name))) == stub.known_names()[name]


def test_options_of_solve_are_typed_as_they_are_checked():
    assert set(SolveArguments.__annotations__) == set(SolveOptions.__dataclass_fields__)


def test_both_packages_are_marked_as_typed():
    assert all((stub.ROOT / place / "py.typed").is_file() for place in ("margindsl", "solvers/margindsl_solvers"))
