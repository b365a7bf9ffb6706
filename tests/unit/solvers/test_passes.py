"""Fixed labels on points that are read block by block: the same answer, in a pass a step."""

import warnings

import dask.array as da
import numpy as np
import pytest

import margindsl as md
import margindsl.features.points as points_module
from margindsl.contract import Budget, RawSolution, Status
from margindsl.features import BlockFeatures
from margindsl.features.dask import DaskFeatures

RNG = np.random.default_rng(3)
N, D = 400, 6
X = RNG.normal(size=(N, D)) + 3.0
LABELS = np.where((X - 3.0) @ RNG.normal(size=D) + RNG.normal(size=N) > 0.3, 1, 0)
LOSSES = {"odm": lambda m: md.odm(m, 0.4, 0.2), "squared hinge": md.squared_hinge, "logistic": md.logistic}


def stored(kind, folder):
    if kind == "dask":
        return da.from_array(X, chunks=(90, D))
    disk = np.memmap(folder / "points", dtype=float, mode="w+", shape=X.shape)
    disk[:] = X
    return np.memmap(folder / "points", dtype=float, mode="r", shape=X.shape)


def form(points, loss, bias):
    y, f = md.Labels(N), md.Hyperplane(points, bias=bias)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 50 * md.mean(LOSSES[loss](y * f))))
    return problem.program().fix_labels(LABELS)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("bias", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize("kind", ["dask", "disk"])
def test_the_answer_is_that_of_points_in_memory_in_few_passes(kind, bias, loss, tmp_path, monkeypatch):
    monkeypatch.setattr(points_module, "BLOCK_ENTRIES", 500)
    budget, lazy = Budget(tol=1e-9), form(stored(kind, tmp_path), loss, bias)
    passes, operator = [], DaskFeatures if kind == "dask" else BlockFeatures
    for name in ("fold", "parts"):
        own = getattr(operator, name)
        monkeypatch.setattr(operator, name, lambda self, *given, own=own, name=name: passes.append(name) or own(
            self, *given))
    raw, expected = md.Solver("newton").solve(lazy, budget), md.Solver("newton").solve(form(X, loss, bias), budget)
    assert raw.objective == pytest.approx(expected.objective, rel=1e-8)
    np.testing.assert_allclose(raw["w"], expected["w"], atol=1e-5)
    lower, upper = lazy.bracket(raw.variables)
    assert upper - lower <= 1e-8 * upper
    if kind == "dask":  # products one after the other took a product each for arguments, slopes, curvature, bias
        assert len(passes) <= 15


def test_a_bias_that_runs_away_from_every_loss_is_followed_quietly(tmp_path):
    disk = np.memmap(tmp_path / "points", dtype=float, mode="w+", shape=(2, 1))
    disk[:] = [[1e-3], [-1e-3]]
    y, f = md.Labels(2), md.Hyperplane(disk, bias=True)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 0.2 * md.sum(md.logistic(-y * f))))
    form = problem.program().fix_labels(np.array([1, 1]))
    far = RawSolution(Status.OPTIMAL, {"w": np.zeros(1), "bias": np.array(-740.0)})
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        raw = md.Solver("newton").solve(form, Budget(tol=1e-300), far)
    assert raw.objective < 1e-300
