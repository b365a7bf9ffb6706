"""Mutation testing: change one operator, constant or condition at a time, and see whether the module's tests notice.

    python tests/mutation.py                                  # a sample of every group
    python tests/mutation.py labelset --sample 0 --jobs 4     # every mutant of one group
    python tests/mutation.py statuses --lines compiled.py:390-430

Each mutant lives in a copy of the project. It is killed when a test fails or hangs; survivors are printed with their
line. A survivor is a missing test, or a change that means the same. Of the latter there are a few kinds:

- a comparison that differs at equality alone, against a tolerance or another allowance for rounding (`>=` for `>`);
- a block size, a limit on work or memory, or a start that an exact method forgets: speed changes, no answer;
- a short cut (`if all free: return`) whose long way gives the same;
- a margin that is safe by more than it need be, as a slack halved or taken in thirds.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from queue import SimpleQueue

import pytest

ROOT = Path(__file__).resolve().parent.parent

LOADED = ("scipy.optimize", "scipy.sparse.linalg", "scipy.linalg", "scipy.stats", "cvxpy", "networkx", "hypothesis",
          "sklearn.cluster", "sklearn.svm", "clarabel", "highspy")

GROUPS = {  # what is mutated, and the tests that are to notice, those that see most in a second first
    "certificates": (["margindsl/program/*certificate*.py"], [
        "tests/unit/program/test_lift.py", "tests/unit/program/test_cases.py",
        "tests/unit/drivers/test_branching.py::test_the_certificate_is_checked_leaf_by_leaf",
        "tests/unit/drivers/test_branching.py::test_a_cover_needs_both_signs_unless_one_is_mirrored_or_infeasible",
        "tests/unit/program/test_component_rows.py::test_a_wide_certificate_is_nearly_that_of_the_dense_rows",
        "tests/unit/program/test_component_rows.py::test_an_excess_of_wide_features_is_bounded_closely"]),
    "labelset": (["margindsl/labelset/*.py"], [
        "tests/unit/labelset", "tests/property/test_labelset.py", "tests/property/test_partition.py",
        "tests/unit/runtime/test_naming.py"]),
    "presolve": (["margindsl/runtime/presolve.py", "margindsl/program/passes.py",
                  "margindsl/program/absorption.py"], [
        "tests/unit/program/test_magnitudes.py", "tests/unit/program/test_absorption.py",
        "tests/unit/runtime/test_presolve.py", "tests/unit/program/test_scaling.py",
        "tests/property/test_envelopes.py::test_an_envelope_is_convex_in_the_square_and_below_both_signs",
        "tests/unit/runtime/test_earlier.py"]),
    "proof": (["margindsl/proof/*.py"], [
        "tests/unit/proof/test_witnesses.py", "tests/unit/proof/test_files.py",
        *(f"tests/unit/proof/test_corruptions.py::{test}[{kind}]" for kind in range(0, 75, 4) for test in (
            "test_true_answers_are_proved", "test_false_claims_are_caught", "test_forged_witnesses_prove_nothing_false"
        ))]),
    "statuses": (["margindsl/runtime/solving.py", "margindsl/runtime/undo.py", "margindsl/runtime/verdict.py",
                  "margindsl/runtime/attempts.py", "margindsl/runtime/stages.py", "margindsl/runtime/naming.py",
                  "margindsl/drivers/guard.py"], [
        "tests/unit/drivers/test_guard.py", "tests/unit/runtime/test_errors.py",
        "tests/unit/runtime/test_sound_bound.py", "tests/unit/runtime/test_handover.py",
        "tests/unit/runtime/test_naming.py", "tests/unit/runtime/test_interrupts.py"]),
}

COMPARISONS = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
               ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is}
OPERATIONS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.BitAnd: ast.BitOr,
              ast.BitOr: ast.BitAnd, ast.FloorDiv: ast.Mult, ast.Pow: ast.Mult, ast.MatMult: ast.MatMult}
FUNCTIONS = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "any": "all", "all": "any",
             "floor": "ceil", "ceil": "floor", "argmin": "argmax", "argmax": "argmin", "abs": "float"}
METHODS = FUNCTIONS | {"abs": "positive"}

Edit = Callable[[ast.AST], None]


@dataclass(frozen=True)
class Site:
    """Where a module can be changed: a node, counted as `ast.walk` does, and one of its changes."""

    path: Path
    line: int
    place: int
    number: int


@dataclass(frozen=True)
class Mutant:
    """One change of one module."""

    path: Path
    line: int
    before: str
    after: str
    source: str


def setter(name: str, value: object) -> Edit:
    return lambda node: setattr(node, name, value)


def edits(node: ast.AST) -> Iterator[Edit]:
    """Yield the changes of one node, each made in place."""
    match node:
        case ast.Compare(ops=ops):
            for place, op in enumerate(ops):
                yield lambda n, p=place, o=op: n.ops.__setitem__(p, COMPARISONS[type(o)]())
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if OPERATIONS.get(type(op), type(op)) is not type(op):
            yield setter("op", OPERATIONS[type(op)]())
        case ast.BoolOp(op=op):
            yield setter("op", ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.USub()):
            yield setter("op", ast.UAdd())
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield setter("operand", ast.UnaryOp(ast.Not(), operand))
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            yield setter("test", ast.UnaryOp(ast.Not(), test))
        case ast.Constant(value=bool() as value):
            yield setter("value", not value)
        case ast.Constant(value=int() | float() as value):
            yield setter("value", value + 1 if abs(value) >= 1e-3 or value == 0 else value * 1e6)
        case ast.Call(func=ast.Name(id=name)) if name in FUNCTIONS:
            yield lambda n: setattr(n.func, "id", FUNCTIONS[n.func.id])
        case ast.Call(func=ast.Attribute(attr=name)) if name in METHODS:
            yield lambda n: setattr(n.func, "attr", METHODS[n.func.attr])
        case ast.Expr(value=ast.Call()):
            yield setter("value", ast.Constant(None))


def untouched(tree: ast.AST) -> set[int]:
    """Return nodes that no test is to notice: annotations, decorators and messages of errors."""
    roots: list[ast.AST | None] = []
    for node in ast.walk(tree):
        match node:
            case ast.arg() | ast.AnnAssign():
                roots.append(node.annotation)
            case ast.FunctionDef():
                roots += [node.returns, *node.decorator_list]
            case ast.ClassDef():
                roots += node.decorator_list
            case ast.Raise() | ast.JoinedStr():
                roots.append(node)
    return {id(inner) for root in roots if root is not None for inner in ast.walk(root)}


def sites(path: Path) -> Iterator[Site]:
    """Yield every place of a module where something can be changed, and the number of the change there."""
    tree = ast.parse(path.read_text())
    kept = untouched(tree)
    for place, node in enumerate(ast.walk(tree)):
        if id(node) not in kept and hasattr(node, "lineno"):
            for number, _ in enumerate(edits(node)):
                yield Site(path, node.lineno, place, number)


def mutant_at(site: Site) -> Mutant:
    """Return a module with one change."""
    tree = ast.parse(site.path.read_text())
    node = next(islice(ast.walk(tree), site.place, None))
    before = ast.unparse(node).splitlines()[0]
    next(islice(edits(node), site.number, None))(node)
    ast.fix_missing_locations(tree)
    return Mutant(site.path.relative_to(ROOT), site.line, before, ast.unparse(node).splitlines()[0], ast.unparse(tree))


def run_tests(place: Path, tests: list[str], limit: float, keeps: bool = False) -> bool | None:
    """Return whether the tests pass in a copy of the project; None when they hang. `keeps` the compiled modules."""
    child = get_context("fork").Process(target=run_here, args=(place, tests, keeps))
    child.start()
    child.join(limit)
    if child.exitcode is None:
        os.killpg(child.pid, signal.SIGKILL)
        child.join()
        return None
    return child.exitcode == 0


def run_here(place: Path, tests: list[str], keeps: bool) -> None:
    """Run tests in this process, which has loaded what the project needs, but nothing of the project."""
    os.setsid()
    os.chdir(place)
    sys.path[:0] = [str(place), str(place / "solvers")]
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:2])
    sys.dont_write_bytecode = not keeps
    silence = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(silence, stream)
    os._exit(int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests])))


def copied(place: Path) -> Path:
    """Copy what tests need into a folder."""
    for name in ("margindsl", "solvers", "tests"):
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", place)
    return place


def survives(mutant: Mutant, tests: list[str], limit: float, places: SimpleQueue[Path]) -> bool:
    """Return whether the tests pass with the change, made in a copy that nobody else has now, and undone."""
    place = places.get()
    try:
        (place / mutant.path).write_text(mutant.source)
        return run_tests(place, tests, limit) is True
    finally:
        shutil.copy2(ROOT / mutant.path, place / mutant.path)  # with its time, so that it is not compiled again
        places.put(place)


def chosen(group: str, sample: int, seed: int, lines: str | None) -> list[Site]:
    """Return a sample of the places of a group, all of them for 0, those of some lines where asked."""
    found = [m for pattern in GROUPS[group][0] for path in sorted(ROOT.glob(pattern)) for m in sites(path)]
    if lines:
        name, _, span = lines.partition(":")
        first, last = map(int, span.split("-")) if span else (0, sys.maxsize)
        found = [m for m in found if m.path.name == name and first <= m.line <= last]
    return random.Random(seed).sample(found, sample) if 0 < sample < len(found) else found


def try_group(group: str, options: argparse.Namespace) -> int:
    """Print the survivors of a group and return how many there are."""
    tests = GROUPS[group][1]
    tried = [mutant_at(site) for site in chosen(group, options.sample, options.seed, options.lines)]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        first, places, began = copied(Path(folder) / "0"), SimpleQueue[Path](), time.monotonic()
        if not run_tests(first, tests, 3600, keeps=True):
            raise SystemExit(f"{group}: the tests fail without any change; mend them first")
        limit = 4 * (time.monotonic() - began) + 30
        for job in range(options.jobs):
            places.put(first if not job else shutil.copytree(first, Path(folder) / str(job)))
        alive, began = [], time.monotonic()
        for mutant, lives in zip(tried, pool.map(lambda m: survives(m, tests, limit, places), tried)):
            if lives:
                alive.append(mutant)
                print(f"survived {mutant.path}:{mutant.line}: {mutant.before}  ->  {mutant.after}", flush=True)
    print(f"{group}: {len(tried) - len(alive)} of {len(tried)} killed in {time.monotonic() - began:.0f} s", flush=True)
    return len(alive)


def load() -> None:
    """Load once what every run of the tests would load again, on one BLAS thread."""
    os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
    for name in LOADED:
        importlib.import_module(name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", choices=[[], *GROUPS], help=", ".join(GROUPS))
    parser.add_argument("--sample", type=int, default=40, help="mutants a group; 0 for all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--lines", help="module.py or module.py:first-last")
    options = parser.parse_args()
    load()
    print(f"{sum(try_group(group, options) for group in options.groups or GROUPS)} survived")


if __name__ == "__main__":
    main()
