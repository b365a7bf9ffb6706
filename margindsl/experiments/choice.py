"""Choosing a setting without labels: simple rules, and the hook for others.

A rule is a function ``select(candidates) -> index``. It sees what a `Solution` shows (labels, value, bound, margins)
and never the true classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from margindsl.errors import DeclarationError, one_of
from margindsl.typing import FloatArray, IntArray

Select = Callable[[Sequence[Any]], int]


class Judged(Protocol):
    """Describe what a rule may look at: a part of `Solution`."""

    @property
    def labels(self) -> IntArray:
        """Return the labels."""

    @property
    def value(self) -> float:
        """Return the objective."""

    @property
    def gap(self) -> float:
        """Return the certified relative gap."""

    @property
    def margin_mean(self) -> float:
        """Return the mean margin."""

    @property
    def margin_variance(self) -> float:
        """Return the variance of the margins."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """Represent the answer of one setting as a rule sees it.

    Parameters
    ----------
    value : float
        Objective; NaN for methods without one.
    null : float
        Objective of the zero hyperplane, which a relative objective is measured by.
    """

    labels: IntArray  # (n,)
    value: float = float("nan")
    null: float = float("nan")
    gap: float = float("inf")
    margin_mean: float = float("nan")
    margin_variance: float = float("nan")


def least_objective(candidates: Sequence[Any]) -> int:
    """Return the setting with the least objective relative to that of the zero hyperplane."""
    return _least([c.value / null if (null := getattr(c, "null", float("nan"))) > 0 else np.nan for c in candidates])


def margin_ratio(candidates: Sequence[Judged]) -> int:
    """Return the setting whose margins have the greatest mean per standard deviation."""
    return _least([-c.margin_mean / np.sqrt(c.margin_variance) if c.margin_variance > 0 else np.nan
                   for c in candidates])


def certified_gap(candidates: Sequence[Judged]) -> int:
    """Return the setting with the least certified gap; the first where none has one."""
    return _least([c.gap for c in candidates])


def agreement(candidates: Sequence[Judged]) -> int:
    """Return the medoid: the setting whose labelling disagrees least, on average, with those of the others."""
    return _least(pairwise_disagreement([c.labels for c in candidates]).mean(axis=1))


def stability(runs: Sequence[Sequence[Judged]]) -> int:
    """Return the setting whose labellings differ least between repeats."""
    spread = [pairwise_disagreement([c.labels for c in repeats]).mean() if len(repeats) > 1 else np.nan
              for repeats in runs]
    return _least(spread)


def _held_out(X: FloatArray) -> Select:
    from margindsl.selection import held_out  # fits hyperplanes, which no other rule does

    return held_out(X)


@dataclass(frozen=True)
class Rule:
    """Represent a named rule.

    Parameters
    ----------
    select : callable
        From candidates, one a setting, to an index.
    across_repeats : bool
        Whether it is given the candidates of all repeats of each setting, and chooses one setting for all of them.
    for_points : callable or None
        From the points of a set to the function that selects, for rules that look at the points. It needs labels
        chosen for all points; elsewhere `select` stands in.
    """

    name: str
    select: Select
    across_repeats: bool = False
    for_points: Callable[[FloatArray], Select] | None = None


RULES = {rule.name: rule for rule in (
    Rule("agreement", agreement), Rule("certified-gap", certified_gap), Rule("least-objective", least_objective),
    Rule("held-out", agreement, for_points=_held_out), Rule("margin-ratio", margin_ratio),
    Rule("stability", stability, across_repeats=True))}


def as_rule(rule: str | Rule | Select) -> Rule:
    """Return a rule by name, or made of a function ``select(candidates) -> index``."""
    if isinstance(rule, Rule):
        return rule
    if callable(rule):
        return Rule(getattr(rule, "__name__", "rule"), rule)
    return RULES[one_of("rule of choice", rule, RULES)]


def pairwise_disagreement(labellings: Sequence[IntArray]) -> FloatArray:
    """Return the matrix of shares of points in different clusters, under the best matching.

    Labellings of two clusters, or of one, are compared by signs; others by the Hungarian algorithm.

    Examples
    --------
    >>> pairwise_disagreement([[0, 0, 1, 1], [1, 1, 0, 0], [0, 1, 1, 1]])[0].tolist()
    [0.0, 0.0, 0.25]
    """
    from margindsl.metrics import clustering_accuracy

    found = [np.unique(labels, return_inverse=True)[1] for labels in labellings]
    if max((codes.max(initial=0) for codes in found), default=0) <= 1:
        signs = 2.0 * np.stack(found) - 1.0
        return (1.0 - np.abs(signs @ signs.T) / signs.shape[1]) / 2.0
    return np.array([[1.0 - clustering_accuracy(a, b) for b in found] for a in found])


def _least(scores: Any) -> int:
    """Return the index of the least number, the first among equals; NaN counts as worst."""
    scores = np.asarray(scores, dtype=float)
    if not len(scores):
        raise DeclarationError("no candidates to choose from; give at least one")
    return int(np.argmin(np.where(np.isnan(scores), np.inf, scores)))
