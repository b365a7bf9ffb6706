"""The commands but for `demo`: each returns its exit code, 0, or 3 when a solve was stopped early."""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import make_dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

import margindsl as md
from margindsl.cli.declaration import declare, links_of, points_like, read_points, solve_options
from margindsl.cli.files import (
    check_targets,
    column,
    column_words,
    print_json,
    read_frame,
    read_known,
    read_labels,
    write_frame,
)
from margindsl.cli.main import spoken
from margindsl.contract import Status
from margindsl.errors import DeclarationError
from margindsl.estimators import MarginClusterer, SpatialSign
from margindsl.labelset import Names
from margindsl.metrics import clustering_accuracy
from margindsl.proof.check import compare_features
from margindsl.recipes.recipe import traits_of
from margindsl.runtime.compare import Comparison, Row
from margindsl.runtime.registry import as_relaxation, as_solver
from margindsl.runtime.stored import StoredProof
from margindsl.selection.stability import MOST
from margindsl.typing import FloatArray
from margindsl.views.notebook import Listing

FIELDS = ("status", "value", "bound", "gap", "estimate", "relaxation", "solver", "labels", "decision", "margins",
          "cluster_sizes", "message", "unverified", "timings")


def solve(arguments: argparse.Namespace) -> int:
    """Solve, write index,label,decision,margin, and summarise on standard error; labels are written in any case."""
    check_targets(arguments)
    X, truth = read_points(arguments)
    solution = declare(arguments, X).solve(arguments.relaxation, arguments.solver, **solve_options(arguments))
    with ExitStack() as parts:  # each is worth having where another could not be written; the files first
        if not arguments.quiet:
            accuracy = "" if truth is None else f"\naccuracy  {100 * clustering_accuracy(truth, solution.labels):.2f} %"
            summary = f"method    {solution.relaxation} with {solution.solver}\n{spoken(solution.summary())}{accuracy}"
            parts.callback(print, summary, file=sys.stderr)
        if not arguments.json or arguments.output is not None:
            parts.callback(write_labels, arguments.output, solution, arguments.names)
        if arguments.json:
            parts.callback(print_json, fields_of(solution))
        if arguments.report is not None:
            parts.callback(written, solution.report, arguments.report)
        if arguments.save is not None:
            parts.callback(written, solution.save, arguments.save)
    return 3 if is_stopped(solution, arguments) else 0


def cluster(arguments: argparse.Namespace) -> int:
    """Cluster as `MarginClusterer` does; write index,cluster,decision,margin, or the table with a column more."""
    check_targets(arguments)
    X, truth = read_points(arguments)
    check_appended(arguments, arguments.frame)
    n = X.shape[0]
    links: dict[str, Any] = {word: pairs for word, pairs in zip(("must_link", "cannot_link"), links_of(arguments, n))
                             if len(pairs)}
    if arguments.known is not None:
        index, values = read_known(arguments.known, n, MOST if arguments.clusters == "auto" else arguments.clusters,
                                   names=arguments.names)
        links["labels"] = np.full(n, -1)
        links["labels"][index] = values
    if arguments.keys is not None:
        links["groups"] = arguments.keys
    talk = 0 if arguments.quiet else 1 if arguments.verbose else None
    model = MarginClusterer(
        arguments.clusters, lam=arguments.lam or "auto", min_size=arguments.min_size, max_size=arguments.max_size,
        kernel=arguments.kernel, time_limit=arguments.time_limit, verbose=talk, random_state=arguments.seed)
    solution = model.fit(X, **links).solution_
    if model.stability_ is not None and not arguments.quiet:
        print(model.stability_, file=sys.stderr)
    if solution is None:
        raise DeclarationError("--clusters auto: no clusters come again in other points, so that one is chosen; "
                               "--clusters 2 parts the points all the same")
    if arguments.append:
        frame = arguments.frame.assign(cluster=model.labels_)
    else:
        frame = points_of(solution, arguments.names)
        frame.insert(1, "cluster", model.labels_)
    with ExitStack() as parts:
        if not arguments.quiet:
            sizes = ", ".join(f"{count} in {number}" for number, count in enumerate(np.bincount(model.labels_)))
            held = int(model.held_.sum())
            lines = [f"{n} points, {X.shape[1]} column{'s' * (X.shape[1] != 1)}: {sizes}",
                     *([f"{held} of them kept there by sizes, links or known labels"] if held else []),
                     *([] if truth is None else [
                         f"{pd.crosstab(pd.Series(truth, name='class'), pd.Series(model.labels_, name='cluster'))}",
                         f"accuracy  {100 * clustering_accuracy(truth, model.labels_):.2f} %"])]
            parts.callback(print, "\n".join(lines), file=sys.stderr)
        if not arguments.json or arguments.output is not None:
            parts.callback(write_frame, arguments.output, frame)
        if arguments.json:
            parts.callback(print_json, fields_of(solution) | {"clusters": model.labels_})
        if arguments.report is not None:
            parts.callback(written, solution.report, arguments.report)
        if arguments.save is not None:
            view = None if model.view_ is None else model.view_.measures()
            kept = replace(solution, origin={**solution.origin, "table": arguments.table | {"view": view}})
            parts.callback(written, kept.save, arguments.save)
    return 3 if solution.state in (Status.TIME_LIMIT, Status.INTERRUPTED) else 0


def compare(arguments: argparse.Namespace) -> int:
    """Compare and print the table, or write it as CSV; the code is 1 when every combination was refused."""
    check_targets(arguments)
    relaxations = _split(arguments.relaxations, "--relaxations")
    solvers: list[Any] = [None] if arguments.solvers is None else _split(arguments.solvers, "--solvers")
    for name in relaxations:
        as_relaxation(name)
    for name in filter(None, solvers):
        as_solver(name)
    X, truth = read_points(arguments)
    problem = declare(arguments, X)
    problem.program()
    table = run_combinations(problem, list(itertools.product(relaxations, solvers)), truth, quiet=arguments.quiet,
                             **solve_options(arguments))
    rows = [row.as_dict() for row in table.rows]
    if arguments.json:
        print_json({"rows": rows, "bound": table.bound})
    if arguments.output is not None:
        write_frame(arguments.output, pd.DataFrame(rows))
    elif not arguments.json:
        print(table)
    if arguments.report is not None:
        written(table.report, arguments.report)
    solved = [row.solution for row in table.rows if row.solution is not None]
    return 1 if not solved else 3 if any(is_stopped(solution, arguments) for solution in solved) else 0


def run_combinations(problem: md.Problem, combinations: Sequence[tuple[Any, Any]], truth: Any, *, quiet: bool = False,
                     **options: Any) -> Comparison:
    """Run combinations one by one, a line each; Ctrl-C ends the list after the present one."""
    rows: list[Row] = []
    for relaxation, solver in combinations:
        rows += md.compare(problem, [relaxation], [solver], truth, **options).rows
        row, solution = rows[-1], rows[-1].solution
        if not quiet:
            end = "refused" if solution is None else f"value {solution.value:.6g}"
            print(f"{row.relaxation} with {row.solver}: {end}, {row.seconds:.1f} s", file=sys.stderr)
        if solution is not None and solution.state is Status.INTERRUPTED:
            break
    return Comparison(tuple(rows), truth is not None)


def certify(arguments: argparse.Namespace) -> int:
    """Print value, bound and gap of labels; with ``--output``, write the best labels found."""
    check_targets(arguments)
    X, _ = read_points(arguments)
    labels = read_labels(arguments.labels, X.shape[0], arguments.names)
    if arguments.recipe is None:
        arguments.clusters = max(arguments.clusters, len(set(labels)))
    problem = declare(arguments, X)
    found = md.certify(problem, labels, arguments.relaxation, arguments.solver, **solve_options(arguments))
    if arguments.json:
        print_json({"value": found.value, "bound": found.bound, "gap": found.gap, "violations": found.violations,
                    "labels": found.labels, "better": found.better and fields_of(found.better)})
    else:
        print(spoken(found.summary()))
    if arguments.output is not None:
        write_labels(arguments.output, found.better or found.fitted, arguments.names)
    return 3 if is_stopped(found.answer, arguments) else 0


def predict(arguments: argparse.Namespace) -> int:
    """Write index,cluster,decision of new points, or their table with a column more, by a model of `cluster --save`."""
    check_targets(arguments)
    solution = md.load(arguments.file)
    table = solution.origin.get("table")
    if not isinstance(table, dict):
        raise DeclarationError(f"{arguments.file} says nothing about the columns of a table; give a file that "
                               "`margindsl cluster --save` wrote")
    frame = read_frame(arguments.data)
    check_appended(arguments, frame)
    X = points_like(frame, table, arguments.data)
    seen = X if table["view"] is None else SpatialSign.of_measures(table["view"]).transform(X)
    decision = solution.decision_function(seen).reshape(len(frame), -1)
    clusters = Names(solution.clusters).read(solution.predict(seen))
    if arguments.json:
        print_json({"clusters": clusters, "decision": decision})
    if arguments.append:
        found = frame.assign(cluster=clusters)
    else:
        found = decided(decision, None if arguments.index is None else column_words(
            frame, column(frame, arguments.index, arguments.data), arguments.data))
        found.insert(1, "cluster", clusters)
    if not arguments.json or arguments.output is not None:
        write_frame(arguments.output, found)
    return 0


def explain(arguments: argparse.Namespace) -> int:
    """Print the stages of the compilation with their sizes."""
    X, _ = read_points(arguments)
    print(declare(arguments, X).compile(arguments.relaxation, arguments.solver).explain())
    return 0


def report(arguments: argparse.Namespace) -> int:
    """Write the page of a saved solution."""
    arguments.output = arguments.output or f"{arguments.file.removesuffix('.npz')}.html"
    check_targets(arguments)
    written(md.Solution.load(arguments.file).report, arguments.output)
    return 0


def verify(arguments: argparse.Namespace) -> int:
    """Print what was proved, what was not and why; the code is 0 when nothing failed and nothing is open, else 1."""
    solution = md.Solution.load(arguments.file)
    found = solution.verify()
    if arguments.data is not None:
        proof = solution.basis
        if not isinstance(proof, StoredProof) or "phi" not in proof.arrays:
            raise DeclarationError("verify: the file holds no features to compare with the data; load it with its "
                                   "problem, Solution.load(path, problem)")
        failures = compare_features(proof.header, proof.arrays, read_points(arguments)[0])
        if failures:
            (found.failures if proof.header["linear"] else found.unverified).extend(failures)
        else:
            found.proved.append(f"features are those of {arguments.data}")
    print(found)
    return 0 if found and not found.unverified else 1


def names(arguments: argparse.Namespace) -> int:
    """Print the list of solvers, relaxations or recipes."""
    found = LISTS[arguments.command]()
    if arguments.names:
        print("\n".join(one.name for one in found))
    elif arguments.json:
        print(json.dumps([vars(one) for one in found], indent=1, ensure_ascii=False))
    else:
        print(found)
    return 0


RecipeInfo = make_dataclass("RecipeInfo", ["name", "method", "declares"])
LISTS: dict[str, Callable[[], Listing[Any]]] = {
    "solvers": md.solvers, "relaxations": md.relaxations, "recipes": lambda: Listing(
        RecipeInfo(name, known.method, known.declares) for name in md.recipes.names()
        if (known := traits_of(getattr(md.recipes, name))))}


def write_labels(target: str | None, solution: md.Solution, names: Sequence[str] | None = None) -> None:
    """Write one row a point: index, label, decision values, margin."""
    frame = points_of(solution, names)
    frame.insert(1, "label", solution.labels)
    write_frame(target, frame)


def check_appended(arguments: argparse.Namespace, frame: pd.DataFrame) -> None:
    """Refuse to append a column ``cluster`` to a table that has one, which would be lost."""
    if arguments.append and "cluster" in frame:
        raise DeclarationError("--append: the table has a column 'cluster' already; rename it, or leave --append out")


def points_of(solution: md.Solution, names: Sequence[str] | None = None) -> pd.DataFrame:
    """Return name or number, decision values and margin of every point."""
    return decided(solution.decision.reshape(len(solution.labels), -1), names).assign(margin=solution.margins)


def decided(decision: FloatArray, names: Sequence[str] | None) -> pd.DataFrame:
    """Return name or number of points beside their decision values (n, q)."""
    frame = pd.DataFrame(decision, columns=["decision", *(f"decision_{c}" for c in range(1, decision.shape[1]))])
    frame.insert(0, "index", range(len(frame)) if names is None else names)
    return frame


def written(write: Callable[[str], None], target: str) -> None:
    """Write a file, or name it where it cannot be written."""
    try:
        write(target)
    except OSError as error:
        raise DeclarationError(f"cannot write {target}: {error.strerror}") from None


def fields_of(solution: md.Solution) -> dict[str, Any]:
    """Return what a program that reads the answer asks for."""
    found = {name: getattr(solution, name) for name in FIELDS}
    return found | {"timings": dict(found["timings"])}


def is_stopped(solution: md.Solution, arguments: argparse.Namespace) -> bool:
    """Return whether the user's own limits or Ctrl-C ended the solve."""
    limits = {Status.TIME_LIMIT, Status.INTERRUPTED} | ({Status.ITERATION_LIMIT} if arguments.max_iter else set())
    return solution.state in limits


def _split(text: str, option: str) -> list[str]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise DeclarationError(f"{option} {text!r}: expected names, comma separated")
    return parts
