"""Who looks for an answer in a declaration is told where it is."""

import copy
import pickle

import pytest

import margindsl as md

y, f = md.Labels(2), md.Hyperplane([[0.0], [1.0]])
problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(y * f))))


@pytest.mark.parametrize("declared,name", [(problem, "value"), (problem, "status"), (y, "value"), (f, "value")])
def test_answers_are_looked_for_in_the_solution(declared, name):
    assert not hasattr(declared, name)
    with pytest.raises(AttributeError, match=rf"no attribute '{name}'; .* solution = problem.solve\(\)"):
        getattr(declared, name)


def test_other_attributes_are_missing_and_copies_are_made():
    with pytest.raises(AttributeError, match="no attribute 'is_dcp'; rules of disciplined margin"):
        problem.is_dcp()
    assert md.Parameter(2.0, name="lam").value == 2.0
    copied = pickle.loads(pickle.dumps(copy.deepcopy(problem)))
    assert sorted(copied.solve(random_state=0).labels) == [-1, 1]
