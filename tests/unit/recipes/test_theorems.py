"""The stochastic engines keep the bound of their theorem on the duality gap at the average point.

φ(μ, (α, β)) = Σ μ_k G is written here as the papers print it (ODMC Eq. 3): quadratics in (α, β) ∈ [0, τ]^2m.
"""

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_digits

import margindsl as md
from margindsl.contract import Budget
from margindsl.program.forms import SaddleForm
from margindsl_solvers.engines.saddle.box import BoxModel, descent_steps, prox_steps
from margindsl_solvers.engines.saddle.model import SaddleModel
from margindsl_solvers.engines.saddle.sampling import StochasticRun, label_gradient

NU, THETA, LABELLINGS = 0.4, 0.2, 8


class Printed:
    """G(α, y) of Eq. 3 for weights λ_i, its maximum over the box, and the gap of a pair."""

    def __init__(self, X, weights, labellings):
        self.X, self.Y, self.weights = X - X.mean(axis=0), labellings, weights

    def values(self, alpha, beta):
        V = (self.Y * (alpha - beta)) @ self.X
        flat = ((alpha**2 + beta**2 / NU) * (1 - THETA) ** 2 / (4 * self.weights)).sum()
        return (1 - THETA) * alpha.sum() - (1 + THETA) * beta.sum() - flat - 0.5 * (V**2).sum(axis=1)

    def largest(self, mu, tau):
        m = len(self.weights)
        diagonal = np.concatenate([1 / self.weights, 1 / (NU * self.weights)]) * (1 - THETA) ** 2 / 2
        linear = np.concatenate([np.full(m, 1 - THETA), np.full(m, -1 - THETA)])

        def negative(z):
            delta = z[:m] - z[m:]
            V = (self.Y * delta) @ self.X
            pull = np.einsum("k,kn,kn->n", mu, self.Y, V @ self.X.T)
            value = linear @ z - 0.5 * diagonal @ z**2 - 0.5 * mu @ (V**2).sum(axis=1)
            return -value, -(linear - diagonal * z - np.concatenate([pull, -pull]))

        answer = minimize(negative, np.zeros(2 * m), jac=True, method="L-BFGS-B", bounds=[(0, tau)] * (2 * m),
                          options={"maxiter": 3000, "ftol": 1e-13, "gtol": 1e-9})
        return -answer.fun

    def gap(self, mu, u, tau):
        return self.largest(mu, tau) - self.values(np.maximum(u, 0), np.maximum(-u, 0)).min()


def saddle(supervised):
    """Return program, box model and printed problem of digits 3-8 with fixed labellings."""
    images, digits = load_digits(return_X_y=True)
    chosen = np.isin(digits, (3, 8))
    X, truth = images[chosen] / 16, np.where(digits[chosen] == 3, 1, -1)
    m, rng = len(X), np.random.default_rng(0)
    if supervised:
        known = rng.permutation(m)[:36]
        problem = md.recipes.ssodm(X, np.where(np.isin(np.arange(m), known), truth, 0), nu=NU, theta=THETA, lam1=20.0,
                                   lam2=5.0)
        weights = np.where(np.isin(np.arange(m), known), 20.0 / 36, 5.0 / (m - 36))
    else:
        problem, weights = md.recipes.odmc(X, lam=10.0, nu=NU, theta=THETA), np.full(m, 10.0 / m)
    program = problem.program()
    # Labellings by random hyperplanes: like those of label generation, and unlike coin flips.
    Y = np.stack([program.labels.maximise(program.gains_of(
        program.features.apply(rng.standard_normal((program.features.rank, 1)))))
                  for _ in range(LABELLINGS)])
    box = BoxModel(SaddleModel(SaddleForm(program.features, program.losses, Y)))
    order = np.concatenate([term.points for term in program.losses.terms])
    return program, box, Printed(X, weights, 2 * Y - 1), order


def average(box, steps, horizon, seed, extra):
    run = StochasticRun(box, steps, Budget(tol=1e-12, max_iter=horizon), rng=np.random.default_rng(seed), extra=extra)
    run.run()
    assert run.iterations == horizon
    return run.mean_mu, run.mean_u


@pytest.mark.parametrize("supervised", [False, True])
def test_the_saddle_function_is_the_printed_one(supervised):
    program, box, printed, order = saddle(supervised)
    u = np.random.default_rng(1).uniform(-1, 1, program.n) * box.tau
    by_point = np.empty(program.n)
    by_point[order] = u
    point = box.model.evaluate(np.full(LABELLINGS, 1 / LABELLINGS), box.scaled(u))
    expected = printed.values(np.maximum(by_point, 0), np.maximum(-by_point, 0))
    assert box.linear(u) - 0.5 * point.norms == pytest.approx(expected, rel=1e-9)


def test_the_constants_of_odmc_bound_value_and_slope():
    _, box, printed, _ = saddle(supervised=False)
    rng = np.random.default_rng(2)
    for scale in (0.01, 0.3, 1.0):
        u = np.sign(rng.standard_normal(box.losses.rows)) * scale * box.tau
        values = printed.values(np.maximum(u, 0), np.maximum(-u, 0))
        assert np.max(np.abs(values)) <= box.bound_of_value
        for k in range(LABELLINGS):
            assert np.linalg.norm(label_gradient(box, u, 0, k)[1]) <= box.bound_of_slope


def test_odmc_keeps_the_bound_of_its_theorem_1():
    program, box, printed, order = saddle(supervised=False)
    m, horizon, L1, L2 = program.n, 500, box.bound_of_value, box.bound_of_slope
    steps, entropy = descent_steps(box, horizon), math.log(LABELLINGS)
    assert steps.a == pytest.approx(LABELLINGS * L1 / math.sqrt(entropy))
    assert steps.b == pytest.approx(math.sqrt(2) * L2 / (math.sqrt(m) * box.tau))
    assert steps.eta == pytest.approx(math.sqrt(2 / horizon))
    bound = (LABELLINGS * L1 * math.sqrt(2 * entropy) + L2 * box.tau * math.sqrt(m)) / math.sqrt(horizon)
    assert steps.bound == pytest.approx(bound)
    mu, u = average(box, steps, horizon, 0, extra=False)
    by_point = np.empty(m)
    by_point[order] = u
    gap = printed.gap(mu, by_point, box.tau)
    start = printed.gap(np.full(LABELLINGS, 1 / LABELLINGS), np.zeros(m), box.tau)
    # The worst case is loose on data; the method must also gain on its first point.
    assert 0 <= gap <= bound and gap < start


@pytest.mark.slow
@pytest.mark.parametrize("supervised,steps_of,extra", [(False, descent_steps, False), (True, prox_steps, True)])
def test_the_mean_gap_keeps_the_bound_and_falls_with_the_horizon(supervised, steps_of, extra):
    # With the least box that holds the saddle point, constants are as small as the theorem allows.
    program, loose, printed, order = saddle(supervised)
    exact = md.Solver("mirror-prox").open(loose.model.form).solve(loose.model.form, Budget(tol=1e-8))
    box = BoxModel(loose.model, tau=1.05 * float(np.abs(exact["u"]).max()))
    means = []
    for horizon in (100, 500):
        steps, gaps = steps_of(box, horizon), []
        for seed in range(2):
            mu, u = average(box, steps, horizon, seed, extra)
            by_point = np.empty(program.n)
            by_point[order] = u
            gaps.append(printed.gap(mu, by_point, box.tau))
        means.append(float(np.mean(gaps)))
        assert min(gaps) >= 0 and means[-1] <= steps.bound
    assert means[1] < means[0]
