"""The matrix of the language on 40 points: nine objectives by six label sets by three kinds of margins."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import margindsl as md

POINTS = 40
RELAXATIONS = ("alternating", "cccp", "minimax", "sdp", "weight-lifting", "exact")
MARGINS = {"two": (2, "simplex"), "simplex": (3, "simplex"), "Crammer-Singer": (3, "crammer-singer")}


def threshold(g: Any) -> Any:
    """Return the losses below a threshold that is paid for."""
    rho = md.Scalar(nonneg=True)
    return 8 * md.mean(md.pos(rho - g)) - rho


OBJECTIVES: dict[str, Callable[[Any], Any]] = {
    "hinge": lambda g: 5 * md.mean(md.hinge(g)),
    "squared hinge": lambda g: 5 * md.mean(md.squared_hinge(g)),
    "ODM": lambda g: 5 * md.mean(md.odm(g, 0.4, 0.2)),
    "mean-variance ODM": lambda g: md.mean_variance(g, 1.0, 2.0),
    "logistic": lambda g: 5 * md.mean(md.logistic(-g)),
    "least squares": lambda g: 5 * md.mean(md.square(1 - g)),
    "epsilon-insensitive": lambda g: 5 * md.mean(md.epsilon_insensitive(g, 0.2)),
    "Huber": lambda g: 5 * md.mean(md.huber(1 - g, 0.5)),
    "threshold": threshold,
}


def points(clusters: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (X, the cluster of every point) of noisy clusters in the plane."""
    rng = np.random.default_rng(clusters)
    truth = np.arange(POINTS) % clusters
    angles = 2 * np.pi * truth / clusters
    return 1.5 * np.column_stack([np.cos(angles), np.sin(angles)]) + rng.standard_normal((POINTS, 2)), truth


def labelsets(y: Any, f: Any, truth: np.ndarray, clusters: int) -> dict[str, tuple[bool, list[Any]]]:
    """Return, by name, whether the bias is free and the constraints."""
    links = [y[0] == y[clusters], y[1] == y[1 + clusters], y[2] != y[3], y[5] != y[6], y[7] != y[8]]
    two = clusters == 2
    names = 2 * truth - 1 if two else truth
    loose: Any = abs(md.sum(y)) <= 20 if two else md.sizes(y, at_least=8, at_most=20)
    exact: Any = md.sum(y) == 0 if two else md.sizes(y, at_least=13, at_most=14)
    uneven: Any = (md.sum(np.linspace(0.5, 2.0, POINTS) * y) >= 3) if two else md.sizes(
        y, at_least=[5, 10, 12], at_most=[12, 16, 20])
    return {
        "balance": (False, [loose]),
        "exact balance": (False, [exact]),
        "links": (False, [loose, *links]),
        "known labels": (False, [loose, y[:6] == names[:6]]),
        "one-sided": (False, [uneven]),
        "bounded decisions": (True, [abs(md.sum(f)) <= 4]),
    }


@dataclass(frozen=True)
class Cell:
    """Represent one objective on one label set."""

    objective: str
    labelset: str
    margins: str
    problem: Any


def cells(margins: str) -> Iterator[Cell]:
    """Yield the 54 cells of a kind of margins."""
    clusters, coding = MARGINS[margins]
    X, truth = points(clusters)
    y = md.Labels(POINTS, clusters=clusters)
    names = list(labelsets(y, md.Hyperplane(X), truth, clusters))
    for objective, loss in OBJECTIVES.items():
        for name in names:
            f = md.Hyperplane(X, bias=name == "bounded decisions")
            _, constraints = labelsets(y, f, truth, clusters)[name]
            g: Any = md.margin(y, f, coding=coding)
            yield Cell(objective, name, margins, md.Problem(md.Minimize(md.sq_norm(f) / 2 + loss(g)), constraints))
