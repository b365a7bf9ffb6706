"""What other packages register works by name: kernels, recipes, and relaxations that take part in "auto"."""

import importlib.metadata
from dataclasses import dataclass

import numpy as np
import pytest

import margindsl as md
from margindsl.contract import Offer
from margindsl.errors import DeclarationError, NotInstalledError, UnknownNameError
from margindsl.estimators import MarginClusterer
from margindsl.features import Kernel, build, kernel_names
from margindsl.host import extensions
from margindsl.recipes.recipe import recipe
from margindsl.relaxations.alternating import Alternating

X = np.random.default_rng(0).normal(size=(10, 2)) + np.repeat([[3.0, 0.0], [-3.0, 0.0]], 5, axis=0)


@dataclass(frozen=True)
class Laplacian(Kernel):
    width: float = 1.0
    rank: int | None = None
    tol: float = 1e-10
    method: str = "cholesky"

    def matrix(self, X, Z):
        return np.exp(-np.abs(np.asarray(X)[:, None] - np.asarray(Z)[None]).sum(axis=2) / self.width)

    def diagonal(self, X):
        return np.ones(len(X))

    def describe(self):
        return "laplacian"


@recipe(method="Ours", declares="hinge", weight="C", label_share="share")
def ours(X, *, C=10.0, share=0.5, kernel="linear"):
    y, f = md.Labels(len(X)), md.Hyperplane(X, kernel=kernel)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + C * md.mean(md.hinge(y * f))),
                      [abs(md.sum(y)) <= share * len(X)], relaxation="alternating")


class Eager(Alternating):
    name = "eager"

    @classmethod
    def priority(cls, program):
        return 1000.0


class Quiet(Alternating):
    """Inherits its parent's priority, which is not its own."""

    name = "quiet"


@pytest.fixture
def installed(monkeypatch):
    """Register objects of this module as another package would."""
    def install(group, **values):
        points = {name: importlib.metadata.EntryPoint(name, f"elsewhere:{name}", group) for name in values}
        loaded = dict(values)
        monkeypatch.setattr(importlib.metadata.EntryPoint, "load", lambda point: (
            loaded[point.name] if point.value.startswith("elsewhere:") else original(point)))
        scan = extensions._scanned

        def scanned(asked, path):
            return {**scan(asked, path), **points} if asked == group else scan(asked, path)

        scanned.cache_clear = scan.cache_clear
        monkeypatch.setattr(extensions, "_scanned", scanned)

    original = importlib.metadata.EntryPoint.load
    return install


def test_a_kernel_by_name(installed):
    with pytest.raises(UnknownNameError, match="unknown kernel 'laplacian'"):
        build(X, "laplacian")
    installed("margindsl.kernels", laplacian=Laplacian, broken=dict)
    assert "laplacian" in kernel_names()
    assert np.allclose(build(X, "laplacian").toarray(), build(X, Laplacian()).toarray())
    with pytest.raises(DeclarationError, match="'broken' of another package is a dict, expected a Kernel"):
        build(X, "broken")


def test_a_recipe_by_name(installed):
    with pytest.raises(AttributeError, match="no recipe 'ours'"):
        md.recipes.ours  # noqa: B018
    with pytest.raises(UnknownNameError, match="unknown recipe 'ours'"):
        MarginClusterer(model="ours").fit(X)
    installed("margindsl.recipes", ours=ours)
    try:
        assert md.recipes.ours is ours and "ours" in dir(md.recipes)
        found = MarginClusterer(model="ours", lam=3.0, balance=0.2, random_state=0).fit(X)
        assert found.problem_.text() == ours(X, C=3.0, share=0.2).text()
    finally:
        vars(md.recipes).pop("ours", None)


def test_auto_asks_by_priority(installed):
    y, f = md.Labels(len(X)), md.Hyperplane(X)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= 2])
    before = problem.compile().relaxation.name
    installed("margindsl.relaxations", quiet=Quiet, eager=Eager)
    assert isinstance(Eager().offer(problem.program()), Offer)
    assert before == "exact" and problem.compile().relaxation.name == "eager"


def pinball(g):
    return md.maximum(1 - g, 0.2 * (g - 1))


def test_a_word_of_the_language(installed):
    with pytest.raises(AttributeError, match="no attribute 'pinball'"):
        md.pinball  # noqa: B018
    installed("margindsl.words", pinball=pinball)
    assert "pinball" in dir(md) and "pinball" in md.__all__
    installed("margindsl.words", quantile=pinball)  # named as it is registered, not as the function is
    try:
        assert md.quantile is pinball and "quantile" in dir(md)
    finally:
        vars(md).pop("quantile", None)


def test_names_of_relaxations_are_those_that_are_registered():
    points = importlib.metadata.entry_points(group="margindsl.relaxations")
    for point in points:
        if point.value.startswith("margindsl."):
            assert getattr(md, point.attr) is point.load() and point.attr in md.__all__


@pytest.mark.parametrize("value", ["json:Gone", "json:dumps", "no_such_package:Gone"])
@pytest.mark.parametrize("group,kind", [("margindsl.relaxations", "relaxation"), ("margindsl.solvers", "solver")])
def test_what_another_package_no_longer_holds_stops_nothing(monkeypatch, group, kind, value):
    stale = {"stale": importlib.metadata.EntryPoint("stale", value, group)}
    scan = extensions._scanned

    def scanned(asked, path):
        return {**scan(asked, path), **stale} if asked == group else scan(asked, path)

    scanned.cache_clear = scan.cache_clear
    monkeypatch.setattr(extensions, "_scanned", scanned)
    y, f = md.Labels(len(X)), md.Hyperplane(X)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= 2])
    assert problem.solve(random_state=0).verify()
    assert len(md.solvers()) >= 10 and len(md.relaxations()) >= 10
    with pytest.raises(NotInstalledError, match=f"{kind} 'stale': {value}"):
        problem.solve(**{kind: "stale"})
