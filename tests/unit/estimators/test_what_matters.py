"""Outliers, scores of samples and the influence of columns."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_blobs

import margindsl as md
from margindsl.errors import DeclarationError
from margindsl.estimators import MarginClusterer

X, CLASSES = make_blobs(150, 12, centers=3, random_state=0)
NOISE = np.random.default_rng(0).uniform(X.min(axis=0) - 4, X.max(axis=0) + 4, size=(12, 12))


@pytest.fixture(scope="module")
def model():
    return MarginClusterer(3, random_state=0).fit(np.vstack([X, NOISE]))


def test_outliers_lie_outside_the_fences_of_margins_or_of_distances(model):
    points = np.vstack([X, NOISE])
    assert model.outliers_[150:].sum() >= 9 and model.outliers_[:150].sum() <= 3
    scores = model.score_samples(points)
    assert np.array_equal(model.outliers_, scores < 0)
    assert np.allclose(scores[140:], model.score_samples(points[140:]))
    assert (model.score_samples(4 * X) < 0).all()  # far points, whose margins are great
    kernel = MarginClusterer(3, kernel="precomputed", random_state=0).fit(X @ X.T)
    low, high = (np.array([np.quantile(kernel.margins_[kernel.labels_ == q], part) for q in range(3)])[kernel.labels_]
                 for part in (0.25, 0.75))
    assert not kernel.held_.any() and np.allclose(
        kernel.score_samples(X @ X.T), (kernel.margins_ - low) / (high - low) + 2)


def test_outliers_are_the_points_at_the_cap_where_there_is_one():
    def capped(points):
        y, f = md.Labels(len(points)), md.Hyperplane(points)
        loss = md.mean(md.minimum(md.hinge(y * f), 1.5))
        return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 50 * loss), [abs(md.sum(y)) <= 20], relaxation="cccp")

    points = np.vstack([X[CLASSES < 2][:, :2], [[0.0, 0.0]] * 3])
    model = MarginClusterer(2, model=capped, random_state=0).fit(points)
    if len(model.solution_.outliers):
        assert np.array_equal(np.flatnonzero(model.outliers_), model.solution_.outliers)


@pytest.mark.parametrize("made", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_influence_of_columns_under_a_linear_kernel(made):
    points = np.where(np.random.default_rng(1).random(X.shape) < 0.5, X, 0.0)
    model = MarginClusterer(2, view=None, random_state=0).fit(made(points))
    expected = np.abs(model.coef_[0]) * np.abs(points - points.mean(axis=0)).mean(axis=0)
    assert np.allclose(md.plots.influences(model.solution_), expected)
    assert np.allclose(model.feature_importances_, expected / expected.sum())


def test_influence_of_columns_under_another_kernel_and_its_picture():
    two = np.column_stack([X[:, :2], np.random.default_rng(0).normal(size=150)])
    frame = pd.DataFrame(two, columns=["length", "width", "noise"])
    model = MarginClusterer(3, random_state=0).fit(frame)
    assert model.feature_importances_.argmin() == 2 and model.feature_importances_.sum() == pytest.approx(1.0)
    axes = model.plot("features")
    assert next(tick.get_text() for tick in axes.get_yticklabels()) == "noise"
    with pytest.raises(DeclarationError, match="linear kernel"):
        wide = np.random.default_rng(0).normal(size=(20, 300))
        md.plots.influences(MarginClusterer(2, kernel="rbf", random_state=0).fit(wide).solution_)
    with pytest.raises(DeclarationError, match="nothing to draw"):
        MarginClusterer(1).fit(frame).plot("features")
