"""Wide features rotated onto the span of the points are the same features."""

import numpy as np
import pytest
import scipy.sparse as sp

import margindsl as md
from margindsl.features import AffineFeatures, SpanFeatures, SparseFeatures, build, in_span

X = sp.random(25, 400, density=0.03, format="csr", random_state=3)


@pytest.mark.parametrize("bias", [False, True])
def test_inner_products_and_weights_are_kept(bias):
    base = build(X, penalised_bias=bias)
    phi, rng = in_span(base), np.random.default_rng(0)
    assert isinstance(phi, SpanFeatures) and phi.rank <= 25 and phi.is_dense
    P = base.toarray()
    assert np.allclose(phi.matrix @ phi.matrix.T, P @ P.T, atol=1e-12)
    w = rng.normal(size=phi.rank)
    back = phi.matrix_map @ w
    assert np.linalg.norm(back) == pytest.approx(np.linalg.norm(w), rel=1e-9)
    assert np.allclose(base.apply(back), phi.apply(w), atol=1e-10)
    new = sp.random(4, 400, density=0.1, format="csr", random_state=4)
    assert np.allclose(phi.apply_to(new, w), base.apply_to(new, back), atol=1e-10)
    assert np.allclose(phi.transform(new) @ w, base.transform(new) @ back, atol=1e-10)


def test_repeated_points_lower_the_rank():
    twice = SparseFeatures.from_points(sp.vstack([X, X]), centre=False)
    assert in_span(twice).rank == np.linalg.matrix_rank(X.toarray())


def test_features_that_would_lose_digits_or_time_are_left_alone():
    base = build(X)
    assert in_span(base, most=24) is base
    assert in_span(build(X[:, :20])).rank == 20
    dense = build(X.toarray())
    assert in_span(dense) is dense
    zero = build(sp.csr_array((3, 9)))
    assert in_span(zero) is zero
    uneven = SparseFeatures(sp.csr_array(sp.diags([1.0, 1e-5, 1.0], shape=(3, 9))))  # λ = 1e-10 among ones
    assert in_span(uneven) is uneven


@pytest.mark.parametrize("short", [1e-6, 1e-7, 1e-9])
def test_a_short_direction_that_labels_depend_on_is_kept(short):
    dense = np.zeros((6, 100))
    dense[:, 3], dense[:, 70] = np.array([1, -1, 1, -1, 1, -1]) / short, [1, 1, 1, -1, -1, -1]
    points = sp.csr_array(dense)
    base = SparseFeatures.from_points(points, centre=False)
    assert in_span(base) is base  # their Gram matrix has rank one in double precision


@pytest.mark.parametrize("bias", [None, "penalised"])
def test_a_solution_is_that_of_the_dense_points_with_weights_of_the_columns(bias):
    def solve(points):
        f = md.Hyperplane(points, bias=bias or False)
        y = md.Labels(f.n)
        loss = md.mean(md.hinge(y * f))
        return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 5 * loss), [abs(md.sum(y)) <= 5]).solve(
            md.Alternating(polish="none"), random_state=0)

    sparse, dense = solve(X), solve(X.toarray())
    assert sparse.value == pytest.approx(dense.value, rel=1e-6)
    assert sparse.weights.shape == (400 + (bias is not None),)
    assert np.allclose(sparse.decision_function(X), sparse.decision, atol=1e-8)


def test_a_constant_column_alone_is_not_wide():
    narrow = AffineFeatures(build(X.toarray()), constant=1.0)
    assert in_span(narrow) is narrow
