"""Run a paper's experiments again, cell by cell, and put the results beside its printed figures.

    python examples/papers/reproduce.py cpmmc --sets "digits 3-8,digits 1-7" --quick

Finished cells are lines of ``cells.jsonl``; the same command goes on from there. docs/reproduce.md says more.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cells import Cell, run_cell
from data import Dataset, MissingDataError, load_for, printed_table
from joblib import Parallel, delayed
from protocols import LIMITS, PROTOCOLS, Condition, Protocol, describe
from tables import LEGEND, RULES, as_text, tabulated
from tqdm.auto import tqdm

from margindsl.errors import DeclarationError, MarginError, UnknownNameError


@dataclass(frozen=True)
class Part:
    """Represent one data set under one condition."""

    condition: Condition
    dataset: str  # as printed
    data: Dataset | None  # None when it is skipped
    note: str = ""  # why it is skipped, or how it differs from the paper's set


def main(argv: Sequence[str] | None = None) -> int:
    """Run the cells that are not finished, write and print the table.

    The code is 0; 1 after an error or without any answer; 3 when the run was interrupted.
    """
    arguments = parser().parse_args(argv)
    try:
        return run(arguments)
    except (MarginError, OSError) as error:
        print(f"reproduce: {' '.join(str(error).split())}", file=sys.stderr)
        return 1


def run(arguments: argparse.Namespace) -> int:
    protocol, folder = PROTOCOLS[arguments.paper], Path(arguments.output or f"reproduce-{arguments.paper}")
    extent = "quick" if arguments.quick else arguments.grid
    folder.mkdir(parents=True, exist_ok=True)
    parts = list(planned(protocol, _split(arguments.sets), _split(arguments.conditions), arguments.data))
    cells = dict(cells_of(protocol, parts, arguments, extent))
    last = {record["key"]: record for record in read_journal(folder / "cells.jsonl") if record["key"] in cells}
    # Failures are tried again, and so is what a shorter time limit cut off.
    finished = {key for key, record in last.items() if record["status"] == "done"
                and not (record["state"] == "time_limit" and record["limit"] < cells[key].time_limit)}
    waiting = [cell for key, cell in cells.items() if key not in finished]
    left = Counter((cell.condition, cell.dataset) for cell in waiting)
    print(protocol.title, LEGEND, f"Rule without labels: {arguments.choose}.", sep="\n", flush=True)
    code = 0
    try:
        answers = Parallel(arguments.jobs, return_as="generator_unordered")(delayed(run_cell)(cell) for cell in waiting)
        with (open(folder / "cells.jsonl", "a", encoding="utf-8") as journal,
              tqdm(total=len(cells), initial=len(cells) - len(waiting), disable=arguments.quiet or None) as shown):
            for record in answers:
                journal.write(json.dumps(record, ensure_ascii=False) + "\n")
                journal.flush()
                last[record["key"]] = record
                setting = describe(tuple(map(tuple, record["setting"])))
                shown.set_postfix_str(f"{record['dataset']}, {record['method']} {setting}", refresh=False)
                shown.update()
                left[place := (record["condition"], record["dataset"])] -= 1
                if not left[place] and len(parts) > 1:  # a set that is done is shown at once
                    done = [part for part in parts if (part.condition.name, part.dataset) == place]
                    shown.write(as_text(tabulated(protocol, done, last.values(), extent, arguments.choose)))
                    sys.stdout.flush()
    except KeyboardInterrupt:
        print("reproduce: interrupted; the same command goes on from here", file=sys.stderr)
        code = 3
    table = tabulated(protocol, parts, last.values(), extent, arguments.choose)
    table.to_csv(folder / "table.csv", index=False, float_format="%.6g")
    print("\nAll sets\n", as_text(table), sep="")
    return code or int("best" not in table or table["best"].isna().all())


def planned(protocol: Protocol, names: list[str] | None, conditions: list[str] | None, directory: str | None
            ) -> Iterator[Part]:
    """Yield the sets of a run; what cannot be had is marked as skipped."""
    printed = printed_table(protocol.paper).drop_duplicates(["condition", "dataset"])
    sizes = printed.set_index(["condition", "dataset"]).n
    for condition, name in protocol.resolve(names, conditions):
        try:
            data, note = load_for(protocol.paper, name, directory, protocol.scale)
        except MissingDataError as error:
            yield Part(condition, name, None, f"skipped: {error}")
            continue
        n = sizes.get((condition.name, name), np.nan)
        if not note and n == n and n != len(data.X):
            note = f"{len(data.X)} points, the paper has {n:g}"
        yield Part(condition, name, data, note)


def cells_of(protocol: Protocol, parts: Sequence[Part], arguments: argparse.Namespace, extent: str
             ) -> Iterator[tuple[str, Cell]]:
    """Yield every cell with its key: set by set, repeat by repeat, settings of one kernel together."""
    only = _split(arguments.methods)
    known = {method.name for condition in protocol.conditions for method in condition.methods}
    for name in only or ():
        if name not in known:
            raise UnknownNameError(f"method of {protocol.paper}", name, known)
    repeats = arguments.repeats or protocol.count(extent)
    for part in parts:
        for repeat in range(repeats) if part.data else ():
            for method in part.condition.methods:
                if (repeat >= (method.repeats or repeats) or (only and method.name not in only)
                        or len(part.data.X) > (method.largest or np.inf)):
                    continue
                settings = list(method.settings(extent))
                if arguments.sample and arguments.sample < len(settings):  # larger samples hold smaller ones
                    drawn = np.random.default_rng(arguments.random_state).permutation(len(settings))
                    settings = [settings[k] for k in sorted(drawn[:arguments.sample])]
                for setting in settings:
                    cell = Cell(protocol.paper, part.condition.name, part.dataset, method.name, setting, repeat,
                                arguments.data, arguments.random_state, arguments.time_limit or LIMITS[extent])
                    yield cell.key(part.data.fingerprint), cell


def read_journal(path: Path) -> list[dict[str, Any]]:
    """Return the records of finished cells; a last line that a kill cut short is dropped."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    if not text.endswith("\n"):
        text = text[:text.rfind("\n") + 1]
        path.write_text(text, encoding="utf-8")
    try:
        return [json.loads(line) for line in text.splitlines()]
    except ValueError:
        raise DeclarationError(f"{path} holds a line that is no record; remove it, or give another --output") from None


def _split(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command."""
    found = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    found.add_argument("paper", choices=tuple(PROTOCOLS))
    found.add_argument("--data", metavar="DIR", help="directory of name.csv.gz, .csv (header f0,...,label) or .npz "
                       "(X, y); sets that are not there are asked of OpenML")
    found.add_argument("--sets", metavar="A,B,...", help="data sets as printed (default all of the paper)")
    found.add_argument("--conditions", metavar="A,B,...", help="parts of the experiment (default those with printed "
                       "figures)")
    found.add_argument("--methods", metavar="A,B,...", help="methods as printed (default all that are run)")
    found.add_argument("--jobs", type=_count, default=1, metavar="N", help="processes (default 1)")
    found.add_argument("--grid", choices=tuple(LIMITS), default="full",
                       help="the paper's grid, a coarser one with three repeats, or a small one with two")
    found.add_argument("--quick", action="store_true", help="the same as --grid quick")
    found.add_argument("--sample", type=_count, metavar="K",
                       help="at most K settings of each method, drawn from its grid")
    found.add_argument("--output", metavar="DIR", help="where cells.jsonl and table.csv go (default reproduce-PAPER); "
                       "a run that was stopped goes on from there")
    found.add_argument("--repeats", type=_count, metavar="N", help="instead of the paper's number")
    found.add_argument("--random-state", type=int, default=0, metavar="S",
                       help="of splits, links and solves (default 0)")
    found.add_argument("--time-limit", type=float, metavar="SECONDS",
                       help="of each solve (default 60; 5 on the coarse grid, 2 on the quick one)")
    found.add_argument("--choose", choices=tuple(RULES), default="agreement",
                       help="rule that picks a setting without labels (default agreement)")
    found.add_argument("--quiet", action="store_true", help="no progress on stderr")
    return found


if __name__ == "__main__":
    sys.exit(main())
