"""A table of results as text and as one HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from margindsl.errors import DeclarationError
from margindsl.experiments.cells import ERRORS
from margindsl.experiments.tables import LEVEL, Entry, Table
from margindsl.report.rendering import rendered

LEGEND = ("Each cell: ours at the best setting, chosen by the true classes as the papers do (an oracle's choice); "
          "ours at the setting chosen without labels; the paper's figure.")


def blocks(table: Table) -> Iterator[tuple[str, str, list[str], list[str]]]:
    """Yield condition, measure, data sets and methods of every block of a table."""
    for condition in dict.fromkeys(e.condition for e in table.entries):
        for measure in dict.fromkeys(e.measure for e in table.entries if e.condition == condition):
            own = [e for e in table.entries if e.condition == condition and e.measure == measure]
            yield (condition, measure, list(dict.fromkeys(e.dataset for e in own)),
                   list(dict.fromkeys(e.method for e in own)))


def as_text(table: Table) -> str:
    """Return the table as aligned text: best / chosen without labels / paper."""
    from tabulate import tabulate

    lines = [table.campaign.protocol.title, LEGEND, f"Rule without labels: {table.rule}."]
    cells = {(e.condition, e.measure, e.dataset, e.method): e for e in table.entries}
    for condition, measure, datasets, methods in blocks(table):
        rows = [["", *methods]]
        for name in datasets:
            found = [cells.get((condition, measure, name, method)) for method in methods]
            rows.append([name, *("" if e is None else " / ".join(_figures(e)) for e in found)])
        tallies = [table.tally(condition, measure, method) for method in methods]
        if any(map(sum, tallies)):
            rows.append(["w/t/l", *("/".join(map(str, t)) if sum(t) else "" for t in tallies)])
        lines += ["", f"{condition}, {measure}", tabulate(rows, tablefmt="plain", disable_numparse=True)]
    lines += ["", *notes_of(table)] if notes_of(table) else []
    return "\n".join(lines)


def notes_of(table: Table) -> list[str]:
    """Return the sentences under a table: sets skipped, sets that differ, cells without an answer."""
    found = [f"{dataset} ({condition}): {sentence}" for condition, dataset, sentence in table.skipped]
    for entry in table.entries:
        if entry.note and entry.measure == table.campaign.protocol.condition(entry.condition).measures[0]:
            found.append(f"{entry.dataset} ({entry.condition}), {entry.method}: {entry.note}")
        if entry.limited and entry.measure == table.campaign.protocol.condition(entry.condition).measures[0]:
            found.append(f"{entry.dataset} ({entry.condition}), {entry.method}: {entry.limited} of {entry.cells} "
                         "solves were stopped by the time limit")
    return list(dict.fromkeys(found))


def write_html(table: Table, path: str | Path) -> None:
    """Write the table as one HTML page without outside parts."""
    try:
        Path(path).write_text(as_html(table), encoding="utf-8")
    except OSError as error:
        raise DeclarationError(f"cannot write {path}: {error.strerror}") from None


def as_html(table: Table) -> str:
    """Return the HTML page."""
    cells = {(e.condition, e.measure, e.dataset, e.method): e for e in table.entries}
    parts = [Block(condition, measure, "less" if measure in ERRORS else "more", methods,
                   [(name, [cells.get((condition, measure, name, method)) for method in methods]) for name in datasets],
                   [table.tally(condition, measure, method) for method in methods])
             for condition, measure, datasets, methods in blocks(table)]
    return rendered(Path(__file__).with_name("table.html"), {
        "table": table, "campaign": table.campaign, "protocol": table.campaign.protocol, "legend": LEGEND,
        "level": f"{100 * LEVEL:g} %", "blocks": parts, "figures": _figures, "notes": notes_of(table)})


@dataclass(frozen=True)
class Block:
    """Represent what the page shows of one condition and measure: a row of entries a data set, and the tallies."""

    condition: str
    measure: str
    better: str
    methods: list[str]
    rows: list[tuple[str, list[Entry | None]]]
    tallies: list[tuple[int, int, int]]


def _figures(entry: Entry, deviations: bool = False) -> tuple[str, str, str]:
    """Return ours at the oracle's and at the honest choice, and the paper's figure with ours beside it."""
    digits = 2 if entry.measure in (*ERRORS, "accuracy") else 3
    texts = []
    for found in (entry.oracle, entry.honest, entry.printed):
        text = "–" if found is None else f"{found.mean:.{digits}f}"
        texts.append(f"{text} ± {found.std:.{digits}f}" if deviations and found and found.std is not None else text)
    difference = f" ({entry.difference:+.{digits}f})" if deviations and not np.isnan(entry.difference) else ""
    return texts[0], texts[1], texts[2] + difference
