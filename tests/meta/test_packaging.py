"""Entry points, layout and what `md.solvers()` lists."""

import importlib.metadata
import tomllib
from pathlib import Path

import pytest

import margindsl as md
from margindsl.contract import Solver
from margindsl.relaxations.relaxation import Relaxation

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
GROUPS = PROJECT["project"]["entry-points"]
TOP_LEVEL = {"LICENSE", "README.md", "docs", "examples", "margindsl", "pyproject.toml", "solvers", "tests"}
ROOMS = {
    "calculus", "cli", "drivers", "estimators", "features", "host", "labelset", "language", "program",
    "proof", "recipes", "relaxations", "runtime", "selection", "testing", "views"}
FILES = {"__init__.py", "__main__.py", "contract.py", "errors.py", "metrics.py", "py.typed", "typing.py"}


def test_one_version():
    assert PROJECT["project"]["version"] == md.__version__


@pytest.mark.parametrize("group", GROUPS)
def test_installed_entry_points_are_those_of_pyproject(group):
    installed = {p.name: p.value for p in importlib.metadata.entry_points(group=group)
                 if p.dist is not None and p.dist.name == "margindsl"}
    assert installed == GROUPS[group], "entry points changed: reinstall with `pip install -e .`"


@pytest.mark.parametrize("group,kind", [("margindsl.solvers", Solver), ("margindsl.relaxations", Relaxation)])
def test_entry_points_load_classes_of_their_name(group, kind):
    for point in importlib.metadata.entry_points(group=group):
        cls = point.load()
        assert issubclass(cls, kind) and cls.name == point.name and cls.summary
        assert cls() == cls()


def test_the_list_of_solvers():
    rows = {info.name: info for info in md.solvers()}
    assert set(GROUPS["margindsl.solvers"]) <= set(rows)
    for name, info in rows.items():
        assert info.accepts and info.version and info.kind in ("native", "through CVXPY"), name
        assert info.installed
    assert rows["mirror-prox"].kind == "native" and rows["scs"].kind == "through CVXPY"


def test_names_are_found_whatever_their_case():
    assert md.Solver("CLARABEL") == md.Solver("clarabel")
    assert md.Solver("Mirror-Prox").name == "mirror-prox"


def test_top_level_entries():
    found = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    generated = {name for name in found if name.endswith((".egg-info", "-demo.html")) or name in ("build", "dist")}
    assert found - generated <= TOP_LEVEL


def test_the_rooms_of_the_package():
    package = ROOT / "margindsl"
    rooms = {p.name for p in package.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert rooms <= ROOMS
    assert {p.name for p in package.iterdir() if p.is_file()} <= FILES
    assert {p.name for p in (ROOT / "solvers").iterdir() if p.is_dir()} == {"margindsl_solvers"}


@pytest.mark.parametrize("word", ["utils", "helpers", "common", "misc"])
def test_no_module_is_named_for_nothing(word):
    sources = [p for top in ("margindsl", "solvers") for p in (ROOT / top).rglob("*.py")]
    assert sources and not [p for p in sources if p.stem == word]


def test_only_one_room_imports_cvxpy():
    sources = [p for top in ("margindsl", "solvers") for p in (ROOT / top).rglob("*.py")]
    importing = {p.relative_to(ROOT).parent.as_posix() for p in sources
                 if any(line.strip().startswith(("import cvxpy", "from cvxpy")) for line in p.read_text().splitlines())}
    assert importing == {"solvers/margindsl_solvers/engines/conic"}
