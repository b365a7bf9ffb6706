"""Documents say what is true: their Python blocks run, and their tables match the code."""

import argparse
import configparser
import dataclasses
import importlib
import inspect
import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
from meta import outputs

import margindsl as md
from margindsl import estimators
from margindsl.cli.main import build_parser
from margindsl.language.grammar import RULES
from margindsl.recipes.recipe import traits_of
from margindsl.runtime import relaxation_names, solvers
from margindsl.runtime.registry import make_solver

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = outputs.PAGES
RETIRED = ("affords", "earned", "endless", "evidence", "levelled", "owed", "payable", "pays", "settled", "timely",
           "told", "walks", "worth")  # words that the glossary has replaced
WITH_CODE = [page for page in PAGES if "```python" in page.read_text(encoding="utf-8")]


@pytest.mark.pages
@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.name)
def test_python_blocks_run_and_show_what_they_print(page):
    blocks = outputs.run(page)
    assert blocks
    faults = [f"{page.name}:{block.line}: {fault}" for block in blocks for fault in outputs.faults(block)]
    assert faults == [], f"python tests/meta/outputs.py --write {page.relative_to(ROOT)} writes what is printed"


def test_every_output_follows_a_block():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        shown = sum(match["output"] is not None for match in outputs.BLOCK.finditer(text))
        assert shown == text.count("\n```output\n"), page.name


def test_the_pages_are_no_longer_than_a_day_of_reading():
    prose = {page.name: re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
             for page in PAGES if page.name != "README.md" and page.parent in (DOCS, DOCS / "howto")}
    words = {name: len(text.split()) for name, text in prose.items()}  # code is run, and read where it is needed
    assert sum(words.values()) <= 24_500, sorted(words.items(), key=lambda item: -item[1])[:10]


def test_pages_use_no_retired_word():
    words = re.compile(rf"\b({'|'.join(RETIRED)})\b", flags=re.IGNORECASE)
    assert [(page.name, found) for page in PAGES for found in words.findall(page.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("shown, printed, same", [
    ("value  1.4983469", "value     1.498347", True), ("value 1.4983469", "value 1.6", False),
    ("gap 2.1e-09 %", "gap 0 %", True), ("gap 26.2 %", "gap 26 %", True), ("gap 26.2 %", "gap 36.2 %", False),
    ("16 of 40 points", "17 of 40 points", False), ("after 14 iterations", "after 16 iterations", True),
    ("took 0.12 s", "took 33 s", True), ("seconds   0.42", "seconds 1.00", True), ("bound none", "bound 1.2", False),
    ("name  value  seconds\n---- ---\na     1.00   0.2", "name   value   seconds\n---- ---\na      1.00    13.4", True),
    ("name   value   seconds\na      1.00    0.2", "name   value   seconds\na      2.00    0.2", False),
    ("a\nb", "a", False)])
def test_outputs_are_compared_by_words_and_by_rounded_numbers(shown, printed, same):
    assert (outputs.differences(shown, printed) == []) is same


@pytest.mark.parametrize("shown, printed, faults", [
    (None, "", 0), (None, "1\n", 1), ("1\n", "", 1), ("1\n", "1\n", 0), ("a\n" * 20, "a\n" * 20, 1)])
def test_a_block_shows_what_it_prints_and_nothing_else(shown, printed, faults):
    assert len(outputs.faults(outputs.Block(1, shown, printed))) == faults


def test_pages_with_code_are_found():
    names = {page.name for page in WITH_CODE}
    assert names >= {"README.md", "language.md", "grammar.md", "relaxations.md", "certificates.md", "solver.md"}


def test_every_grammar_rule_is_documented():
    page = (ROOT / "docs" / "grammar.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| ([A-Z_]+) \|", page, flags=re.MULTILINE))
    assert rows == set(RULES)
    for rule in RULES.values():
        assert rule.requirement.replace("|", "\\|") in page
        assert rule.repair.replace("|", "\\|") in page


@pytest.mark.parametrize("page", ["README.md", "docs/relaxations.md"])
def test_every_relaxation_is_listed(page):
    firsts = re.findall(r"^\| (`[^|]+`) \|", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert set(re.findall(r"`([a-z-]+)`", " ".join(firsts))) >= set(relaxation_names())


def test_every_solver_is_listed():
    text = (DOCS / "solvers.md").read_text(encoding="utf-8")
    assert [solver.name for solver in solvers() if f"`{solver.name}`" not in text] == []


def test_every_recipe_shows_its_declaration():
    page = (DOCS / "recipes.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^```\{declaration\} (\w+)\n```$", page, re.MULTILINE)) == set(md.recipes.__all__)


def test_the_readme_is_short_and_has_a_figure():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 90 and "![" in readme


def names(page, word):
    """Return whether a page has a word in code."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    fences = re.findall(r"^```\w*\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    code = "\n".join([*fences, *re.findall(r"`([^`]+)`", prose)])
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", code) is not None


def options_of(command):
    commands = next(action for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction))
    return {option for action in commands.choices[command]._actions for option in action.option_strings}


def test_every_option_of_the_command_line_is_documented():
    options = set().union(*map(options_of, ("demo", "solve", "compare", "cluster", "predict", "explain", "recipes")))
    assert sorted(option for option in options - {"-h", "--help"} if not names("cli.md", option)) == []


def test_the_page_says_which_commands_are_quiet():
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    said = re.search(r"`--quiet`, of (.*?), leaves", page, flags=re.DOTALL)
    commands = ("demo", "solvers", "relaxations", "solve", "compare", "certify", "explain")
    assert set(re.findall(r"`(\w+)`", said[1])) == {c for c in commands if "--quiet" in options_of(c)}


@pytest.mark.parametrize("recipe", md.recipes.__all__)
def test_every_argument_of_a_recipe_is_documented(recipe):
    arguments = inspect.signature(getattr(md.recipes, recipe)).parameters
    assert [argument for argument in arguments if not names("recipes.md", argument)] == []


@pytest.mark.parametrize("estimator", estimators.__all__)
def test_every_argument_of_an_estimator_is_documented(estimator):
    arguments = inspect.signature(getattr(estimators, estimator)).parameters
    pages = ("estimators.md", "recipes.md")  # those of recipes are on their page
    assert [argument for argument in arguments if not any(names(page, argument) for page in pages)] == []


def test_solutions_and_metrics_are_documented():
    said = {*vars(md.Solution), *md.Solution.__dataclass_fields__}
    inner = {"state", "weights", "bias", "decision", "features", "label_factor", "relaxation", "solver", "coding"}
    assert sorted(w for w in said - inner if not w.startswith("_") and not names("solving.md", w)) == []
    measures = [name for name, value in vars(md.metrics).items()
                if inspect.isfunction(value) and value.__module__ == "margindsl.metrics" and not name.startswith("_")]
    assert len(measures) >= 2 and [name for name in measures if not names("solving.md", name)] == []


def test_every_option_of_every_solver_is_listed_with_its_values():
    page = (ROOT / "docs" / "solvers.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (`[^|]*`) \| ([^|]+) \| ([^|]+) \| [^|]+ \|$", page, flags=re.MULTILINE)
    listed = {(name, option, words, default) for option, names, words, default in rows
              for name in re.findall(r"`([a-z-]+)`", names)}
    declared = set()
    for info in solvers():
        kind = type(make_solver(info.name))
        declared |= {(info.name, field.name, kind.domains()[field.name].words, repr(field.default))
                     for field in dataclasses.fields(kind)}
    assert listed == declared


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not source_of((page.parent / target).resolve()).exists()] == []


def source_of(target):
    """Return what a page of the site is made from: an example, or the file itself."""
    if target.parent == DOCS / "gallery":
        return ROOT / "examples" / ("README.rst" if target.name == "index.rst" else f"{target.stem}.py")
    if target.parent == DOCS / "gallery" / "images":
        return ROOT / "examples" / re.sub(r"sphx_glr_(\w+)_\d+\.png", r"\1.py", target.name)
    return target


def test_every_page_is_in_a_table_of_contents():
    listed = set()
    for page in PAGES[1:]:
        text = page.read_text(encoding="utf-8")
        for tree in re.findall(r"^```\{toctree\}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            entries = (re.sub(r".*<(.+)>", r"\1", line) for line in tree.splitlines() if line and line[0] != ":")
            listed |= {(page.parent / entry).resolve().with_suffix(".md") for entry in entries}
    assert set(PAGES[1:]) - listed == {DOCS / "index.md"}


@pytest.mark.parametrize("room", ("margindsl", "margindsl.estimators", "margindsl.recipes", "margindsl.views.plots",
                                  "margindsl.metrics", "margindsl.errors", "margindsl.testing",
                                  "margindsl_solvers.engines"))
def test_every_public_name_is_on_the_page_of_the_api(room):
    module = importlib.import_module(room)
    own = {name for name, value in vars(module).items()
           if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__}
    public = {name for name in getattr(module, "__all__", own) if callable(getattr(module, name))}
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    sections = re.findall(rf"^\.\. currentmodule:: {room}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert public and public - set(" ".join(sections).split()) == set()


def test_ci_runs_the_commands_of_the_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    install_and_run, install_and_test = re.findall(r"^```bash\n(.*)\n```$", readme, flags=re.MULTILINE)
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    lines = [line.strip() for line in script.splitlines()]
    assert [path for path in re.findall(r"\btests/[a-z0-9_/]+(?:\.py)?", script) if not (ROOT / path).exists()] == []
    install, test = install_and_test.split(" && ")
    assert any(line.startswith("environment") and line.endswith(install.removeprefix("pip install ")) for line in lines)
    assert test in lines
    assert any(line.startswith("row") and line.endswith(install_and_run.split(" && ")[1]) for line in lines)


def test_architecture_contracts_name_every_solver():
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter", encoding="utf-8")
    listed = contracts["importlinter:contract:solvers-apart"]["modules"].split()
    metadata = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    targets = metadata["project"]["entry-points"]["margindsl.solvers"].values()
    assert all(any(fnmatch(target.split(":")[0], pattern) for pattern in listed) for target in targets)


def test_cvxpy_is_imported_by_the_conic_bridge_alone():
    sources = [*(ROOT / "margindsl").rglob("*.py"), *(ROOT / "solvers").rglob("*.py")]
    importers = {path.parent.name for path in sources
                 if re.search(r"^\s*(import|from) cvxpy", path.read_text(encoding="utf-8"), flags=re.MULTILINE)}
    assert importers == {"conic"}


def test_changelog_has_the_present_version_and_is_short():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    text = (ROOT / "docs" / "changelog.md").read_text(encoding="utf-8")
    assert f"\n## {version}" in text and all(len(part.split()) <= 600 for part in text.split("\n## "))


@pytest.mark.parametrize("recipe", md.recipes.__all__)
def test_the_table_of_recipes_says_what_they_say_themselves(recipe):
    lines = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines if f"`{recipe}`" in line[:60]]
    traits = traits_of(getattr(md.recipes, recipe))
    assert traits.method and traits.declares
    assert any(row[1:3] == [traits.method, traits.declares] for row in rows)
