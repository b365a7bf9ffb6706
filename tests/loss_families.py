"""Loss families of the random instances: declared in the language, and again in plain numpy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import margindsl as md
from margindsl.typing import FloatArray

Parameters = dict[str, float]


@dataclass(frozen=True)
class LossFamily:
    """Represent one kind of margin objective, twice.

    Parameters
    ----------
    declare : callable (g, parameters) -> expression
        The single number in the language.
    numeric : callable (margins (n,), scalars, parameters) -> float
        The same number in numpy.
    ranges : dict of str to (float, float)
        From which the parameters are drawn.
    """

    name: str
    declare: Callable[[Any, Parameters], Any]
    numeric: Callable[[FloatArray, dict[str, float], Parameters], float]
    ranges: dict[str, tuple[float, float]]

    def draw(self, rng: np.random.Generator) -> Parameters:
        """Return parameters drawn from their ranges, the weight C log-uniformly."""
        return {name: float(np.exp(rng.uniform(np.log(low), np.log(high))) if name == "C" else rng.uniform(low, high))
                for name, (low, high) in self.ranges.items()}


def _pos(x: FloatArray) -> FloatArray:
    return np.maximum(x, 0.0)


def _entrywise(name: str, declare: Callable[[Any, Parameters], Any],
               numeric: Callable[[FloatArray, Parameters], FloatArray], **ranges: tuple[float, float]) -> LossFamily:
    """Return the family C · mean of an entrywise loss."""
    return LossFamily(
        name, lambda g, p: p["C"] * md.mean(declare(g, p)),
        lambda m, s, p: p["C"] * float(np.mean(numeric(m, p))), {"C": (0.5, 50.0), **ranges})


def _huber(x: FloatArray, M: float) -> FloatArray:
    return np.where(np.abs(x) <= M, x**2, 2 * M * np.abs(x) - M**2)


def _plq_pieces() -> Any:
    return [(1.0, (1.0, -2.0, 1.0)), (float("inf"), (0.0, 0.5, -0.5))]


def _band(g: Any, p: Parameters) -> Any:
    """Return a mixture with per-point weights: hinge on even points, least squares on odd ones."""
    even, odd = np.arange(0, len(g), 2), np.arange(1, len(g), 2)
    return p["C"] * md.sum(md.hinge(g)[even]) / len(g) + p["mix"] * md.mean(md.square(1 - g)[odd])


def _band_numeric(m: FloatArray, s: dict[str, float], p: Parameters) -> float:
    return p["C"] * float(_pos(1 - m[::2]).sum()) / len(m) + p["mix"] * float(np.mean((1 - m[1::2]) ** 2))


def _weighted(g: Any, p: Parameters) -> Any:
    return p["C"] * md.mean(np.linspace(0.0, 2.0, len(g)) * md.squared_hinge(g))


def _weighted_numeric(m: FloatArray, s: dict[str, float], p: Parameters) -> float:
    return p["C"] * float(np.mean(np.linspace(0.0, 2.0, len(m)) * _pos(1 - m) ** 2))


def _threshold(g: Any, p: Parameters) -> Any:
    s = md.Scalar(nonneg=True, name="s")
    return p["C"] * md.mean(md.pos(s - g)) - s


def _two_sided(g: Any, p: Parameters) -> Any:
    s, t = md.Scalar(nonneg=True, name="s"), md.Scalar(name="t")
    return p["C"] * (md.mean(md.pos(s - g)) + 0.3 * md.mean(md.pos(g - t) ** 2)) - s + 0.2 * t


def _two_sided_numeric(m: FloatArray, s: dict[str, float], p: Parameters) -> float:
    losses = np.mean(_pos(s["s"] - m)) + 0.3 * np.mean(_pos(m - s["t"]) ** 2)
    return p["C"] * float(losses) - s["s"] + 0.2 * s["t"]


def _mean_variance_numeric(m: FloatArray, s: dict[str, float], p: Parameters) -> float:
    return -p["eta"] * s["margin_mean"] + p["C"] * float(np.mean((m - s["margin_mean"]) ** 2))


FAMILIES = (
    _entrywise("hinge", lambda g, p: md.hinge(g), lambda m, p: _pos(1 - m)),
    _entrywise("squared-hinge", lambda g, p: md.squared_hinge(g), lambda m, p: _pos(1 - m) ** 2),
    _entrywise("odm", lambda g, p: md.odm(g, p["nu"], p["theta"]),
               lambda m, p: (_pos(1 - p["theta"] - m) ** 2 + p["nu"] * _pos(m - 1 - p["theta"]) ** 2)
               / (1 - p["theta"]) ** 2, nu=(0.1, 1.0), theta=(0.0, 0.5)),
    _entrywise("epsilon-insensitive", lambda g, p: md.epsilon_insensitive(g, p["eps"]),
               lambda m, p: _pos(np.abs(1 - m) - p["eps"]), eps=(0.0, 0.5)),
    _entrywise("least-squares", lambda g, p: (1 - g) ** 2, lambda m, p: (1 - m) ** 2),
    _entrywise("logistic", lambda g, p: md.logistic(-g), lambda m, p: np.logaddexp(0.0, -m)),
    _entrywise("huber", lambda g, p: md.huber(1 - g, p["M"]), lambda m, p: _huber(1 - m, p["M"]), M=(0.2, 1.0)),
    _entrywise("plq", lambda g, p: md.plq(_plq_pieces(), g),
               lambda m, p: np.where(m <= 1, (1 - m) ** 2, 0.5 * (m - 1))),
    _entrywise("maximum", lambda g, p: md.maximum(md.square(1 - g), p["k"] - 3 * g),
               lambda m, p: np.maximum((1 - m) ** 2, p["k"] - 3 * m), k=(0.0, 3.0)),
    _entrywise("custom-sum", lambda g, p: md.hinge(g) + p["a"] * md.square(g - 1.5) + 0.3 * abs(g - p["a"]),
               lambda m, p: _pos(1 - m) + p["a"] * (m - 1.5) ** 2 + 0.3 * np.abs(m - p["a"]), a=(0.05, 1.0)),
    LossFamily("mixture", _band, _band_numeric, {"C": (0.5, 50.0), "mix": (0.1, 5.0)}),
    LossFamily("weighted", _weighted, _weighted_numeric, {"C": (0.5, 50.0)}),
    LossFamily("adaptive-threshold", _threshold,
               lambda m, s, p: p["C"] * float(np.mean(_pos(s["s"] - m))) - s["s"], {"C": (1.2, 5.0)}),
    LossFamily("two-sided", _two_sided, _two_sided_numeric, {"C": (1.2, 5.0)}),
    LossFamily("mean-variance", lambda g, p: md.mean_variance(g, p["eta"], p["C"]), _mean_variance_numeric,
               {"C": (0.5, 20.0), "eta": (0.5, 2.0)}),
)
LOSS_FAMILIES: dict[str, LossFamily] = {family.name: family for family in FAMILIES}
