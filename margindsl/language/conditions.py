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
        """Raise unless labels and hyperplane of a constraint, where it has some, are those of the problem.

        Raises
        ------
        GrammarError
            If they are others.
        """
        if labels is not None and labels is not self.labels:
            raise grammar.TWO_PROBLEMS.broken_by(at.text(), what="labellings")
        if hyperplane is not None and hyperplane is not self.hyperplane:
            raise grammar.TWO_PROBLEMS.broken_by(at.text(), what="hyperplanes")

    def add_bound(self, at: Constraint, part: LinearPart, lower: float, upper: float) -> None:
        """Add lower ≤ weights · y ≤ upper, or the same of decision values.

        Raises
        ------
        GrammarError
            If both occur, or neither, or a bound on decision values is empty.
        """
        self.check_own(at, part.label_node, part.decision_node)
        if part.labels is not None and part.decision is not None:
            raise grammar.MIXED_CONSTRAINT.broken_by(at.text())
        if part.labels is not None:
            self.bounds.append((part.labels, lower, upper))
        elif part.decision is None:
            raise grammar.NO_VARIABLE.broken_by(at.text())
        elif lower > upper:
            raise grammar.EMPTY_BOUND.broken_by(at.text())
        else:
            self.decision.append(DecisionBound(part.decision, lower, upper))

    def arrays(self) -> dict[str, Any]:
        """Return the fields of a `Declaration`.

        Raises
        ------
        DeclarationError
            If a constraint added something else than a bound on all decision values.
        """
        pairs, none = np.zeros((0, 2), dtype=int), np.zeros(0, dtype=int)
        for bound in self.decision:
            if not isinstance(bound, DecisionBound) or np.shape(bound.weights) != (self.hyperplane.n,):
                raise DeclarationError(f"a constraint added {bound!r} to the bounds on decision values; expected "
                                       f"DecisionBound(weights, lower, upper) with {self.hyperplane.n} weights")
        return {
            "must": np.concatenate([pairs, *self.must]), "cannot": np.concatenate([pairs, *self.cannot]),
            "known": (np.concatenate([none, *(i for i, _ in self.known)]),
                      np.concatenate([none, *(v for _, v in self.known)])),
            "label_bounds": tuple(self.bounds), "decision": joined(self.decision),
            "orthogonal": tuple(self.orthogonal), "sizes": tuple(self.sizes)}
