"""CSV in: delimiters, headers, and messages that name the row and the column; where answers may be written."""

import argparse
import gzip
import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from margindsl.cli.declaration import scaled, scales
from margindsl.cli.files import (
    check_targets,
    column,
    numbers,
    read_frame,
    read_known,
    read_labels,
    read_links,
    write_frame,
)
from margindsl.errors import DeclarationError


def write(tmp_path, text, encoding="utf-8"):
    path = tmp_path / "data.csv"
    path.write_bytes(text.encode(encoding))
    return str(path)


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("header", ["", "a{0}b\n"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_reads_numbers_whatever_the_dialect(tmp_path, delimiter, header, newline):
    text = (header + "1{0}-2e3\n\n.5{0}4\n").format(delimiter).replace("\n", newline)
    frame = read_frame(write(tmp_path, text))
    assert list(frame.columns) == (["a", "b"] if header else ["0", "1"])
    assert numbers(frame, "").tolist() == [[1.0, -2000.0], [0.5, 4.0]]


def test_byte_order_mark_quotes_compression_and_standard_input(tmp_path, monkeypatch):
    frame = read_frame(write(tmp_path, '"length, cm",kind\n"1.5","x"\n', "utf-8-sig"))
    assert list(frame.columns) == ["length, cm", "kind"] and frame.iloc[0].tolist() == ["1.5", "x"]
    with gzip.open(tmp_path / "data.csv.gz", "wt") as stream:
        stream.write("1;2\n3;4\n")
    assert numbers(read_frame(str(tmp_path / "data.csv.gz")), "").tolist() == [[1.0, 2.0], [3.0, 4.0]]
    monkeypatch.setattr("sys.stdin", io.StringIO("1,2\n3,4\n"))
    assert numbers(read_frame("-"), "").tolist() == [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize("text, names", [
    ("x,y\n1,2\n", ["x", "y"]), ("1,2\n3,4\n", ["0", "1"]), ("1,cat\n2,dog\n", ["0", "1"]),
    (",kind\n2,3\n", ["", "kind"]), ("mean length\n1\n2\n", ["mean length"]), ("x,kind\n1,dog\n", ["x", "kind"])])
def test_header_is_found_out(tmp_path, text, names):
    assert list(read_frame(write(tmp_path, text)).columns) == names


def test_columns_by_name_and_number(tmp_path):
    frame = read_frame(write(tmp_path, "a,b,a\n1,2,3\n"))
    assert column(frame, "b", "f") == 1 and column(frame, "2", "f") == 2 and column(frame, "a (2)", "f") == 2
    with pytest.raises(DeclarationError, match=r"no column 'a'; its columns are a \(1\)"):
        column(frame, "a", "f")
    with pytest.raises(DeclarationError, match=r"f has no column 'c'; its columns are a \(1\), b, a \(2\)"):
        column(frame, "c", "f")
    with pytest.raises(DeclarationError, match=r"has no column '3'"):
        column(frame, "3", "f")


@pytest.mark.parametrize("cell, shown", [("male", "'male'"), ("", "an empty cell"), ("nan", "'nan'"), ("inf", "'inf'"),
                                         ("1_000", "'1_000'")])
def test_bad_cell_is_named_with_its_row(tmp_path, cell, shown):
    frame = read_frame(write(tmp_path, f"x,sex\n1,2\n\n3,{cell}\n"))
    with pytest.raises(DeclarationError, match=re.escape(f"column 'sex' holds {shown} (row 2)")):
        numbers(frame, "")
    assert numbers(frame[["x"]], "").tolist() == [[1.0], [3.0]]


@pytest.mark.parametrize("text, message", [
    ("", r"holds no table, expected one point a row"), ("\n\n", r"holds no table"), ("a,b\n", r"is empty"),
    ("1,2\n3,4,5\n", r"Expected 2 fields in line 2, saw 3"),
    ("?,1\n0,0\n1,1\n", r"'\?' above numbers \(column 0\)"), (",1\n0,0\n1,1\n", r"'' above numbers"),
    ("id,1,2\n,5,6\n3,7,8\n", r"'id' above numbers"), ("1,kind\n2,3\n", r"'kind' above numbers \(column 1\)")])
def test_malformed_files(tmp_path, text, message):
    with pytest.raises(DeclarationError, match=message):
        read_frame(write(tmp_path, text))


def test_unreadable_files(tmp_path):
    with pytest.raises(DeclarationError, match=r"cannot read .*nothing\.csv: No such file"):
        read_frame(str(tmp_path / "nothing.csv"))
    with pytest.raises(DeclarationError, match=r"not UTF-8 text; save it as CSV in UTF-8"):
        read_frame(write(tmp_path, "é,1\n", "latin-1"))


@pytest.mark.parametrize("text, expected", [
    ("i,j\n0,1\n\n0,400\n", "row 2 holds 0,400, expected points from 0 to 5"), ("-1,2\n", "points from 0 to 5"),
    ("3,3\n", "two different points; leave the row out"), ("0,1,2\n", "has 3 columns, expected two"),
    ("0\n1\n", "has 1 columns, expected two"), ("0,1.5\n", "row 1 holds 0,1.5, expected whole numbers"),
    ("0,O\n", "column '1' holds 'O' (row 1)")])
def test_links_name_file_and_row(tmp_path, text, expected):
    path = write(tmp_path, text)
    with pytest.raises(DeclarationError, match=f"{re.escape(path)}.*{re.escape(expected)}"):
        read_links(path, 6)
    assert read_links(write(tmp_path, "i,j\n0,5\n2,3\n"), 6).tolist() == [[0, 5], [2, 3]]


@pytest.mark.parametrize("row, expected", [
    ("6,1", "a point number first, from 0 to 5"), ("-1,1", "a point number first"),
    ("1,0", "a label second, +1 or -1"), ("1,2", "a label second, +1 or -1")])
def test_known_labels_name_file_and_row(tmp_path, row, expected):
    path = write(tmp_path, f"0,1\n{row}\n")
    with pytest.raises(DeclarationError, match=re.escape(f"{path}: row 2 holds {row}, expected {expected}")):
        read_known(path, 6, 2, True)
    index, labels = read_known(write(tmp_path, "0,1\n5,-1\n"), 6, 2, True)
    assert index.tolist() == [0, 5] and labels.tolist() == [1, -1]
    with pytest.raises(DeclarationError, match="row 1 holds 0,3, expected a label second, from 0 to 2"):
        read_known(write(tmp_path, "0,3\n"), 6, 3)


def test_labels_are_a_column_or_the_one_of_that_name(tmp_path):
    assert read_labels(write(tmp_path, "a\nb\na\n"), 3) == ["a", "b", "a"]
    assert read_labels(write(tmp_path, "cluster\nb\na\n"), 2) == ["b", "a"]
    assert read_labels(write(tmp_path, "index,label\n0,b\n1,a\n"), 2) == ["b", "a"]


def checked(**targets):
    check_targets(argparse.Namespace(**targets))


def test_output_is_tried_before_the_solve(tmp_path, monkeypatch, capsys):
    (tmp_path / "there.csv").write_text("kept")
    for target in (str(tmp_path), f"{tmp_path}/new/", f"{tmp_path}/there.csv/"):
        with pytest.raises(DeclarationError, match=r"cannot write .*: it is a directory; give the name of a file"):
            checked(output=target)
    for target in ("", "  "):
        with pytest.raises(DeclarationError, match=r"--output '.*': expected the name of a file"):
            checked(output=target)
    missing = str(tmp_path / "missing" / "out.csv")
    with pytest.raises(DeclarationError, match=r"cannot write .*out\.csv: its folder does not exist"):
        checked(output=missing)
    with pytest.raises(DeclarationError, match=r"cannot write .*out\.csv: "):
        write_frame(missing, pd.DataFrame({"a": [1]}))
    assert capsys.readouterr().out == "a\n1\n"
    checked(output=str(tmp_path / "there.csv"), save=str(tmp_path / "new.npz"))
    assert [path.name for path in tmp_path.iterdir()] == ["there.csv"]
    assert (tmp_path / "there.csv").read_text() == "kept"
    monkeypatch.setattr("os.access", lambda *_: False)  # whoever runs the tests may be allowed everything
    with pytest.raises(DeclarationError, match=r"there\.csv: no permission to write it"):
        checked(output=str(tmp_path / "there.csv"))


def test_devices_take_more_than_one_answer():
    if Path("/dev/null").exists():
        checked(output="/dev/null", save="/dev/null")
    with pytest.raises(DeclarationError):  # a file does not
        checked(output="answers.csv", save="answers.csv")


@settings(deadline=None, max_examples=50)
@given(st.lists(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=3, max_size=3), min_size=1,
                max_size=8))
def test_numbers_survive_a_round_trip(tmp_path_factory, rows):
    path = str(tmp_path_factory.mktemp("csv") / "round.csv")
    write_frame(path, pd.DataFrame(rows, columns=["a", "b", "c"]))
    assert np.array_equal(numbers(read_frame(path), ""), np.array(rows))


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 10**6), st.floats(1e-3, 1e6), st.floats(-1e6, 1e6))
def test_scaling(seed, factor, shift):
    X = np.random.default_rng(seed).normal(size=(12, 3)) * factor + shift
    X[:, 2] = shift
    minmax, standard = scaled(X, scales(X, "minmax")), scaled(X, scales(X, "standard"))
    assert np.allclose(minmax[:, :2].min(axis=0), 0) and np.allclose(minmax[:, :2].max(axis=0), 1)
    assert np.allclose(standard[:, :2].mean(axis=0), 0, atol=1e-6) and np.allclose(standard[:, :2].std(axis=0), 1)
    assert np.all(minmax[:, 2] == 0) and np.all(standard[:, 2] == 0)
    assert scaled(X, None) is X
