"""Every refusal of presolve and of the label set says what was given and what to do."""

import numpy as np
import pytest

from margindsl.errors import ContradictionError, DeclarationError, InfeasibleError, SizeError
from margindsl.labelset import presolve


@pytest.mark.parametrize("n", [1, 2.5, True])
def test_numbers_of_points_are_whole_and_two_at_least(n):
    with pytest.raises(DeclarationError, match=f"n = {n} was given"):
        presolve(n)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            {"n": 3, "bounds": [(None, 0, 0)]},
            "nearest attainable sums are -1 and 1: the 3 free components are 3 of",
        ),
        ({"n": 4, "must": [(0, 1), (1, 2)], "bounds": [(None, 0, 0)]}, r"1 of weight \+-3 \(3 points\)"),
        ({"n": 4, "known": ([0, 1, 2], [1, 1, 1]), "bounds": [(None, -1, 1)]}, "only reaches from 2 to 4"),
        (
            {"n": 4, "bounds": [(None, -4, -1), (np.full(4, 0.25), 0, 1)]},
            "bounds 0 and 1 exclude one another",
        ),
        (
            {"n": 3, "bounds": [([1, 1, 0], 0, 0), ([0, 1, 1], 0, 0), ([1, 0, 1], 0, 0)]},
            "no signs of the 3 free",
        ),
    ],
)
def test_infeasible_bounds_are_explained(arguments, words):
    with pytest.raises(InfeasibleError, match=words):
        presolve(**arguments)


def test_contradictions_show_a_shortest_cycle():
    must = [(i, i + 1) for i in range(20)] + [(30, 20)]
    with pytest.raises(ContradictionError, match="a must-link joins points .*, a cannot-link parts them") as caught:
        presolve(40, must=must, cannot=[(0, 20), (20, 30)])
    assert sorted(kind for *_, kind in caught.value.cycle) == ["cannot-link", "must-link"]


@pytest.mark.parametrize(("must", "cannot", "words"), [
    ([(0, 1)], [(0, 1)], "links contradict one another: a must-link joins points 0 and 1, a cannot-link parts them."),
    ([(0, 1), (1, 2)], [(0, 2)], "links contradict one another: must-links 0-1, 1-2 join points 0 and 2, a cannot"),
    ([(0, 1)], [(1, 2), (2, 3), (3, 0)], "holds 3 cannot-links, an odd number, and two clusters allow only even ones"),
])
def test_contradictory_links_are_told_in_words(must, cannot, words):
    with pytest.raises(ContradictionError) as caught:
        presolve(4, must=must, cannot=cannot)
    assert words in str(caught.value)


def test_clashing_labels_are_joined_by_their_path():
    with pytest.raises(ContradictionError, match="point 0 is labelled") as caught:
        presolve(4, must=[(0, 1)], cannot=[(1, 2)], known=([0, 2], [1, 1]))
    assert caught.value.cycle == ((0, 1, "must-link"), (1, 2, "cannot-link"), (2, 0, "known label"))
    with pytest.raises(ContradictionError, match="point 1 has two known labels"):
        presolve(4, known=([1, 1], [1, -1]))


def test_label_set_refuses_malformed_arguments():
    labels = presolve(30, must=[(0, 1)])
    with pytest.raises(SizeError, match="29 components are free"):
        labels.enumerate()
    with pytest.raises(DeclarationError, match=r"gain has shape \(3,\)"):
        labels.maximise(np.ones(3))
    with pytest.raises(DeclarationError, match="gain is nan at point 0"):
        labels.maximise(np.full((30, 2), np.nan))


def test_violations_are_sentences():
    labels = presolve(4, must=[(0, 1)], known=([2], [1]), bounds=[(None, 0, 2)])
    assert labels.violations([1, 1]) == ["labels have shape (2,), expected (4,)"]
    assert "point 3 has label 0" in labels.violations([1, 1, 1, 0])[0]
    told = " ".join(labels.violations([-1, 1, -1, -1]))
    assert "points 0 and 1 have labels -1 and +1 but links make them equal" in told
    assert "point 2 has label -1" in told and "bound 0: the weighted sum of labels is -4" in told


def test_a_bound_that_others_tightened_names_each_of_them_once():
    weights = np.array([[3.0, 1, 1, 1, 0, 0], [0, 3.0, 1, 1, 2, 0], [0, 0, 1, 1, 1, 1.0]])
    labels = presolve(6, bounds=[(weights[0], 4, 6), (weights[1], 0, 7), (weights[2], -4, 0)])
    told = [bound.name for bound in labels.bounds if "together with" in bound.name]
    assert told
    for name in told:
        own, _, others = name.partition(" (together with ")
        named = others.rstrip(")").split(", ")
        assert own not in named and len(set(named)) == len(named) == 2
