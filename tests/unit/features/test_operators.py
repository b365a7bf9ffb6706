"""Every operator is the matrix it claims to be."""

import numpy as np
import pytest
import scipy.sparse as sp

from margindsl.errors import DeclarationError, SizeError
from margindsl.features import (
    RBF,
    AffineFeatures,
    BlockFeatures,
    Polynomial,
    Precomputed,
    SparseFeatures,
    build,
    in_span,
)
from margindsl.features import points as points_module

RNG = np.random.default_rng(5)
N, D = 23, 6
X = RNG.normal(size=(N, D)) * (RNG.random((N, D)) < 0.6) + 0.3 * (RNG.random((N, D)) < 0.3)
X_NEW = RNG.normal(size=(4, D))


def memory_map(tmp_path, dtype=np.float64):
    disk = np.memmap(tmp_path / "points", dtype=dtype, mode="w+", shape=X.shape)
    disk[:] = X
    return disk


def distance_kernel(A, B):
    return np.exp(-np.abs(A[:, None] - B[None]).sum(axis=2))


def wide_array():
    return X[:, :, None].repeat(9, axis=2).reshape(N, -1)


WAYS = {
    "dense": lambda c, t: build(X, centre=c),
    "wide": lambda c, t: build(wide_array(), centre=c),
    "sparse": lambda c, t: build(sp.csr_matrix(X), centre=c),
    "disk": lambda c, t: build(memory_map(t), centre=c),
    "rbf": lambda c, t: build(X, RBF(1.3), centre=c),
    "rbf-sparse": lambda c, t: build(sp.coo_array(X), RBF(1.3), centre=c),
    "nystrom": lambda c, t: build(X, RBF(1.3, method="nystrom", rank=9), centre=c),
    "polynomial": lambda c, t: build(X, Polynomial(2), centre=c),
    "callable": lambda c, t: build(X, distance_kernel, centre=c),
    "precomputed": lambda c, t: build(None, Precomputed(distance_kernel(X, X)), centre=c),
    "augmented": lambda c, t: build(X, centre=c, penalised_bias=True),
    "augmented-sparse": lambda c, t: AffineFeatures(build(sp.csr_array(X), centre=c), constant=2.0),
    "span": lambda c, t: in_span(build(sp.csr_array(wide_array()), centre=c)),
    "mapped": lambda c, t: AffineFeatures(build(X, centre=c), np.arange(2.0 * D).reshape(D, 2)),
    "mapped-sparse": lambda c, t: AffineFeatures(build(sp.csr_array(X), centre=c), np.eye(D)[:, 1:]),
    "mapped-augmented-rbf": lambda c, t: AffineFeatures(
        build(X, RBF(2.0, rank=5), centre=c, penalised_bias=True), np.eye(6)[:, ::-1]
    ),
}


def training_input(name):
    if name in ("wide", "span"):
        return wide_array()
    return distance_kernel(X, X) if name == "precomputed" else X


@pytest.fixture(params=[(w, c) for w in WAYS for c in (False, True)], ids=lambda p: f"{p[0]}-{p[1]}")
def case(request, tmp_path):
    name, centre = request.param
    return name, WAYS[name](centre, tmp_path)


def test_products_are_those_of_the_array(case):
    _, phi = case
    P = phi.toarray()
    assert P.shape == phi.shape == (N, phi.rank)
    for tail in ((), (3,)):
        W, R = RNG.normal(size=(phi.rank, *tail)), RNG.normal(size=(N, *tail))
        np.testing.assert_allclose(phi.apply(W), P @ W, atol=1e-12 * max(1, abs(P).max()))
        np.testing.assert_allclose(phi.adjoint(R), P.T @ R, atol=1e-11 * max(1, abs(P).max()))
        assert phi.apply(W).shape == (N, *tail) and phi.adjoint(R).shape == (phi.rank, *tail)
        assert np.vdot(phi.apply(W), R) == pytest.approx(np.vdot(W, phi.adjoint(R)), rel=1e-9, abs=1e-9)


def test_gram_norms_and_trace_are_those_of_the_array(case):
    _, phi = case
    P, weights = phi.toarray(), RNG.normal(size=N)
    scale = max(1.0, abs(P).max() ** 2)
    np.testing.assert_allclose(phi.gram(), P.T @ P, atol=1e-11 * scale)
    np.testing.assert_allclose(phi.gram(weights), (P.T * weights) @ P, atol=1e-11 * scale)
    np.testing.assert_array_equal(phi.gram(weights), phi.gram(weights).T)
    np.testing.assert_allclose(phi.row_norms(), (P**2).sum(axis=1), atol=1e-11 * scale)
    assert phi.trace == pytest.approx((P**2).sum())
    assert (phi.row_norms() >= 0).all()


def test_rows_and_take_select_the_same_points(case):
    name, phi = case
    P, given = phi.toarray(), training_input(name)
    mask = np.arange(N) % 3 == 0
    for index in (slice(2, 9), np.array([5, 5, -1]), mask, [1, 2], 7, np.array([], dtype=int)):
        expected = P[np.atleast_1d(index)] if np.isscalar(index) else P[index]
        np.testing.assert_allclose(phi.rows(index), expected, atol=1e-12 * max(1, abs(P).max()))
        part = phi.take(index)
        assert part.shape == expected.shape
        np.testing.assert_allclose(part.toarray(), expected, atol=1e-12 * max(1, abs(P).max()))
    twice = phi.take(mask).take([2, 0])
    np.testing.assert_allclose(twice.toarray(), P[[6, 0]], atol=1e-12 * max(1, abs(P).max()))
    np.testing.assert_allclose(twice.transform(given[:2]), P[:2], atol=1e-6 * max(1, abs(P).max()))


def test_training_points_map_to_their_rows(case):
    name, phi = case
    P, given = phi.toarray(), training_input(name)
    np.testing.assert_allclose(phi.transform(given), P, atol=1e-7 * max(1, abs(P).max()))
    np.testing.assert_allclose(phi.transform(given[3:5]), P[3:5], atol=1e-7 * max(1, abs(P).max()))
    assert phi.transform(given[:0]).shape == (0, phi.rank)
    W = RNG.normal(size=(phi.rank, 2))
    np.testing.assert_allclose(phi.apply_to(given, W), P @ W, atol=1e-6 * max(1, abs(P).max()))
    assert phi.apply_to(given[:0], W).shape == (0, 2)
    if name != "callable":  # laplace on sparse points is the caller's business
        sparse_new = phi.transform(sp.csr_array(given))
        np.testing.assert_allclose(sparse_new, P, atol=1e-6 * max(1, abs(P).max()))


def test_dense_operators_expose_their_matrix_read_only(case):
    _, phi = case
    if phi.is_dense:
        np.testing.assert_allclose(phi.matrix, phi.toarray())
        with pytest.raises(ValueError, match=r"read-only"):
            phi.matrix[0, 0] = 1.0
        phi.toarray()[0, 0] = 1.0
    else:
        with pytest.raises(DeclarationError, match=r"holds no dense matrix. Use apply and adjoint"):
            _ = phi.matrix


def test_centred_features_sum_to_zero(tmp_path):
    for name in (
        "dense",
        "wide",
        "sparse",
        "disk",
        "rbf",
        "nystrom",
        "polynomial",
        "callable",
        "precomputed",
    ):
        phi = WAYS[name](True, tmp_path)
        np.testing.assert_allclose(phi.adjoint(np.ones(N)), 0, atol=1e-10 * max(1, phi.trace))
        assert phi.describe().endswith(", centred")
        assert "centred" not in WAYS[name](False, tmp_path).describe()


def test_sparse_equals_dense_for_new_points():
    dense, sparse = build(X), build(sp.csc_matrix(X))
    assert isinstance(sparse, SparseFeatures)
    np.testing.assert_allclose(sparse.toarray(), dense.toarray(), atol=1e-14)
    np.testing.assert_allclose(sparse.transform(X_NEW), dense.transform(X_NEW), atol=1e-14)
    W = RNG.normal(size=D)
    np.testing.assert_allclose(
        sparse.apply_to(sp.csr_array(X_NEW), W), dense.transform(X_NEW) @ W, atol=1e-13
    )


def test_a_large_sparse_matrix_stays_sparse(monkeypatch):
    n, d, each = 100_000, 1_000, 5
    columns = RNG.integers(d, size=n * each)
    S = sp.csr_array((RNG.normal(size=n * each), columns, np.arange(0, n * each + 1, each)), shape=(n, d))
    S.sum_duplicates()
    dense_sizes = []
    original = sp.csr_array.toarray
    monkeypatch.setattr(
        sp.csr_array,
        "toarray",
        lambda self, *a, **k: dense_sizes.append(self.shape) or original(self, *a, **k),
    )
    phi = build(S)
    W, c = RNG.normal(size=(d, 2)), RNG.normal(size=n)
    np.testing.assert_allclose(np.vdot(phi.apply(W)[:, 0], c), np.vdot(W[:, 0], phi.adjoint(c)), rtol=1e-8)
    assert phi.trace == pytest.approx((S.data**2).sum() - n * (S.mean(axis=0) ** 2).sum(), rel=1e-6)
    phi.gram(c), phi.take(slice(0, 10)), phi.apply_to(S, W)
    assert all(shape != (n, d) for shape in dense_sizes)
    assert phi.points.nnz <= n * each


def test_disk_points_keep_their_type_and_blocks_do_not_matter(tmp_path, monkeypatch):
    disk = memory_map(tmp_path, np.float32)
    whole = build(disk)
    assert isinstance(whole, BlockFeatures) and whole.source.dtype == np.float32
    assert np.shares_memory(whole.source, disk)
    W, R = RNG.normal(size=(D, 2)), RNG.normal(size=(N, 2))
    one = whole.apply(W), whole.adjoint(R), whole.gram(R[:, 0]), whole.row_norms(), whole.apply_to(X, W)
    for module in ("features.operator", "features.blocks", "features.points"):
        monkeypatch.setattr(
            f"margindsl.{module}.row_blocks",
            lambda n, r: [slice(s, min(s + 4, n)) for s in range(0, n, 4)],
        )
    phi = build(disk)
    many = phi.apply(W), phi.adjoint(R), phi.gram(R[:, 0]), phi.row_norms(), phi.apply_to(X, W)
    for a, b in zip(one, many):
        np.testing.assert_allclose(a, b, atol=1e-12)
    np.testing.assert_allclose(phi.toarray(), build(X).toarray(), atol=1e-6)


def test_row_blocks_cover_every_row_once(monkeypatch):
    monkeypatch.setattr(points_module, "BLOCK_ENTRIES", 10)
    assert [(b.start, b.stop) for b in points_module.row_blocks(7, 3)] == [(0, 3), (3, 6), (6, 7)]
    assert [(b.start, b.stop) for b in points_module.row_blocks(2, 99)] == [(0, 1), (1, 2)]
    assert points_module.row_blocks(0, 3) == []


def test_wide_points_are_rotated_to_their_rank():
    wide = RNG.normal(size=(8, 50)) + 3.0
    phi = build(wide)
    assert phi.rank == 7
    K = (wide - wide.mean(0)) @ (wide - wide.mean(0)).T
    np.testing.assert_allclose(phi.matrix @ phi.matrix.T, K, atol=1e-10)
    new = RNG.normal(size=(3, 50))
    np.testing.assert_allclose(
        phi.transform(new) @ phi.matrix.T, (new - wide.mean(0)) @ (wide - wide.mean(0)).T, atol=1e-10
    )
    assert build(np.zeros((2, 5))).toarray().tolist() == [[0.0], [0.0]]


def test_a_large_offset_costs_dense_features_no_digits():
    shifted = X + 1e7
    np.testing.assert_allclose(build(shifted).gram(), build(X).gram(), atol=1e-6)
    wide_shift = build(np.hstack([X] * 4) + 1e6, RBF(1.0), centre=False).matrix
    wide = build(np.hstack([X] * 4), RBF(1.0), centre=False).matrix
    np.testing.assert_allclose(wide_shift @ wide_shift.T, wide @ wide.T, atol=1e-7)


def test_the_users_array_is_neither_changed_nor_shared():
    mine = X.copy()
    for centre in (True, False):
        phi = build(mine, centre=centre)
        before = phi.toarray()
        mine += 1
        np.testing.assert_array_equal(phi.toarray(), before)
        mine -= 1
    sparse = sp.csr_array(X)
    kept = build(sparse, centre=False).toarray()
    sparse.data *= 2
    np.testing.assert_allclose(kept, X)


def test_sizes_are_refused_with_the_estimate():
    phi = build(X)
    with pytest.raises(SizeError, match=r"6 x 6 Gram matrix needs .* limit is r = 5. Pass limit="):
        phi.gram(limit=5)
    for wide in (build(sp.csr_array((2, 20_001))), AffineFeatures(build(sp.csr_array((2, 20_000))), constant=1.0)):
        with pytest.raises(SizeError, match=r"20001 x 20001 Gram matrix needs 3.0 GB"):
            wide.gram()
    with pytest.raises(SizeError, match=r"dense copy of 100000 x 10000 features needs 7.5 GB. Use apply"):
        SparseFeatures(sp.csr_array((100_000, 10_000))).toarray()


def test_malformed_derived_features_are_refused():
    phi = build(X)
    for value in (0.0, np.nan, np.inf):
        with pytest.raises(DeclarationError, match=r"constant feature is .* finite non-zero number"):
            AffineFeatures(phi, constant=value)
    for M in (np.eye(5), np.ones(6), np.ones((6, 0))):
        with pytest.raises(DeclarationError, match=r"map has shape .* \(6, r'\) with r' >= 1 is expected"):
            AffineFeatures(phi, M)
    with pytest.raises(DeclarationError, match=r"map has NaN or infinite entries"):
        AffineFeatures(phi, np.full((6, 1), np.nan))


def test_descriptions_name_each_step():
    assert build(X).describe() == "linear, 6 columns, centred"
    assert build(X, penalised_bias=True).describe() == "linear, 6 columns, centred, constant column 1"
    assert (
        AffineFeatures(build(X), np.eye(6)[:, :2], words="projected").describe().endswith("projected to 2 columns")
    )
    assert (
        build(X, RBF(2.0, rank=3)).describe().startswith("RBF(width 2), pivoted Cholesky rank 3, trace error ")
    )
    assert "Nystroem rank 4" in build(X, RBF(2.0, rank=4, method="nystrom")).describe()
    assert "row blocks" in BlockFeatures.from_points(X).describe()
    assert repr(build(X)) == "<DenseFeatures 23 x 6: linear, 6 columns, centred>"


def test_new_points_with_other_columns_are_refused():
    for phi in (build(X), build(sp.csr_array(X)), build(X, RBF(1.0)), build(X, penalised_bias=True)):
        with pytest.raises(
            DeclarationError, match=r"new points have 5 columns, but the features were built on 6"
        ):
            phi.transform(X_NEW[:, :5])
        with pytest.raises(DeclarationError, match=r"the new points have \d+ NaN"):
            phi.transform(X_NEW * np.nan)
        with pytest.raises(DeclarationError, match=r"the new points are complex"):
            phi.transform(X_NEW * 1j)
        for ask in (phi.transform, lambda X, phi=phi: phi.apply_to(X, np.ones(phi.rank))):
            with pytest.raises(DeclarationError, match=r"the new points have shape \(6,\); .* X\.reshape\(1, -1\) "):
                ask(X_NEW[0])
