"""Every refusal of presolve of several clusters and of its label set says what was given and what to do."""

import numpy as np
import pytest

from margindsl.errors import ContradictionError, DeclarationError, InfeasibleError, SizeError, SolverError
from margindsl.host.clock import Budget, Cancelled
from margindsl.labelset import presolve
from margindsl.labelset.linked import assign_linked
from margindsl.labelset.programme import relax_assignment, solve_assignment


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"sizes": [([2, 0, 0], [1, 5, 5])]}, "at least 2 and at most 1 points in cluster 0"),
        ({"sizes": [([2, 2, 2], [9, 9, 9])]}, "ask at least 6 points in all 3 clusters together, but there are 5"),
        ({"sizes": [([0, 0, 0], [1, 1, 1])]}, "ask at most 3 points"),
        ({"known": ([0, 1], [0, 0]), "sizes": [([0, 0, 0], [1, 5, 5])]}, "put 2 points into cluster 0"),
        (
            {"must": [(0, 1), (1, 2)], "sizes": [([0, 0, 0], [2, 2, 2])]},
            "the 3 must-linked points with point 0 fit into no cluster: none may hold more than 2",
        ),
        (
            {"cannot": [(0, 1), (0, 2), (0, 3)], "known": ([1, 2, 3], [0, 1, 2])},
            "no cluster is left for point 0: cluster 0 holds the cannot-linked point 1, cluster 1 holds",
        ),
        (
            {"cannot": [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3)], "known": ([2, 3], [0, 1])},
            "points . and . are parted by cannot-links, but known labels, links and sizes force both into cluster 2",
        ),
        (
            {"cannot": [(0, i) for i in range(1, 5)], "known": ([0], [0]), "sizes": [([2, 0, 0], [5, 5, 5])]},
            "cluster 0 must hold at least 2 points, but known labels and links let only 1 join",
        ),
        (
            {"n": 4, "must": [(0, 1), (2, 3)], "sizes": [([1, 1, 1], [4, 4, 4])]},
            r"no assignment of the 2 free components, of up to 2 points each, meets the sizes \(1 to 2, 1 to 2",
        ),
        (
            {
                "clusters": 4,
                "cannot": [(3, 0), (3, 1), (4, 0), (4, 1)],
                "known": ([0, 1], [0, 1]),
                "sizes": [([2, 2, 0, 0], [5, 5, 5, 5])],
            },
            "clusters 0 and 1 both need the points linked with point 2 to reach their lower limits",
        ),
        (
            {
                "n": 6,
                "cannot": [(0, 1), (0, 2), (0, 3), (0, 4), (1, 2), (2, 3), (3, 4), (4, 5), (5, 1), (5, 0)],
            },
            r"cannot-links admit no labelling: the points 0, 1, 2, 3, 4, 5 .* among 3 clusters",
        ),
        (
            # A complete tripartite graph on pairs: clusters are the pairs.
            {
                "n": 6,
                "cannot": [(i, j) for i in range(6) for j in range(i) if i // 2 != j // 2],
                "sizes": [([1, 1, 3], [5, 5, 5])],
            },
            "cannot-links and sizes .* exclude one another: each can be met alone",
        ),
    ],
)
def test_infeasible_declarations_are_explained(arguments, words):
    with pytest.raises(InfeasibleError, match=words):
        presolve(**{"n": 5, "clusters": 3, **arguments})


def test_pairs_too_large_for_what_is_left_have_no_cluster():
    with pytest.raises(InfeasibleError, match="no cluster is left for the 2 must-linked points with point 0"):
        presolve(4, 3, must=[(0, 1)], known=([2, 3], [2, 2]), sizes=[([1, 1, 0], [4, 4, 4])])


def test_forced_points_exceed_a_limit():
    # Points 2 and 3 must join cluster 2, which holds one point.
    cannot = [(0, 2), (1, 2), (0, 3), (1, 3)]
    with pytest.raises(InfeasibleError, match="force 2 points into cluster 2, which may hold at most 1"):
        presolve(5, 3, cannot=cannot, known=([0, 1], [0, 1]), sizes=[([0, 0, 0], [5, 5, 1])])


@pytest.mark.parametrize(
    ("arguments", "words", "cycle"),
    [
        (
            {"must": [(0, 1), (1, 2), (3, 2)], "cannot": [(0, 3)]},
            "must-links 0-1, 1-2, 2-3 join points 0 and 3, a cannot-link parts them",
            [(0, 1, "must-link"), (1, 2, "must-link"), (2, 3, "must-link"), (3, 0, "cannot-link")],
        ),
        (
            {"must": [(0, 1)], "known": ([0, 1], [2, 1])},
            "point 0 is labelled 2 and point 1 is labelled 1, against must-link 0-1",
            [(0, 1, "must-link"), (1, 0, "known label")],
        ),
        ({"known": ([1, 1], [0, 2])}, "point 1 has two known labels, 0 and 2", [(1, 1, "known label")]),
        (
            {"must": [(0, 1)], "cannot": [(1, 2)], "known": ([0, 2], [2, 2])},
            "point 0 is labelled 2 and point 2 is labelled 2, against must-link 0-1, then cannot-link 1-2",
            [(0, 1, "must-link"), (1, 2, "cannot-link"), (2, 0, "known label")],
        ),
        (
            {"n": 6, "cannot": [(i, j) for i in range(4) for j in range(i)]},
            "cannot-links part every two of 4 points .*, and there are only 3 clusters",
            [(i, j, "cannot-link") for j in range(4) for i in range(j + 1, 4)],
        ),
        (
            {"n": 6, "must": [(3, 5)], "cannot": [(0, 1), (0, 2), (1, 2), (0, 3), (1, 5), (2, 5)]},
            "part every two of 4 points or groups of must-linked points",
            None,
        ),
    ],
)
def test_contradictions_show_their_links(arguments, words, cycle):
    with pytest.raises(ContradictionError, match=words) as caught:
        presolve(**{"n": 5, "clusters": 3, **arguments})
    if cycle is not None:
        assert list(caught.value.cycle) == cycle


@pytest.mark.parametrize("clusters", [1, 2.5])
def test_numbers_of_clusters_are_whole_and_two_at_least(clusters):
    with pytest.raises(DeclarationError, match=f"the number of clusters = {clusters} was given"):
        presolve(5, clusters)


def test_a_long_path_is_shortened():
    must = [(i, i + 1) for i in range(30)]
    with pytest.raises(ContradictionError, match="11-12, then 18 more to 30 join points 0 and 30, a cannot"):
        presolve(40, 3, must=must, cannot=[(0, 30)])


def test_a_wheel_needs_four_clusters():
    with pytest.raises(InfeasibleError, match="cannot be divided among 3 clusters"):
        presolve(6, 3, cannot=[*((i, (i + 1) % 5) for i in range(5)), *((i, 5) for i in range(5))])


def test_label_set_refuses_malformed_arguments():
    labels = presolve(30, 3, must=[(0, 1)])
    with pytest.raises(SizeError, match=r"29 components are free to join 3 clusters, in about 10\^14 ways"):
        labels.enumerate()
    with pytest.raises(DeclarationError, match=r"gain has shape \(30,\); expected \(30, 3\)"):
        labels.maximise(np.zeros(30))
    with pytest.raises(DeclarationError, match="gain has type"):
        labels.maximise(np.full((30, 3), "a"))
    gain = np.zeros((30, 3))
    gain[4, 2] = np.nan
    with pytest.raises(DeclarationError, match="gain is nan at point 4 in cluster 2"):
        labels.maximise(gain)


def test_violations_name_what_is_broken():
    labels = presolve(
        6, 3, must=[(0, 1)], cannot=[(1, 2)], known=([5], [2]), sizes=[([1, 1, 1], [3, 3, 3])]
    )
    told = labels.violations([0, 1, 0, 0, 0, 0])
    assert told == [
        "points 0 and 1 have labels 0 and 1 but links make them equal",
        "points 0 and 2 both have label 0 but cannot-links part them",
        "point 5 has label 0 but known labels, links, bounds or sizes force 2",
        "cluster 0 holds 5 points, outside [1, 3]",
        "cluster 2 holds 0 points, outside [1, 3]",
    ]
    assert labels.violations([0]) == ["labels have shape (1,), expected (6,)"]
    assert labels.violations(np.zeros(6, dtype=bool)) == ["labels have type bool, expected a whole number from 0 to 2"]
    assert labels.violations([0, 0, 1, 2, 0, 7]) == ["point 5 has label 7, expected a whole number from 0 to 2"]
    many = presolve(40, 3, must=[(0, i) for i in range(1, 40)]).violations(np.arange(40) % 2)
    assert many[-1] == "and 10 more of this kind"


def test_programmes_stop_at_their_time_limit():
    rng = np.random.default_rng(0)
    pairs = np.argwhere(np.triu(rng.random((60, 60)) < 0.3, 1))
    limits = np.zeros(4, dtype=int), np.full(4, 20)
    with Budget.within(0.0).limit(0.0):
        with pytest.raises(Cancelled):
            solve_assignment(rng.normal(size=(60, 4)), pairs, np.ones(60, dtype=int), limits)
        with pytest.raises(Cancelled):
            relax_assignment(rng.normal(size=(60, 4)), pairs, np.ones(60, dtype=int), limits)


def test_sets_that_presolve_did_not_make_are_refused():
    triangle = np.array([[0, 1], [0, 2], [1, 2], [2, 3], [3, 0]])
    with pytest.raises(SolverError, match="not built by presolve"):
        assign_linked(np.zeros((4, 2)), triangle)
