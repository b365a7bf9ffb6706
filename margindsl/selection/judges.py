"""The problems that judge labellings by held-out margins, for `md.select`."""

from __future__ import annotations

import numpy as np

import margindsl as md
from margindsl.features import build, mean_distance
from margindsl.typing import FloatArray

WIDTHS = (0.25, 0.35, 0.5, 1.0)  # times the mean distance
RANK = 80
WEIGHT = 100.0


def judges_of(X: FloatArray, clusters: int = 2) -> list[md.Problem]:
    """Return ODM problems on the points: linear and Gaussian kernels, all scaled to trace n, one loss weight.

    Parameters
    ----------
    X : (n, d) float array
    clusters : int
        With more than two the margins are those of simplex codes.

    Examples
    --------
    >>> judges = judges_of(np.random.default_rng(0).normal(size=(30, 2)))
    >>> len(judges), round(float(np.sum(judges[2].hyperplane.X ** 2)), 6)
    (5, 30.0)
    """
    kernels = ["linear", *(md.RBF(width * mean_distance, rank=min(RANK, len(X))) for width in WIDTHS)]
    return [_judge(build(X, kernel).toarray(), clusters) for kernel in kernels]


def _judge(features: FloatArray, clusters: int) -> md.Problem:
    features = features * np.sqrt(len(features) / np.sum(features**2))
    y, f = md.Labels(len(features), clusters=clusters), md.Hyperplane(features, centre=False)
    loss = md.mean(md.odm(md.margin(y, f, coding="simplex"), nu=0.4, theta=0.2))
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + WEIGHT * loss))
