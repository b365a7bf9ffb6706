"""A new user's first scripts: each is short, and runs as it stands beside its data."""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

START = Path(__file__).parents[1] / "examples" / "start"
SCRIPTS = sorted(START.glob("*.py"))
RUNNER = """
import contextlib, io, json, runpy, sys, traceback
ran = {}
for name in sys.argv[1:]:
    raised, out, err = "", io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            runpy.run_path(name, run_name="__main__")
        except Exception:
            raised = traceback.format_exc()
    ran[name] = raised, out.getvalue(), err.getvalue()
print(json.dumps(ran))
"""


def test_scripts_are_found():
    assert len(SCRIPTS) >= 6


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Run all in one process, which imports the library once, and return what each raised and wrote."""
    beside = shutil.copytree(START, tmp_path_factory.mktemp("start") / "start")
    done = subprocess.run([sys.executable, "-c", RUNNER, *(script.name for script in SCRIPTS)], cwd=beside,
                          capture_output=True, text=True, timeout=300, check=True,
                          env={**os.environ, "PYTHONWARNINGS": "error::UserWarning", "MPLBACKEND": "Agg"})
    assert done.stderr == ""
    return json.loads(done.stdout)


@pytest.mark.pages
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_script_runs(script, ran):
    raised, out, err = ran[script.name]
    assert raised == err == "" and out


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_script_is_short_and_asserts(script):
    text = script.read_text(encoding="utf-8")
    tree = ast.parse(text)
    said = tree.body[0]
    assert ast.get_docstring(tree)
    code = [line for line in text.splitlines()[said.end_lineno:] if line.strip()]
    assert len(code) <= 12
    assert any(isinstance(node, ast.Assert) for node in ast.walk(tree))
