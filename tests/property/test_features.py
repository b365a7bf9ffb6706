"""Laws of feature operators on arbitrary points."""

import numpy as np
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from margindsl.features import RBF, AffineFeatures, BlockFeatures, Precomputed, build

entries = st.floats(-100, 100, allow_nan=False).map(lambda v: round(v, 3))
shapes = st.tuples(st.integers(2, 9), st.integers(1, 12))
points = shapes.flatmap(lambda s: arrays(np.float64, s, elements=entries))
laws = settings(deadline=None, max_examples=40)


def operators(X, centre, seed):
    M = np.random.default_rng(seed).normal(size=(X.shape[1], 3))
    sparse = build(sp.csr_array(X), centre=centre)
    yield build(X, centre=centre)
    yield sparse
    yield BlockFeatures.from_points(X, centre)
    yield AffineFeatures(sparse, constant=0.5)
    yield AffineFeatures(sparse, M)
    yield AffineFeatures(AffineFeatures(BlockFeatures.from_points(X, centre), constant=1.0), np.vstack([M, M[:1]]))


@laws
@given(points, st.booleans(), st.integers(0, 99))
def test_the_adjoint_is_the_adjoint(X, centre, seed):
    rng = np.random.default_rng(seed)
    for phi in operators(X, centre, seed):
        W, R = rng.normal(size=(phi.rank, 2)), rng.normal(size=(phi.n, 2))
        size = 1 + np.linalg.norm(X)
        assert abs(np.vdot(phi.apply(W), R) - np.vdot(W, phi.adjoint(R))) <= 1e-11 * size * 100
        np.testing.assert_allclose(phi.apply(W[:, 0]), phi.apply(W)[:, 0], atol=1e-11 * size)


@laws
@given(points, st.booleans(), st.integers(0, 99))
def test_new_points_map_as_training_points(X, centre, seed):
    for phi in operators(X, centre, seed):
        np.testing.assert_allclose(phi.transform(X), phi.toarray(), atol=1e-10 * (1 + abs(X).max()))


@laws
@given(points, st.booleans())
def test_storage_does_not_change_inner_products(X, centre):
    expected = X - X.mean(axis=0) if centre else X
    for phi in (
        build(X, centre=centre),
        build(sp.csr_array(X), centre=centre),
        BlockFeatures.from_points(X, centre),
    ):
        P = phi.toarray()
        np.testing.assert_allclose(P @ P.T, expected @ expected.T, atol=1e-10 * (1 + (X**2).sum()))


@laws
@given(points, st.integers(0, 99))
def test_gram_is_linear_in_the_weights(X, seed):
    rng = np.random.default_rng(seed)
    for phi in operators(X, True, seed):
        a, b = rng.normal(size=(2, phi.n))
        scale = 1e-9 * (1 + (X**2).sum()) * 10
        np.testing.assert_allclose(phi.gram(a) + 2 * phi.gram(b), phi.gram(a + 2 * b), atol=scale)
        assert abs(np.trace(phi.gram()) - phi.trace) <= scale


@laws
@given(points, st.floats(0.1, 50), st.integers(1, 9))
def test_factors_never_exceed_the_kernel(X, width, rank):
    phi = build(X, RBF(width, rank=rank), centre=False)
    K = np.exp(-((X[:, None] - X[None]) ** 2).sum(2) / (2 * width**2))
    missed = K - phi.matrix @ phi.matrix.T
    assert np.linalg.eigvalsh(missed)[0] >= -1e-8
    assert abs(np.trace(missed) - phi.trace_error) <= 1e-8


@laws
@given(points)
def test_a_kernel_matrix_of_points_is_always_accepted(X):
    K = X @ X.T
    if K.max() > 0:
        phi = build(X, Precomputed(K), centre=False)
        np.testing.assert_allclose(phi.matrix @ phi.matrix.T, K, atol=1e-8 * abs(K).max())


@laws
@given(points, st.randoms(use_true_random=False))
def test_permuting_points_permutes_the_kernel(X, random):
    order = list(range(len(X)))
    random.shuffle(order)
    one, other = build(X, RBF(1.0)).matrix, build(X[order], RBF(1.0)).matrix
    np.testing.assert_allclose((one @ one.T)[np.ix_(order, order)], other @ other.T, atol=1e-8)
