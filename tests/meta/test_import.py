"""`import margindsl` stays light, and every lazy name resolves."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

import margindsl as md
from margindsl.features.kernels import NAMED
from margindsl.host.extensions import RELAXATIONS, SOLVERS, registered
from margindsl.runtime.options import SolveArguments, SolveOptions
from margindsl.typing import KernelName, RecipeName, RelaxationName, SolverName

ROOT = Path(__file__).resolve().parents[2]
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


def test_type_checkers_see_the_names_that_are_served():
    tree = ast.parse(Path(md.__file__).read_text(encoding="utf-8"))
    typed = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    seen = {name: node.module for node in ast.walk(typed) if isinstance(node, ast.ImportFrom) for alias in node.names
            for name in (importlib.import_module(node.module).__all__ if alias.name == "*" else
                         [alias.name] if alias.asname == alias.name else [])}
    assert set(seen) == {*md.__all__, *md._SUBPACKAGES} - {"Solver", "relaxations"}
    assert all(getattr(importlib.import_module(module), name) is getattr(md, name) for name, module in seen.items())


@pytest.mark.parametrize("names, known", [
    (RelaxationName, {"auto", *registered(RELAXATIONS)}), (SolverName, {"auto", *registered(SOLVERS)}),
    (KernelName, set(NAMED)), (RecipeName, set(md.recipes.__all__))])
def test_names_that_can_be_given_are_those_that_are_known(names, known):
    assert {name.partition(":")[0] for name in get_args(names)} == known  # "cvxpy:NAME" is one of a family


def test_options_of_solve_are_typed_as_they_are_checked():
    assert set(SolveArguments.__annotations__) == set(SolveOptions.__dataclass_fields__)


def test_both_packages_are_marked_as_typed():
    assert all((ROOT / place / "py.typed").is_file() for place in ("margindsl", "solvers/margindsl_solvers"))
