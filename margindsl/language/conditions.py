"""What constraints lower themselves to: links, known labels, sizes, bounds, and earlier hyperplanes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from margindsl.errors import DeclarationError
from margindsl.language import grammar
from margindsl.language.linear import LinearPart
from margindsl.language.margins import Hyperplane, Labels
from margindsl.program.bounds import DecisionBound, joined
from margindsl.typing import FloatArray, IntArray

if TYPE_CHECKING:
    from margindsl.language.constraints import Constraint, Sizes


@dataclass(eq=False)
class Conditions:
    """Collect the constraints of a problem as arrays; every constraint adds its own, see `Constraint.lower`.

    Parameters
    ----------
    labels : Labels
        Those of the objective; constraints on others are refused.
    hyperplane : Hyperplane
        Likewise.
    """

    labels: Labels
    hyperplane: Hyperplane
    must: list[IntArray] = field(default_factory=list)
    cannot: list[IntArray] = field(default_factory=list)
    known: list[tuple[IntArray, IntArray]] = field(default_factory=list)
    bounds: list[tuple[FloatArray, float, float]] = field(default_factory=list)
    decision: list[DecisionBound] = field(default_factory=list)
    orthogonal: list[Any] = field(default_factory=list)
    sizes: list[Sizes] = field(default_factory=list)

    def check_own(self, at: Constraint, labels: Labels | None = None, hyperplane: Hyperplane | None = None) -> None:
        """Raise unless labels and hyperplane of a constraint, where it has some, are those of the problem."""
        if labels is not None and labels is not self.labels:
            raise grammar.TWO_PROBLEMS.broken_by(at.text(), what="labellings")
        if hyperplane is not None and hyperplane is not self.hyperplane:
            raise grammar.TWO_PROBLEMS.broken_by(at.text(), what="hyperplanes")

    def add_bound(self, at: Constraint, part: LinearPart, lower: float, upper: float) -> None:
        """Add lower ≤ weights · y ≤ upper, or the same of decision values."""
        self.check_own(at, part.label_node, part.decision_node)
        lower, upper = lower + 0.0, upper + 0.0  # messages print no -0
        if part.labels is not None and part.decision is not None:
            raise grammar.MIXED_CONSTRAINT.broken_by(at.text())
        if lower > upper:
            raise grammar.EMPTY_BOUND.broken_by(at.text(), value=f"{(upper - lower) / 2:.6g}")
        if part.labels is not None:
            self.bounds.append((part.labels, lower - part.noise, upper + part.noise))
        elif part.decision is not None:
            self.decision.append(DecisionBound(part.decision, lower, upper, part.sizes))
        else:
            raise grammar.NO_VARIABLE.broken_by(at.text())

    def _decision(self) -> tuple[DecisionBound, ...]:
        """Return the bounds on decision values, checked: constraints of users add their own."""
        n = self.hyperplane.n
        for place, bound in enumerate(self.decision):
            if not isinstance(bound, DecisionBound):
                raise DeclarationError(f"decision bound {place} was given as {type(bound).__name__}; expected "
                                       "DecisionBound(weights, lower, upper)")
            if np.shape(bound.weights) != (n,) or not np.all(np.isfinite(bound.weights)):
                raise DeclarationError(f"weights of decision bound {place} have shape {np.shape(bound.weights)}; "
                                       f"expected ({n},), one finite number per point")
        return joined(self.decision)

    def arrays(self) -> dict[str, Any]:
        """Return the fields of a `Declaration`."""
        pairs, none = np.zeros((0, 2), dtype=int), np.zeros(0, dtype=int)
        return {
            "must": np.concatenate([pairs, *self.must]), "cannot": np.concatenate([pairs, *self.cannot]),
            "known": (np.concatenate([none, *(i for i, _ in self.known)]),
                      np.concatenate([none, *(v for _, v in self.known)])),
            "label_bounds": tuple(self.bounds), "decision": self._decision(),
            "orthogonal": tuple(self.orthogonal), "sizes": tuple(self.sizes)}
