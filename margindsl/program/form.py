"""What all standard forms share: features, losses, bias, decision bounds, and the sizes of their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from margindsl.errors import DeclarationError
from margindsl.features.operator import FeatureOperator
from margindsl.host.frozen import freeze_fields, frozen, frozen_property
from margindsl.program.answers import Variable
from margindsl.program.bounds import DecisionBound
from margindsl.program.losses import Losses
from margindsl.typing import FloatArray


@dataclass(frozen=True, eq=False)
class Form:
    """Represent what all forms share: features, losses, bias, decision bounds.

    Parameters
    ----------
    features : FeatureOperator
        The operator Φ (n × r).
    losses : Losses
        The separable part; the regulariser is ½‖w‖².
    decision : tuple of DecisionBound
        Bounds on decision values.
    free_bias : bool
        Whether f = Φw + b with b unpenalised.
    """

    features: FeatureOperator
    losses: Losses
    decision: tuple[DecisionBound, ...] = field(default=(), kw_only=True)
    free_bias: bool = field(default=False, kw_only=True)
    n: int = field(init=False)  # points

    def __post_init__(self) -> None:
        vars(self)["n"] = self.losses.n
        freeze_fields(self)
        if self.features.n != self.losses.n:
            raise DeclarationError(f"features hold {self.features.n} points, losses {self.losses.n}")

    @property
    def is_convex(self) -> bool:
        """Return whether a dual point can close the gap."""
        return True

    @frozen_property
    def decision_rows(self) -> tuple[FloatArray, FloatArray]:
        """Return (G, h): the (J, r) rows Φᵀa of the decision bounds and their (J,) bias coefficients Σa."""
        if not self.decision:
            return np.zeros((0, self.features.rank)), np.zeros(0)
        A = np.stack([bound.weights for bound in self.decision], axis=1)
        return self.features.adjoint(A).T, A.sum(axis=0)

    def spanned(self, features: FeatureOperator, directions: FloatArray) -> Any:
        """Return the form for weights in the span of directions (r, p), whose coordinates the features (n × p) are."""
        form = replace(self, features=features)
        G, h = self.decision_rows  # of coded outputs the coordinates alone do not tell them
        form.__dict__["decision_rows"] = frozen((G @ directions, h))
        return form

    @frozen_property
    def units(self) -> tuple[float, float]:
        """Return the sizes of a value and of a decision value, which scale as the problem does.

        With L the loss at zero, g its slope there and ℓ² the mean of ‖φ‖², decision values between L/g and 2L/g make a
        loss vanish that is linear or quadratic; they cost ½(L/gℓ)², or L is paid. Of losses that are zero at zero, as
        with an adaptive threshold, weights have a length of gℓ at most, g being the costs of the scalars if any.
        """
        losses, square = self.losses, float(self.features.trace) / self.n
        level, slope = losses.at_zero
        if level == 0.0:
            slope = float(np.abs(losses.scalars.costs).sum()) or slope
            return 0.5 * slope**2 * square, slope * square or 1.0
        distance = level / slope if slope > 0 else 0.0
        return (min(level, 0.5 * distance**2 / square) if distance * square > 0 else level), 2.0 * distance or 1.0

    @property
    def negligible(self) -> float:
        """Return a size of values that need not be told from zero, a thousandth of the usual size.

        A bias or scalars can make the least value zero exactly, which no gap relative to it ever certifies.
        """
        return 1e-3 * self.units[0]

    def variables(self) -> dict[str, Variable]:
        """Return what an answer holds: the variables the docstring names; nothing is known of those of other forms."""
        return {}

    def bracket(self, answer: Mapping[str, FloatArray]) -> tuple[float, float]:
        """Return (lower, upper) values of the form at an answer, recomputed; infinite where it does not say."""
        return -np.inf, np.inf

    @property
    def may_be_infeasible(self) -> bool:
        """Return whether a bound excludes w = 0, or a constraint that is written in CVXPY may."""
        outside = getattr(self, "outside", None)
        return any(bound.lower > 0 or bound.upper < 0 for bound in self.decision) or bool(outside and outside.rules)

    @property
    def may_be_unbounded(self) -> bool:
        """Return whether something is not regularised: ½‖w‖² alone outgrows every convex loss."""
        return self.free_bias or self.losses.scalars.count > 0

    @property
    def is_unbounded(self) -> bool:
        """Return whether the objective is proved to fall without end."""
        return False

    @property
    def contradiction(self) -> tuple[int, ...]:
        """Return the places of decision bounds that no weights and bias satisfy together; none where w = 0 does."""
        return ()

    def structure(self) -> tuple[Any, ...] | None:
        """Return a key of what a solver may compile once (all but weights, labels, labellings), None for nothing."""
        bounds = tuple((b.weights.tobytes(), b.lower, b.upper) for b in self.decision)
        features: Any = self.features  # held by the key itself: an identity alone could be given away again
        return (type(self), features, self.losses.structure, bounds, self.free_bias)

    def size(self) -> dict[str, int]:
        """Return the sizes `explain` prints."""
        return {"points": self.n, "features": self.features.rank, "loss rows": self.losses.rows,
                "shared scalars": self.losses.scalars.count, "decision bounds": len(self.decision)}
