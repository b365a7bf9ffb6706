"""The problems that judge labellings by held-out margins, for the rule of `margindsl.experiments.selection`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import margindsl as md
from margindsl.experiments.selection import select
from margindsl.features import build, mean_distance
from margindsl.typing import FloatArray

WIDTHS = (0.25, 0.35, 0.5, 1.0)  # times the mean distance
RANK = 80
WEIGHT = 100.0


def judges_of(X: FloatArray) -> list[md.Problem]:
    """Return ODM problems on the points: linear and Gaussian kernels, all scaled to trace n, one loss weight.

    Parameters
    ----------
    X : (n, d) float array

    Examples
    --------
    >>> judges = judges_of(np.random.default_rng(0).normal(size=(30, 2)))
    >>> len(judges), round(float(np.sum(judges[2].hyperplane.X ** 2)), 6)
    (5, 30.0)
    """
    kernels = ["linear", *(md.RBF(width * mean_distance, rank=min(RANK, len(X))) for width in WIDTHS)]
    return [_judge(build(X, kernel).toarray()) for kernel in kernels]


def held_out(X: FloatArray) -> Callable[[Sequence[Any]], int]:
    """Return the rule that picks the labelling of two clusters whose held-out margins the judges predict best."""
    problems = judges_of(X)

    def rule(candidates: Sequence[Any]) -> int:
        return select(problems, [np.where(np.asarray(c.labels) > 0, 1, -1) for c in candidates])

    return rule


def _judge(features: FloatArray) -> md.Problem:
    features = features * np.sqrt(len(features) / np.sum(features**2))
    y, f = md.Labels(len(features)), md.Hyperplane(features, centre=False)
    loss = md.mean(md.odm(y * f, nu=0.4, theta=0.2))
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + WEIGHT * loss))
