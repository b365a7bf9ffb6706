"""A small dense convex quadratic program with equalities and non-negative variables, by an interior point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from margindsl.typing import FloatArray

STEPS = 80
SHORTEN = 0.995  # share of the way to the boundary a step may go


@dataclass(frozen=True, eq=False)
class Quadratic:
    """Represent min ½ zᵀQz + cᵀz subject to E z = e and z ≥ 0.

    Parameters
    ----------
    Q : (N, N) float array, positive semidefinite
    c : (N,) float array
    E : (k, N) float array
    e : (k,) float array
    """

    Q: FloatArray
    c: FloatArray
    E: FloatArray
    e: FloatArray

    def solve(self, tol: float) -> tuple[FloatArray, FloatArray]:
        """Return (z, y): a minimiser and the multipliers y of the equalities, Qz + c = Eᵀy + s, s ≥ 0.

        Mehrotra's predictor and corrector. Variables are scaled to a unit column and the objective to one.

        Parameters
        ----------
        tol : float
            Complementarity zᵀs to reach, in units of the objective.
        """
        size = np.maximum(np.sqrt(np.maximum(np.diag(self.Q), 0.0)), np.abs(self.E).max(axis=0))
        column = 1.0 / np.where(size > 0, size, 1.0)
        column[self.E[0] != 0] = 1.0  # the simplex keeps its units
        Q, c = self.Q * np.outer(column, column), self.c * column
        unit = max(float(np.abs(np.diag(Q)).max(initial=0.0)), float(np.abs(c).max(initial=0.0)), 1e-300)
        row = np.maximum(np.abs(self.E * column).max(axis=1), 1e-300)
        scaled = Quadratic(Q / unit, c / unit, self.E * column / row[:, None], self.e / row)
        z, y = scaled._interior(tol / unit)
        return z * column, y * unit / row

    def _interior(self, tol: float) -> tuple[FloatArray, FloatArray]:
        count = len(self.c)
        z, s, y = np.full(count, 1.0 / count), np.ones(count), np.zeros(len(self.e))
        best, merit = (z, y), np.inf
        for _ in range(STEPS):
            dual = self.Q @ z + self.c - self.E.T @ y - s
            primal = self.E @ z - self.e
            complement = float(z @ s)
            now = complement + float(np.abs(primal).max()) + float(np.abs(dual).max())
            if now < merit:
                best, merit = (z.copy(), y.copy()), now
            if complement <= tol and np.abs(primal).max() <= 1e-12 and np.abs(dual).max() <= max(tol, 1e-12):
                break
            newton = self._factor(s / z)
            if newton is None:
                break
            dz, dy, ds = _direction(newton, z, s, dual, primal, -z * s)
            reach = min(_reach(z, dz), _reach(s, ds))
            ahead = float((z + reach * dz) @ (s + reach * ds))
            centre = (max(ahead, 0.0) / complement) ** 3 * complement / count
            dz, dy, ds = _direction(newton, z, s, dual, primal, centre - z * s - dz * ds)
            step = min(1.0, SHORTEN * min(_reach(z, dz), _reach(s, ds)))
            if not (step > 1e-12 and np.all(np.isfinite(dz)) and np.all(np.isfinite(ds))):
                break
            z, y, s = z + step * dz, y + step * dy, s + step * ds
        return best

    def _factor(self, diagonal: FloatArray) -> Callable[..., tuple[FloatArray, FloatArray]] | None:
        """Return the solve of [[Q + D, −Eᵀ], [E, 0]] (dz, dy) = (a, b)."""
        H = self.Q.copy()
        H.flat[:: len(H) + 1] += diagonal + 1e-15
        try:
            factor = cho_factor(H, check_finite=False)
            solved = cho_solve(factor, self.E.T, check_finite=False)
            schur = self.E @ solved
            schur.flat[:: len(schur) + 1] *= 1.0 + 1e-14
            small = cho_factor(schur, check_finite=False)
        except LinAlgError:
            return None

        def solve(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
            free = cho_solve(factor, a, check_finite=False)
            dy = cho_solve(small, b - self.E @ free, check_finite=False)
            return free + solved @ dy, dy

        return solve


def _direction(newton: Callable[..., tuple[FloatArray, FloatArray]], z: FloatArray, s: FloatArray,
               dual: FloatArray, primal: FloatArray, target: FloatArray) -> tuple[FloatArray, ...]:
    dz, dy = newton(target / z - dual, -primal)
    return dz, dy, (target - s * dz) / z


def _reach(z: FloatArray, dz: FloatArray) -> float:
    """Return the longest step that keeps z + t dz non-negative, at most 1/SHORTEN."""
    falling = dz < 0
    return float(np.min(-z[falling] / dz[falling], initial=1.0 / SHORTEN))
