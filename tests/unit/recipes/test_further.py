"""Recipes beyond the source papers: optima of enumeration, and what each promises."""

import numpy as np
import pytest

import margindsl as md
from margindsl.errors import DeclarationError

R = md.recipes
X = np.random.default_rng(0).normal(size=(8, 2)) + np.repeat([[-1.5, 0], [1.5, 0]], 4, axis=0)
KNOWN, BAGS = np.array([-1, 0, 0, 0, 0, 0, 0, 1]), np.array(list("aabbccdd"))


@pytest.mark.parametrize("problem", [
    R.mkc(X, kernels=[md.RBF(1.0), md.Linear()]), R.softlinks(X, must_link=[(0, 7)], cannot_link=[(1, 2)]),
    R.truncated(X), R.fair(X, BAGS == "a", 2), R.miodm(X, np.repeat([1, -1], 4), BAGS), R.cs4vm(X, KNOWN)])
def test_they_are_solved_to_their_optimum(problem):
    found, rough = problem.solve("exact", random_state=0), problem.solve("alternating", random_state=0)
    assert found.status == "optimal" and found.verify()
    assert found.value <= rough.value + 1e-7 and rough.bound <= found.value + 1e-7


def test_what_they_promise():
    assert R.softlinks(X, must_link=[(0, 7)], price=0.01).solve("exact").violated_links[0][:2] == (0, 7)
    assert not R.softlinks(X, must_link=[(0, 7)], price=100.0).solve("exact").violated_links
    groups = np.tile(["a", "b"], 4)
    labels = R.fair(X[:6], groups[:6], 3, slack=0.0).solve("alternating", random_state=0).labels
    assert all(sorted(labels[groups[:6] == name]) == [0, 1, 2] for name in "ab")
    bags = R.miodm(X, np.repeat([1, -1], 4), BAGS).solve("exact").labels
    assert [np.sum(bags[name == BAGS] == 1) for name in "abcd"] == [1, 1, 0, 0]
    even, dear = (R.cs4vm(X, KNOWN, cost=cost).solve("exact").decision.mean() for cost in (1.0, 10.0))
    assert dear > even
    assert R.mkc(X).solve("alternating", random_state=0).kernel_weights.shape == (6,)
    for wrong in (lambda: R.fair(X, BAGS[:3]), lambda: R.miodm(X, KNOWN, BAGS)):
        with pytest.raises(DeclarationError, match="expected one name a point|one entry for each"):
            wrong()
