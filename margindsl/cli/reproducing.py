"""The command `margindsl reproduce`: a paper's tables, cell by cell."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from margindsl.errors import DeclarationError
from margindsl.experiments import require_installed
from margindsl.experiments.campaign import Campaign, plan, run_campaign, title_of
from margindsl.experiments.cells import Conduct
from margindsl.experiments.choice import Rule, as_rule
from margindsl.experiments.journal import Journal
from margindsl.experiments.page import as_text, write_html
from margindsl.experiments.protocols import get_protocol
from margindsl.experiments.tables import tabulate, write_csv
from margindsl.host.progress import say


def run(arguments: argparse.Namespace) -> int:
    """Run the cells that are not finished, write the tables, print them.

    Returns
    -------
    int
        0; 1 when no cell has an answer; 3 when the run was interrupted (the tables show what is finished).
    """
    require_installed()
    if not arguments.time_limit > 0:
        raise DeclarationError(f"--time-limit {arguments.time_limit:g}: expected a positive number of seconds")
    names = None if arguments.sets is None else [name.strip() for name in arguments.sets.split(",") if name.strip()]
    if names == []:
        raise DeclarationError(f"--sets {arguments.sets!r}: expected names of data sets, comma separated")
    methods = None if arguments.methods is None else [m.strip() for m in arguments.methods.split(",") if m.strip()]
    rule = as_rule(arguments.choose)
    conduct = Conduct(arguments.data, arguments.random_state, arguments.time_limit)
    extent = "quick" if arguments.quick else arguments.grid
    campaign = plan(get_protocol(arguments.paper), names, conduct, extent=extent, repeats=arguments.repeats,
                    methods=methods, sample=arguments.sample)
    folder = make_folder(arguments.output or f"reproduce-{arguments.paper}")
    journal = Journal(folder / "cells.jsonl")
    code = 0
    try:
        run_campaign(campaign, journal, n_jobs=arguments.jobs, report=_say if arguments.verbose else None,
                     shown=not (arguments.quiet or arguments.verbose))
    except KeyboardInterrupt:
        print("margindsl: interrupted; the same command goes on from here", file=sys.stderr)
        code = 3
    if not write_results(campaign, journal, folder, rule) and code == 0:
        code = 1
    if not arguments.quiet:
        print(f"written: {folder / 'table.csv'}, {folder / 'table.html'}", file=sys.stderr)
    return code


def write_results(campaign: Campaign, journal: Journal, folder: Path, rule: Rule) -> bool:
    """Write table.csv and table.html of what is finished, and print the table; returns whether it has figures."""
    table = tabulate(campaign, journal.records, rule)
    write_csv(table, folder / "table.csv")
    print(as_text(table))
    write_html(table, folder / "table.html")
    return any(entry.oracle is not None for entry in table.entries)


def make_folder(name: str) -> Path:
    """Return the directory of a run, made if it is not there."""
    folder = Path(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DeclarationError(f"cannot make the directory {name}: {error.strerror}") from None
    return folder


def _say(record: dict[str, Any], finished: int, total: int) -> None:
    say(f"{finished}/{total} {title_of(record)}")
