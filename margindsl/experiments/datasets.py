"""Data sets of the published experiments: files of a directory, scikit-learn's digits, OpenML."""

from __future__ import annotations

import csv
import gzip
import re
import socket
import warnings
import zipfile
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from margindsl.errors import DeclarationError, one_of
from margindsl.typing import FloatArray, IntArray

SCALINGS = ("none", "minmax", "max")
SUFFIXES = (".csv.gz", ".csv", ".npz")
_TIMEOUT = 20.0  # seconds without an answer from OpenML
_DIGITS = re.compile(r"digits (\d)-(\d)|digits (\d{2,10})")


class MissingDataError(DeclarationError):
    """A data set is in no file and cannot be fetched.

    Parameters
    ----------
    offline : bool
        Whether the network was tried and did not answer.
    """

    def __init__(self, message: str, offline: bool = False) -> None:
        super().__init__(message)
        self.offline = offline


@dataclass(frozen=True, eq=False)
class Dataset:
    """Represent points with their true classes.

    Parameters
    ----------
    classes : (n,) int array
        Codes 0..k−1.
    source : str
        Where it was read.
    """

    name: str
    X: FloatArray  # (n, d)
    classes: IntArray
    source: str = ""

    @property
    def n(self) -> int:
        """Return the number of points."""
        return len(self.X)

    @property
    def clusters(self) -> int:
        """Return the number of classes."""
        return int(self.classes.max()) + 1

    @property
    def signs(self) -> IntArray:
        """Return the classes of a two-class set as −1 (class 0) and +1."""
        if self.clusters != 2:
            raise DeclarationError(f"data set {self.name!r} has {self.clusters} classes, expected two")
        return 2 * self.classes - 1


@dataclass(frozen=True)
class OpenMLSource:
    """Represent where OpenML keeps a set.

    Parameters
    ----------
    number : int
        OpenML's data id.
    name : str
        Its name there; a set of another name under that number is refused.
    """

    number: int
    name: str


# A set whose name on arrival is another is refused, so a wrong number cannot pass unseen.
OPENML = {
    "JapaneseVowels": OpenMLSource(976, "JapaneseVowels"), "credit-a": OpenMLSource(29, "credit-approval"),
    "credit-g": OpenMLSource(31, "credit-g"), "diabetes": OpenMLSource(37, "diabetes"),
    "dbworld": OpenMLSource(1563, "dbworld-bodies"), "dbworld-stemmed": OpenMLSource(1564, "dbworld-bodies-stemmed"),
    "fruitfly": OpenMLSource(714, "fruitfly"), "haberman": OpenMLSource(43, "haberman"),
    "heart-c": OpenMLSource(49, "heart-c"), "heart-h": OpenMLSource(51, "heart-h"),
    "heart-statlog": OpenMLSource(53, "heart-statlog"), "hepatitis": OpenMLSource(55, "hepatitis"),
    "hivaAgnostic": OpenMLSource(1039, "hiva_agnostic"), "ionosphere": OpenMLSource(59, "ionosphere"),
    "krvskp": OpenMLSource(3, "kr-vs-kp"), "letter-binary": OpenMLSource(977, "letter"),
    "leukemia": OpenMLSource(1104, "leukemia"), "pageBlocks": OpenMLSource(1021, "page-blocks"),
    "pc4": OpenMLSource(1049, "pc4"), "pieChart1": OpenMLSource(1451, "PieChart1"),
    "pizzaCutter": OpenMLSource(1443, "PizzaCutter1"), "sick": OpenMLSource(38, "sick"),
    "spambase": OpenMLSource(44, "spambase"), "tic-tac-toe": OpenMLSource(50, "tic-tac-toe"),
    "wdbc": OpenMLSource(1510, "wdbc"), "wilt": OpenMLSource(40983, "wilt")}


def load_dataset(name: str, directory: str | Path | None = None, scale: str = "none", *,
                 network: bool = True) -> Dataset:
    """Load a data set by name; columns that are constant are dropped.

    ``digits a-b`` and ``digits abcd`` are scikit-learn's bundled digits of those classes. Any other name is a file
    ``name.csv.gz``, ``name.csv`` (header ``f0,...,label``) or ``name.npz`` (arrays X, y) of the directory, and
    otherwise fetched from OpenML where it is known there.

    Parameters
    ----------
    scale : {"none", "minmax", "max"}
        Nothing; every column to [0, 1]; all columns by the largest absolute value of the set.
    network : bool
        Whether OpenML may be asked.

    Examples
    --------
    >>> load_dataset("digits 3-8").X.shape[0], load_dataset("digits 0689").clusters
    (357, 4)
    """
    one_of("scaling", scale, SCALINGS)
    if directory is not None and not Path(directory).is_dir():
        raise DeclarationError(f"data directory {str(directory)!r} does not exist; give a directory of CSV files")
    match = _DIGITS.fullmatch(name)
    if match:
        X, labels, source = *_digits("".join(filter(None, match.groups()))), "scikit-learn's digits"
    else:
        path = _find(name, directory)
        if path is not None:
            X, labels, source = *read_file(path), path.name
        else:
            X, labels, source = *_fetch(name, directory, network), f"OpenML {OPENML[name].number}"
    classes = np.unique(labels, return_inverse=True)[1]
    if classes.max(initial=0) == 0:
        raise DeclarationError(f"data set {name!r} ({source}) has fewer than two classes")
    return Dataset(name, rescale(X, scale), classes, source)


def rescale(X: FloatArray, how: str) -> FloatArray:
    """Return the columns that are not constant, scaled.

    Shapes: `X` (n, d).

    Examples
    --------
    >>> rescale(np.array([[1.0, 7.0, 0.0], [3.0, 7.0, 8.0]]), "minmax").tolist()
    [[0.0, 0.0], [1.0, 1.0]]
    """
    low, width = X.min(axis=0), np.ptp(X, axis=0)
    varies = width > 1e-12 * np.maximum(np.abs(X).max(axis=0), 1e-300)
    if not varies.any():
        raise DeclarationError("every column of the data set is constant; give points that differ")
    X, low, width = X[:, varies], low[varies], width[varies]
    if how == "minmax":
        return (X - low) / width
    return X / np.abs(X).max() if how == "max" else X


def read_file(path: Path) -> tuple[FloatArray, Any]:
    """Return points (n, d) and labels (n,) of a CSV or npz file."""
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as stored:
                X, labels = stored["X"].astype(float), stored["y"]
        else:
            X, labels = _read_csv(path)
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise DeclarationError(
            f"{path.name}: {str(error) or type(error).__name__}. Expected a CSV file with a header f0,...,label and "
            "finite numbers, or an npz file with arrays X and y") from None
    if X.ndim != 2 or len(X) < 2 or len(X) != len(labels) or not np.all(np.isfinite(X)):
        raise DeclarationError(f"{path.name}: X of shape {X.shape} and {len(labels)} labels; expected two or more "
                               "points of finite numbers with one label each")
    return X, labels


def _read_csv(path: Path) -> tuple[FloatArray, Any]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as stream:
        head = next(csv.reader(stream), [])
        if not head or head[-1].strip() != "label":
            raise ValueError(f"the last column of the header is {head[-1] if head else 'missing'!r}, not 'label'")
        table = np.loadtxt(stream, delimiter=",", ndmin=2)
    if table.shape[1] != len(head):
        raise ValueError(f"{len(head)} names in the header, {table.shape[1]} columns below")
    return table[:, :-1], table[:, -1]


def _find(name: str, directory: str | Path | None) -> Path | None:
    if directory is None or Path(name).name != name:
        return None
    return next((path for path in (Path(directory) / f"{name}{end}" for end in SUFFIXES) if path.is_file()), None)


def _digits(which: str) -> tuple[FloatArray, IntArray]:
    from sklearn.datasets import load_digits

    X, labels = load_digits(return_X_y=True)
    members = np.isin(labels, [int(digit) for digit in which])
    return X[members], labels[members]


def _fetch(name: str, directory: str | Path | None, network: bool) -> tuple[FloatArray, IntArray]:
    """Return a set of OpenML, encoded."""
    where = "no directory of data was given" if directory is None else f"not in {directory}"
    advice = f"put {name}.csv.gz (header f0,...,label) into a directory and give it with --data"
    if name not in OPENML:
        raise MissingDataError(f"data set {name!r}: {where}, and it is not known on OpenML; {advice}")
    if not network:
        raise MissingDataError(f"data set {name!r}: {where}, and OpenML was not asked; {advice}")
    source = OPENML[name]
    try:
        columns, target, found = _ask_openml(source.number)
    except (OSError, ValueError) as error:  # URLError and HTTPError are OSErrors
        raise MissingDataError(f"data set {name!r}: {where}, and OpenML did not answer ({type(error).__name__}); "
                               f"{advice}", offline=True) from None
    if found.lower() != source.name.lower():
        raise MissingDataError(f"data set {name!r}: {where}, and OpenML's {source.number} is {found!r}, not "
                               f"{source.name!r}; {advice}")
    return encode(columns, target)


def _ask_openml(number: int) -> tuple[list[Any], Any, str]:
    from sklearn.datasets import fetch_openml

    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_TIMEOUT)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of each retry; the failure is reported once
            bunch = fetch_openml(data_id=number, as_frame=False, parser="liac-arff", n_retries=1)
    finally:
        socket.setdefaulttimeout(before)
    X = bunch.data.toarray() if hasattr(bunch.data, "toarray") else np.asarray(bunch.data)
    return list(X.T), np.asarray(bunch.target), str(bunch.details["name"])


def encode(columns: list[Any], target: Any) -> tuple[FloatArray, IntArray]:
    """Return points and two classes from raw columns.

    Text becomes the code of its place in sorted order; rows with a missing value are dropped; of more than two
    classes the largest stands against the rest (OpenML's own way of making two).

    Parameters
    ----------
    columns : list of (n,) arrays
        Numbers, or text; None and NaN are missing.

    Examples
    --------
    >>> X, classes = encode([np.array(["b", "a", None], dtype=object)], np.array(["u", "v", "v"]))
    >>> X.tolist(), classes.tolist()
    ([[1.0], [0.0]], [0, 1])
    """
    X = np.column_stack([_numbers(column) for column in columns])
    whole = np.all(np.isfinite(X), axis=1)
    names, classes, counts = np.unique(np.asarray(target)[whole].astype(str), return_inverse=True, return_counts=True)
    if len(names) > 2:
        classes = (classes != counts.argmax()).astype(int)
    return X[whole], classes


def _numbers(column: Any) -> FloatArray:
    try:
        return np.asarray(column, dtype=float)
    except (TypeError, ValueError):
        missing = np.array([value is None or value != value or value == "?" for value in column])
        codes = np.full(len(column), np.nan)
        codes[~missing] = np.unique(np.asarray(column)[~missing].astype(str), return_inverse=True)[1]
        return codes


@dataclass(frozen=True)
class Source:
    """Represent what stands for a set a paper lists.

    Parameters
    ----------
    name : str
        As `load_dataset` takes it.
    note : str
        How it differs from the paper's own, if it does.
    """

    name: str
    note: str = ""


@cache
def sources(paper: str) -> dict[str, Source]:
    """Return the source of every set a paper lists, by the name printed there (file ``sources.csv``)."""
    text = (resources.files("margindsl.experiments") / "sources.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return {row["listed"]: Source(row["name"], row["note"]) for row in rows if row["paper"] == paper}
