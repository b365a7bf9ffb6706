"""What notebooks show of an object: short HTML, everything foreign escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from html import escape
from typing import Any, TypeVar

T = TypeVar("T")


class Tabled:
    """Show what has cells, heads and lines, as a table where it is printed or in a notebook."""

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return the heads of the columns and the cells of the table, as they are printed."""
        raise NotImplementedError

    def __str__(self) -> str:
        from tabulate import tabulate

        heads, lines = self.cells()
        return tabulate(lines, heads, "simple", disable_numparse=True)

    def _repr_html_(self) -> str:
        return table(*self.cells())


class Listing(Tabled, list[T]):
    """List records, dataclasses with a name; a line of names as `repr`."""

    def __repr__(self) -> str:
        kind = type(self[0]).__name__.removesuffix("Info").lower()
        return f"{len(self)} {kind}s: {', '.join(str(vars(one)['name']) for one in self)}"

    def cells(self) -> tuple[list[str], list[list[str]]]:
        own: list[Any] = list(self)
        shown = {True: "yes", False: "no"}
        heads = [field.name for field in fields(own[0])]
        return heads, [[shown.get(value, value) for value in vars(one).values()] for one in own]


def table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table with a row of heads."""
    left = 'style="text-align:left"'
    head = "".join(f'<th scope="col" {left}>{escape(text)}</th>' for text in heads)
    body = "".join("<tr>" + "".join(f"<td {left}>{escape(cell)}</td>" for cell in line) + "</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def facts(title: str, lines: Iterable[str]) -> str:
    """Return lines that begin with a word, as `summary` gives them, as a table."""
    cells = (line.partition(" ") for line in lines)
    rows = "".join(f'<tr><th scope="row" style="text-align:left">{escape(word)}</th><td style="text-align:left">'
                   f"{escape(text.strip())}</td></tr>" for word, _, text in cells)
    return f"<div><b>{escape(title)}</b><table>{rows}</table></div>"


def parts(title: str, bodies: Iterable[tuple[str, str]]) -> str:
    """Return parts of a text that open one by one."""
    opened = "".join(f"<details><summary>{escape(name)}</summary><pre>{escape(body)}</pre></details>"
                     for name, body in bodies)
    return f"<div><b>{escape(title)}</b>{opened}</div>"
