"""Fixed labels over features of any scale: a large bias or scalar is not taken for one without end."""

import numpy as np
import pytest

import margindsl as md
from margindsl.contract import Budget, Status

RNG = np.random.default_rng(0)
LABELS = np.where(np.arange(24) % 2, 1, 0)
X = RNG.normal(size=(24, 3)) * 0.6 + (2 * LABELS - 1)[:, None] * np.array([1.5, 0, 0])


def threshold(scale, weight=10.0):
    """Return min ½‖w‖² − ρ + C mean (ρ − yf)₊ at fixed labels: equivariant, value and ρ grow as scale²."""
    y, f, rho = md.Labels(24), md.Hyperplane(scale * X, bias=True), md.Scalar(nonneg=True, name="rho")
    objective = md.sq_norm(f) / 2 + weight * md.mean(md.pos(rho - y * f)) - rho
    return md.Problem(md.Minimize(objective), [abs(md.sum(f)) <= 0]).program().fix_labels(LABELS)


@pytest.mark.parametrize("solver", ["newton", "cutting-plane", "cpsp"])
def test_values_and_scalars_follow_the_scale(solver):
    unit = md.Solver("newton").solve(threshold(1.0), Budget(tol=1e-8))
    for scale in (1e2, 1e4):
        raw = md.Solver(solver).solve(threshold(scale), Budget(tol=1e-6))
        assert raw.has_answer, raw.message
        assert np.isclose(raw.objective, scale**2 * unit.objective, rtol=1e-4)
        assert np.isclose(raw["scalars"][0], scale**2 * unit["scalars"][0], rtol=1e-2)


@pytest.mark.parametrize("solver", ["newton", "cutting-plane", "cpsp"])
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_a_scalar_that_nothing_holds_is_still_found(solver, scale):
    raw = md.Solver(solver).solve(threshold(scale, weight=0.5), Budget(tol=1e-6))  # −ρ outweighs C mean (ρ − yf)₊
    assert raw.status is Status.UNBOUNDED and "falls without end" in raw.message


@pytest.mark.parametrize("solver", ["newton", "cutting-plane", "cpsp"])
@pytest.mark.parametrize("scale", [1.0, 1e2])
def test_a_bias_that_losses_without_a_minimum_leave_free_is_told(solver, scale):
    y, f = md.Labels(24), md.Hyperplane(scale * X, bias=True)
    weights = np.where(np.arange(24) < 3, 1e4, 1e-3)
    form = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.sum(weights * (-y * f)))).program().fix_labels(LABELS)
    assert md.Solver(solver).solve(form, Budget(tol=1e-6)).status is Status.UNBOUNDED
