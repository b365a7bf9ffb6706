"""Numbers of every container beside expressions, on the left as on the right, and what is refused."""

import operator
from fractions import Fraction

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import margindsl as md
from margindsl.errors import DeclarationError, GrammarError
from margindsl.language import Expression
from margindsl.language.constraints import Constraint

N = 6
X = np.random.default_rng(0).normal(size=(N, 2))
VALUES = np.array([1.0, 2.0, 3.0, 2.0, 1.0, 4.0])
y, f = md.Labels(N), md.Hyperplane(X)
g = y * f

CONTAINERS = {
    "array": VALUES, "list": VALUES.tolist(), "tuple": tuple(VALUES), "Series": pd.Series(VALUES),
    "Series with an index of its own": pd.Series(VALUES, index=[7, 7, 7, 2, 2, 1]), "Index": pd.Index(VALUES),
    "column": pd.DataFrame({"a": VALUES})["a"], "nullable column": pd.Series(VALUES.astype(int), dtype="Int64"),
    "dask": da.from_array(VALUES, chunks=2),
    "float16": VALUES.astype(np.float16), "longdouble": VALUES.astype(np.longdouble),
    "big endian": VALUES.astype(">f8"),
    "strided": np.repeat(VALUES, 2)[::2], "uint8": VALUES.astype(np.uint8), "objects": VALUES.astype(object),
    "fractions": [Fraction(int(v)) for v in VALUES], "pandas array": pd.array(VALUES),
    "float": 2.0, "int": 2, "float64": np.float64(2), "float32": np.float32(2), "int8": np.int8(2),
    "0-d": np.array(2.0),
    "fraction": Fraction(2), "parameter": md.Parameter(2.0)}


def numbers(given):
    return 2.0 if np.shape(given) == () else VALUES


@pytest.mark.parametrize("sign", [operator.add, operator.sub, operator.mul], ids=lambda sign: sign.__name__)
@pytest.mark.parametrize("given", CONTAINERS.values(), ids=CONTAINERS)
def test_arithmetic_on_either_side(given, sign):
    for made, plain in ((sign(given, g), sign(numbers(given), g)), (sign(g, given), sign(g, numbers(given)))):
        assert isinstance(made, Expression) and made.text() == plain.text() and made.shape == (N,)


@pytest.mark.parametrize("given", CONTAINERS.values(), ids=CONTAINERS)
def test_quotients(given):
    assert (g / given).text() == (g / numbers(given)).text()
    with pytest.raises(GrammarError, match="only constants divide"):
        given / g


# a masked array compares by itself what stands on its right, and asks nobody
COMPARING = {name: given for name, given in CONTAINERS.items() if np.shape(given) and not name.startswith("masked")}


@pytest.mark.parametrize("given", COMPARING.values(), ids=COMPARING)
def test_comparisons_on_either_side(given):
    ones = type(given)([1, -1, 1, -1, 1, -1]) if isinstance(given, (list, tuple)) else 0 * given + 1
    left, right = ones == y, y == ones
    assert isinstance(left, Constraint) and left.values().tolist() == right.values().tolist()
    assert (ones != y).values().tolist() == (-left.values()).tolist()
    bound = md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(g)))
    assert len(md.Problem(bound, [ones <= 2 * y + 2]).lower().label_bounds) == N
    with pytest.raises(GrammarError, match="strict inequalities do not close a set"):
        ones < y  # noqa: B015


@pytest.mark.parametrize("given", [given for given in CONTAINERS.values() if not np.shape(given)],
                         ids=[name for name, given in CONTAINERS.items() if not np.shape(given)])
def test_bounds_on_either_side(given):
    for constraint in (given >= abs(md.sum(y)), abs(md.sum(y)) <= given):
        problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(g))), [constraint])
        assert problem.lower().label_bounds[0][1:] == (-2.0, 2.0)


@pytest.mark.parametrize("given", [
    None, "1", b"1", [None] * N, ["1"] * N, 1j, np.array([1j] * N), np.nan, np.inf, [np.nan] * N, np.ones((N, 1)),
    np.matrix(VALUES), pd.DataFrame({"a": VALUES}), np.ma.array(VALUES, mask=[1, 0, 0, 0, 0, 0]), object(), {1, 2}, {},
    [1, [2, 3]], (v for v in VALUES), np.datetime64("2020"), np.timedelta64(1), pd.Timestamp("2020"), pd.NA,
    [pd.NA] * N,
    10**400, np.longdouble("1e4000"), np.array([np.longdouble("1e4000")] * N), np.zeros(N, dtype=[("a", float)]),
    pd.Series(["a"] * N), pd.Series([True, None] * 3), np.timedelta64("NaT"), np.array([], dtype=float), VALUES[:4],
    range(3), len], ids=lambda given: type(given).__name__)
def test_what_is_no_number_is_refused(given):
    for sign in (operator.add, operator.mul, operator.truediv):
        for use in (lambda sign=sign: sign(g, given), lambda sign=sign: sign(given, g)):
            with pytest.raises((DeclarationError, TypeError)) as caught:
                use()
            assert type(caught.value).__module__.startswith("margindsl"), caught.value
    with pytest.raises(DeclarationError):
        y == given  # noqa: B015


@pytest.mark.parametrize("index,points", [
    ([0, 2], [0, 2]), (np.array([0, 2], dtype=np.uint8), [0, 2]), (pd.Series([0, 2]), [0, 2]), (pd.Index([0, 2]), [0,
    2]),
    (slice(1, None, 2), [1, 3, 5]), (-1, [5]), (np.int64(2), [2]), (X[:, 0] > 0, np.flatnonzero(X[:, 0] > 0).tolist()),
    (pd.Series(X[:, 0] > 0), np.flatnonzero(X[:, 0] > 0).tolist()), (range(2), [0, 1]), ([], []),
    (np.array([2], dtype=">i4"), [2])], ids=lambda given: type(given).__name__)
def test_indices(index, points):
    assert y[index].index.tolist() == points


@pytest.mark.parametrize("index", [
    6, -7, 1.0, "0", None, ..., [0.0], ["a"], [[0]], {0}, np.array([2**64 - 1], dtype=np.uint64), 2**70, [2**70],
    [None],
    (0, 1),
    np.timedelta64(1), np.ma.array([0, 1], mask=[0, 1]), slice("a"), slice(0.5), slice(None, None, 0), [[0], [1, 2]],
        True,
    [True], 1j, np.zeros((2, 2), dtype=bool), (i for i in range(2)), g, np.nan], ids=lambda given: type(given).__name__)
def test_indices_that_are_none(index):
    with pytest.raises(DeclarationError):
        y[index]


@pytest.mark.parametrize("function,shown", [
    (np.sum, "md.sum(y * f)"), (np.mean, "md.mean(y * f)"), (np.var, "md.var(y * f)"), (np.abs, "abs(y * f)"),
    (np.square, "(y * f)**2"), (lambda x: np.maximum(x, 0), "md.maximum(y * f, 0)"), (np.negative, "-y * f"),
    (lambda x: np.subtract(1, x), "1 - y * f"), (lambda x: np.float64(2.0) * x, "2 * (y * f)")])
def test_functions_of_numpy_with_a_meaning_in_formulas(function, shown):
    assert function(g).text() == shown


@pytest.mark.parametrize("function,advice", [
    (np.exp, "md.logistic"), (np.log, "md.logistic"), (lambda x: np.dot(VALUES, x), "md.sum\\(a \\* f\\)"),
    (np.sqrt, "abs\\(x\\)"), (np.linalg.norm, "md.sq_norm"),
    (lambda x: np.where(x, 1, 0), "convex"), (lambda x: np.sum(x, axis=0), "md.sum"), (np.median, "md.maximum")])
def test_other_functions_of_numpy_say_what_to_write(function, advice):
    with pytest.raises(GrammarError, match=f"function of numpy does not take expressions. .*{advice}"):
        function(g)


@pytest.mark.parametrize("read", [np.asarray, np.array, list, float, sum, bool])
def test_expressions_hold_no_numbers(read):
    with pytest.raises((GrammarError, TypeError)):
        read(g)


@pytest.mark.parametrize("product", [lambda: VALUES @ g, lambda: g @ VALUES, lambda: VALUES.tolist() @ g])
def test_matrix_products_name_the_functions_to_take(product):
    with pytest.raises(GrammarError, match="not part of formulas. Write md.sum"):
        product()


@pytest.mark.parametrize("written,shown", [
    (lambda: y[0] * f[0], "(y * f)[0]"), (lambda: y[[0]] * f[0], "(y * f)[[0]]"),
    (lambda: y[:3][1] * f[1], "(y * f)[1]"), (lambda: (-y)[0] * f[0], "-(y * f)[0]"),
    (lambda: (2 * y)[:3] * f[:3], "2 * (y * f)[0:3]"),
    (lambda: f[1] * (y / VALUES)[1], "(y * f)[1] / array([1, 2, 3, 2, 1, 4])[1]")])
def test_selections_of_both_factors_are_selections_of_margins(written, shown):
    product = written()
    assert product.text() == shown
    md.Problem(md.Minimize(md.sq_norm(f) / 2 + (md.mean if product.shape else lambda one: one)(md.hinge(product))))


def test_negatives_of_negative_numbers_are_bracketed():
    p = md.Parameter(-1.0)
    assert (abs(md.sum(y)) <= -p).text() == "abs(md.sum(y)) <= -(-1)" and (g - p).text() == "y * f - (-1)"


def test_sizes_are_printed_as_given_and_count_whole_points():
    labels = md.Labels(9, clusters=3)
    assert md.sizes(labels, 1.5, 3.7).text() == "md.sizes(y, at_least=[1.5, 1.5, 1.5], at_most=[3.7, 3.7, 3.7])"
    md.sizes(labels, at_least=0.1 * 3 * 10)  # three, to rounding
    with pytest.raises(DeclarationError, match="9 points cannot fill clusters of 12 to 27 points"):
        md.sizes(labels, at_least=3.1)


@pytest.mark.parametrize("constraint", [f[0] == 0.1 - f[1], f[0] == -f[1]], ids=str)
def test_equalities_of_decision_values_may_stand_on_either_side(constraint):
    other = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(g))), [constraint]).lower().decision[0]
    assert other.weights.tolist() == [1, 1, 0, 0, 0, 0] and other.lower == other.upper in (0.0, 0.1)


@pytest.mark.parametrize("constraints", [5, "ab", [True], [None], [[y[0] == y[1]]], {"a": 1}, [g], [y], 1.5, [3], True])
def test_constraints_are_a_list_of_constraints(constraints):
    with pytest.raises(DeclarationError):
        md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(g))), constraints)


def test_constraints_come_in_any_collection():
    for constraints in (None, [], (), y[0] == y[1], (c for c in [y[0] == y[1]]), {y[0] == y[1]},
                        np.array([y[0] == y[1]], dtype=object)):
        many = int(constraints is not None and not (isinstance(constraints, (list, tuple)) and not constraints))
        problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(g))), constraints)
        assert len(problem.constraints) == many


@pytest.mark.parametrize("pairs", [
    [(0, 1), (2, 3)], np.array([[0, 1], [2, 3]], dtype=np.uint8), pd.DataFrame([[0, 1], [2, 3]]), {(0, 1), (2, 3)},
    [(0.0, 1.0), (2.0, 3.0)], ((i, i + 1) for i in (0, 2)), {frozenset((0, 1)), frozenset((2, 3))}, zip((0, 2), (1,
    3))],
    ids=lambda given: type(given).__name__)
def test_pairs(pairs):
    assert sorted(map(sorted, md.must_link(y, pairs).pairs.tolist())) == [[0, 1], [2, 3]]


@pytest.mark.parametrize("pairs", [
    [(0, 0)], [(0, 6)], [(-1, 0)], [(0.5, 1)], [(np.nan, 1)], [(1e300, 1)], [(2**64 - 1, 1)], [(2**70, 1)], [0, 1],
    "01",
    [("0", "1")], [(0, 1, 2)], 5, None, [(0, 1), (2,)], [(True, False)], [(1j, 2)], np.ma.array([[0, 1]], mask=[[0,
    1]]),
    [(None, 1)], g], ids=lambda given: type(given).__name__)
def test_pairs_that_are_none(pairs):
    for link in (md.must_link, md.cannot_link):
        with pytest.raises(DeclarationError):
            link(y, pairs)


def test_constants_may_stand_beside_either_factor_of_a_margin():
    for made, plain in ((-y * f, -g), (f * (-y), -g), ((2 * y) * f, 2 * g), (y * (f / 3), g / 3),
                        ((VALUES * y) * f, VALUES * g)):
        assert made.text() == plain.text() and made.shape == (N,)
    for wrong in (lambda: (2 * y) * y, lambda: f * (2 * f)):
        with pytest.raises(GrammarError, match="needs a constant factor"):
            wrong()


ALIKE = {
    "one point": (lambda w, y, f: y[0] * f[0], lambda w, y, f: (y * f)[0]),
    "selections of a product": (lambda w, y, f: (w * y)[:3] * f[:3], lambda w, y, f: w[:3] * (y * f)[:3]),
}


@pytest.mark.parametrize("name", list(ALIKE))
def test_products_of_selections_are_selections_of_margins(name):
    rng = np.random.default_rng(0)
    y, f, w = md.Labels(5), md.Hyperplane(rng.normal(size=(5, 2))), rng.uniform(1, 2, size=5)
    values = []
    for make in ALIKE[name]:
        loss = md.hinge(make(w, y, f))
        objective = md.sq_norm(f) + (md.sum(loss) if loss.shape else loss)
        values.append(md.Problem(md.Minimize(objective), [y[0] != y[1]]).solve("exact").value)
    assert values[0] == pytest.approx(values[1], rel=1e-9)


def test_counts_are_bounded_by_numbers_and_not_strictly():
    y = md.Labels(5)
    for compare in (lambda c: c < 2, lambda c: c > 2, lambda c: c != 2):
        with pytest.raises(GrammarError, match="is compared by <=, >= or =="):
            compare(md.count(y[:3] == 1))
    with pytest.raises(DeclarationError, match=r"md.count\(...\) <= nan: expected a number"):
        md.count(y[:3] == 1) <= np.nan  # noqa: B015


def test_links_of_objects_and_of_weighted_matrices():
    y, W = md.Labels(12), sp.csr_array(([-2.0], ([0], [1])), (12, 12))
    assert md.must_link(y, np.array([[0, 1]], dtype=object)).pairs.tolist() == [[0, 1]]
    for matrix in (W, W.T, W + W.T):
        energy = md.must_link(y, matrix, weight="w")
        assert energy.pairs.tolist() == [[0, 1]] and energy.text() == "md.must_link(y, 1 pairs, weight=array([-2]))"
    with pytest.raises(DeclarationError, match=r"the matrix has shape \(3, 3\), expected \(12, 12\)"):
        md.must_link(y, sp.csr_array(([2.0], ([0], [1])), (3, 3)), weight="w")
