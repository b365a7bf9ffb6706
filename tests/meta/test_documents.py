"""Documents say what is true: their Python blocks run, and their tables match the code."""

import configparser
import re
import tomllib
from pathlib import Path

import pytest

from margindsl.language.grammar import RULES
from margindsl.runtime import relaxation_names, solvers

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
WITH_CODE = [page for page in PAGES if "```python" in page.read_text(encoding="utf-8")]


def blocks(page):
    """Return the Python blocks of a page, each at the line where it stands."""
    text = page.read_text(encoding="utf-8")
    for match in re.finditer(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL):
        yield "\n" * text[:match.start(1)].count("\n") + match.group(1)


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.name)
def test_python_blocks_run(page):
    namespace = {"__name__": page.stem}
    for block in blocks(page):
        exec(compile(block, str(page), "exec"), namespace)


def test_pages_with_code_are_found():
    names = {page.name for page in WITH_CODE}
    assert names >= {"README.md", "language.md", "grammar.md", "relaxations.md", "certificates.md", "extending.md"}


def test_every_grammar_rule_is_documented():
    page = (ROOT / "docs" / "grammar.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| ([A-Z_]+) \|", page, flags=re.MULTILINE))
    assert rows == set(RULES)
    for rule in RULES.values():
        assert rule.requirement.replace("|", "\\|") in page
        assert rule.repair.replace("|", "\\|") in page


@pytest.mark.parametrize("page", ["README.md", "docs/relaxations.md"])
def test_every_relaxation_is_listed(page):
    listed = set(re.findall(r"^\| `([a-z-]+)` \|", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert listed >= set(relaxation_names())


@pytest.mark.parametrize("page", ["README.md", "docs/solvers.md"])
def test_every_solver_is_listed(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [solver.name for solver in solvers() if f"`{solver.name}`" not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_index_lists_every_page():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert [page.name for page in PAGES[1:] if page.name != "index.md" and f"({page.name})" not in index] == []


def test_ci_runs_the_commands_of_the_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    install_and_run, install_and_test = re.findall(r"^```bash\n(.*)\n```$", readme, flags=re.MULTILINE)
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert install_and_test in lines
    assert install_and_run in lines


def test_architecture_contracts_name_every_solver():
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter", encoding="utf-8")
    listed = contracts["importlinter:contract:solvers-apart"]["modules"].split()
    metadata = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    targets = metadata["project"]["entry-points"]["margindsl.solvers"].values()
    assert {target.split(":")[0] for target in targets} == set(listed)


def test_cvxpy_is_imported_by_the_conic_bridge_alone():
    sources = [*(ROOT / "margindsl").rglob("*.py"), *(ROOT / "solvers").rglob("*.py")]
    importers = {path.name for path in sources
                 if re.search(r"^\s*(import|from) cvxpy", path.read_text(encoding="utf-8"), flags=re.MULTILINE)}
    assert importers and all(name.startswith("_conic") for name in importers)


def test_changelog_has_the_present_version():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert f"\n## {version}" in (ROOT / "docs" / "changelog.md").read_text(encoding="utf-8")
