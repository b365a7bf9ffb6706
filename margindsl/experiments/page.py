"""A table of results as text and as one HTML page."""

from __future__ import annotations

import html
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from margindsl.errors import DeclarationError
from margindsl.experiments.cells import ERRORS
from margindsl.experiments.tables import LEVEL, Entry, Table

LEGEND = ("Each cell: ours at the best setting, chosen by the true classes as the papers do (an oracle's choice); "
          "ours at the setting chosen without labels; the paper's figure.")
_STYLE = """body{font:14px sans-serif;margin:2em;max-width:120em}table{border-collapse:collapse;margin:1em 0}
td,th{border:1px solid #bbb;padding:.25em .5em;text-align:right;vertical-align:top}th:first-child,td:first-child
{text-align:left}.oracle{font-weight:bold}.honest{color:#046}.paper{color:#666}.note{color:#666;font-size:12px}"""


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
    """Write the table as one HTML page without outside parts.

    Raises
    ------
    DeclarationError
        If the file cannot be written.
    """
    try:
        Path(path).write_text(as_html(table), encoding="utf-8")
    except OSError as error:
        raise DeclarationError(f"cannot write {path}: {error.strerror}") from None


def as_html(table: Table) -> str:
    """Return the HTML page."""
    protocol, campaign = table.campaign.protocol, table.campaign
    title = html.escape(protocol.title)
    grid = f"the {campaign.extent} grid"
    if campaign.sample is not None:
        grid = f"at most {campaign.sample} settings drawn from {grid}"
    parts = [
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{title}</title><style>{_STYLE}</style>",
        f"<h1>{title}</h1><p>{html.escape(LEGEND)} Beside the paper's figure, the difference of ours at the best "
        f"setting. Rule without labels: {html.escape(table.rule)}. {campaign.repeats} repeats, {grid}, random state "
        f"{campaign.conduct.random_state}, {campaign.conduct.time_limit:g} s a solve.</p>",
        f"<p>w/t/l: sets on which {html.escape(' or '.join(protocol.own))} is significantly better, not significantly "
        f"different, or worse than the method, both at their best settings (paired t-test over repeats, "
        f"{100 * LEVEL:g} %); • and ◦ mark the cells of significant wins and losses.</p>"]
    cells = {(e.condition, e.measure, e.dataset, e.method): e for e in table.entries}
    for condition, measure, datasets, methods in blocks(table):
        direction = "less" if measure in ERRORS else "more"
        parts.append(f"<h2>{html.escape(condition)}: {html.escape(measure)} ({direction} is better)</h2>"
                     "<table><tr><th>")
        parts += [f"<th>{html.escape(method)}" for method in methods]
        for name in datasets:
            found = [cells.get((condition, measure, name, method)) for method in methods]
            size = next((f"{e.n} × {e.d}" for e in found if e is not None), "")
            parts.append(f"<tr><td>{html.escape(name)}<br><span class='note'>{size}</span>")
            parts += [f"<td>{'' if entry is None else _html_cell(entry)}" for entry in found]
        parts.append("<tr><th>w/t/l" + "".join(
            "<td>" + ("/".join(map(str, t)) if sum(t) else "")
            for t in (table.tally(condition, measure, method) for method in methods)) + "</table>")
    for head, sentences in (("Data and cells", notes_of(table)), ("How the paper is read", protocol.readings),
                            ("Printed figures that look wrong", protocol.printed.suspicious)):
        if sentences:
            parts.append(f"<h2>{head}</h2><ul>" + "".join(f"<li>{html.escape(s)}" for s in sentences) + "</ul>")
    return "\n".join(parts) + "\n"


def _html_cell(entry: Entry) -> str:
    oracle, honest, printed = (html.escape(text) for text in _figures(entry, deviations=True))
    mark = {"win": " •", "loss": " ◦"}.get(entry.verdict, "")
    hint = html.escape("" if entry.oracle is None else entry.oracle.setting, quote=True)
    chosen = html.escape("" if entry.honest is None else entry.honest.setting, quote=True)
    difference = "" if np.isnan(entry.difference) else f" ({entry.difference:+.{_digits(entry)}f})"
    return (f"<span class='oracle' title='{hint}'>{oracle}{mark}</span><br><span class='honest' title='{chosen}'>"
            f"{honest}</span><br><span class='paper'>{printed}{difference}</span>")


def _figures(entry: Entry, deviations: bool = False) -> tuple[str, str, str]:
    digits = _digits(entry)
    texts = []
    for found in (entry.oracle, entry.honest, entry.printed):
        if found is None:
            texts.append("–")
        elif deviations and found.std is not None:
            texts.append(f"{found.mean:.{digits}f} ± {found.std:.{digits}f}")
        else:
            texts.append(f"{found.mean:.{digits}f}")
    return texts[0], texts[1], texts[2]


def _digits(entry: Entry) -> int:
    return 2 if entry.measure in (*ERRORS, "accuracy") else 3
