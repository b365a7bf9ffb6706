"""Points are accepted in the usual forms and refused with what to do."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from margindsl.errors import DeclarationError
from margindsl.features import RBF, build, check_points

X = np.arange(12.0).reshape(4, 3)


@pytest.mark.parametrize(
    "given",
    [
        X.tolist(),
        pd.DataFrame(X),
        X.astype(np.float32),
        X.astype(int),
        X.astype(object),
        np.asfortranarray(X),
    ],
    ids=["list", "frame", "float32", "int", "object", "fortran"],
)
def test_usual_forms_become_float64(given):
    points = check_points(given)
    assert points.dtype == np.float64
    np.testing.assert_array_equal(points, X)


@pytest.mark.parametrize("form", [sp.csr_matrix, sp.csc_array, sp.coo_matrix, sp.lil_array, sp.dok_matrix])
def test_every_sparse_form_becomes_csr(form):
    points = check_points(form(X.astype(np.float32)))
    assert isinstance(points, sp.csr_array) and points.dtype == np.float64
    np.testing.assert_array_equal(points.toarray(), X)


def test_duplicate_sparse_entries_are_summed():
    twice = sp.coo_array(([1.0, 2.0], ([0, 0], [1, 1])), shape=(2, 2))
    assert build(twice, centre=False).row_norms().tolist() == [9.0, 0.0]


def test_constant_columns_are_fine():
    assert build(np.ones((3, 2))).trace == 0
    assert build(sp.csr_array(np.ones((3, 2)))).trace == 0


def holed(value, place=(2, 1)):
    points = X.copy()
    points[place] = value
    return points


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, pd.DataFrame, sp.csc_array])
def test_holes_are_located(value, form):
    with pytest.raises(
        DeclarationError, match="X has 1 NaN or infinite entries, the first in row 2, column 1"
    ):
        check_points(form(holed(value)))


def test_holes_are_counted_over_blocks(monkeypatch):
    points = np.zeros((50, 3))
    points[[13, 13, 49], [2, 1, 0]] = np.nan
    monkeypatch.setattr("margindsl.features.points.BLOCK_ENTRIES", 12)
    for form in (np.asarray, sp.csr_array):
        with pytest.raises(
            DeclarationError, match="3 NaN or infinite entries, the first in row 13, column 1"
        ):
            check_points(form(points))


@pytest.mark.parametrize(
    "given, message",
    [
        (X[0], r"shape \(3,\); a matrix \(n, d\) is expected: X.reshape\(-1, 1\)"),
        (X[None], r"shape \(1, 4, 3\); .* one row per point"),
        (3.0, r"shape \(\); a matrix"),
        (None, r"shape \(\); a matrix"),
        (X[:1], r"X has 1 row\(s\); at least 2 points are needed"),
        (X[:, :0], r"shape \(4, 0\): no column"),
        (X + 1j, "X is complex .* Stack X.real and X.imag"),
        (sp.csr_array(X + 1j), "X is complex"),
        ([["a", "b"], ["c", "d"]], "X has dtype <U1; numbers are expected. Encode text"),
        ([["1", "2"], ["3", "4"]], "X has dtype <U1; numbers are expected"),
        (np.array([[1, "b"], [2, 3]], dtype=object), r"X\[0, 1\] is 'b'; numbers are expected"),
        (np.array([[1, 2], [None, 3]], dtype=object), r"X\[1, 0\] is None; .* fill the missing value"),
        (np.array([[1, 2], [{}, 3]], dtype=object), "X holds entries that are not numbers"),
        (pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}), r"X\[0, 1\] is 'x'"),
        (pd.DataFrame({"a": pd.to_datetime(["2020-01-01", "2020-01-02"])}), "dates or categories"),
        ([[1, 2], [3]], "X is ragged: its rows have different lengths"),
        (np.ma.masked_equal(X, 3.0), "masked array with masked entries. Fill them"),
        (X * 1e200, r"largest entry of X is 1.1e\+201, expected between 1e-10 and 1e\+10. Standardise"),
        (X * -1e200, "Standardise"),
        (sp.csr_array(X * 1e200), "Standardise"),
        (sp.coo_array(np.arange(3.0)), r"sparse with 1 dimension\(s\)"),
    ],
)
def test_malformed_points_are_refused(given, message):
    with pytest.raises(DeclarationError, match=message):
        check_points(given)
    with pytest.raises(DeclarationError, match=message):
        build(given)


def test_a_mask_without_masked_entries_is_fine():
    np.testing.assert_array_equal(check_points(np.ma.array(X)), X)


def test_features_survive_pickling():
    for phi in (build(X), build(X, RBF(2.0), penalised_bias=True), build(sp.csr_array(X))):
        again = pickle.loads(pickle.dumps(phi))
        np.testing.assert_array_equal(again.toarray(), phi.toarray())
        np.testing.assert_array_equal(again.transform(X), phi.transform(X))
