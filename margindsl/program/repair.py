"""What an answer to a form proves, by its kind; answers moved within bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from margindsl.program.certificates import Certificate, certify_fixed_labels
from margindsl.program.labelled import LabelledForm
from margindsl.program.lift import LiftForm
from margindsl.program.lift_certificate import repair_lift
from margindsl.typing import FloatArray

ROUNDS = 20  # of moving what breaks bounds that hang together, as those of pairs of clusters


def repaired(form: Any, answer: Any) -> Certificate | None:
    """Return the certificate of an answer's dual point, moved to where it proves something; None where there is none.

    `answer`: mapping or RawSolution, with `get`.
    """
    if hasattr(form, "duals"):
        return certify_fixed_labels(form, form.duals(answer), answer.get("tau"))
    return repair_lift(form, answer) if isinstance(form, LiftForm) else None


def within_bounds(form: LabelledForm, w: FloatArray, bias: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return weights and bias moved as little as bounds on decision values ask for."""
    normals, (lower, upper) = form.bound_normals, form.bound_ends
    x, inverse = form.join(w, bias)[: normals.shape[1]], np.linalg.pinv(normals)
    for _ in range(ROUNDS):
        sums = normals @ x
        x = x - inverse @ (sums - np.clip(sums, lower, upper))
    return form.split(x)[:2]
