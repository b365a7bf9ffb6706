"""CSV in: delimiters, headers, and messages that name the line and the column."""

import io
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import margindsl as md
from margindsl.cli.declaration import scale_columns
from margindsl.cli.formats import read_table
from margindsl.cli.output import check_writable, write_rows
from margindsl.cli.pairs import read_known, read_links, read_pairs
from margindsl.cli.table import has_header
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
    table = read_table(write(tmp_path, text))
    assert table.names == (("a", "b") if header else ("0", "1"))
    assert table.numbers([0, 1]).tolist() == [[1.0, -2000.0], [0.5, 4.0]]
    assert table.numbers([1]).tolist() == [[-2000.0], [4.0]]


def test_byte_order_mark_and_quotes_are_understood(tmp_path):
    table = read_table(write(tmp_path, '"length, cm",kind\n"1.5","x"\n', "utf-8-sig"))
    assert table.names == ("length, cm", "kind")
    assert table.numbers([0]).tolist() == [[1.5]]
    assert table.text(1) == ["x"]


def test_reads_standard_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("1,2\n3,4\n"))
    assert read_table("-").numbers([0, 1]).tolist() == [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize("rows, expected", [
    ([["x", "y"], ["1", "2"]], True),
    ([["1", "2"], ["3", "4"]], False),
    ([["1", "cat"], ["2", "dog"]], False),
    ([["", "kind"], ["2", "3"]], True),
    ([["1", "kind"], ["2", "3"]], False),
    ([["x", "kind"], ["1", "dog"]], True),
    ([["nan", "2"], ["3", "4"]], False),
])
def test_header_is_found_out(rows, expected):
    assert has_header(rows) is expected


def test_columns_by_name_and_number(tmp_path):
    table = read_table(write(tmp_path, "a,b,a\n1,2,3\n"))
    assert table.column("b") == 1
    assert table.column("2") == 2
    with pytest.raises(DeclarationError, match=r"two columns are called 'a'; give the column's number"):
        table.column("a")
    with pytest.raises(DeclarationError, match=r"has no column 'c'; its columns are a, b, a"):
        table.column("c")
    with pytest.raises(DeclarationError, match=r"has no column '3'"):
        table.column("3")


@pytest.mark.parametrize("cell, shown", [("male", "'male'"), ("", "an empty cell"), ("nan", "'nan'"), ("inf", "'inf'")])
def test_bad_cell_is_named_with_its_line(tmp_path, cell, shown):
    table = read_table(write(tmp_path, f"x,sex\n1,2\n\n3,{cell}\n"))
    with pytest.raises(DeclarationError, match=re.escape(f"column 'sex' holds {shown} (line 4)")):
        table.numbers([0, 1])
    assert table.numbers([0]).tolist() == [[1.0], [3.0]]


@pytest.mark.parametrize("text, message", [
    ("", r"is empty; expected one point a row"),
    ("\n \n", r"is empty"),
    ("a,b\n", r"has a header but no rows"),
    ("1,2\n3\n", r"line 2 has 1 cell, the first has 2"),
])
def test_malformed_files(tmp_path, text, message):
    with pytest.raises(DeclarationError, match=message):
        read_table(write(tmp_path, text))


def test_unreadable_files(tmp_path):
    with pytest.raises(DeclarationError, match=r"cannot read .*nothing\.csv: No such file"):
        read_table(str(tmp_path / "nothing.csv"))
    with pytest.raises(DeclarationError, match=r"not UTF-8 text; save it as CSV in UTF-8"):
        read_table(write(tmp_path, "é,1\n", "latin-1"))


def test_pairs(tmp_path):
    assert read_pairs(write(tmp_path, "i,j\n0,1\n2,3\n")).values.tolist() == [[0, 1], [2, 3]]
    assert read_pairs(write(tmp_path, "0,-1\n")).values.tolist() == [[0, -1]]
    with pytest.raises(DeclarationError, match=r"has 3 columns, expected two"):
        read_pairs(write(tmp_path, "0,1,2\n"))
    with pytest.raises(DeclarationError, match=r"has 1 column, expected two"):
        read_pairs(write(tmp_path, "0\n1\n"))
    with pytest.raises(DeclarationError, match=r"holds 0,1\.5, expected whole numbers"):
        read_pairs(write(tmp_path, "0,1.5\n"))


@pytest.mark.parametrize("text, line, shown", [
    ("?,1\n0,0\n1,1\n", 1, "'?' above numbers (column 0) and '1' beside it"),
    (",1\n0,0\n1,1\n", 1, "an empty cell above numbers (column 0)"),
    ("\n0,x1\n1,-1\n", 2, "'x1' above numbers (column 1) and '0' beside it"),
    ("id,1,2\n,5,6\n3,7,8\n", 1, "'id' above numbers (column 0)"),
    ("1,kind\n2,3\n", 1, "'kind' above numbers (column 1)"),
])
def test_a_first_row_of_text_and_numbers_is_no_header(tmp_path, text, line, shown):
    path = write(tmp_path, text)
    for read in (read_table, read_pairs):
        with pytest.raises(DeclarationError, match=re.escape(f"{path}: line {line} holds {shown}")):
            read(path)


def test_a_first_row_of_numbers_and_text_is_a_point_where_text_goes_on(tmp_path):
    table = read_table(write(tmp_path, "5.1,3.5,setosa\n4.9,3.0,setosa\n"))
    assert table.names == ("0", "1", "2") and len(table.rows) == 2
    with pytest.raises(DeclarationError, match=re.escape("column '1' holds 'O' (line 1)")):
        read_pairs(write(tmp_path, "0,O\n"))


@pytest.mark.parametrize("text", ["1|2\n3|4\n", "a|b\n1|2\n", "1 2\n3 4\n", "x y\n 1.5   2e3\n", "|1|2|\n|3|4|\n",
                                  "5.1 setosa\n4.9 setosa\n"])
def test_other_separators_are_named(tmp_path, text):
    with pytest.raises(DeclarationError, match="is one cell, .* separated by commas, semicolons or tabs"):
        read_table(write(tmp_path, text))


def test_a_single_column_is_no_separator_problem(tmp_path):
    assert read_table(write(tmp_path, "mean length\n1\n2\n")).numbers([0]).tolist() == [[1.0], [2.0]]


@pytest.mark.parametrize("row, expected", [
    ("0,400", "points from 0 to 5"), ("-1,2", "points from 0 to 5"), ("6,2", "points from 0 to 5"),
    ("3,3", "two different points; leave the row out")])
def test_links_name_file_and_line(tmp_path, row, expected):
    path = write(tmp_path, f"i,j\n0,1\n\n{row}\n")
    with pytest.raises(DeclarationError, match=re.escape(f"{path}: line 4 holds {row}, expected {expected}")):
        read_links(path, 6)
    assert read_links(write(tmp_path, "0,5\n"), 6).tolist() == [[0, 5]]


@pytest.mark.parametrize("row, expected", [
    ("6,1", "a point number first, points from 0 to 5"), ("-1,1", "a point number first"),
    ("1,0", "a label second, +1 or -1"), ("1,2", "a label second, +1 or -1")])
def test_known_labels_name_file_and_line(tmp_path, row, expected):
    path = write(tmp_path, f"0,1\n{row}\n")
    with pytest.raises(DeclarationError, match=re.escape(f"{path}: line 2 holds {row}, expected {expected}")):
        read_known(path, md.Labels(6))
    index, labels = read_known(write(tmp_path, "0,1\n5,-1\n"), md.Labels(6))
    assert index.tolist() == [0, 5] and labels.tolist() == [1, -1]


def test_unwritable_output(tmp_path, capsys):
    target = str(tmp_path / "missing" / "out.csv")
    for attempt in (lambda: check_writable(target), lambda: write_rows(target, ["a"], [[1]])):
        with pytest.raises(DeclarationError, match=r"cannot write .*out\.csv: "):
            attempt()
    assert capsys.readouterr().out == "a\n1\n"


def test_output_is_tried_before_the_solve(tmp_path, monkeypatch):
    (tmp_path / "there.csv").write_text("kept")
    for target in (str(tmp_path), f"{tmp_path}/new/", f"{tmp_path}/there.csv/"):
        with pytest.raises(DeclarationError, match=r"cannot write .*: it is a directory; give the name of a file"):
            check_writable(target)
    for target in ("", "  "):
        with pytest.raises(DeclarationError, match=r"--output '.*': expected the name of a file"):
            check_writable(target)
    with pytest.raises(DeclarationError, match=r"cannot write .*: File name too long"):
        check_writable(str(tmp_path / ("long" * 100)))
    check_writable(str(tmp_path / "there.csv"))
    check_writable(str(tmp_path / "new.csv"))
    assert [path.name for path in tmp_path.iterdir()] == ["there.csv"]
    assert (tmp_path / "there.csv").read_text() == "kept"
    monkeypatch.setattr("os.access", lambda *_: False)  # whoever runs the tests may be allowed everything
    with pytest.raises(DeclarationError, match=r"there\.csv: no permission to write it"):
        check_writable(str(tmp_path / "there.csv"))
    with pytest.raises(DeclarationError, match=r"new\.csv: no permission to write in its folder"):
        check_writable(str(tmp_path / "new.csv"))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=3, max_size=3), min_size=1,
                max_size=8))
def test_numbers_survive_a_round_trip(tmp_path_factory, rows):
    path = str(tmp_path_factory.mktemp("csv") / "round.csv")
    write_rows(path, ["a", "b", "c"], rows)
    assert np.array_equal(read_table(path).numbers([0, 1, 2]), np.array(rows))


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 10**6), st.floats(1e-3, 1e6), st.floats(-1e6, 1e6))
def test_scaling(seed, factor, shift):
    X = np.random.default_rng(seed).normal(size=(12, 3)) * factor + shift
    X[:, 2] = shift
    minmax, standard = scale_columns(X, "minmax"), scale_columns(X, "standard")
    assert np.allclose(minmax[:, :2].min(axis=0), 0) and np.allclose(minmax[:, :2].max(axis=0), 1)
    assert np.allclose(standard[:, :2].mean(axis=0), 0, atol=1e-6) and np.allclose(standard[:, :2].std(axis=0), 1)
    assert np.all(minmax[:, 2] == 0) and np.all(standard[:, 2] == 0)
    assert scale_columns(X, "none") is X
