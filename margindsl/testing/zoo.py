"""Small problems with known optima, recomputed by enumeration in numpy and scipy, without any solver of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from scipy.optimize import minimize

import margindsl as md
from margindsl.typing import FloatArray, IntArray

Fitted = Callable[[FloatArray, IntArray], float]


@dataclass(frozen=True, eq=False)
class KnownProblem:
    """Represent a problem whose optimum is known.

    Parameters
    ----------
    name : str
    problem : Problem
    value : float
        The optimum, to about 1e-9.
    labels : (n,) int array
        A minimiser.
    features : (n, r) float array
        An explicit, centred feature matrix of the hyperplane, for recomputation.
    admits : callable (y) -> bool
        Membership in B, written out.
    fitted : callable (features, y) -> float
        The optimum at fixed labels, by closed form or scipy.
    """

    name: str
    problem: Any
    value: float
    labels: IntArray
    features: FloatArray
    admits: Callable[[IntArray], Any]
    fitted: Fitted

    @property
    def n(self) -> int:
        """Return the number of points."""
        return len(self.features)

    def members(self) -> Iterator[IntArray]:
        """Yield every labelling of B among the 2^n sign vectors."""
        for signs in product((-1, 1), repeat=self.n):
            y = np.array(signs)
            if self.admits(y):
                yield y

    def value_of(self, labels: IntArray) -> float:
        """Return the optimum at fixed labels, computed without the library."""
        return float(self.fitted(self.features, np.asarray(labels)))

    def brute_force(self) -> tuple[float, IntArray]:
        """Return the optimum over B by enumeration, and a minimiser."""
        values = [(float(self.value_of(y)), y) for y in self.members()]
        return min(values, key=lambda pair: pair[0])

    def __repr__(self) -> str:
        return f"KnownProblem({self.name!r}, n={self.n}, value={self.value:.9g})"


def least_squares(C: float) -> Fitted:
    """Return min ½‖w‖² + C mean (1 − y f)² = C mean of 1 − yᵀΦw at the ridge solution (closed form)."""
    def value(Phi: FloatArray, y: IntArray) -> float:
        n, r = Phi.shape
        w = np.linalg.solve(np.eye(r) + 2 * C / n * Phi.T @ Phi, 2 * C / n * Phi.T @ y)
        return float(0.5 * w @ w + C * np.mean((1 - y * (Phi @ w)) ** 2))

    return value


def mean_variance(eta: float, C: float) -> Fitted:
    """Return min ½‖w‖² − η s + C mean (γ − s)² over w and s (closed form).

    The best s given γ is γ̄ + η/2C, so that the objective is ½‖w‖² − η γ̄ − η²/4C + C var γ.
    """
    def value(Phi: FloatArray, y: IntArray) -> float:
        rows = y[:, None] * Phi
        centre = rows.mean(axis=0)
        distance = rows - centre
        w = np.linalg.solve(np.eye(Phi.shape[1]) + 2 * C / len(y) * distance.T @ distance, eta * centre)
        return float(0.5 * w @ w - eta * centre @ w - eta**2 / (4 * C) + C * np.mean((distance @ w) ** 2))

    return value


def smooth(C: float, loss: Callable[[FloatArray], FloatArray], slope: Callable[[FloatArray], FloatArray]) -> Fitted:
    """Return min ½‖w‖² + C mean ρ(y f) for a differentiable ρ, by scipy's BFGS."""
    def value(Phi: FloatArray, y: IntArray) -> float:
        rows = y[:, None] * Phi

        def both(w: FloatArray) -> tuple[float, FloatArray]:
            margins = rows @ w
            return float(0.5 * w @ w + C * np.mean(loss(margins))), w + C / len(y) * rows.T @ slope(margins)

        return float(minimize(both, np.zeros(Phi.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-11}).fun)

    return value


def hinge(C: float) -> Fitted:
    """Return min ½‖w‖² + C mean (1 − y f)₊ by its box-constrained dual, max Σu − ½‖Φᵀ(y∘u)‖², 0 ≤ u ≤ C/n."""
    def value(Phi: FloatArray, y: IntArray) -> float:
        Q = (y[:, None] * Phi) @ (y[:, None] * Phi).T
        n = len(y)

        def both(u: FloatArray) -> tuple[float, FloatArray]:
            return 0.5 * float(u @ Q @ u) - float(u.sum()), Q @ u - 1.0

        answer = minimize(both, np.full(n, 0.5 * C / n), jac=True, method="L-BFGS-B", bounds=[(0.0, C / n)] * n,
                          options={"ftol": 1e-16, "gtol": 1e-11, "maxiter": 5000})
        return -float(answer.fun)

    return value


def biased_hinge(C: float, limit: float) -> Fitted:
    """Return min ½‖w‖² + C mean (1 − y(f + b))₊ under |Σ f| ≤ ℓ by scipy's SLSQP with slack variables."""
    def value(Phi: FloatArray, y: IntArray) -> float:
        n, r = Phi.shape
        cost = np.concatenate([np.zeros(r + 1), np.full(n, C / n)])
        rows = np.column_stack([y[:, None] * Phi, y, np.eye(n)])
        total = np.concatenate([Phi.sum(axis=0), [n], np.zeros(n)])
        mask = np.concatenate([np.ones(r), np.zeros(n + 1)])
        constraints = [
            {"type": "ineq", "fun": lambda v: rows @ v - 1, "jac": lambda v: rows},
            {"type": "ineq", "fun": lambda v: limit - total @ v, "jac": lambda v: -total},
            {"type": "ineq", "fun": lambda v: limit + total @ v, "jac": lambda v: total}]
        start = np.concatenate([np.zeros(r + 1), np.ones(n)])
        answer = minimize(lambda v: 0.5 * float((mask * v) @ v) + float(cost @ v), start, method="SLSQP",
                          jac=lambda v: mask * v + cost, constraints=constraints,
                          bounds=[(None, None)] * (r + 1) + [(0.0, None)] * n,
                          options={"ftol": 1e-14, "maxiter": 500})
        return float(answer.fun)

    return value


def _pos(x: FloatArray) -> FloatArray:
    return np.maximum(x, 0.0)


def odm(C: float, nu: float, theta: float) -> Fitted:
    """Return the optimum of the ODM objective at fixed labels (scipy)."""
    scale = (1 - theta) ** 2
    return smooth(
        C, lambda m: (_pos(1 - theta - m) ** 2 + nu * _pos(m - 1 - theta) ** 2) / scale,
        lambda m: 2 * (nu * _pos(m - 1 - theta) - _pos(1 - theta - m)) / scale)


def logistic(C: float) -> Fitted:
    """Return the optimum of the logistic objective at fixed labels (scipy)."""
    return smooth(C, lambda m: np.logaddexp(0.0, -m), lambda m: -1.0 / (1.0 + np.exp(m)))


# -- the problems ----------------------------------------------------------------------------------------

POINTS = np.array([
    [0.31, -1.2], [1.45, 0.63], [-0.92, 0.28], [-1.63, -0.55], [0.77, 1.81], [-0.14, -0.71], [1.08, -0.36],
    [-0.49, 1.15]])
LINE = np.array([[-2.0], [-1.0], [1.0], [2.0]])


def zoo() -> tuple[KnownProblem, ...]:
    """Return the problems, with their optima.

    Returns
    -------
    tuple of KnownProblem

    Examples
    --------
    >>> four = zoo()[0]
    >>> four.name, four.value
    ('four points on a line', 0.5)
    """
    return (_four_points(), _squares_with_links(), _odm_with_balance(), _hinge_with_known_labels(),
            _logistic_weighted_balance(), _mean_variance(), _radial(), _penalised(), _free_bias(),
            _one_labelling())


def _parts(X: FloatArray, **options: Any) -> tuple[Any, Any, Any, FloatArray]:
    y, f = md.Labels(len(X)), md.Hyperplane(X, **options)
    return y, f, y * f, X - X.mean(axis=0)


def _known(name: str, objective: Any, constraints: list[Any], value: float, labels: list[int],
           features: FloatArray, admits: Callable[[IntArray], Any], fitted: Fitted) -> KnownProblem:
    problem = md.Problem(md.Minimize(objective), constraints)
    return KnownProblem(name, problem, value, np.array(labels), features, admits, fitted)


def _four_points() -> KnownProblem:
    """Balanced hinge on a line: w = 1 separates {−2, −1} from {1, 2} with margin one, and ½w² = ½."""
    y, f, g, Phi = _parts(LINE)
    return _known("four points on a line", md.sq_norm(f) / 2 + 100 * md.mean(md.hinge(g)), [md.sum(y) == 0], 0.5,
                  [-1, -1, 1, 1], Phi, lambda s: s.sum() == 0, hinge(100.0))


def _squares_with_links() -> KnownProblem:
    y, f, g, Phi = _parts(POINTS)
    return _known(
        "least squares with links", md.sq_norm(f) / 2 + 3 * md.mean((1 - g) ** 2),
        [md.must_link(y, [(0, 5), (2, 3)]), y[1] != y[0], abs(md.sum(y)) <= 2], VALUES["squares"], LABELS["squares"],
        Phi, lambda s: s[0] == s[5] and s[2] == s[3] and s[1] != s[0] and abs(s.sum()) <= 2, least_squares(3.0))


def _odm_with_balance() -> KnownProblem:
    y, f, g, Phi = _parts(POINTS)
    return _known("ODM with balance", md.sq_norm(f) / 2 + 10 * md.mean(md.odm(g, 0.4, 0.2)), [abs(md.sum(y)) <= 0],
                  VALUES["odm"], LABELS["odm"], Phi, lambda s: s.sum() == 0, odm(10.0, 0.4, 0.2))


def _hinge_with_known_labels() -> KnownProblem:
    y, f, g, Phi = _parts(POINTS)
    return _known("hinge with known labels", md.sq_norm(f) / 2 + 5 * md.mean(md.hinge(g)),
                  [y[[0, 4]] == [1, -1], y[2] != y[6]], VALUES["hinge"], LABELS["hinge"], Phi,
                  lambda s: s[0] == 1 and s[4] == -1 and s[2] != s[6], hinge(5.0))


def _logistic_weighted_balance() -> KnownProblem:
    y, f, g, Phi = _parts(POINTS)
    weights = np.array([1.0, 2.0, 1.0, 1.0, 2.0, 1.0, 1.0, 3.0])
    return _known("logistic with a weighted, one-sided bound", md.sq_norm(f) + 8 * md.mean(md.logistic(-g)),
                  [md.sum(weights * y) >= 1, md.sum(weights * y) <= 4], VALUES["logistic"], LABELS["logistic"], Phi,
                  lambda s: 1 <= weights @ s <= 4, lambda A, s: 2 * logistic(4.0)(A, s))


def _mean_variance() -> KnownProblem:
    y, f, g, Phi = _parts(POINTS[:7])
    return _known("mean and variance of the margins", md.sq_norm(f) / 2 + md.mean_variance(g, 1.5, 2.0),
                  [abs(md.sum(y)) <= 1], VALUES["mean-variance"], LABELS["mean-variance"], Phi,
                  lambda s: abs(s.sum()) <= 1, mean_variance(1.5, 2.0))


def _radial() -> KnownProblem:
    X = POINTS[:7]
    y, f, g, _ = _parts(X, kernel=md.RBF(1.0))
    K = np.exp(-0.5 * np.sum((X[:, None] - X[None]) ** 2, axis=2))
    H = np.eye(7) - 1 / 7
    values, vectors = np.linalg.eigh(H @ K @ H)
    Phi = vectors[:, values > 1e-12] * np.sqrt(values[values > 1e-12])
    return _known("squared hinge with an RBF kernel", md.sq_norm(f) / 2 + 4 * md.mean(md.squared_hinge(g)),
                  [abs(md.sum(y)) <= 3], VALUES["radial"], LABELS["radial"], Phi, lambda s: abs(s.sum()) <= 3,
                  smooth(4.0, lambda m: _pos(1 - m) ** 2, lambda m: -2 * _pos(1 - m)))


def _penalised() -> KnownProblem:
    y, f, g, Phi = _parts(POINTS[:6], bias="penalised")
    return _known("hinge with a penalised bias", md.sq_norm(f) / 2 + 6 * md.mean(md.hinge(g)),
                  [abs(md.sum(y)) <= 2], VALUES["penalised"], LABELS["penalised"],
                  np.column_stack([Phi, np.ones(6)]), lambda s: abs(s.sum()) <= 2, hinge(6.0))


def _free_bias() -> KnownProblem:
    y, f, g, Phi = _parts(POINTS[:6], bias=True)
    return _known("hinge with a free bias and decision balance", md.sq_norm(f) / 2 + 6 * md.mean(md.hinge(g)),
                  [abs(md.sum(f)) <= 1, y[0] != y[4]], VALUES["free-bias"], LABELS["free-bias"], Phi,
                  lambda s: s[0] != s[4], biased_hinge(6.0, 1.0))


def _one_labelling() -> KnownProblem:
    y, f, g, Phi = _parts(POINTS[:5])
    return _known("all labels known", md.sq_norm(f) / 2 + 10 * md.mean(md.odm(g, 0.5, 0.1)),
                  [y[[0, 1, 2]] == [1, -1, -1], y[3] == y[2], y[4] == y[1]], VALUES["supervised"],
                  [1, -1, -1, -1, -1], Phi,
                  lambda s: s[0] == 1 and np.all(s[1:] == -1), odm(10.0, 0.5, 0.1))


# By `brute_force`, which a test repeats.
VALUES: dict[str, float] = {
    "squares": 0.9896764926146054, "odm": 0.7985854713928288, "hinge": 1.3066445399840676,
    "logistic": 3.845984073892059, "mean-variance": -0.8813991395771672, "radial": 1.5895466429291056,
    "penalised": 0.5910483119592838, "free-bias": 1.1111075172436782, "supervised": 5.750812826307762}
LABELS: dict[str, list[int]] = {
    "squares": [-1, 1, -1, -1, 1, -1, 1, 1], "odm": [-1, -1, 1, 1, 1, -1, -1, 1],
    "hinge": [1, 1, -1, -1, -1, 1, 1, -1], "logistic": [-1, 1, -1, -1, 1, -1, 1, 1],
    "mean-variance": [-1, 1, -1, -1, 1, -1, 1], "radial": [-1, 1, -1, -1, 1, -1, 1],
    "penalised": [-1, 1, -1, -1, 1, -1], "free-bias": [1, -1, 1, 1, -1, 1]}
