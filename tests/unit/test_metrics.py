"""Measures of agreement against their definitions, written out, and their invariances."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from margindsl import metrics
from margindsl.errors import DeclarationError

MEASURES = [metrics.clustering_accuracy, metrics.balanced_error]
PAIR = st.integers(2, 25).flatmap(lambda n: st.tuples(*[arrays(np.int64, n, elements=st.integers(0, 3))] * 2))


def matchings(truth, labels):
    """Yield the labels renamed in every one-to-one way; names without a partner become -1."""
    classes, clusters = list(np.unique(truth)), list(np.unique(labels))
    size = max(len(classes), len(clusters))
    padded = classes + [-1] * (size - len(classes))
    for names in itertools.permutations(padded):
        yield np.array([dict(zip(clusters, names))[label] for label in labels])


@given(PAIR)
@settings(deadline=None, max_examples=40)
def test_accuracy_and_balanced_error_are_the_best_over_all_matchings(pair):
    truth, labels = pair
    renamed = list(matchings(truth, labels))
    assert metrics.clustering_accuracy(truth, labels) == pytest.approx(max(np.mean(r == truth) for r in renamed))
    rates = [np.mean([np.mean(r[truth == c] != c) for c in np.unique(truth)]) for r in renamed]
    assert metrics.balanced_error(truth, labels) == pytest.approx(min(rates))


@given(PAIR, st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=30)
def test_names_and_order_do_not_matter(pair, random):
    truth, labels = pair
    order = list(range(len(truth)))
    random.shuffle(order)
    names = np.array(["elm", "oak", "ash", "fir"])
    for measure in MEASURES:
        assert measure(names[truth][order], 10 - labels[order]) == pytest.approx(measure(truth, labels))


@given(PAIR)
@settings(deadline=None, max_examples=30)
def test_ranges_and_perfect_agreement(pair):
    truth, labels = pair
    for measure in MEASURES:
        assert -1e-12 <= measure(truth, labels) <= 1 + 1e-12
    assert metrics.clustering_accuracy(truth, truth) == 1.0
    assert metrics.balanced_error(truth, truth) == 0.0


def test_balanced_error_weighs_classes_and_accuracy_points():
    truth = np.r_[np.zeros(90, int), np.ones(10, int)]
    constant = np.zeros(100, int)
    assert metrics.clustering_accuracy(truth, constant) == 0.9
    assert metrics.balanced_error(truth, constant) == 0.5


@pytest.mark.parametrize("measure", MEASURES)
def test_malformed_arguments_are_explained(measure):
    with pytest.raises(DeclarationError, match=r"truth of shape \(3,\) against labels of shape \(2,\); expected one"):
        measure([0, 1, 1], [0, 1])
    with pytest.raises(DeclarationError, match="no points: expected at least one"):
        measure([], [])


@pytest.mark.parametrize("missing", [None, np.nan])
@pytest.mark.parametrize("measure", MEASURES)
def test_points_without_a_class_are_named(missing, measure):
    with pytest.raises(DeclarationError, match=r"truth\[1\]"):
        measure([1.0, missing, 0.0], [0, 1, 1])
