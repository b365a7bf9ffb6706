"""Data sets: files, bundled digits, OpenML (never asked here), scaling, and what is said when one is missing."""

import gzip
import urllib.error

import numpy as np
import pytest
from sklearn.datasets import load_digits

from margindsl.errors import DeclarationError, UnknownNameError
from margindsl.experiments import datasets
from margindsl.experiments.datasets import MissingDataError, encode, load_dataset, rescale, sources
from margindsl.experiments.figures import PAPERS, printed_table

POINTS = np.array([[0.0, 5.0, 2.0], [4.0, 5.0, -1.0], [2.0, 5.0, 0.0], [1.0, 5.0, 1.0]])
LINES = ["f0,f1,f2,label", *(",".join(map(str, row)) + f",{k % 2}" for k, row in enumerate(POINTS))]


def write(folder, name, lines):
    opener = gzip.open if name.endswith(".gz") else open
    with opener(folder / name, "wt", encoding="utf-8") as stream:
        stream.write("\n".join(lines) + "\n")


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".npz"])
def test_three_layouts_hold_the_same_set(tmp_path, suffix):
    if suffix == ".npz":
        np.savez(tmp_path / "trees.npz", X=POINTS.astype(np.int16), y=np.array([7, 9, 7, 9]))
    else:
        write(tmp_path, f"trees{suffix}", LINES)
    data = load_dataset("trees", tmp_path)
    assert np.array_equal(data.X, POINTS[:, [0, 2]])  # the constant column is dropped
    assert data.classes.tolist() == [0, 1, 0, 1] and data.signs.tolist() == [-1, 1, -1, 1]
    assert (data.n, data.clusters, data.source) == (4, 2, f"trees{suffix}")


def test_digits_are_those_of_the_bundle():
    labels = load_digits().target
    data = load_dataset("digits 3-8", scale="max")
    assert data.n == np.isin(labels, (3, 8)).sum() == 357
    assert data.X.min() == 0 and data.X.max() == 1
    four = load_dataset("digits 0689")
    assert four.clusters == 4 and four.n == np.isin(labels, (0, 6, 8, 9)).sum()
    with pytest.raises(DeclarationError, match=r"'digits 0689' has 4 classes, expected two"):
        four.signs  # noqa: B018


def test_scalings():
    unit = rescale(POINTS, "minmax")
    assert unit.shape == (4, 2) and np.all(unit.min(axis=0) == 0) and np.all(unit.max(axis=0) == 1)
    assert np.array_equal(rescale(POINTS, "max"), POINTS[:, [0, 2]] / 4)
    with pytest.raises(DeclarationError, match="every column of the data set is constant"):
        rescale(np.ones((3, 2)), "none")
    with pytest.raises(UnknownNameError, match="unknown scaling 'minimax'. Did you mean 'minmax'"):
        load_dataset("digits 3-8", scale="minimax")


def test_columns_of_large_constant_numbers_are_constant():
    X = np.column_stack([np.full(5, 1e9) + 1e-6 * np.arange(5), np.arange(5.0)])
    assert rescale(X, "minmax").shape == (5, 1)


@pytest.mark.parametrize("lines, message", [
    (["a,b", "1,2", "3,4"], "last column of the header is 'b', not 'label'"),
    (["f0,label", "1,0", "x,1"], "Expected a CSV file with a header"),
    (["f0,label", "1,0,0", "2,1,0"], "2 names in the header, 3 columns below"),
    (["f0,label", "nan,0", "2,1"], "two or more points of finite numbers"),
    (["f0,label", "1,0", "2,0"], "fewer than two classes"),
    ([""], "not 'label'")])
def test_malformed_files_are_explained(tmp_path, lines, message):
    write(tmp_path, "bad.csv", lines)
    with pytest.raises(DeclarationError, match=message):
        load_dataset("bad", tmp_path)


def test_malformed_archives_are_explained(tmp_path):
    np.savez(tmp_path / "bad.npz", X=POINTS)
    (tmp_path / "torn.csv.gz").write_bytes(b"\x1f\x8bnothing")
    for name in ("bad", "torn"):
        with pytest.raises(DeclarationError, match="npz file with arrays X and y"):
            load_dataset(name, tmp_path)


def test_missing_sets_say_what_to_do(tmp_path, monkeypatch):
    with pytest.raises(DeclarationError, match="directory '.*nowhere' does not exist"):
        load_dataset("house", tmp_path / "nowhere")
    with pytest.raises(MissingDataError, match=r"not known on OpenML; put house.csv.gz \(header") as caught:
        load_dataset("house", tmp_path)
    assert not caught.value.offline
    with pytest.raises(MissingDataError, match="no directory of data was given, and OpenML was not asked"):
        load_dataset("diabetes", network=False)

    def unreachable(number):
        raise urllib.error.URLError("no route")

    monkeypatch.setattr(datasets, "_ask_openml", unreachable)
    with pytest.raises(MissingDataError, match=r"OpenML did not answer \(URLError\); put diabetes.csv.gz") as caught:
        load_dataset("diabetes")
    assert caught.value.offline


def test_a_name_cannot_leave_the_directory(tmp_path):
    write(tmp_path, "secret.csv", LINES)
    inner = tmp_path / "inner"
    inner.mkdir()
    with pytest.raises(MissingDataError):
        load_dataset("../secret", inner, network=False)


def test_openml_answers_are_checked_and_encoded(monkeypatch):
    columns = [np.array([1.0, 2.0, np.nan, 4.0], dtype=object), np.array(["b", "a", "b", None], dtype=object)]
    target = np.array(["pos", "neg", "neg", "pos"])
    monkeypatch.setattr(datasets, "_ask_openml", lambda number: (columns, target, "Diabetes"))
    data = load_dataset("diabetes")
    assert data.X.tolist() == [[1.0, 1.0], [2.0, 0.0]] and data.classes.tolist() == [1, 0]
    assert data.source == "OpenML 37"
    monkeypatch.setattr(datasets, "_ask_openml", lambda number: (columns, target, "iris"))
    with pytest.raises(MissingDataError, match="OpenML's 37 is 'iris', not 'diabetes'"):
        load_dataset("diabetes")


def test_many_classes_become_the_largest_against_the_rest():
    X, classes = encode([np.arange(6.0)], np.array(["c", "a", "b", "b", "b", "a"]))
    assert X.ravel().tolist() == list(range(6)) and classes.tolist() == [1, 1, 0, 0, 0, 1]


@pytest.mark.parametrize("paper", PAPERS)
def test_every_listed_set_has_a_source(paper):
    listed = {name for condition, name in printed_table(paper).sizes}
    assert set(sources(paper)) <= listed
    if paper != "cpmmc":  # the slides' text collections have none
        assert set(sources(paper)) == listed
