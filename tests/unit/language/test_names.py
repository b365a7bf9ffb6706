"""Symbols of one name stay apart: in formulas, in errors and in solutions."""

import copy
import pickle

import numpy as np
import pytest

import margindsl as md
from margindsl.errors import DeclarationError, GrammarError

X = np.random.default_rng(3).normal(size=(8, 2))


def declare(loss, **names):
    y, f = md.Labels(8, **names), md.Hyperplane(X)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + loss(y * f)), [abs(md.sum(y)) <= 2])


@pytest.mark.parametrize("names", [("s", "s"), ("rho", "rho"), ("a", "b"), ("s_2", "s"), ("s", "s_2")])
def test_two_scalars_keep_both_values(names):
    one, two = (md.Scalar(name=name) for name in names)

    def loss(g):
        return (md.mean((g[:4] - one) ** 2) - one) + 2 * md.mean((g[4:] - two) ** 2) - 3 * two

    problem = declare(loss)
    solution = problem.solve("alternating", random_state=0)
    first, second = solution.margins[:4].mean(), solution.margins[4:].mean()
    assert solution.scalars[one] == pytest.approx(first + 1 / 2, abs=1e-6)
    assert solution.scalars[two] == pytest.approx(second + 3 / 4, abs=1e-6)
    assert len(solution.scalars) == 2 and list(solution.scalars.values()) == [solution.scalars[one],
        solution.scalars[two]]
    assert all(f"- {name})**2" in str(problem) for name in solution.scalars)
    assert one in solution.scalars and md.Scalar() not in solution.scalars
    with pytest.raises(KeyError, match="no scalar of the problem"):
        solution.scalars[md.Scalar(name="s")]
    twin, again = pickle.loads(pickle.dumps((problem, solution)))
    assert dict(again.scalars) == dict(solution.scalars) == dict(copy.deepcopy(solution).scalars)
    assert dict(twin.solve("alternating", random_state=0).scalars) == dict(solution.scalars)


def test_two_objectives_of_mean_and_variance():
    def loss(g):
        return md.mean_variance(g[:4], 1.0, 1.0) + md.mean_variance(g[4:], 2.0, 1.0)

    solution = declare(loss).solve("alternating", random_state=0)
    assert list(solution.scalars) == ["margin_mean", "margin_mean_2"]
    assert solution.scalars["margin_mean"] == pytest.approx(solution.margins[:4].mean() + 1 / 2, abs=1e-6)
    assert solution.scalars["margin_mean_2"] == pytest.approx(solution.margins[4:].mean() + 1.0, abs=1e-6)


def test_one_scalar_twice_is_one_scalar():
    s = md.Scalar()
    solution = declare(lambda g: md.mean((g - s) ** 2) - s + md.mean(md.pos(s - g))).solve("alternating",
        random_state=0)
    assert list(solution.scalars) == ["s"]


def test_parameters_of_one_name():
    a, b = md.Parameter(2.0, name="lam"), md.Parameter(3.0, name="lam")
    problem = declare(lambda g: a * md.mean(md.hinge(g)) + b * md.mean(md.squared_hinge(g)))
    assert "lam * md.mean" in str(problem) and "lam_2 * md.mean" in str(problem) and r"\lambda_{2}" in problem.latex()
    b.value = -1.0
    with pytest.raises(GrammarError, match="`lam_2`: is -1"):
        problem.lower()
    assert str(a) == str(b) == "lam"


def test_two_hyperplanes_and_two_labellings_in_one_error():
    y, f, h, z = md.Labels(8), md.Hyperplane(X), md.Hyperplane(X), md.Labels(8)
    R = md.sq_norm(f) / 2
    with pytest.raises(GrammarError, match=r"y \* f\).*y \* f_2\).*the hyperplane f_2 would not"):
        md.Problem(md.Minimize(R + md.mean(md.hinge(y * f)) + md.mean(md.hinge(y * h))))
    with pytest.raises(GrammarError, match=r"y \* f.*y_2 \* f.*mixes two labellings"):
        md.Problem(md.Minimize(R + md.mean(md.hinge(y * f)) + md.mean(md.hinge(z * f))))
    with pytest.raises(GrammarError, match=r"md.sum\(f_2\)\) <= 1`: mixes two hyperplanes"):
        md.Problem(md.Minimize(R + md.mean(md.hinge(y * f))), [abs(md.sum(h)) <= 1])
    with pytest.raises(GrammarError, match=r"`md.must_link\(y_2, .*mixes two labellings"):
        md.Problem(md.Minimize(R + md.mean(md.hinge(y * f))), [md.must_link(z, [(0, 1)])])


@pytest.mark.parametrize("make", [md.Scalar, lambda name: md.Parameter(1.0, name=name), lambda name: md.Labels(3,
    name=name),
                                  lambda name: md.Hyperplane(X, name=name)])
def test_names_are_words(make):
    for name in ("", " ", 3, [], b"s", md.Scalar()):
        with pytest.raises(DeclarationError, match="expected a word|expected True or False"):
            make(name=name)


def test_a_declaration_does_not_change():
    y, f = md.Labels(8), md.Hyperplane(X)
    loss = md.mean(md.hinge(y * f))
    link, bound = y[0] == y[1], abs(md.sum(y)) <= 2
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + loss), [link, bound])
    for part, name, value in [(y, "n", 4), (y, "name", "z"), (f, "X", X), (f, "centre", False), (f, "bias", True),
                              (f, "kernel", "rbf"), (loss, "inner", y), (link, "pairs", []), (bound, "right", y),
                              (problem, "constraints", ()), (problem, "objective", None), (problem, "hyperplane",
                              None)]:
        with pytest.raises(DeclarationError, match=f"{name} of this .* was declared and does not change"):
            setattr(part, name, value)
    for part in (y, f, problem, md.Scalar()):
        with pytest.raises(DeclarationError, match="takes no value: labels to start from are .*warm_start"):
            part.value = [1] * 8
    for array in (link.pairs, y[[0, 3]].index):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
