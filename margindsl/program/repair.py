"""Answers moved within bounds on decision values."""

from __future__ import annotations

import numpy as np

from margindsl.program.labelled import LabelledForm
from margindsl.typing import FloatArray

ROUNDS = 20  # of moving what breaks bounds that hang together, as those of pairs of clusters


def within_bounds(form: LabelledForm, w: FloatArray, bias: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return weights and bias moved as little as bounds on decision values ask for."""
    normals, (lower, upper) = form.bound_normals, form.bound_ends
    x, inverse = form.join(w, bias)[: normals.shape[1]], np.linalg.pinv(normals)
    for _ in range(ROUNDS):
        sums = normals @ x
        x = x - inverse @ (sums - np.clip(sums, lower, upper))
    return form.split(x)[:2]
