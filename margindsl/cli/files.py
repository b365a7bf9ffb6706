"""Files in and out: points, links, known labels and clusterings through pandas; where answers may be written."""

from __future__ import annotations

import argparse
import difflib
import io
import json
import math
import os
import re
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_array, load_npz

from margindsl.errors import DeclarationError
from margindsl.typing import FloatArray, IntArray

LABEL = "label"
POINTS, CLASSES = ("X", "data", "points"), ("y", "labels", "label", "target")  # names of arrays in .npz files
READ = "data", "labels", "known", "must_link", "cannot_link", "links", "file"  # arguments that name files
SPARSE = (".svm", ".libsvm", ".svmlight")
PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip")
FOREIGN = (".xlsx", ".xls", ".ods", ".json", ".parquet", ".feather", ".arff", ".mat", ".pkl", ".h5")
MISSING = ("", "na", "n/a", "#n/a", "nan", "null", "<na>", "?", "none", "missing", "-", ".")  # in any case
TOO_LARGE = 1e150  # its square is no number
DECIMAL, POINT = r"[-+]?\d*,\d+(?:[eE][-+]?\d+)?", r"[-+]?\d*\.\d+(?:[eE][-+]?\d+)?"
DATE = r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}.*"
WRITTEN = "output", "report", "save"
MOST_CLASSES = 20
BY_INDEX = "; points are numbers from 0, or with --index COLUMN the names in that column"


def read_frame(source: str, row: str = "one point a row", names: Sequence[str] = ()) -> pd.DataFrame:
    """Read a file by its ending, else as CSV, with columns named by a header or by their numbers.

    A path, or ``-`` for standard input, which is CSV; `row` is what is expected, for messages. Cells of CSV stay text.
    A first row that holds one of `names` is no header.
    """
    path = Path(source)
    suffix = (Path(path.stem) if path.suffix.lower() in PACKED else path).suffix.lower()
    if suffix in FOREIGN:
        raise DeclarationError(f"{source}: files of the ending {suffix} are not read; save the table as CSV")
    try:
        if suffix in (".npy", ".npz"):
            frame = _of_arrays(source)
        elif suffix in SPARSE:
            from sklearn.datasets import load_svmlight_file

            points, classes = load_svmlight_file(source)
            frame = _of_sparse(points).assign(**{LABEL: classes})
        else:
            frame = _of_text(source, names)
    except OSError as error:
        raise DeclarationError(f"cannot read {source or repr(source)}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise DeclarationError(f"cannot read {source}: not UTF-8 text; save it as CSV in UTF-8") from None
    except (ValueError, EOFError, zipfile.BadZipFile) as error:  # those of pandas and numpy among them
        text = str(error).strip().removeprefix("Error tokenizing data. C error: ")
        text += "; put ; between columns of decimal commas, and quotes around commas in words" * ("fields in" in text)
        raise DeclarationError(f"cannot read {source}: it holds no table, expected {row} ({text})") from None
    if frame.empty:
        raise DeclarationError(f"{source} is empty; expected {row}")
    names = list(frame.columns.astype(str))
    return frame.set_axis([f"{name} ({names[:k].count(name) + 1})" if names.count(name) > 1 else name
                           for k, name in enumerate(names)] if len(set(names)) < len(names) else names, axis=1)


def _of_sparse(points: Any) -> pd.DataFrame:
    used, at = np.unique(points.indices, return_inverse=True)  # columns that hold anything; others part no points
    return pd.DataFrame.sparse.from_spmatrix(
        csr_array((points.data, at, points.indptr), (points.shape[0], len(used))), columns=used)


def _of_arrays(source: str) -> pd.DataFrame:
    held = np.load(source, allow_pickle=False)
    found = dict(held) if isinstance(held, np.lib.npyio.NpzFile) else {"X": held}
    if "format" in found:  # as scipy.sparse.save_npz writes it
        return _of_sparse(load_npz(source).tocsr())
    points = next((found[name] for name in (*POINTS, *found) if name in found and found[name].ndim in (1, 2)), None)
    if points is None or points.dtype.kind in "cmM":  # numbers and times of which only a part would be taken
        raise ValueError(f"none of the arrays {', '.join(found)} is a table of real numbers; call it X")
    frame = pd.DataFrame(points.reshape(len(points), -1))
    classes = next((found[name] for name in CLASSES if name in found and found[name].shape == points.shape[:1]), None)
    return frame if classes is None or classes is points else frame.assign(**{LABEL: classes})


def _of_text(source: str, names: Sequence[str] = ()) -> pd.DataFrame:
    """Return CSV with commas, semicolons, tabs, bars or blanks; a first row without any number is the header."""
    stream: Any = io.StringIO(sys.stdin.read()) if source == "-" else source
    options: dict[str, Any] = {"header": None, "dtype": str, "encoding": "utf-8-sig", "keep_default_na": False,
                               "skipinitialspace": True}
    lines = pd.read_csv(stream, sep="\x01", nrows=50, quoting=3, skip_blank_lines=False,
                        **options)[0].fillna("").astype(str).tolist()
    if source == "-":
        stream.seek(0)
    first, *rest = [line for line in lines if line.strip() and not line.startswith("#")] or lines
    sep = max((",", ";", "\t", "|"), key=first.count)
    options["skiprows"] = next(  # notes above the table; a header may begin with the sign of a note
        k for k, line in enumerate(lines) if line is first or line.count(sep) == first.count(sep) > 0)
    if sep not in first and 1 < len(first.split()) == len(rest[0].split() if rest else ()):
        sep = r"\s+"
    frame = pd.read_csv(stream, sep=sep, **options)
    if sep != ",":  # decimal commas, where no number has a point
        comma, point = (frame.apply(lambda own, form=form: own.str.fullmatch(form)) for form in (DECIMAL, POINT))
        if comma.to_numpy().any() and not point.to_numpy().any():
            frame = frame.mask(comma, frame.apply(lambda own: own.str.replace(",", ".")))
    numeric = frame.apply(pd.to_numeric, errors="coerce").notna().to_numpy()
    if not numeric[0].any() and not set(frame.iloc[0].str.strip()) & set(names):
        frame = frame.iloc[1:].set_axis(frame.iloc[0].str.strip(), axis=1).reset_index(drop=True)
        return frame.loc[:, (frame.columns != "") | (frame != "").any().to_numpy()]  # what ends lines is no column
    if not names and len(frame) > 4 and frame.iloc[0].str.fullmatch(r"\d+").all() and not (
            frame.iloc[1:].apply(lambda own: own.str.fullmatch(r"\d+")).to_numpy().any()):
        print(f"margindsl: warning: the first row of {source} holds whole numbers alone and is read as a point; a "
              "header has a word in every column", file=sys.stderr)
    odd = np.flatnonzero(~numeric[0] & numeric[1:].any(axis=0))
    if len(odd) and not names:
        raise ValueError(
            f"the first row holds {frame.iat[0, odd[0]]!r} above numbers (column {odd[0]}) and numbers beside it: it "
            "is neither a header nor a row like the others; mend the cell, or name every column")
    return frame


def column(frame: pd.DataFrame, name: str, source: str) -> int:
    """Return the number of a column given by name or number."""
    names = list(frame.columns)
    if name in names:
        return names.index(name)
    if name.isdecimal() and int(name) < len(names):
        return int(name)
    shown = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    close = [own for own in names if own.lower() == name.lower()] or difflib.get_close_matches(name, names, 1)
    meant = f"; did you mean {close[0]!r}?" if close else ""
    raise DeclarationError(f"{source} has no column {name!r}{meant}; its columns are {shown}")


def columns(frame: pd.DataFrame, given: Sequence[str], source: str) -> list[int]:
    """Return the numbers of columns that are named one by one, or several with commas between."""
    known = set(frame.columns)
    parts = [part.strip() for text in given for part in ([text] if text in known else text.split(","))]
    return [column(frame, part, source) for part in parts if part]


def fills(frame: pd.DataFrame, how: str) -> dict[str, str]:
    """Return by column what stands for missing cells: a number, or the most frequent word."""
    found = {}
    for name, own in frame.items():
        rest = own[~lost(own)]
        values = numeric(rest)
        middle = {"zero": lambda own: 0.0, "mean": pd.Series.mean, "median": pd.Series.median}[how]
        if len(rest):
            found[str(name)] = str(rest.mode().iat[0]) if values.isna().any() else repr(float(middle(values)))
    return found


def filled(frame: pd.DataFrame, fill: dict[str, str]) -> pd.DataFrame:
    """Return a table whose missing cells hold what is given for their columns."""
    return frame.apply(lambda own: own.mask(lost(own), fill[own.name]) if own.name in fill else own)


def lost(own: pd.Series) -> Any:
    """Return which cells of a column hold nothing; beside words, so do not "none", "missing", "-" and "."."""
    text = own.astype(str).str.strip().str.lower()
    found = text.isin(MISSING)
    return text.isin(MISSING[:8]) if numeric(own[~found]).isna().any() else found


def numeric(own: pd.Series) -> pd.Series:
    """Return a column as numbers, of one that holds true and false alone 1 and 0; what is none is missing."""
    values = pd.to_numeric(own, errors="coerce")
    if len(own) and values.isna().all():
        truths = own.astype(str).str.strip().str.lower().map({"true": 1.0, "false": 0.0})
        return values if truths.isna().any() else truths
    return values


def one_hot(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose columns of few words, one in every row, are columns of 0 and 1, one a word."""
    words = [name for name, own in frame.items() if not lost(own).any() and numeric(own).isna().any()
             and own.nunique() <= max(20, len(frame) // 2) and not own.nunique() == len(frame) > 4]
    return pd.get_dummies(frame, columns=words, prefix_sep="=", dtype=float) if words else frame


def doubtful(frame: pd.DataFrame) -> Iterator[tuple[str, str, str]]:
    """Yield columns that may be no features, what they seem to be, and what to do then."""
    for at, name in enumerate(frame.columns):
        values, word = pd.to_numeric(frame[name], errors="coerce"), name.strip().lower()
        if isinstance(values.dtype, pd.SparseDtype) or len(frame) < 5 or values.isna().any() or (values % 1).any():
            continue
        steps, called = np.diff(values.to_numpy(dtype=float)), name or at  # a column without a name by its number
        named = re.fullmatch(r"(unnamed.*|index|(.*[_ ]|)id|row.*|nr|no|)", word) or name.endswith("Id")
        if (steps[0] and np.all(steps == steps[0])) or (values.is_unique and named):
            yield name, "numbers the rows", f"--drop {called} leaves it out, --index {called} takes it for their names"
        elif word in ("label", "class", "target", "cluster", "y") and values.nunique() <= MOST_CLASSES:
            yield name, "is called as classes are", f"--drop {called} leaves it out, --truth {called} takes it for them"


def numbers(frame: pd.DataFrame, source: str, known: Sequence[str] = (), advice: str = "") -> FloatArray:
    """Return a frame as finite numbers (rows, columns); the first cell that is none is named, with advice.

    Where it has features of a file, `known` are all columns of that, and the advice is what to do with the column.
    """
    values = frame.apply(numeric).to_numpy(dtype=float, na_value=np.nan)
    wrong = np.argwhere(~(np.abs(values) < (TOO_LARGE if known else np.inf)))
    if len(wrong):
        row, at = wrong[np.argmin(wrong[:, 1])]
        cell, name = frame.iat[row, at], frame.columns[at]
        shown = "an empty cell" if str(cell).strip() == "" else repr(getattr(cell, "item", lambda: cell)())
        limit = f" below {TOO_LARGE:g}" if np.isfinite(values[row, at]) else ""
        if known and row == 0 and frame.shape[1] > 1 and np.isnan(values[0]).all() and np.isfinite(values[1:]).any():
            advice = ("; the first row has no number: delete it, or what stands above it where it is the header"
                      if not lost(frame.iloc[0]).any() else "")
        limit += advice or (_advice(frame.iloc[:, at], str(cell), known) if known else "")
        raise DeclarationError(
            f"{source}: column {name!r} holds {shown} (row {row + 1}), expected finite numbers{limit}")
    return values


def _advice(own: pd.Series, cell: str, known: Sequence[str]) -> str:
    """Return what to do about a column of features that holds a cell that is no number."""
    called, rest = own.name or list(known).index(own.name), own[~lost(own)].astype(str).str.strip()
    words, n = rest.nunique(), len(own)
    leave = f"leave it out with --drop {called}" if len(known) > 1 else "no other column is left as a feature"
    if re.fullmatch(r"\d+:\S+", cell.strip()):
        return "; if these are index:value of LIBSVM, call the file .libsvm"
    if cell.strip().lower() in MISSING:
        return f"; {leave}; --missing median fills what is missing" if len(rest) else f"; it holds nothing: {leave}"
    if numeric(rest).notna().sum() > len(rest) / 2:
        return "; most cells are numbers: mend this one" + f", or {leave}" * (len(known) > 1)
    if rest.str.fullmatch(DATE).all():
        return f"; these are dates: give numbers, as days since the first, or {leave}"
    if rest.str.fullmatch(r"\W*[\d.,]+(\W*|\s\w{1,4})").all():
        return f"; write numbers with a decimal point and without signs of units, or {leave}"
    if len(known) == 1:
        return f"; {leave}"
    if words == n:
        return f"; {n} different words in {n} rows: {leave}, or take it for the names of the rows with --index {called}"
    return f"; {leave}, or name it with --truth {called} if it holds the classes" + (
        f"; --one-hot{' with --missing median' * bool(lost(own).any())} makes a column of 0 and 1 of each of its words"
        if words <= max(20, n // 2) else "")


def column_words(frame: pd.DataFrame, number: int, source: str) -> list[str]:
    """Return a column as words, the names of classes or of rows."""
    names = frame.iloc[:, number].astype(str).str.strip()
    missing = np.flatnonzero(names.str.lower().isin(["", "nan"]))
    if len(missing):
        raise DeclarationError(f"{source}: column {frame.columns[number]!r} holds no name in row {missing[0] + 1}; "
                               "expected one in every row")
    return names.tolist()


def read_labels(source: str, n: int, names: Sequence[str] | None = None) -> list[str]:
    """Return the cluster of each of n points: the one column of a file, or its column ``label`` or ``cluster``.

    A first row without numbers is a header, unless one label were missing then. A column ``index`` holds the numbers of
    the points, or their names, in order.
    """
    frame = read_frame(source, "one label a row")
    if len(frame.columns) == 1:
        return [*(frame.columns if len(frame) == n - 1 else ()), *column_words(frame, 0, source)]
    named = next((name for name in (LABEL, "cluster") if name in frame), None)
    if named is None:
        raise DeclarationError(f"{source}: which of {frame.shape[1]} columns holds the labels? Call it 'label', or "
                               "give a file of one column")
    if "index" in frame and names is not None:
        written = column_words(frame, column(frame, "index", source), source)
        if written not in (list(names), [str(number) for number in range(n)]):
            raise DeclarationError(f"{source}: the column 'index' is not that of the points in order; sort the rows")
    elif "index" in frame and not np.array_equal(numbers(frame[["index"]], source).ravel(), np.arange(len(frame))):
        raise DeclarationError(f"{source}: the column 'index' is not 0, 1, 2, ... in order; sort the rows")
    return column_words(frame, column(frame, named, source), source)


def read_links(source: str, n: int, names: Sequence[str] | None = None) -> IntArray:
    """Read rows i,j of different points, 0..n−1 or their names."""
    pairs = (_read_pairs(source) if names is None
             else _named(read_frame(source, "two names a row", names), names, source, 2))
    _require(source, pairs, ((pairs >= 0) & (pairs < n)).all(axis=1), f"points from 0 to {n - 1}")
    _require(source, pairs, pairs[:, 0] != pairs[:, 1], "two different points; leave the row out")
    return pairs


def read_kinds(source: str, n: int, names: Sequence[str] | None = None) -> tuple[IntArray, IntArray]:
    """Read rows i,j,kind as must-links and cannot-links; kinds are must and cannot, or 1 and 0 or -1."""
    frame = read_frame(source, "two points and a kind a row", names or ())
    if frame.shape[1] != 3:
        raise DeclarationError(f"{source} has {frame.shape[1]} columns, expected three: two points, and must or cannot")
    kinds = frame.iloc[:, 2].astype(str).str.strip().str.lower()
    is_must, is_cannot = kinds.isin(["must", "must-link", "ml", "1", "same"]), kinds.isin(
        ["cannot", "cannot-link", "cl", "0", "-1", "different"])
    wrong = np.flatnonzero(~(is_must | is_cannot))
    if len(wrong):
        raise DeclarationError(f"{source}: row {wrong[0] + 1} holds {kinds.iat[wrong[0]]!r} as kind, expected must or "
                               "cannot")
    pairs = (numbers(frame.iloc[:, :2], source, advice=BY_INDEX).astype(np.int64) if names is None
             else _named(frame, names, source, 2))
    _require(source, pairs, ((pairs >= 0) & (pairs < n)).all(axis=1), f"points from 0 to {n - 1}")
    return pairs[is_must.to_numpy()], pairs[is_cannot.to_numpy()]


def _named(frame: pd.DataFrame, names: Sequence[str], source: str, count: int) -> Any:
    """Return the first columns with names of points replaced by their numbers."""
    rows = {name: row for row, name in enumerate(names)}
    if frame.shape[1] < count:
        raise DeclarationError(f"{source} has {frame.shape[1]} columns, expected {count}")
    found = []
    for given in frame.iloc[:, :count].astype(str).apply(lambda own: own.str.strip()).to_numpy():
        for name in given:
            if name not in rows:
                close = difflib.get_close_matches(name, names, 1)
                raise DeclarationError(f"{source}: no point is called {name!r}"
                                       + (f"; did you mean {close[0]!r}?" if close else ""))
        found.append([rows[name] for name in given])
    return np.array(found, dtype=np.int64).reshape(-1, count)


def read_known(source: str, n: int, clusters: int, signs: bool = False,
               names: Sequence[str] | None = None) -> tuple[IntArray, IntArray]:
    """Read rows index,label with points 0..n−1 and labels 0..k−1, or of two clusters −1 and 1 where `signs` says so."""
    if names is None:
        pairs = _read_pairs(source)
    else:
        frame = read_frame(source, "a name and a label a row", names)
        pairs = np.column_stack([_named(frame, names, source, 1), numbers(frame.iloc[:, 1:2], source).astype(np.int64)])
    index, label = pairs.T
    _require(source, pairs, (index >= 0) & (index < n), f"a point number first, from 0 to {n - 1}")
    fits = (label == -1) | (label == 1) if signs else (label >= 0) & (label < clusters)
    _require(source, pairs, fits, f"a label second, {'+1 or -1' if signs else f'from 0 to {clusters - 1}'}", names)
    first = np.full(n, -2)
    first[index[::-1]] = label[::-1]
    _require(source, pairs, first[index] == label, "one label a point, and an earlier row has another", names)
    return index, label


def _read_pairs(source: str) -> IntArray:
    frame = read_frame(source, "two whole numbers a row")
    if frame.shape[1] != 2:
        raise DeclarationError(f"{source} has {frame.shape[1]} columns, expected two")
    values = numbers(frame, source, advice=BY_INDEX)
    _require(source, values, np.all((values == np.round(values)) & (np.abs(values) < 2.0**53), axis=1), "whole numbers")
    return values.astype(np.int64)


def _require(source: str, pairs: Any, right: Any, expected: str, names: Sequence[str] | None = None) -> None:
    wrong = np.flatnonzero(~np.asarray(right))
    if len(wrong):
        first, second = pairs[wrong[0]]
        given = f"{first:g}" if names is None else names[int(first)]
        raise DeclarationError(f"{source}: row {wrong[0] + 1} holds {given},{second:g}, expected {expected}")


def write_frame(target: str | None, frame: pd.DataFrame) -> None:
    """Write CSV to a file, or to standard output where the target is None or the file cannot be written."""
    try:
        frame.to_csv(sys.stdout if target in (None, "-") else target, index=False, lineterminator="\n")
    except OSError as error:
        if target is None:
            raise
        frame.to_csv(sys.stdout, index=False, lineterminator="\n")
        sys.stdout.flush()
        raise DeclarationError(
            f"cannot write {target}: {error.strerror}; what it was to hold went to standard output") from None


def check_targets(arguments: argparse.Namespace) -> None:
    """Raise before a long solve where a file that is asked for cannot be written, or another would be lost by it."""
    taken = [(Path(path).resolve(), "is read") for name in READ if (path := getattr(arguments, name, None)) is not None]
    for name in WRITTEN:
        target = getattr(arguments, name, None)
        if target in (None, "-"):
            continue
        if not target.strip():
            raise DeclarationError(f"--{name} {target!r}: expected the name of a file")
        path = Path(target).resolve()
        obstacle = (
            "it is a directory; give the name of a file" if path.is_dir() or target.endswith(("/", os.sep)) else
            "its folder does not exist" if not path.parent.is_dir() else
            "" if os.access(path if path.exists() else path.parent, os.W_OK) else "no permission to write it")
        if obstacle:
            raise DeclarationError(f"cannot write {target}: {obstacle}")
        for other, use in taken:
            if path == other and (path.is_file() or not path.exists()):  # devices hold nothing that could be lost
                raise DeclarationError(f"--{name} {target}: that file {use}, too, and would be lost; give another name")
        taken.append((path, "is written"))


def print_json(found: dict[str, Any]) -> None:
    """Print one JSON object; numbers that JSON has not are null."""
    print(json.dumps(plain(found), ensure_ascii=False))


def plain(value: Any) -> Any:
    """Return a value as JSON knows it."""
    if isinstance(value, dict):
        return {str(name): plain(part) for name, part in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
