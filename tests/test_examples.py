"""Every example runs as a script, and ends in an assertion."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(example, tmp_path):
    done = subprocess.run([sys.executable, str(example)], cwd=tmp_path, capture_output=True, text=True, timeout=300,
                          env={**os.environ, "PYTHONWARNINGS": "error::UserWarning"})
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_short_and_asserts(example):
    text = example.read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert ast.get_docstring(tree)
    assert len(text.splitlines()) < 60
    assert any(isinstance(node, ast.Assert) for node in ast.walk(tree))


def test_examples_are_found():
    assert len(EXAMPLES) >= 7
