"""A new user's first scripts: each is short, and runs as it stands beside its data."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

START = Path(__file__).parents[1] / "examples" / "start"
SCRIPTS = sorted(START.glob("*.py"))


def test_scripts_are_found():
    assert len(SCRIPTS) >= 6


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_script_runs(script, tmp_path):
    beside = shutil.copytree(START, tmp_path / "start")
    done = subprocess.run([sys.executable, script.name], cwd=beside, capture_output=True, text=True, timeout=300,
                          env={**os.environ, "PYTHONWARNINGS": "error::UserWarning", "MPLBACKEND": "Agg"})
    assert done.returncode == 0, done.stderr
    assert done.stderr == "" and done.stdout


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_script_is_short_and_asserts(script):
    text = script.read_text(encoding="utf-8")
    tree = ast.parse(text)
    said = tree.body[0]
    assert ast.get_docstring(tree)
    code = [line for line in text.splitlines()[said.end_lineno:] if line.strip()]
    assert len(code) <= 12
    assert any(isinstance(node, ast.Assert) for node in ast.walk(tree))
