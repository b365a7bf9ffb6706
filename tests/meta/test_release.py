"""What a release says of itself is said once: versions, dependencies and their licences."""

import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NEEDED = dict(re.fullmatch(r"([\w-]+)>=(.+)", line).groups() for line in PROJECT["dependencies"])
INSTALLED = {dist.name.lower() for dist in importlib.metadata.distributions()}
TABLE = dict(re.findall(r"^\| ([\w-]+) \| ([^|]+) \|", (ROOT / "docs" / "licences.md").read_text(encoding="utf-8"),
                        flags=re.MULTILINE))


def said(path):
    return (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.parametrize("path", ["docs/CITATION.cff", ".ci/conda/meta.yaml"])
def test_the_version_is_that_of_the_package(path):
    assert re.search(r'^ *version: "?([\d.]+)"?$', said(path), flags=re.MULTILINE)[1] == PROJECT["version"]


def test_the_conda_recipe_needs_what_the_package_needs():
    run = said(".ci/conda/meta.yaml").split("  run:\n")[1].split("\n\n")[0]
    listed = dict(re.findall(r"- ([\w-]+) >=(.+)", run))
    assert listed.pop("python") == PROJECT["requires-python"].removeprefix(">=")
    listed["cvxpy"] = listed.pop("cvxpy-base")  # cvxpy without the solvers that are listed beside it
    assert listed == {name: floor.partition(";")[0] for name, floor in NEEDED.items()}


def test_the_table_of_licences_has_every_dependency():
    assert set(NEEDED) <= set(TABLE)


@pytest.mark.parametrize("package", [name for name in NEEDED if name in INSTALLED])
def test_the_table_says_what_the_packages_say(package):
    told = importlib.metadata.metadata(package)
    words = " ".join([told.get("License-Expression") or told.get("License") or "",
                      *(line for line in told.get_all("Classifier") or () if line.startswith("License"))])
    assert ("GPL" in TABLE[package]) == bool(re.search(r"\bL?GPL", words[:400])), words[:400]


def test_no_relaxation_asks_for_a_solver_under_the_gpl():
    sources = [*(ROOT / "margindsl" / "relaxations").glob("*.py"), *(ROOT / "margindsl" / "recipes").glob("*.py")]
    assert sources and [path.name for path in sources if '"ecos"' in path.read_text(encoding="utf-8")] == []


def test_the_metadata_are_complete():
    assert PROJECT["authors"] == [{"name": "margindsl developers"}] and "Typing :: Typed" in PROJECT["classifiers"]
    assert all((ROOT / ".github" / name).is_file() for name in ("CONTRIBUTING.md", "SECURITY.md"))
