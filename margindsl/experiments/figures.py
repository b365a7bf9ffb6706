"""Figures printed in the papers, one small file a paper: data set × method."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache

from margindsl.errors import one_of

PAPERS = ("odmc", "cpmmc", "skmmc", "ssodm", "odmssc")


@dataclass(frozen=True)
class Figure:
    """Represent one printed figure.

    Parameters
    ----------
    std : float or None
        The printed deviation, where there is one.
    """

    mean: float
    std: float | None = None

    @classmethod
    def parse(cls, text: str) -> Figure:
        """Read ``mean`` or ``mean±std``.

        Examples
        --------
        >>> Figure.parse("0.819±0.011")
        Figure(mean=0.819, std=0.011)
        """
        mean, _, std = text.partition("±")
        return cls(float(mean), float(std) if std else None)


@dataclass(frozen=True, eq=False)
class PrintedTable:
    """Represent the result tables of one paper.

    Parameters
    ----------
    notes : tuple of str
        Source, meaning of the figures, and cells that look wrong ("suspicious: ...").
    sizes : dict of (condition, data set) to (points, features)
        None where the paper gives none.
    """

    paper: str
    notes: tuple[str, ...]
    figures: dict[tuple[str, str, str, str], Figure]  # (measure, condition, data set, method)
    sizes: dict[tuple[str, str], tuple[int | None, int | None]]

    def figure(self, measure: str, condition: str, dataset: str, method: str) -> Figure | None:
        """Return a printed figure, or None where the paper has none."""
        return self.figures.get((measure, condition, dataset, method))

    def datasets(self, condition: str) -> tuple[str, ...]:
        """Return the data sets listed under a condition, in the paper's order."""
        return tuple(name for given, name in self.sizes if given == condition)

    @property
    def suspicious(self) -> tuple[str, ...]:
        """Return the notes on figures that look wrong."""
        return tuple(note.removeprefix("suspicious: ") for note in self.notes if note.startswith("suspicious: "))


@cache
def printed_table(paper: str) -> PrintedTable:
    """Return the figures a paper prints.

    Examples
    --------
    >>> printed_table("odmc").figure("Acc", "unsupervised", "colic", "ODMC").mean
    0.862
    """
    from importlib import resources  # a quarter of the start of the command line, which asks for the names alone

    one_of("paper", paper, PAPERS)
    text = (resources.files("margindsl.experiments") / "printed" / f"{paper}.csv").read_text(encoding="utf-8")
    lines = text.splitlines()
    notes = tuple(line.removeprefix("# ") for line in lines if line.startswith("#"))
    table = PrintedTable(paper, notes, {}, {})
    for row in csv.DictReader(line for line in lines if not line.startswith("#")):
        measure, condition, name, n, d = (row.pop(key) for key in ("measure", "setting", "dataset", "n", "d"))
        table.sizes.setdefault((condition, name), (int(n) if n else None, int(d) if d else None))
        for method, cell in row.items():
            if cell:
                table.figures[measure, condition, name, method] = Figure.parse(cell)
    return table
