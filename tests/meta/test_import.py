"""`import margindsl` stays light, and every lazy name resolves."""

import subprocess
import sys

import pytest

import margindsl as md

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


def test_the_static_names_are_the_lazy_ones():
    """What type checkers see under TYPE_CHECKING is what `__getattr__` serves; words may be registered beside."""
    import ast
    import inspect

    tree = ast.parse(inspect.getsource(md))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    names = {a.asname or a.name for node in block.body if isinstance(node, ast.ImportFrom) for a in node.names}
    assert names <= set(md.__all__)
