"""One pass over the data a gradient: blocks of rows that fit the cache, shared among threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from margindsl.calculus import ConvexFunction
from margindsl.features.operator import total
from margindsl.program.forms import WeightLiftForm
from margindsl.program.losses import Losses
from margindsl.typing import FloatArray

CACHED = 2**17  # numbers of a block of features that stays in a core's cache between its two products
GROUP = 4  # such blocks to one task of a thread; fixed, so that sums do not depend on the number of threads
TINY = 1e-150  # lengths below it have no direction

Part = tuple[float, FloatArray]
Sum = Callable[[Callable[[slice], Part], list[slice]], Iterator[Part]]


@dataclass(frozen=True, eq=False)
class Sweep:
    """Evaluate Σ cρ(‖Wᵀφ‖) and its gradient Φᵀ Diag(cρ'(s)/s) ΦW block by block, never holding n × p numbers.

    Blocks of features that are read from a file or held by workers are evaluated where they are read. Features that
    are neither in memory nor read in blocks, rows in another order than the points, and losses of several kinds are
    taken by whole products instead.

    Parameters
    ----------
    gather : callable
        Maps a function over slices; see `threads`.
    """

    form: WeightLiftForm
    gather: Sum

    def loss(self, losses: Losses, W: FloatArray) -> tuple[float, FloatArray]:
        """Return Σ cρ(‖Wᵀφ‖) and its gradient (r [+1], p), at smooth stand-ins of the form's losses.

        Parameters
        ----------
        losses : Losses
            In the rows of the form's losses.
        """
        features: Any = self.form.features
        dense = features.is_dense
        simple = len(losses.terms) == 1 and losses.is_identity
        if not simple or not (dense or features.walks):
            return self._whole(losses, W)
        W, term = np.ascontiguousarray(W), losses.terms[0]
        part = partial(_block, term.loss, W, self.form.free_bias)
        if not dense:
            value, gradient = features.fold(part, term.weights, term.shifts)
            return value, gradient
        size = max(64, CACHED // max(1, features.rank))

        def task(rows: slice) -> Part:
            blocks = (slice(start, min(start + size, rows.stop)) for start in range(rows.start, rows.stop, size))
            return total(part(features.matrix[block], term.weights[block], term.shifts[block]) for block in blocks)

        starts = range(0, self.form.n, GROUP * size)
        return total(self.gather(task, [slice(start, min(start + GROUP * size, self.form.n)) for start in starts]))

    def _whole(self, losses: Losses, W: FloatArray) -> Part:
        F = self.form.outputs(W)
        lengths = np.sqrt(np.einsum("np,np->n", F, F))
        values, slopes = losses.values_and_derivatives(losses.arguments(lengths))
        F *= (losses.spread(slopes) / np.maximum(lengths, TINY))[:, None]
        return float(np.sum(values)), self.form.adjoint(F)


def _block(loss: ConvexFunction, W: FloatArray, free_bias: bool, rows: FloatArray, weights: FloatArray,
           shifts: FloatArray) -> Part:
    """Return the part of one block of features: value and gradient."""
    F = rows @ W[:rows.shape[1]]
    if free_bias:
        F += W[-1]
    lengths = np.sqrt(np.einsum("np,np->n", F, F))
    values, slopes = loss.value_and_derivative(lengths + shifts)
    slopes *= weights
    slopes /= np.maximum(lengths, TINY)
    F *= slopes[:, None]
    below = rows.T @ F
    return float(weights @ values), np.vstack([below, F.sum(axis=0)]) if free_bias else below
