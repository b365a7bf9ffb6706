"""Where decision values of better labels lie, by what the losses of decided points leave."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from margindsl.program.lift import LiftForm
from margindsl.typing import FloatArray

NEAR = 1e-9  # of the parts of the square of a radius, by which it is greater: what rounding may do to it is less


def balls(form: LiftForm, u: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (b,) and (b, r) least values and middles of balls of weights, of duals u (b, m) of decided points.

    With these ½|w|² + Σcρ ≥ Σ D(u, 0) + ½|w − H|² − ½|H|², H = Σ u y φ: where that is below the value of a labelling, w
    lies in a ball about H.
    """
    apart, losses = replace(form, domain=None), form.losses
    H = [form.features.adjoint(form.decided * losses.scatter(row)) for row in u]
    return (np.array([float(apart.least(row, np.zeros_like(row)).sum()) for row in u]),
            np.array(H).reshape(len(u), form.features.rank))


def within(form: LiftForm, value: float, low: FloatArray, H: FloatArray) -> FloatArray:
    """Return (n, 2) ends between which decision values lie for all labellings with a value below a given one."""
    norms = np.sum(H * H, axis=1)
    with np.errstate(invalid="ignore"):
        square = np.maximum(0.0, 2.0 * (value - low) + norms) + NEAR * (abs(value) + abs(low) + norms)
    radius = np.where(np.isfinite(square), np.sqrt(square), np.inf)
    middle, reach = form.features.apply(H.T), np.multiply.outer(np.sqrt(form.features.row_norms()), radius)
    return np.stack([np.max(middle - reach, axis=1, initial=-np.inf), np.min(middle + reach, axis=1, initial=np.inf)],
                    axis=1)


def bounded(form: LiftForm, ends: FloatArray) -> LiftForm:
    """Return a lift in which decision values lie between ends (n, 2); open points of a component in both signs'."""
    losses, codes = form.losses, np.where(form.absorbed, 1, form.decided)
    both = np.abs(ends).max(axis=1)[:, None] * np.array([-1.0, 1.0])
    ends = np.where((codes == 0)[:, None], both, np.where((codes < 0)[:, None], -ends[:, ::-1], ends))[losses.points]
    ends = np.sort(losses.slopes[:, None] * ends, axis=1)  # wider where there are no such labels
    return replace(form, domain=ends) if np.all(np.isfinite(ends)) else form
