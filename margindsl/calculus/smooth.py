"""Smooth losses that are not piecewise quadratic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import wrightomega

from margindsl.calculus.accuracy import EPS
from margindsl.calculus.protocol import ConvexFunction, checked_step, shaped
from margindsl.typing import ArrayLike, FloatArray

STEPS = 60  # of Newton; a handful is taken, but where arguments are lost in rounding


def _sigmoid(x: FloatArray) -> FloatArray:
    decay = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, decay) / (1.0 + decay)


@dataclass(frozen=True)
class Logistic(ConvexFunction):
    """Represent the logistic loss ρ(x) = log(1 + exp(−x)), without overflow.

    Examples
    --------
    >>> loss = Logistic()
    >>> loss(-1000.0), loss.derivative(1000.0)
    (1000.0, -0.0)
    >>> loss.conjugate().domain
    (-1.0, 0.0)
    """

    @property
    def domain(self) -> tuple[float, float]:
        return -np.inf, np.inf

    def __call__(self, x: ArrayLike) -> Any:
        return shaped(np.logaddexp(0.0, -np.asarray(x, dtype=float)))

    def derivative(self, x: ArrayLike) -> Any:
        return shaped(-_sigmoid(-np.asarray(x, dtype=float)))

    def curvature(self, x: ArrayLike) -> Any:
        x = np.asarray(x, dtype=float)
        decay = np.exp(-np.abs(x))
        return shaped(decay / (1.0 + decay) ** 2)

    def conjugate(self) -> ConvexFunction:
        return BinaryEntropy()

    @property
    def smoothness(self) -> float:
        return 0.25

    @property
    def is_nonincreasing(self) -> bool:
        return True

    def prox(self, x: ArrayLike, step: ArrayLike = 1.0) -> Any:
        # p − x = s/(1 + eᵖ), from the right by (p − x)eᵖ = s, which Wright's omega solves; −p solves it at −x − s
        x, step = np.broadcast_arrays(np.asarray(x, dtype=float), checked_step(step))
        mirrored = x < -step / 2
        start = np.where(mirrored, -x - step, x)
        v = start + np.minimum(wrightomega(np.log(step) - start), step / 2)
        with np.errstate(invalid="ignore", over="ignore"):
            for _ in range(STEPS):
                share = _sigmoid(-v)
                move = (v - start - step * share) / (1.0 + step * share * (1.0 - share))
                move = np.where(np.isfinite(move), move, 0.0)
                v = np.maximum(v - move, np.maximum(start, 0.0))
                if np.all(np.abs(move) <= 2 * EPS * (np.abs(v) + np.abs(x))):
                    break
        return shaped(np.where(mirrored, -v, v))

    def argmin(self) -> tuple[float, float]:
        return np.inf, np.inf

    def minimum(self) -> float:
        return 0.0

    def conic(self, cp: Any, x: Any) -> tuple[Any, list[Any]]:
        if x.parameters():
            # DPP forbids a parameter times an expression that holds another
            inner = cp.Variable(x.shape)
            return cp.logistic(-inner), [inner == x]
        return cp.logistic(-x), []


@dataclass(frozen=True)
class BinaryEntropy(ConvexFunction):
    """Represent (−u) log(−u) + (1 + u) log(1 + u) on [−1, 0], the conjugate of the logistic loss."""

    @property
    def domain(self) -> tuple[float, float]:
        return -1.0, 0.0

    def __call__(self, x: ArrayLike) -> Any:
        u = np.asarray(x, dtype=float)
        inside = np.clip(u, -1.0, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = (np.where(inside < 0, -inside * np.log(-inside), 0.0)
                     + np.where(inside > -1, (1 + inside) * np.log1p(inside), 0.0))
        return shaped(np.where((u < -1) | (u > 0), np.inf, np.where(np.isnan(u), np.nan, value)))

    def derivative(self, x: ArrayLike) -> Any:
        u = np.clip(np.asarray(x, dtype=float), -1.0, 0.0)
        with np.errstate(divide="ignore"):
            return shaped(np.log1p(u) - np.log(-u))

    def subdifferential(self, x: ArrayLike) -> tuple[Any, Any]:
        u, slope = np.asarray(x, dtype=float), np.asarray(self.derivative(x))
        empty = (u <= -1) | (u >= 0)
        return shaped(np.where(empty, np.inf, slope)), shaped(np.where(empty, -np.inf, slope))

    def curvature(self, x: ArrayLike) -> Any:
        u = np.clip(np.asarray(x, dtype=float), -1.0, 0.0)
        with np.errstate(divide="ignore", over="ignore"):
            return shaped(1.0 / (-u * (1 + u)))

    def conjugate(self) -> ConvexFunction:
        return Logistic()

    def prox(self, x: ArrayLike, step: ArrayLike = 1.0) -> Any:
        # Moreau: prox of the conjugate from that of the loss; p = (x − v)/step is accurate near the ends,
        # where v itself is 0 or −1 to rounding, so v is read off as ρ'(p)
        step = checked_step(step)
        p = Logistic().prox(np.asarray(x, dtype=float) / step, 1.0 / step)
        return shaped(Logistic().derivative(p))

    def argmin(self) -> tuple[float, float]:
        return -0.5, -0.5

    def minimum(self) -> float:
        return -float(np.log(2.0))

    def conic(self, cp: Any, x: Any) -> tuple[Any, list[Any]]:
        inner, constraints = x, []
        if x.parameters():
            # DPP forbids a parameter times an expression that holds another
            inner = cp.Variable(x.shape)
            constraints = [inner == x]
        return -cp.entr(-inner) - cp.entr(1 + inner), constraints
