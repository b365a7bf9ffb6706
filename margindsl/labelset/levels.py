"""Signs under bounds with weights of many magnitudes, or with few different ones: sums are listed, heavy ones first.

Signs of components that are alike in every bound follow their gains, so that a class of m has m + 1 choices. All sums
of the heavy classes are listed, as far as the light ones can still bring them within the limits; what is left is a
programme over the light classes alone, whose weights are of one magnitude. Nothing is compared but sums with limits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from margindsl.host.clock import check
from margindsl.typing import FloatArray, IntArray

LISTED = 20_000  # sums listed at most, in milliseconds
APART = 1e6  # ratio of weights that one programme in floating point cannot hold beside its tolerance

Solve = Callable[[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray], "IntArray | None"]


@dataclass(frozen=True, eq=False)
class Listed:
    """Represent choices of signs for some classes: their sums, and the best gain and counts of each.

    Parameters
    ----------
    counts : (S, number of classes) int array
        Members of each class with sign +1: those of the largest gains.
    """

    sums: FloatArray  # (S, J)
    gains: FloatArray  # (S,)
    counts: IntArray


@dataclass(frozen=True, eq=False)
class Classes:
    """Represent the components by classes of equal weights in every bound, the heaviest class first.

    Parameters
    ----------
    rows : (J, C) float array
        Weights of a member of each class.
    members : list of int arrays
        The components of each class, by falling gain.
    size : (C,) float array
        The weight relative to the largest of its row.
    """

    rows: FloatArray
    members: list[IntArray]
    size: FloatArray

    @classmethod
    def of(cls, gain: FloatArray, rows: FloatArray) -> Classes:
        """Return the classes of the columns of rows (J, m)."""
        columns, kind = np.unique(rows, axis=1, return_inverse=True)
        size = np.max(np.abs(columns) / np.maximum(np.abs(rows).max(axis=1, initial=0.0), 1e-300)[:, None], axis=0)
        order = np.argsort(-size, kind="stable")
        kind = np.ravel(kind)
        falling = np.argsort(-gain, kind="stable")
        return cls(columns[:, order], [falling[kind[falling] == c] for c in order], size[order])

    def heavy(self) -> int:
        """Return how many classes stand before the first leap of magnitude; all of them where there is none."""
        leaps = np.flatnonzero(self.size[:-1] > APART * self.size[1:])
        return int(leaps[0]) + 1 if len(leaps) else len(self.size)

    def listed(self, gain: FloatArray, count: int, low: FloatArray, high: FloatArray) -> Listed | None:
        """Return the sums of the first classes that the others can bring between limits; None where they are many."""
        numbers = np.array([len(m) for m in self.members])
        reach = np.abs(self.rows) * numbers
        left = reach.sum(axis=1)
        found = Listed(np.zeros((1, len(self.rows))), np.zeros(1), np.zeros((1, 0), dtype=np.intp))
        for c in range(count):
            check()
            choices = np.arange(numbers[c] + 1)
            if len(found.gains) * len(choices) > 4 * LISTED:
                return None
            own = gain[self.members[c]]
            worth = 2.0 * np.append(0.0, np.cumsum(own)) - own.sum()
            left = left - reach[:, c]
            sums = found.sums[:, None, :] + ((2 * choices - numbers[c])[:, None] * self.rows[:, c])[None]
            sums = sums.reshape(-1, len(self.rows))
            gains = (found.gains[:, None] + worth).ravel()
            before = np.repeat(found.counts, len(choices), axis=0)
            counts = np.column_stack([before, np.tile(choices, len(found.gains))])
            kept = np.flatnonzero(np.all((sums + left >= low) & (sums - left <= high), axis=1))
            kept = kept[np.argsort(-gains[kept], kind="stable")]
            keys = sums[kept, 0] if sums.shape[1] == 1 else sums[kept]
            _, first = np.unique(keys, axis=0, return_index=True)  # of equal sums the best gain
            kept = kept[np.sort(first)]
            if len(kept) > LISTED:
                return None
            found = Listed(sums[kept], gains[kept], counts[kept])
        return found

    def signs(self, counts: IntArray, m: int) -> IntArray:
        """Return (m,) signs, zero in the classes that are not counted."""
        out = np.zeros(m, dtype=np.intp)
        for members, count in zip(self.members, counts):
            out[members] = -1
            out[members[:count]] = 1
        return out


def solve_levels(gain: FloatArray, rows: FloatArray, lower: FloatArray, upper: FloatArray, slack: FloatArray,
                 solve: Solve) -> IntArray | None:
    """Return an exact maximiser of gain.b over b in {-1, +1}^m with lower <= rows b <= upper, None if empty.

    Shapes: `gain` (m,), `rows` (J, m), `lower` (J,), `upper` (J,), `slack` (J,).

    Parameters
    ----------
    solve : callable
        Takes the same and solves what has too many sums to be listed.
    """
    classes = Classes.of(gain, rows)
    low, high = lower - slack, upper + slack
    every = classes.listed(gain, len(classes.members), low, high)
    if every is not None:
        return classes.signs(every.counts[0], len(gain)) if len(every.gains) else None
    count = classes.heavy()
    heavy = None if count == len(classes.members) else classes.listed(gain, count, low, high)
    if heavy is None:
        return solve(gain, rows, lower, upper, slack)
    light = np.sort(np.concatenate(classes.members[count:]))
    most, best, found = float(np.abs(gain[light]).sum()), -np.inf, None
    for sums, worth, counts in zip(heavy.sums, heavy.gains, heavy.counts):
        if worth + most <= best:
            break
        part = solve_levels(gain[light], rows[:, light], lower - sums, upper - sums, slack, solve)
        if part is not None and worth + float(gain[light] @ part) > best:
            best, found = worth + float(gain[light] @ part), classes.signs(counts, len(gain))
            found[light] = part
    return found
