"""The command `margindsl reproduce`: a paper's tables, cell by cell."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any, TextIO

from margindsl.errors import DeclarationError
from margindsl.experiments import require_installed
from margindsl.experiments.campaign import Campaign, plan, run_campaign
from margindsl.experiments.cells import Conduct
from margindsl.experiments.choice import Rule, as_rule
from margindsl.experiments.journal import Journal
from margindsl.experiments.page import as_text, write_html
from margindsl.experiments.protocols import describe, get_protocol
from margindsl.experiments.tables import tabulate, write_csv

_WIDTH = 78
_SECONDS_BETWEEN_LINES = 10.0
_SECONDS_BETWEEN_SHOWS = 0.1


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
    progress = CellProgress(campaign, quiet=arguments.quiet)
    code = 0
    try:
        run_campaign(campaign, journal, jobs=arguments.jobs, report=progress)
    except KeyboardInterrupt:
        print("margindsl: interrupted; the same command goes on from here", file=sys.stderr)
        code = 3
    finally:
        progress.close()
    if not write_results(campaign, journal, folder, rule) and code == 0:
        code = 1
    if not arguments.quiet:
        print(f"written: {folder / 'table.csv'}, {folder / 'table.html'}", file=sys.stderr)
    return code


def write_results(campaign: Campaign, journal: Journal, folder: Path, rule: Rule) -> bool:
    """Write table.csv and table.html of what is finished, and print the table; returns whether it has figures."""
    table = tabulate(campaign, journal.records, rule)
    write_csv(table, folder / "table.csv")
    write_html(table, folder / "table.html")
    print(as_text(table))
    return any(entry.oracle is not None for entry in table.entries)


def make_folder(name: str) -> Path:
    """Return the directory of a run, made if it is not there.

    Raises
    ------
    DeclarationError
        If it cannot be made.
    """
    folder = Path(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DeclarationError(f"cannot make the directory {name}: {error.strerror}") from None
    return folder


class CellProgress:
    """Show finished cells: one line that rewrites itself on a terminal, a line now and then elsewhere.

    Parameters
    ----------
    campaign : Campaign
    stream : text stream, optional
        Default standard error.
    quiet : bool
    """

    def __init__(self, campaign: Campaign, stream: TextIO | None = None, quiet: bool = False) -> None:
        self.paper = campaign.protocol.paper
        self.stream = sys.stderr if stream is None else stream
        self.quiet = quiet
        self.rewriting = self.stream.isatty()
        self.began = time.monotonic()
        self._first: int | None = None
        self._last = -_SECONDS_BETWEEN_LINES

    def __call__(self, record: dict[str, Any], finished: int, total: int) -> None:
        """Show one record."""
        if self.quiet:
            return
        now = time.monotonic()
        if self._first is None:
            self._first = finished - 1
        pause = _SECONDS_BETWEEN_SHOWS if self.rewriting else _SECONDS_BETWEEN_LINES
        if now - self._last < pause and finished < total:
            return
        self._last = now
        left = (now - self.began) / (finished - self._first) * (total - finished)
        setting = describe(tuple((name, value) for name, value in record["setting"]))
        text = (f"{self.paper} {finished}/{total}, about {_duration(left)} left: {record['dataset']}, "
                f"{record['method']} {setting}".rstrip() + f", repeat {record['repeat'] + 1}")
        if record["status"] != "done":
            text += f", {record['status']}"
        self.stream.write("\r" + text[:_WIDTH].ljust(_WIDTH) if self.rewriting else text + "\n")
        self.stream.flush()

    def close(self) -> None:
        """Clear the line."""
        if self.rewriting and self._first is not None:
            self.stream.write("\r" + " " * _WIDTH + "\r")
            self.stream.flush()


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
