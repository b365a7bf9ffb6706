"""Weights near the range of numbers, points far from zero, masks, and labels of earlier fits that no longer fit."""

import numpy as np
import pytest

import margindsl as md
from margindsl.errors import DeclarationError
from margindsl.estimators import MarginClusterer, ODMClassifier

RNG = np.random.default_rng(0)
X = np.vstack([RNG.normal(-1, 1, (10, 3)), RNG.normal(1, 1, (10, 3))])
Y = np.repeat([0, 1], 10)


@pytest.mark.parametrize("weight", [1e-300, 1e307, 1e308])
def test_equal_weights_are_no_weights(weight):
    weights = np.full(len(X), weight)
    plain, heavy = ODMClassifier().fit(X, Y), ODMClassifier().fit(X, Y, sample_weight=weights)
    np.testing.assert_allclose(heavy.decision_function(X), plain.decision_function(X), rtol=1e-6)
    assert heavy.score(X, Y, sample_weight=weights / len(X)) == plain.score(X, Y)
    first = MarginClusterer(random_state=0).fit(X)
    second = MarginClusterer(random_state=0).fit(X, sample_weight=weights)
    assert second.value_ == pytest.approx(first.value_, rel=1e-9)
    assert second.score(X, sample_weight=weights) == pytest.approx(first.score(X), rel=1e-6)


CHANGES = [lambda X: X, lambda X: X + 1e6, lambda X: X + 1.7e9, lambda X: X * 1e4, lambda X: X * [1e-4, 1.0, 1e4],
           lambda X: X[:, :1]]


@pytest.mark.parametrize("make, change", [
    *((ODMClassifier, change) for change in CHANGES),
    *((lambda: MarginClusterer(model="odmc", parameters={"max_iter": 100}, random_state=0), change)
      for change in CHANGES[::2])])
def test_coefficients_are_those_of_the_decision_values(make, change):
    Z = change(X)
    model = make()
    model = model.fit(Z, Y) if isinstance(model, ODMClassifier) else model.fit(Z)
    decision = np.ravel(model.decision_function(Z))
    again = np.ravel(Z @ model.coef_.T + model.intercept_)
    noise = 64 * np.finfo(float).eps * float(np.max(np.abs(Z) @ np.abs(model.coef_.T)))
    np.testing.assert_allclose(again, decision, rtol=1e-7, atol=1e-9 * np.abs(decision).max() + noise)


def test_values_whose_squares_are_no_numbers_are_refused():
    for model in (MarginClusterer(), ODMClassifier()):
        with pytest.raises(DeclarationError, match="[Ss]tandardise the columns"):
            model.fit(X * 1e200, Y)


def test_what_lies_under_a_mask_is_not_read():
    masked = np.ma.array(X.copy(), mask=False)
    masked[0, 0] = np.ma.masked
    column = np.ma.array(np.ones(len(X)), mask=np.arange(len(X)) == 0)
    for fit in (lambda: MarginClusterer().fit(masked), lambda: ODMClassifier().fit(masked, Y),
                lambda: ODMClassifier().fit(X, np.ma.array(Y, mask=column.mask)),
                lambda: ODMClassifier().fit(X, Y, sample_weight=column),
                lambda: MarginClusterer(warm_start=np.ma.array(Y, mask=column.mask)).fit(X)):
        with pytest.raises(DeclarationError, match="masked"):
            fit()
    assert MarginClusterer(random_state=0).fit(np.ma.array(X)).value_ == MarginClusterer(random_state=0).fit(X).value_


@pytest.mark.parametrize("first,second", [(3, 2), (2, 3), (4, 1), (1, 3)])
def test_labels_of_other_clusters_are_no_start(first, second):
    model = MarginClusterer(first, warm_start=True, random_state=0).fit(X).set_params(n_clusters=second).fit(X)
    assert len(np.unique(model.labels_)) <= second


@pytest.mark.parametrize("name", ["mmc", "itersvr", "lgmmc"])
def test_a_balance_that_is_owed_is_asked_for(name):
    with pytest.raises(DeclarationError, match=r"balance=None\): expected a non-negative fraction"):
        getattr(md.recipes, name)(X, balance=None)


@pytest.mark.parametrize("theta", [1.0, 1.5, -1.0, np.nan])
def test_thresholds_of_odmssc_are_those_of_odm(theta):
    with pytest.raises(DeclarationError, match="theta"):
        md.recipes.odmssc(X, theta=theta)


def test_a_threshold_of_odmssc_is_checked_whenever_it_is_set():
    theta = md.Parameter(0.2)
    problem = md.recipes.odmssc(X, theta=theta)
    value = problem.solve(random_state=0).value
    assert value == pytest.approx(md.recipes.odmssc(X).solve(random_state=0).value, rel=1e-8)
    with pytest.raises(DeclarationError):
        theta.value = 1.5
        problem.solve(random_state=0)
