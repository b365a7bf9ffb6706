"""One label for all points is warned about where it can be better than w = 0, and only there."""

import warnings

import numpy as np
import pytest

import margindsl as md
from margindsl.errors import TrivialityWarning

rng = np.random.default_rng(5)
X = rng.normal(size=(6, 2)) + 2.0
SYMMETRIC = X - X.mean(axis=0)
UNEVEN = np.array([4.0, 1.0, 1.0, 1.0, 1.0, 1.0])
LOSSES = {
    "hinge": md.hinge, "odm": lambda g: md.odm(g, 0.2, 0.5), "logistic": lambda g: md.logistic(-g),
    "two terms": lambda g: md.hinge(g) + 0.1 * md.square(1 - g), "weights": lambda g: UNEVEN * md.hinge(g),
    "shifts": lambda g: md.pos(UNEVEN - g), "rising": lambda g: md.square(2 + g),
    "a scalar": lambda g: md.pos(md.Scalar() - g),
}


def declare(loss, clusters=2, constraints=lambda y, f: [], coding="crammer-singer", **options):
    y, f = md.Labels(6, clusters=clusters), md.Hyperplane(X, **options)
    g = y * f if clusters == 2 else md.margin(y, f, coding=coding)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 3 * md.mean(loss(g))), constraints(y, f))


def warned(problem):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        problem.solve(md.Alternating(restarts=1, polish="none"), random_state=0)
    return [str(one.message) for one in caught if one.category is TrivialityWarning]


def gain(problem, label):
    """Return how much lower than at w = 0 the objective is with one label for all points."""
    program = problem.program()
    at_zero = program.to_user(program.losses.value(np.zeros(6)))
    known = md.Problem(problem.objective, [*problem.constraints, problem.labels == np.full(6, label)])
    return at_zero - known.solve("supervised").value


@pytest.mark.parametrize("loss, options", [
    (loss, options) for i, loss in enumerate(name for name in LOSSES if name != "a scalar")
    for options in [({}, {"bias": True}), ({"bias": "penalised"}, {"centre": False})][i % 2]])
def test_no_warning_means_that_one_label_gains_nothing(loss, options):
    problem = declare(LOSSES[loss], **options)
    if not warned(problem):
        assert max(gain(problem, 1), gain(problem, -1)) <= 1e-8 * 3
    elif options:
        assert max(gain(problem, 1), gain(problem, -1)) > 1e-3


@pytest.mark.parametrize("loss", LOSSES)
def test_centred_features_without_a_bias_are_warned_about_where_weights_differ(loss):
    said = warned(declare(LOSSES[loss]))
    assert len(said) == (loss in ("weights", "shifts"))


@pytest.mark.parametrize("loss,coding,count", [
    ("hinge", "crammer-singer", 0), ("odm", "crammer-singer", 0), ("rising", "crammer-singer", 1),
    ("rising", "simplex", 0), ("weights", "simplex", 1), ("weights", "crammer-singer", 1)])
def test_a_single_cluster_of_three(loss, coding, count):
    problem = declare(LOSSES[loss], clusters=3, coding=coding)
    said = warned(problem)
    assert len(said) == count and all("add md.sizes(y, at_least=m)" in words for words in said)
    if not said:
        assert gain(problem, 0) <= 1e-8 * 3


def test_data_that_are_centred_already():
    y, f = md.Labels(6), md.Hyperplane(SYMMETRIC, centre=False)
    assert warned(md.Problem(md.Minimize(md.sq_norm(f) / 2 + 3 * md.mean(md.hinge(y * f))))) == []


def test_what_excludes_one_label():
    words = warned(declare(md.hinge, bias=True))
    assert len(words) == 1 and "abs(md.sum(y)) <= b" in words[0]
    for constraint in (lambda y, f: [abs(md.sum(y)) <= 2], lambda y, f: [y[0] != y[1]],
                       lambda y, f: [y[0] == 1, y[1] == -1]):
        assert warned(declare(md.hinge, constraints=constraint, bias=True)) == []
    for constraint in (lambda y, f: [y[0] == 1], lambda y, f: [md.sum(y) >= 2]):  # all +1 is left
        assert len(warned(declare(md.hinge, constraints=constraint, bias=True))) == 1
    assert len(warned(declare(md.hinge, clusters=3, bias="penalised"))) == 1
    assert warned(declare(md.hinge, 3, lambda y, f: [md.sizes(y, at_least=1)], bias="penalised")) == []


@pytest.mark.parametrize("recipe", ["mmc", "odmc", "cpmmc", "odmssc", "gmmc", "lgmmc", "itersvr", "cpm3c"])
def test_published_methods_are_not_warned_about(recipe):
    assert warned_of_recipe(getattr(md.recipes, recipe)) == []


def warned_of_recipe(recipe):
    problem = recipe(SYMMETRIC, clusters=3) if recipe is md.recipes.cpm3c else recipe(SYMMETRIC)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        problem.solve(random_state=0)
    return [one for one in caught if one.category is TrivialityWarning]
