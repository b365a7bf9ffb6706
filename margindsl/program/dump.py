"""Text of forms and of parts of programs: what `explain` prints and golden tests compare."""

from __future__ import annotations

import numpy as np

from margindsl.program.bounds import DecisionBound
from margindsl.program.forms import Form
from margindsl.program.losses import Losses
from margindsl.typing import FloatArray


def dump_array(name: str, values: FloatArray) -> str:
    """Return ``name = x`` when all values agree, else the range they span."""
    values = np.asarray(values, dtype=float)
    if not len(values):
        return f"{name}: none"
    low, high = float(values.min()), float(values.max())
    if low == high:
        return f"{name} = {low:.6g}"
    return f"{name} in [{low:.6g}, {high:.6g}]"


def dump_losses(losses: Losses) -> list[str]:
    """Return a line a loss term and a line for the shared scalars."""
    lines = []
    for index, term in enumerate(losses.terms):
        distinct = len(np.unique(term.points))
        cover = "all points" if distinct == losses.n else f"{distinct} of {losses.n} points"
        lines.append(
            f"loss {index}: {term.loss!r} over {term.rows} rows ({cover}), "
            f"{dump_array('c', term.weights)}, {dump_array('a', term.slopes)}, {dump_array('d', term.shifts)}"
            + ("" if term.bare is None else f", {dump_array('e', term.bare)}")
            + "".join(f", {dump_array(f'b{s}', column)}" for s, column in enumerate(term.coupling.T)))
    shared = losses.scalars
    for index in range(shared.count):
        sign = " >= 0" if shared.nonneg[index] else ""
        name = shared.names[index] if index < len(shared.names) else f"s{index}"
        lines.append(f"scalar {name}{sign}: linear cost {shared.costs[index]:.6g}")
    return lines


def dump_decision(bound: DecisionBound) -> str:
    """Return one decision bound as text."""
    return f"decision bound: {bound.lower:.6g} <= sum a f <= {bound.upper:.6g}, {dump_array('a', bound.weights)}"


def dump_form(form: Form) -> str:
    """Return a standard form as text: its kind, sizes and losses."""
    sizes = ", ".join(f"{count} {name}" for name, count in form.size().items() if count)
    return "\n".join([f"{type(form).__name__}: {sizes}", *dump_losses(form.losses),
                      *[dump_decision(bound) for bound in form.decision]])
