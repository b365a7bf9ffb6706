"""Every public name is documented: one imperative sentence, parameters, and what its errors are."""

import importlib
import inspect
import re
from collections.abc import Mapping

import pytest

import margindsl as md
from margindsl import testing

PUBLIC = [(md, name) for name in md.__all__] + [(testing, name) for name in testing.__all__]
DECLARING = {"Raises", "Parameters", "Returns"}


def documented(obj):
    return inspect.getdoc(obj) or ""


def parameters_of(obj):
    try:
        signature = inspect.signature(obj)
    except (TypeError, ValueError):
        return []
    return [p.name for p in signature.parameters.values() if p.name not in ("self", "cls")]


@pytest.mark.parametrize("module,name", PUBLIC, ids=[name for _, name in PUBLIC])
def test_public_names_have_a_sentence(module, name):
    obj = getattr(module, name)
    if isinstance(obj, Mapping):
        return
    first = documented(obj).split("\n\n")[0]
    assert first and first.rstrip().endswith((".", ":")), first
    assert first[0].isupper() or first[0] in "(‖"


def is_function(module, name):
    return inspect.isfunction(getattr(module, name))


FUNCTIONS = [(m, n) for m, n in PUBLIC if is_function(m, n)]
SHORT = {"x", "g", "f", "arguments"}  # a formula of one expression, named in its sentence


@pytest.mark.parametrize("module,name", FUNCTIONS, ids=[n for _, n in FUNCTIONS])
def test_public_functions_document_their_parameters(module, name):
    obj = getattr(module, name)
    text, given = documented(obj), parameters_of(obj)
    if not set(given) - SHORT or "see `must_link`" in text or name == "Solver":
        return
    assert "Parameters\n----------" in text, name
    block = text.split("Parameters\n----------")[1].split("\n\n")[0]
    for parameter in given:
        assert re.search(rf"(^|[\s,*]){re.escape(parameter)}\b", block), f"{name}: {parameter}"


def public_classes():
    return [(m, n) for m, n in PUBLIC if inspect.isclass(getattr(m, n))]


@pytest.mark.parametrize("module,name", public_classes(), ids=[n for _, n in public_classes()])
def test_public_methods_have_docstrings(module, name):
    cls = getattr(module, name)
    for key, member in inspect.getmembers(cls):
        if key.startswith("_") or not (callable(member) or isinstance(member, property)):
            continue
        home = getattr(member, "__module__", None) or getattr(getattr(member, "fget", None), "__module__", "")
        if str(home).startswith("margindsl"):
            assert documented(member), f"{name}.{key}"


@pytest.mark.parametrize("room", ["language", "features", "calculus", "labelset", "program", "relaxations", "drivers",
                                  "runtime", "testing", "contract", "errors", "metrics"])
def test_every_module_says_what_it_is(room):
    module = importlib.import_module(f"margindsl.{room}")
    assert documented(module) and documented(module).split("\n")[0].endswith((".", ":"))
