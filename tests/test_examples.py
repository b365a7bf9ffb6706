"""Every example runs, is short, draws a figure, and ends in an assertion."""

import ast
import runpy
import warnings
from pathlib import Path

import matplotlib
import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.fixture
def pyplot():
    """Return pyplot without a window and without the figures of other tests."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.close("all")
    yield pyplot
    pyplot.close("all")


@pytest.mark.pages
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_and_draws(example, pyplot, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        runpy.run_path(str(example))
    assert capsys.readouterr().err == ""
    assert pyplot.get_fignums()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_asks_a_question_is_short_and_asserts(example):
    text = example.read_text(encoding="utf-8")
    tree = ast.parse(text)
    question = ast.get_docstring(tree).splitlines()
    assert "?" in question[0] and question[1] == "=" * len(question[0])
    assert len(text.splitlines()) <= 25
    assert any(isinstance(node, ast.Assert) for node in ast.walk(tree))


def test_examples_are_found():
    assert len(EXAMPLES) >= 16
