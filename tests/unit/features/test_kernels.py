"""Factors reproduce their kernels and say what they miss."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import pdist, squareform

import margindsl as md
from margindsl.errors import AccuracyWarning, DeclarationError, UnknownNameError
from margindsl.features import (
    RBF,
    AffineFeatures,
    Callable,
    Linear,
    MeanDistance,
    Polynomial,
    Precomputed,
    as_kernel,
    build,
    mean_distance,
    sqrt_mean_distance,
)
from margindsl.features.cholesky import pivoted_cholesky, pivoted_cholesky_dense
from margindsl.features.distances import squared_distances
from margindsl.features.width import find_width

RNG = np.random.default_rng(11)
X = RNG.normal(size=(40, 5))
X_NEW = RNG.normal(size=(7, 5))
H = np.eye(40) - 1 / 40


def rbf(A, B, width=1.5):
    return np.exp(-((A[:, None] - B[None]) ** 2).sum(2) / (2 * width**2))


def polynomial(A, B):
    return (0.5 * A @ B.T + 2.0) ** 3


def laplace(A, B):
    return np.exp(-np.abs(A[:, None] - B[None]).sum(axis=2))


CASES = [
    (Linear(), lambda A, B: A @ B.T),
    (RBF(1.5), rbf),
    (RBF(1.5, method="nystrom"), rbf),
    (Polynomial(3, 2.0, 0.5), polynomial),
    (laplace, laplace),
    (Callable(laplace), laplace),
]


@pytest.mark.parametrize("kernel, formula", CASES, ids=lambda value: getattr(value, "__name__", type(value).__name__))
def test_exact_factors_reproduce_the_kernel_on_old_and_new_points(kernel, formula):
    K, K_new = formula(X, X), formula(X_NEW, X)
    plain, centred = build(X, kernel, centre=False), build(X, kernel)
    scale = K.max()
    np.testing.assert_allclose(plain.matrix @ plain.matrix.T, K, atol=1e-9 * scale)
    np.testing.assert_allclose(centred.matrix @ centred.matrix.T, H @ K @ H, atol=1e-9 * scale)
    np.testing.assert_allclose(plain.transform(X_NEW) @ plain.matrix.T, K_new, atol=1e-6 * scale)
    expected = (K_new - K.mean(axis=0)) @ H
    np.testing.assert_allclose(centred.transform(X_NEW) @ centred.matrix.T, expected, atol=1e-6 * scale)


def test_precomputed_equals_the_kernel_it_was_computed_from():
    given, known = build(None, Precomputed(rbf(X, X))), build(X, RBF(1.5))
    np.testing.assert_allclose(given.matrix @ given.matrix.T, known.matrix @ known.matrix.T, atol=1e-9)
    old, new = given.transform(rbf(X_NEW, X)), known.transform(X_NEW)
    np.testing.assert_allclose(old @ given.matrix.T, new @ known.matrix.T, atol=1e-6)
    part = given.take(np.arange(5))
    np.testing.assert_allclose(part.transform(rbf(X_NEW, X)), old)
    sparse = build(X, Precomputed(sp.csr_array(rbf(X, X))))
    np.testing.assert_allclose(sparse.matrix, given.matrix)


@pytest.mark.parametrize("method", ["cholesky", "nystrom"])
def test_trace_error_is_the_trace_missed_and_shrinks_with_rank(method):
    K, errors = rbf(X, X), []
    for rank in (2, 5, 10, 20, 40):
        phi = build(X, RBF(1.5, method=method, rank=rank), centre=False)
        missed = K - phi.matrix @ phi.matrix.T
        assert phi.rank == rank
        assert phi.trace_error == pytest.approx(np.trace(missed), abs=1e-10)
        assert np.linalg.eigvalsh(missed)[0] > -1e-10
        part = phi.take([3, 4])
        assert part.trace_error == pytest.approx(missed[3, 3] + missed[4, 4], abs=1e-10)
        errors.append(phi.trace_error)
    assert all(a > b for a, b in pairwise(errors)) and errors[-1] < 1e-9
    assert build(X, RBF(1.5, method=method, rank=5)).trace_error == pytest.approx(errors[1])


def test_linear_features_are_exact_and_mapped_inexact_ones_say_they_do_not_know():
    assert build(X).trace_error == 0
    assert np.isnan(AffineFeatures(build(X, RBF(1.0, rank=3)), np.eye(3)).trace_error)


def test_tolerance_stops_the_factor():
    K = RBF(5.0).matrix(X, X)
    for rank in (39, None):  # columns one by one, and all at once
        phi = build(X, RBF(5.0, tol=1e-3, rank=rank), centre=False)
        spread = np.trace(K) - K.sum() / 40
        assert phi.rank < 39 and phi.trace_error <= 1e-3 * spread
        shorter = build(X, RBF(5.0, rank=phi.rank - 1), centre=False)
        assert shorter.trace_error > 1e-3 * (spread - shorter.trace_error)


def test_what_tells_points_apart_is_kept_however_much_they_share():
    rng = np.random.default_rng(0)
    points = np.hstack([rng.normal(size=(12, 3)), np.full((12, 1), 1e6)])
    near = points[:, :3] - points[:, :3].mean(axis=0)
    for rank in (None, 11):
        with pytest.warns(AccuracyWarning, match="centring leaves"):
            phi = build(points, Polynomial(degree=1, scale=1.0, rank=rank), centre=True)
        np.testing.assert_allclose(phi.matrix @ phi.matrix.T, near @ near.T, atol=1e-2)


def test_finite_dimensional_kernels_have_their_dimension():
    assert build(X, Polynomial(2), centre=False).rank == 21  # C(5 + 2, 2)
    assert build(np.repeat(X[:4], 5, axis=0), RBF(1.0), centre=False).rank == 4
    assert build(np.repeat(X[:4], 5, axis=0), RBF(1.0, method="nystrom"), centre=False).rank == 4


def test_large_sets_are_capped_and_sketched(monkeypatch):
    monkeypatch.setattr("margindsl.features.factor.FULL_RANK_POINTS", 10)
    monkeypatch.setattr("margindsl.features.factor.DEFAULT_RANK", 8)
    assert build(X, RBF(0.5)).rank == 8
    assert "Cholesky" in build(X, RBF(0.5)).describe()
    monkeypatch.setattr("margindsl.features.factor.CHOLESKY_POINTS", 20)
    assert "Nystroem rank 8" in build(X, RBF(0.5)).describe()
    assert "Cholesky" in build(X, RBF(0.5, method="cholesky")).describe()


def test_equal_seeds_give_equal_features():
    kernel = RBF("median", method="nystrom", rank=6)
    same = [build(X, kernel, random_state=s).matrix for s in (3, 3, np.random.default_rng(3))]
    np.testing.assert_array_equal(same[0], same[1])
    np.testing.assert_array_equal(same[0], same[2])
    assert not np.allclose(same[0], build(X, kernel, random_state=4).matrix)
    np.testing.assert_array_equal(build(X, kernel).matrix, build(X, kernel).matrix)


def test_distances_agree_with_their_definition():
    wide, other = RNG.normal(size=(30, 20)) + 1e5, RNG.normal(size=(25, 20)) + 1e5
    expected = ((wide[:, None] - other[None]) ** 2).sum(2)
    np.testing.assert_allclose(squared_distances(wide, other), expected, rtol=1e-9)
    np.testing.assert_allclose(squared_distances(wide, other[:2]), expected[:, :2], rtol=1e-9)
    small = sp.csr_array(X)
    np.testing.assert_allclose(squared_distances(small, small), squareform(pdist(X)) ** 2, atol=1e-12)


def test_widths_mean_what_they_say():
    distances, rng = pdist(X), np.random.default_rng(0)
    gamma = distances.mean()
    for given, value in [
        (2, 2.0),
        (np.float32(0.5), 0.5),
        ("median", np.median(distances)),
        ("mean", gamma),
        (mean_distance, gamma),
        (0.5 * mean_distance, gamma / 2),
        (mean_distance * 3, 3 * gamma),
        (sqrt_mean_distance / 4, np.sqrt(gamma) / 4),
        (MeanDistance(1.0, 2.0), gamma**2),
    ]:
        assert find_width(given, X, rng) == pytest.approx(value)
        assert find_width(given, sp.csr_array(X), rng) == pytest.approx(value)
        assert isinstance(RBF(given).fit(X, rng).width, float)
    assert repr(MeanDistance(2.0, 3.0)) == "2 * mean_distance**3"


def test_widths_of_many_points_come_from_a_seeded_sample():
    many = RNG.normal(size=(3000, 2))
    one, same, other = (find_width("median", many, np.random.default_rng(s)) for s in (0, 0, 1))
    assert one == same != other
    assert one == pytest.approx(np.median(pdist(many)), rel=0.05)


def test_median_ignores_coinciding_pairs_only_when_it_must():
    mostly_equal = np.vstack([np.zeros((9, 1)), [[1.0]]])
    assert find_width("median", mostly_equal, np.random.default_rng(0)) == 1.0


@pytest.mark.parametrize("width", ["median", "mean", mean_distance, sqrt_mean_distance])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_coinciding_points_have_no_width(width, storage):
    with pytest.raises(DeclarationError, match=r"zero because all points coincide. Give points that differ"):
        build(storage(np.full((5, 2), 0.1)), RBF(width))


@pytest.mark.parametrize("width", [0, -1.0, np.nan, np.inf, -1 * mean_distance, 0 * mean_distance])
def test_widths_must_be_positive(width):
    with pytest.raises(DeclarationError, match=r"a positive finite number is expected, or 'median'"):
        RBF(width)


def test_malformed_widths_are_refused():
    for width in (None, True, [1.0], 1j):
        with pytest.raises(DeclarationError, match=r"a positive number, 'median', or a multiple"):
            RBF(width)
    with pytest.raises(UnknownNameError, match=r"unknown kernel width 'medain'. Did you mean 'median'"):
        RBF("medain")
    with pytest.raises(DeclarationError, match=r"divided by zero; a positive divisor"):
        mean_distance / 0
    with pytest.raises(TypeError):
        mean_distance * "2"
    with pytest.raises(DeclarationError, match=r"width='median' needs points first"):
        RBF("median").matrix(X, X)


@pytest.mark.parametrize("make", [RBF, Polynomial, lambda **k: Callable(laplace, **k)])
def test_factor_options_are_checked(make):
    for rank in (0, -1, 2.5, True, "3"):
        with pytest.raises(DeclarationError, match=r"rank=.* a positive integer or None is expected"):
            make(rank=rank)
    for tol in (-1e-3, 1.0, np.nan, "x"):
        with pytest.raises(DeclarationError, match=r"tol=.* a number in \[0, 1\) is expected"):
            make(tol=tol)
    with pytest.raises(UnknownNameError, match=r"unknown kernel method 'nystroem'. Did you mean 'nystrom'"):
        make(method="nystroem")


def test_polynomial_parameters_are_checked():
    with pytest.raises(DeclarationError, match=r"degree=1.5; an integer of at least 1"):
        Polynomial(1.5)
    with pytest.raises(DeclarationError, match=r"offset=-1; a number of at least 0"):
        Polynomial(offset=-1)
    with pytest.raises(DeclarationError, match=r"scale=0; a positive number"):
        Polynomial(scale=0)
    with pytest.raises(DeclarationError, match=r"polynomial gave NaN or infinite values. Rescale"):
        build(X * 1e9, Polynomial(30))


def test_names_and_objects_become_kernels():
    assert (
        as_kernel("linear") == Linear()
        and as_kernel("rbf") == RBF()
        and as_kernel("polynomial") == Polynomial()
    )
    assert as_kernel(RBF(2.0)) == RBF(2.0) and as_kernel(laplace) == Callable(laplace)
    with pytest.raises(UnknownNameError, match=r"unknown kernel 'rfb'. Did you mean 'rbf'") as caught:
        as_kernel("rfb")
    assert caught.value.nearest == ("rbf",)
    with pytest.raises(DeclarationError, match=r"names no matrix. Write kernel=Precomputed\(K\)"):
        as_kernel("precomputed")
    with pytest.raises(DeclarationError, match=r"the class RBF; an instance is expected. Write RBF\("):
        as_kernel(RBF)
    with pytest.raises(DeclarationError, match=r"the kernel is a ndarray; .* write Precomputed\(K\)"):
        as_kernel(np.eye(3))


def test_malformed_callables_are_refused():
    with pytest.raises(DeclarationError, match=r"kernel function is 3; something called as f\(X, Z\)"):
        Callable(3)
    with pytest.raises(
        DeclarationError, match=r"returned shape \(\) .* a real matrix \(40, 40\) is expected"
    ):
        build(X, lambda A, B: 1.0)
    with pytest.raises(DeclarationError, match=r"is not symmetric: .* \(k\(X, Z\) \+ k\(Z, X\).T\) / 2"):
        build(X, lambda A, B: A[:, :1] + 0 * B[:, 0])
    with pytest.raises(DeclarationError, match=r"kernel gave NaN or infinite values"):
        build(X, lambda A, B: np.full((len(A), len(B)), np.nan))
    for method in ("cholesky", "nystrom"):
        with pytest.raises(DeclarationError, match=r"positive semidefinite"):
            build(X, Callable(lambda A, B: np.sqrt(squared_distances(A, B)) + 1.0, method=method))
    with pytest.raises(DeclarationError, match=r"not positive semidefinite: k\(x, x\) = -"):
        build(X, lambda A, B: -(A @ B.T))
    with pytest.raises(DeclarationError, match=r"kernel is zero at every point"):
        build(X, lambda A, B: np.zeros((len(A), len(B))))


def indefinite():
    vectors = np.linalg.qr(RNG.normal(size=(12, 12)))[0]
    return (vectors * np.r_[-0.5, -0.1, np.linspace(1, 3, 10)]) @ vectors.T


def test_indefinite_matrices_are_refused_and_repaired_on_request():
    K = indefinite()
    K = (K + K.T) / 2
    with pytest.raises(DeclarationError, match=r"lowest eigenvalue is -0.5 .*repair='shift'.*repair='clip'"):
        build(None, Precomputed(K))
    values, vectors = np.linalg.eigh(K)
    shifted = build(None, Precomputed(K, repair="shift"), centre=False)
    np.testing.assert_allclose(shifted.matrix @ shifted.matrix.T, K + 0.5 * np.eye(12), atol=1e-9)
    clipped = build(None, Precomputed(K, repair="clip"), centre=False)
    np.testing.assert_allclose(
        clipped.matrix @ clipped.matrix.T, (vectors * np.maximum(values, 0)) @ vectors.T, atol=1e-9
    )
    np.testing.assert_allclose(clipped.transform(K), clipped.matrix, atol=1e-9)
    centred = build(None, Precomputed(K, repair="clip"))
    np.testing.assert_allclose(centred.transform(K), centred.matrix, atol=1e-9)
    assert "shifted" in shifted.describe() and "clipped" in clipped.describe()
    definite = rbf(X, X)
    for repair in ("shift", "clip"):
        phi = build(None, Precomputed(definite, repair=repair), centre=False)
        np.testing.assert_allclose(phi.matrix @ phi.matrix.T, definite, atol=1e-9)


def test_hidden_indefiniteness_with_a_harmless_diagonal_is_found():
    for K in ([[0.0, 1.0], [1.0, 0.0]], [[1.0, 2.0], [2.0, 1.0]], [[1.0, 1.0001], [1.0001, 1.0]]):
        with pytest.raises(DeclarationError, match=r"indefinite"):
            build(None, Precomputed(K))
    for sketch in (np.ones((5, 5)), X @ X.T, (X @ X.T) * 1e-12, (X @ X.T) * 1e12):
        phi = build(None, Precomputed(sketch), centre=False)
        np.testing.assert_allclose(phi.matrix @ phi.matrix.T, sketch, atol=1e-9 * sketch.max())


def test_malformed_kernel_matrices_are_refused():
    K = rbf(X, X)
    with pytest.raises(DeclarationError, match=r"kernel matrix has shape \(40, 39\); a square"):
        build(None, Precomputed(K[:, :39]))
    skew = K.copy()
    skew[3, 5] += 1e-3
    with pytest.raises(DeclarationError, match=r"not symmetric: K\[3, 5\] and K\[5, 3\] differ by 1.00e-03"):
        build(None, Precomputed(skew))
    almost = K.copy()
    almost[3, 5] += 1e-10
    assert build(None, Precomputed(almost)).n == 40
    with pytest.raises(DeclarationError, match=r"the kernel matrix has 1 NaN or infinite entries"):
        build(None, Precomputed(np.diag([1.0, np.nan])))
    with pytest.raises(DeclarationError, match=r"X has 7 rows, but the kernel matrix is 40 x 40"):
        build(X_NEW, Precomputed(K))
    with pytest.raises(UnknownNameError, match=r"repair of an indefinite kernel 'clp'. Did you mean 'clip'"):
        Precomputed(K, repair="clp")
    with pytest.raises(DeclarationError, match=r"no formula for points. Give the"):
        Precomputed(K).matrix(X, X)


def test_pivots_are_triangular_and_distinct():
    K = rbf(X, X)
    found = pivoted_cholesky(lambda j: K[:, j], np.diag(K), 15, 0.0)
    assert len(set(found.pivots.tolist())) == 15
    root = found.factor[found.pivots]
    np.testing.assert_array_equal(root, np.tril(root))
    np.testing.assert_allclose(found.factor[found.pivots] @ found.factor.T, K[found.pivots], atol=1e-12)


def test_more_columns_than_the_first_allocation():
    many = RNG.normal(size=(200, 3))
    phi = build(many, RBF(0.3), centre=False)
    assert phi.rank > 64
    np.testing.assert_allclose(phi.matrix @ phi.matrix.T, rbf(many, many, 0.3), atol=1e-8)


@pytest.mark.parametrize("rank, tol", [(40, 0.0), (40, 1e-10), (40, 1e-2), (7, 0.0), (1, 0.5), (40, 0.9)])
def test_both_factorisations_choose_the_same_pivots(rank, tol):
    K = rbf(X, X, 4.0) * RNG.uniform(1, 2, size=40)[:, None] ** np.eye(40)  # distinct diagonal: no ties
    by_column = pivoted_cholesky(lambda j: K[:, j], np.diag(K), rank, tol)
    at_once = pivoted_cholesky_dense(K, rank, tol)
    np.testing.assert_array_equal(at_once.pivots, by_column.pivots)
    np.testing.assert_allclose(at_once.factor, by_column.factor, atol=1e-9)
    np.testing.assert_allclose(at_once.residual, by_column.residual, atol=1e-12)


def test_one_far_outlier_costs_the_others_no_digits():
    cluster = RNG.normal(size=(60, 20))
    both = np.vstack([cluster, np.full((1, 20), 1e6)])
    np.testing.assert_allclose(
        squared_distances(both, both)[:60, :60], squareform(pdist(cluster)) ** 2, rtol=1e-12
    )
    paired = np.vstack([cluster, cluster + 1e-7])
    exact = squareform(pdist(paired)) ** 2
    np.testing.assert_allclose(squared_distances(paired, paired), exact, rtol=1e-9)
    phi = build(both, RBF(1e-3), centre=False)
    np.testing.assert_allclose(phi.transform(both), phi.matrix, atol=1e-9)


@pytest.mark.parametrize("make", [
    lambda p: RBF(p), lambda p: RBF(1.0, rank=p), lambda p: RBF(1.0, tol=p), lambda p: Polynomial(degree=p),
    lambda p: Polynomial(offset=p), lambda p: Polynomial(scale=p)])
def test_parameters_of_kernels_are_numbers(make):
    with pytest.raises(DeclarationError, match="2, a Parameter: kernels are built once.*declare one problem a value"):
        make(md.Parameter(2.0))
    with pytest.raises(DeclarationError, match=r"array\(2.0?\) \(ndarray\)"):
        make(np.array(2.0))


@pytest.mark.parametrize("kernel,text", [
    (RBF(0.5), "RBF(width 0.5)"), (RBF(), "RBF(width median)"),
    (Polynomial(2), "polynomial(degree 2, offset 1, scale 1)"), (Callable(np.inner), "kernel(inner)"),
    (Precomputed(np.eye(2)), "precomputed"), (Precomputed(np.eye(2), repair="clip"),
                                              "precomputed(clipped to semidefinite)")])
def test_descriptions_close_their_brackets(kernel, text):
    assert kernel.describe() == text


@pytest.mark.parametrize("columns", [2, 40])
def test_sparse_points_far_from_the_origin_lose_no_digits(columns):
    X = np.random.default_rng(0).normal(size=(50, columns))
    X[:, 0] += 1e7
    held, exact = sp.csr_array(X), ((X[:, None] - X[None]) ** 2).sum(axis=2)
    for a, b in ((held, held), (held, X), (X, held), (X, X)):
        np.testing.assert_allclose(squared_distances(a, b), exact, rtol=1e-12)
    sparse, centred = build(held), np.asarray(X - X.mean(axis=0, dtype=np.longdouble), dtype=float)
    weights = np.linspace(0.0, 2.0, 50)
    for found, expected in (
            (sparse.apply(np.eye(columns)), centred), (sparse.transform(held)[:, 1:], centred[:, 1:]),
            (sparse.adjoint(weights), centred.T @ weights), (sparse.row_norms(), np.sum(centred**2, axis=1)),
            (sparse.gram(weights), centred.T @ (weights[:, None] * centred))):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(sparse.transform(held), centred, atol=1e-8)  # the mean is rounded
    assert build(held, RBF("median")).describe() == build(X, RBF("median")).describe()
