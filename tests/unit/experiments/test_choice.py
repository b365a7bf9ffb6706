"""Rules that choose a setting without labels."""

import numpy as np
import pytest

from margindsl.errors import DeclarationError, UnknownNameError
from margindsl.experiments.choice import RULES, Candidate, as_rule, pairwise_disagreement
from margindsl.metrics import clustering_accuracy

A, B = np.array([0, 0, 0, 1, 1, 1]), np.array([1, 1, 0, 0, 0, 0])
FAR = np.array([0, 1, 0, 1, 0, 1])


def test_least_objective_is_relative_to_the_zero_hyperplane():
    candidates = [Candidate(A, value=5.0, null=10.0), Candidate(A, value=80.0, null=1000.0), Candidate(A)]
    assert RULES["least-objective"].select(candidates) == 1


def test_margin_ratio_and_gap():
    candidates = [Candidate(A, margin_mean=1.0, margin_variance=1.0, gap=0.5),
                  Candidate(A, margin_mean=1.0, margin_variance=0.25, gap=0.7), Candidate(A)]
    assert RULES["margin-ratio"].select(candidates) == 1
    assert RULES["certified-gap"].select(candidates) == 0


def test_agreement_is_the_medoid_whatever_clusters_are_called():
    candidates = [Candidate(FAR), Candidate(A), Candidate(1 - A), Candidate(B)]
    assert RULES["agreement"].select(candidates) == 1


def test_stability_prefers_the_setting_that_repeats_itself():
    rule = RULES["stability"]
    assert rule.across_repeats
    assert rule.select([[Candidate(A), Candidate(FAR)], [Candidate(B), Candidate(1 - B)], [Candidate(A)]]) == 1


@pytest.mark.parametrize("clusters", [2, 3])
def test_disagreement_is_one_minus_accuracy(clusters):
    rng = np.random.default_rng(clusters)
    labellings = [rng.integers(0, clusters, 15) for _ in range(5)] + [np.zeros(15, int)]
    found = pairwise_disagreement(labellings)
    expected = [[1 - clustering_accuracy(a, b) for b in labellings] for a in labellings]
    assert np.allclose(found, expected)


def test_nan_is_never_chosen_before_a_number():
    candidates = [Candidate(A, value=np.nan, null=1.0), Candidate(A, value=9.0, null=1.0)]
    assert RULES["least-objective"].select(candidates) == 1


def test_rules_by_name_or_function():
    def first(candidates):
        return 0

    assert as_rule(first).select is first and as_rule(first).name == "first"
    assert as_rule("agreement") is as_rule(as_rule("agreement"))
    with pytest.raises(UnknownNameError, match="unknown rule of choice 'agrement'. Did you mean 'agreement'"):
        as_rule("agrement")
    with pytest.raises(DeclarationError, match="no candidates to choose from"):
        RULES["certified-gap"].select([])


def test_held_out_margins_choose_the_clusters_that_points_show():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2)) + np.repeat([[-3.0, 0.0], [3.0, 0.0]], 20, axis=0)
    along, across = (X[:, 0] > 0).astype(int), (X[:, 1] > 0).astype(int)
    select = RULES["held-out"].for_points(X)
    assert select([Candidate(across), Candidate(along)]) == 1
    assert select([Candidate(across), Candidate(1 - along)]) == 1
    assert select([Candidate(rng.permutation(along)), Candidate(along), Candidate(across)]) == 1
