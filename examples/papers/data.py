"""Data sets of the published experiments, from files, scikit-learn or OpenML, and the figures the papers print."""

from __future__ import annotations

import hashlib
import re
import warnings
import zipfile
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import TfidfTransformer

from margindsl.errors import DeclarationError

HERE = Path(__file__).parent
_DIGITS = re.compile(r"digits (\d)-(\d)|digits (\d{2,10})")

# Number and name at OpenML; a set whose name on arrival is another is refused, so that a wrong number cannot pass.
OPENML = {
    "JapaneseVowels": (976, "JapaneseVowels"), "credit-a": (29, "credit-approval"), "credit-g": (31, "credit-g"),
    "dbworld": (1563, "dbworld-bodies"), "dbworld-stemmed": (1564, "dbworld-bodies-stemmed"),
    "diabetes": (37, "diabetes"), "fruitfly": (714, "fruitfly"), "haberman": (43, "haberman"),
    "heart-c": (49, "heart-c"), "heart-h": (51, "heart-h"), "heart-statlog": (53, "heart-statlog"),
    "hepatitis": (55, "hepatitis"), "hivaAgnostic": (1039, "hiva_agnostic"), "ionosphere": (59, "ionosphere"),
    "krvskp": (3, "kr-vs-kp"), "letter-binary": (977, "letter"), "leukemia": (1104, "leukemia"),
    "pageBlocks": (1021, "page-blocks"), "pc4": (1049, "pc4"), "pieChart1": (1451, "PieChart1"),
    "pizzaCutter": (1443, "PizzaCutter1"), "sick": (38, "sick"), "spambase": (44, "spambase"),
    "tic-tac-toe": (50, "tic-tac-toe"), "wdbc": (1510, "wdbc"), "wilt": (40983, "wilt")}


class MissingDataError(DeclarationError):
    """A data set is in no file and cannot be fetched."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Represent points with their true classes."""

    name: str
    X: np.ndarray  # (n, d)
    classes: np.ndarray  # (n,), 0..k−1

    @property
    def clusters(self) -> int:
        return int(self.classes.max()) + 1

    @property
    def signs(self) -> np.ndarray:
        """Return the classes of a two-class set as −1 (class 0) and +1."""
        if self.clusters != 2:
            raise DeclarationError(f"data set {self.name!r} has {self.clusters} classes, expected two")
        return 2 * self.classes - 1

    @property
    def fingerprint(self) -> str:
        digest = hashlib.sha256(np.ascontiguousarray(self.X, dtype=float).data)
        digest.update(np.ascontiguousarray(self.classes, dtype=np.int64).data)
        return digest.hexdigest()[:16]


@lru_cache(maxsize=4)  # one process runs cells of one set after another
def load_dataset(name: str, directory: str | None = None, scale: str = "none") -> Dataset:
    """Load a data set by name; columns that are constant are dropped.

    ``digits a-b`` and ``digits abcd`` are scikit-learn's digits of those classes. Any other name is a file
    ``name.csv.gz``, ``name.csv`` (header ``f0,...,label``) or ``name.npz`` (arrays X, y) of the directory, and
    otherwise fetched from OpenML where it is known there.

    Parameters
    ----------
    name : str
    directory : str, optional
    scale : {"none", "minmax", "max", "tf-idf"}
        Nothing; every column to [0, 1]; all columns by the largest absolute value of the set; counts of words by how
        few rows have the word, and rows to unit length.
    """
    if directory is not None and not Path(directory).is_dir():
        raise DeclarationError(f"data directory {directory!r} does not exist; give a directory of CSV files")
    files = [Path(directory or "") / f"{name}{end}" for end in (".csv.gz", ".csv", ".npz")] if directory else []
    if match := _DIGITS.fullmatch(name):
        from sklearn.datasets import load_digits

        X, labels = load_digits(return_X_y=True)
        chosen = np.isin(labels, [int(digit) for digit in "".join(filter(None, match.groups()))])
        X, labels = X[chosen], labels[chosen]
    elif path := next(filter(Path.is_file, files), None):
        X, labels = _read(path)
    else:
        X, labels = _fetch(name, directory)
    classes = np.unique(labels, return_inverse=True)[1]
    low, width = X.min(axis=0), np.ptp(X, axis=0)
    varies = width > 1e-12 * np.maximum(np.abs(X).max(axis=0), 1e-300)
    if classes.max(initial=0) == 0 or not varies.any():
        raise DeclarationError(f"data set {name!r} has fewer than two classes, or constant columns alone")
    X, low, width = X[:, varies], low[varies], width[varies]
    X = ((X - low) / width if scale == "minmax" else X / np.abs(X).max() if scale == "max"
         else TfidfTransformer().fit_transform(X).toarray() if scale == "tf-idf" else X)
    return Dataset(name, X, classes)


def _read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as stored:
                X, labels = stored["X"].astype(float), stored["y"]
        else:
            frame = pd.read_csv(path)
            X, labels = frame.drop(columns="label").to_numpy(dtype=float), frame["label"].to_numpy()
        if X.ndim != 2 or len(X) < 2 or len(X) != len(labels) or not np.all(np.isfinite(X)):
            raise ValueError(f"X of shape {X.shape} and {len(labels)} labels")
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise DeclarationError(f"{path.name}: {error}. Expected a CSV file with a header f0,...,label and finite "
                               "numbers, or an npz file with arrays X and y") from None
    return X, labels


def _fetch(name: str, directory: str | None) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import fetch_openml

    where = "no directory of data was given" if directory is None else f"not in {directory}"
    advice = f"put {name}.csv.gz (header f0,...,label) into a directory and give it with --data"
    if name not in OPENML:
        raise MissingDataError(f"data set {name!r}: {where}, and it is not known on OpenML; {advice}")
    number, expected = OPENML[name]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of each retry; the failure is reported once
            bunch = fetch_openml(data_id=number, as_frame=True, n_retries=1)
    except (OSError, ValueError) as error:  # URLError and HTTPError are OSErrors
        raise MissingDataError(
            f"data set {name!r}: {where}, and OpenML did not answer ({type(error).__name__}); {advice}") from None
    if str(bunch.details["name"]).lower() != expected.lower():
        raise MissingDataError(f"data set {name!r}: {where}, and OpenML's {number} is {bunch.details['name']!r}, not "
                               f"{expected!r}; {advice}")
    return encode(bunch.data, bunch.target)


def encode(frame: pd.DataFrame, target: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return points and two classes from raw columns.

    Text becomes the code of its place in sorted order; rows with a missing value are dropped; of more than two classes
    the largest stands against the rest (OpenML's own way of making two).
    """
    X = np.column_stack([
        column.to_numpy(float, na_value=np.nan) if pd.api.types.is_numeric_dtype(column)
        else np.where(column.isna(), np.nan, pd.factorize(column.astype(object), sort=True)[0])
        for _, column in frame.items()])
    whole = np.all(np.isfinite(X), axis=1)
    names, classes, counts = np.unique(np.asarray(target)[whole].astype(str), return_inverse=True, return_counts=True)
    return X[whole], classes if len(names) == 2 else (classes != counts.argmax()).astype(int)


def load_for(paper: str, listed: str, directory: str | None, scale: str) -> tuple[Dataset, str]:
    """Return the data set that stands for a set a paper lists, and how it differs from the paper's own."""
    rows = pd.read_csv(HERE / "sources.csv", comment="#").fillna("")
    row = rows[(rows.paper == paper) & (rows.listed == listed)]
    name, note, own = row.iloc[0][["name", "note", "scale"]] if len(row) else (listed.lower(), "", "")
    return load_dataset(name, directory, own or scale), note


@cache
def printed_table(paper: str) -> pd.DataFrame:
    """Return the figures a paper prints, one row a measure, condition, data set and method.

    The columns are measure, condition, dataset, n, d, method, mean and std (NaN where none is printed); notes on the
    figures stand at the head of the file.
    """
    wide = pd.read_csv(HERE / "printed" / f"{paper}.csv", comment="#", dtype=str)
    wide = wide.rename(columns={"setting": "condition"})
    long = wide.melt(["measure", "condition", "dataset", "n", "d"], var_name="method", value_name="figure")
    figures = long.pop("figure").str.partition("±")
    long["mean"], long["std"] = pd.to_numeric(figures[0]), pd.to_numeric(figures[2])
    return long.astype({"n": float, "d": float})
