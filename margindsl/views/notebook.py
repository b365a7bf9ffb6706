"""What notebooks show of an object: short HTML, everything foreign escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table with a row of heads."""
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in lines)
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
