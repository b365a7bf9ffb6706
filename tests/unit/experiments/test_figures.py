"""Printed figures: sizes of the tables, some cells, and the arithmetic that printed figures must obey."""

import importlib.resources

import pytest

from margindsl.errors import UnknownNameError
from margindsl.experiments.figures import PAPERS, Figure, printed_table


@pytest.mark.parametrize("paper, cells", [
    ("odmc", 316), ("cpmmc", 201), ("skmmc", 242), ("ssodm", 240), ("odmssc", 252)])
def test_number_of_printed_cells(paper, cells):
    table = printed_table(paper)
    assert len(table.figures) == cells
    assert table.notes[0].startswith("source: ")


@pytest.mark.parametrize("paper, cell, expected", [
    ("odmc", ("Acc", "unsupervised", "tic-tac-toe", "ODMC"), Figure(0.658)),
    ("cpmmc", ("clustering error", "two-class", "Digits 8-9", "CPMMC"), Figure(2.26)),
    ("cpmmc", ("accuracy", "multi-class", "Dig 1279", "CPM3C"), Figure(94.01)),
    ("skmmc", ("balanced error", "UCI small scale", "Clean1", "SKMMC"), Figure(7.01)),
    ("ssodm", ("Acc", "10% labels", "austra", "ssODM"), Figure(0.843, 0.034)),
    ("odmssc", ("NMI", "100 constraints", "leukemia", "ODMSSC"), Figure(0.827, 0.124))])
def test_cells_as_printed(paper, cell, expected):
    assert printed_table(paper).figure(*cell) == expected


def test_missing_cells_are_none():
    assert printed_table("odmc").figure("Acc", "unsupervised", "splice", "GMMC") is None


def test_sizes():
    assert printed_table("odmc").sizes["unsupervised", "dbworld"] == (64, 4702)
    assert printed_table("cpmmc").sizes["multi-class", "Dig 0689"] == (None, None)


def test_rand_indices_below_what_their_accuracy_allows_are_noted():
    # For two classes and two clusters the mean Rand index is at least that of the mean accuracy (convexity).
    table = printed_table("odmc")
    noted = " ".join(table.suspicious)
    for (measure, condition, name, method), accuracy in table.figures.items():
        if measure != "Acc":
            continue
        n, index = table.sizes[condition, name][0], table.figure("RI", condition, name, method)
        if index is None:
            continue
        ends = [1 - 2 * a * (1 - a) * n / (n - 1) for a in (accuracy.mean - 0.0005, accuracy.mean + 0.0005)]
        if index.mean + 0.0005 < min(ends) - 1e-9 and accuracy.mean > 0.5:
            assert name in noted, (name, method)


def test_every_paper_has_a_file_in_the_package():
    folder = importlib.resources.files("margindsl.experiments") / "printed"
    assert {entry.name for entry in folder.iterdir()} == {f"{paper}.csv" for paper in PAPERS}


def test_unknown_paper():
    with pytest.raises(UnknownNameError, match="unknown paper 'odm'. Did you mean"):
        printed_table("odm")
