"""The margin program: the one canonical form every declaration is lowered to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from margindsl.errors import DeclarationError
from margindsl.program.forms import DecisionBound, FixedLabelForm
from margindsl.program.losses import Losses
from margindsl.program.protocols import Features, LabelSetLike
from margindsl.typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class MarginProgram:
    """Represent the canonical margin program (mathematics, section 1).

    scale · min over y ∈ B, w, b, s of [½‖w‖² + qᵀs + Σ_r c_r ρ_r(a_r y_p f_p + b_rᵀs + d_r)] + constant,
    f = Φw (+ b), subject to bounds on decision values. The coefficient of the user's regulariser is
    divided out into `scale`, so that every form below carries ½‖w‖² exactly.

    Parameters
    ----------
    features : Features
        The operator Φ.
    labels : LabelSetLike
        The presolved label set B.
    losses : Losses
        The separable part, in units of the regulariser.
    decision : tuple of DecisionBound
        Bounds on decision values.
    free_bias : bool
        Whether an unpenalised bias is added to the decision values.
    scale, constant : float
        The affine map from the program's value to the user's objective.
    text : str
        The declaration, for messages and `explain`.
    """

    features: Features
    labels: LabelSetLike
    losses: Losses
    decision: tuple[DecisionBound, ...] = ()
    free_bias: bool = False
    scale: float = 1.0
    constant: float = 0.0
    text: str = ""

    def __post_init__(self) -> None:
        sizes = {self.features.n, self.labels.n, self.losses.n}
        if len(sizes) != 1:
            raise DeclarationError(
                f"labels cover {self.labels.n} points, the hyperplane {self.features.n}, the losses "
                f"{self.losses.n}; declare all over the same points")
        if not self.scale > 0:
            raise DeclarationError(f"scale of a margin program is {self.scale}, expected a positive number")

    @property
    def n(self) -> int:
        """Return the number of points."""
        return self.losses.n

    def to_user(self, value: float) -> float:
        """Return the user's objective for a value of the normalised program."""
        return self.scale * value + self.constant

    def from_user(self, value: float) -> float:
        """Return the normalised value for a value of the user's objective."""
        return (value - self.constant) / self.scale

    def fix_labels(self, labels: IntArray) -> FixedLabelForm:
        """Return the convex form left when the labels are fixed to ±1 values (n,)."""
        return FixedLabelForm(self.features, self.losses, np.asarray(labels),
                              decision=self.decision, free_bias=self.free_bias)

    def objective(self, labels: IntArray, w: FloatArray, bias: float = 0.0,
                  scalars: FloatArray | None = None) -> float:
        """Return the user's objective at labels (n,), w (r,), bias and shared scalars (S,)."""
        return self.to_user(self.fix_labels(labels).objective(w, bias, scalars))

    def dump(self) -> str:
        """Return the program as text, one line a part, for golden tests and `explain`."""
        from margindsl.program.dump import dump_program

        return dump_program(self)
