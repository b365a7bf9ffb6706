"""Figures of the house: what the size and the shape of the source are held to.

Run ``python tests/meta/house.py [--json FILE] [--list]``; `--list` names the places behind each figure. Lines are
those of every file of the package, as ``wc -l`` counts them; code is what is neither blank nor docstring. Names that
only type checkers import count as imports: a circle of those is a circle for whoever reads.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"margindsl": ROOT / "margindsl", "margindsl_solvers": ROOT / "solvers" / "margindsl_solvers"}
LONGEST_MODULE, LONGEST_JUDGE = 500, 625  # the judge stands alone, in one file
SAME = 7  # lines of code that make a duplicate
TWO = re.compile(r"(is|has|are|of)_(binary|two\w*|signs?|cluster\w*|multi\w*|numbers)|two|binary|two_clusters"
                 r"|refusal_of_numbers")
COUNTED = {"clusters", "k", "K", "outputs", "classes"}  # compared with one, two or three
CODINGS = {"binary", "crammer-singer", "simplex"}
KINDS = re.compile(r"\b(CrammerSinger|Coded|ClusterForm|Cluster\w+)\b")
SHAPELESS = ("calculus", "points", "metrics", "language", "frozen")
SHAPED = re.compile(r"\b(ndim|shape)\b")
# The private words that the glossary of the documentation replaces, as parts of names in the source.
RETIRED = frozenset((
    "evidence", "claim", "claims", "claimed", "worth", "pays", "account", "book", "affords", "timely", "turns",
    "payable", "paid", "owed", "levelled", "holder", "floor", "usual", "endless", "pull", "spread", "gather", "settled",
    "told", "said", "earned", "standing", "orientation", "aligned", "place", "places", "walks"))
FOREIGN = {"np", "math", "client"}
# Lines: 44,000 without blocks of hyperplanes, gauges and states, which may take 2,500.
GOALS = {"lines": 46_500, "lines of code": 25_500, "files": 270, "loose modules": 6, "frame lines per body line": 0.7,
         "mentions of two clusters": 40, "isinstance on forms": 2, "frames from solve to the solver": 8,
         "circles of imports": 0, "modules over 500 lines": 0, "duplicates": 0, "retired words": 0,
         "files entered by a solve, k=2": 80, "functions entered, k=2": 600, "files entered by a solve, k=3": 95,
         "functions entered, k=3": 750}
ENTERED = ("alternating", "sdp", "minimax", "weight-lifting", "exact")
LIMIT = 2.0  # seconds of a solve that is looked into


@cache
def sources() -> dict[str, tuple[str, ast.Module]]:
    """Return text and tree of every module by its dotted name."""
    found = {}
    for package, folder in PACKAGES.items():
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            name = ".".join((package, *(part for part in parts if part != "__init__")))
            text = path.read_text()
            found[name] = (text, ast.parse(text))
    return found


@cache
def nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Return a tree and all below it, walked once."""
    return tuple(ast.walk(tree))


def room_of(module: str) -> str:
    """Return the room of a module: the folder or file below the package."""
    package, _, rest = module.partition(".")
    return "solvers" if package == "margindsl_solvers" else (rest.partition(".")[0] or "__init__")


def _docstring(node: ast.AST) -> ast.Expr | None:
    """Return the statement that is the docstring of a module, class or function."""
    body = getattr(node, "body", None)
    first = body[0] if isinstance(body, list) and body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return first
    return None


def lines_by_room() -> dict[str, tuple[int, int]]:
    """Return all lines and the lines of code of every room."""
    count: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for module, (text, tree) in sources().items():
        lines = text.splitlines()
        documented = {line for node in nodes(tree) if (first := _docstring(node))
                for line in range(first.lineno, (first.end_lineno or first.lineno) + 1)}
        code = sum(bool(line.strip()) and number not in documented for number, line in enumerate(lines, 1))
        total, own = count[room_of(module)]
        count[room_of(module)] = total + len(lines), own + code
    return dict(sorted(count.items()))


def frame_per_body() -> float:
    """Return the lines of functions before their first statement (signature, docstring), over those from there on."""
    frame = body = 0
    for _, (_, tree) in sources().items():
        for node in nodes(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                start = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                rest = node.body[1:] if _docstring(node) else node.body
                end = node.end_lineno or node.lineno
                begins = rest[0].lineno if rest else end + 1
                frame, body = frame + begins - start, body + end + 1 - begins
    return round(frame / body, 3)


def loose_modules() -> list[str]:
    """Return the modules at the top of the package that are no rooms."""
    return [path.name for path in sorted(PACKAGES["margindsl"].glob("*.py"))]


def retired_words() -> list[str]:
    """Return the names in the source that hold a word the glossary has replaced, those of other libraries left out."""
    found = set()
    for module, (_, tree) in sources().items():
        for node in nodes(tree):
            for field in ("id", "attr", "arg", "name"):
                name = getattr(node, field, None)
                foreign = isinstance(node, ast.Attribute) and ast.unparse(node.value) in FOREIGN
                if isinstance(name, str) and RETIRED & set(name.lower().split("_")) and not foreign:
                    found.add(f"{module}:{getattr(node, 'lineno', 0)} {name}")
    return sorted(found)


def _tells_two(node: ast.AST) -> bool:
    """Return whether an expression tells two clusters from several, one way of writing labels from another, or forms
    and arrays of the one from those of the other: by a name, a number, a coding, a class, a shape."""
    if isinstance(node, (ast.Attribute, ast.Name)) and isinstance(node.ctx, ast.Load):
        return bool(TWO.fullmatch(node.attr if isinstance(node, ast.Attribute) else node.id))
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass", "hasattr", "getattr"):
        return bool(KINDS.search(ast.unparse(node.args[1])))
    if isinstance(node, ast.Subscript):
        return ast.unparse(node.slice).rpartition(".")[2] == "coding"
    if not isinstance(node, ast.Compare):
        return False
    sides = [node.left, *node.comparators]
    values = [part.value for side in sides for part in ast.walk(side) if isinstance(part, ast.Constant)]
    said = ast.unparse(node)
    if CODINGS & {value for value in values if isinstance(value, str)} or (None in values and "codes" in said):
        return True
    small = any(isinstance(side, ast.Constant) and side.value in (1, 2, 3) for side in sides)
    counted = any(ast.unparse(side).rpartition(".")[2].rstrip(")") in COUNTED for side in sides)
    return small and bool(counted or (SHAPED.search(said) and "shape[0]" not in said))


def _refused(tree: ast.AST) -> set[int]:
    """Return what is asked of the shape of an argument before it is refused: no way of going on."""
    found = set()
    for node in nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.body[0], ast.Raise) and SHAPED.search(ast.unparse(node.test)):
            found |= {id(part) for part in ast.walk(node.test)}
    return found


def branches_on_two_clusters() -> list[str]:
    """Return the places that tell two clusters from several, wherever it is done: in a test, an index, a product.

    Rooms whose arrays have nothing to do with clusters are not asked for shapes.
    """
    found = set()
    for module, (_, tree) in sources().items():
        refused = _refused(tree)
        for node in nodes(tree):
            if id(node) not in refused and _tells_two(node) and not (
                    room_of(module) in SHAPELESS and SHAPED.search(ast.unparse(node))):
                found.add((module, node.lineno))
    return [f"{module}:{line}" for module, line in sorted(found)]


def isinstance_on_forms() -> list[str]:
    """Return the places that ask an object which standard form it is."""
    found = []
    for module, (_, tree) in sources().items():
        for node in nodes(tree):
            asks = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance"
            if asks and re.search(r"\w+Form\b", ast.unparse(node.args[1])):
                found.append(f"{module}:{node.lineno}")
    return found


def _imports(tree: ast.Module, modules: set[str]) -> set[str]:
    """Return the modules of the project that a module imports, inside functions and for type checkers too."""
    found = set()
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names & modules
            found |= {node.module} if names - modules else set()
    return found & modules


def circles() -> list[str]:
    """Return the groups of modules that import one another round about (strongly connected components)."""
    modules = set(sources()) - {"margindsl"}  # the root imports nothing where it runs: names are loaded when used
    graph = {module: _imports(sources()[module][1], modules) - {module} for module in modules}
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in sorted(graph[module]):
            if other not in index:
                visit(other)
            if other in stack:
                low[module] = min(low[module], low[other])
        if low[module] == index[module]:
            place = stack.index(module)
            group = stack[place:]
            del stack[place:]
            if len(group) > 1:
                found.append(sorted(group))

    for module in sorted(graph):
        if module not in index:
            visit(module)
    return [" <-> ".join(group) for group in sorted(found)]


def long_modules() -> list[str]:
    """Return the modules of more than 500 lines."""
    counts = {module: len(text.splitlines()) for module, (text, _) in sources().items()}
    return [f"{module} ({count})" for module, count in counts.items()
            if count > (LONGEST_JUDGE if module == "margindsl.proof.check" else LONGEST_MODULE)]


def _statements(body: list[ast.stmt]) -> list[str]:
    """Return what a body says, a line a simple statement, without docstrings and the names of what it defines."""
    said: list[str] = []
    for node in body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        parts = [part for name in ("body", "orelse", "finalbody") for part in getattr(node, name, []) or []]
        if parts and isinstance(parts[0], ast.stmt):
            said.append(ast.unparse(node).partition("\n")[0])
            said.extend(_statements(parts))
        else:
            said.extend(ast.unparse(node).splitlines())
    return said


def _without_inner(node: ast.FunctionDef) -> list[ast.stmt]:
    """Return the body of a function without the functions it defines, which speak for themselves."""
    return [part for part in node.body if not isinstance(part, (ast.FunctionDef, ast.ClassDef))]


def duplicates() -> list[str]:
    """Return the pairs of functions that share seven statements in a row, word for word."""
    seen: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for module, (_, tree) in sources().items():
        for node in nodes(tree):
            if isinstance(node, ast.FunctionDef):
                said = _statements(_without_inner(node))
                for at in range(len(said) - SAME + 1):
                    seen[tuple(said[at:at + SAME])].append(f"{module}:{node.name}")
    pairs = {tuple(sorted(set(places))) for places in seen.values() if len(set(places)) > 1}
    return [" = ".join(places) for places in sorted(pairs)]


def frames() -> dict[str, tuple[int, int]]:
    """Return the calls from `problem.solve` to the solver's `solve`, the latter counted, by relaxation.

    Of the first form that is solved, and the most of any, as of a search in a tree. Measured by a solver that stands
    between and passes everything on.
    """
    sys.path[:0] = [str(ROOT), str(ROOT / "solvers")]
    from dataclasses import dataclass
    from typing import ClassVar

    import numpy as np

    import margindsl as md
    from margindsl.contract import Session, Solver

    depths: list[int] = []

    @dataclass(frozen=True, kw_only=True)
    class Probe(Solver):
        name: ClassVar[str] = "probe"
        warm_starts: ClassVar[bool] = True
        inner: Any = None

        def accepts(self, form: Any) -> Any:
            return self.inner.accepts(form)

        def open(self, form: Any) -> Session:
            return ProbeSession(self.inner.open(form))

    @dataclass(frozen=True)
    class ProbeSession(Session):
        inner: Session

        def solve(self, form: Any, budget: Any, start: Any = None) -> Any:
            depth, frame = 0, sys._getframe()
            while frame.f_code is not md.Problem.solve.__code__:
                depth, frame = depth + 1, frame.f_back  # type: ignore[assignment]
            depths.append(depth)
            return self.inner.solve(form, budget, start)

    X = np.random.default_rng(0).normal(size=(8, 2)) + np.repeat([[2.0], [-2.0]], 4, axis=0)
    y, f = md.Labels(8), md.Hyperplane(X)
    loss = md.mean(md.squared_hinge(y * f))
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 5 * loss), [abs(md.sum(y)) <= 2])
    found = {}
    for relaxation in ("alternating", "cccp", "sdp", "minimax", "weight-lifting", "exact"):
        chosen = problem.compile(relaxation).solver
        depths.clear()
        problem.solve(relaxation, Probe(inner=chosen), random_state=0)
        found[relaxation] = depths[0], max(depths)
    return found


def entered() -> dict[str, tuple[int, int]]:
    """Return the files and the functions of the two packages that one solve enters, by relaxation and clusters.

    Of 40 points, the squared hinge and bounds on the sizes; comprehensions are no functions, and what is run once when
    a module is loaded is left out by a solve before. A relaxation that refuses the clusters has no line.
    """
    return {f"{relaxation} k={k}": (len({code.co_filename for code in codes}), len(codes))
            for relaxation in ENTERED for k in (2, 3) if (codes := codes_entered(relaxation, k))}


def codes_entered(relaxation: str, clusters: int) -> set[CodeType]:
    """Return the code of the functions that a solve enters, nothing of one that is refused."""
    import numpy as np

    import margindsl as md

    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3)) + 2.0 * np.eye(3)[np.arange(40) % clusters]
    y, f = md.Labels(40, clusters=clusters), md.Hyperplane(X)
    margin = y * f if clusters == 2 else md.margin(y, f, coding="simplex")
    rows = [abs(md.sum(y)) <= 8] if clusters == 2 else [md.sizes(y, at_least=8)]
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 5 * md.mean(md.squared_hinge(margin))), rows)
    seen: set[CodeType] = set()

    def enter(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            seen.add(frame.f_code)

    try:
        problem.solve(relaxation, random_state=0, time_limit=LIMIT)
        problem._prepared, problem._sessions = None, {}
        sys.setprofile(enter)
        problem.solve(relaxation, random_state=0, time_limit=LIMIT)
    except md.errors.RefusalError:
        return set()
    finally:
        sys.setprofile(None)
    roots, nameless = tuple(f"{folder}/" for folder in PACKAGES.values()), ("comp>", "expr>")
    return {code for code in seen if code.co_filename.startswith(roots) and not code.co_name.endswith(nameless)}


def measure() -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Return the figures, and the places behind those that have any."""
    rooms, depth, inside = lines_by_room(), frames(), entered()
    places = {"loose modules": loose_modules(), "mentions of two clusters": branches_on_two_clusters(),
              "isinstance on forms": isinstance_on_forms(), "circles of imports": circles(),
              "modules over 500 lines": long_modules(), "duplicates": duplicates(), "retired words": retired_words()}
    figures: dict[str, Any] = {
        "lines": sum(total for total, _ in rooms.values()), "lines of code": sum(code for _, code in rooms.values()),
        "files": len(sources()), "frame lines per body line": frame_per_body(),
        **{name: len(found) for name, found in places.items()},
        "frames from solve to the solver": max(first for first, _ in depth.values())}
    for k in (2, 3):
        files, functions = zip(*(found for name, found in inside.items() if name.endswith(f"k={k}")))
        figures |= {f"files entered by a solve, k={k}": max(files), f"functions entered, k={k}": max(functions)}
    return {"figures": figures, "rooms": rooms, "frames": depth, "entered": inside}, places


def main(arguments: list[str] | None = None) -> None:
    """Print the figures beside their goals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", help="write the figures and their places to a file")
    parser.add_argument("--list", action="store_true", help="name the places behind the figures")
    options = parser.parse_args(arguments)
    found, places = measure()
    for name, goal in GOALS.items():
        value = found["figures"][name]
        print(f"{name:34} {value:9,}   goal {goal:6,}   {'holds' if value <= goal else 'short'}")
        for place in places.get(name, []) if options.list else []:
            print(f"    {place}")
    print("frames by relaxation, first and most: " + ", ".join(
        f"{name} {first} {most}" for name, (first, most) in found["frames"].items()))
    print("files and functions entered by a solve: " + ", ".join(
        f"{name} {files} {functions}" for name, (files, functions) in found["entered"].items()))
    print("lines and lines of code by room: " + ", ".join(
        f"{room} {total:,} {code:,}" for room, (total, code) in found["rooms"].items()))
    if options.json:
        Path(options.json).write_text(json.dumps({**found, "goals": GOALS, "places": places}, indent=1) + "\n")


if __name__ == "__main__":
    main()
