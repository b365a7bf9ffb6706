"""Passes over a margin program: each makes it easier to solve, and knows the way back for answers found there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, TypeAlias

import numpy as np

from margindsl.errors import InfeasibleError
from margindsl.features import AffineFeatures, FeatureOperator
from margindsl.program.bounded_bias import Interval, bias_limits, centre_of
from margindsl.program.certificates import Certificate
from margindsl.program.program import MarginProgram
from margindsl.program.scaling import Scaling
from margindsl.typing import FloatArray

FAR = 1024.0  # units so far from one that an inaccurate answer may be their fault


@dataclass(frozen=True, eq=False)
class Answer:
    """Represent a hyperplane, scalars and a proof in the units of one program."""

    w: FloatArray  # (q r,)
    bias: FloatArray  # (q,)
    scalars: FloatArray  # (S,)
    decision: FloatArray  # (n, k)
    certificate: Certificate | None = None


Undo: TypeAlias = Callable[[Answer], Answer]
Accepts: TypeAlias = Callable[[MarginProgram], object]


class Pass(ABC):
    """Change a program into one of the same labels and the same objective of the user.

    Class attributes: `name` (in the list `explain` prints), `optional` (whether the program could be solved without,
    as where a solve with it ends in trouble).
    """

    name: ClassVar[str]
    optional: ClassVar[bool] = False

    @property
    def is_extreme(self) -> bool:
        """Return whether so much is changed that an inaccurate answer may be the fault of this."""
        return False

    @classmethod
    @abstractmethod
    def of(cls, program: MarginProgram, accepts: Accepts) -> Pass | None:
        """Return the pass for a program, None where it would change nothing.

        Parameters
        ----------
        accepts : callable
            Whether the relaxation takes a program.
        """

    @abstractmethod
    def apply(self, program: MarginProgram) -> tuple[MarginProgram, Undo]:
        """Return the changed program, and what turns an answer to it into one to the program as it was."""

    @abstractmethod
    def describe(self) -> str:
        """Return one line saying what is changed."""


@dataclass(frozen=True)
class Units(Pass):
    """Solve in units in which features, values and duals are near one."""

    name: ClassVar[str] = "units"
    optional: ClassVar[bool] = True

    scaling: Scaling

    @property
    def is_extreme(self) -> bool:
        return not 1.0 / FAR <= self.scaling.features <= FAR or self.scaling.decision != 1.0

    @classmethod
    def of(cls, program: MarginProgram, accepts: Accepts) -> Units | None:
        for tilt in (True, False):
            scaling = Scaling.of(program, tilt)
            if scaling.is_identity:
                return None
            if accepts(scaling.apply(program)):
                return cls(scaling)
        return None

    def apply(self, program: MarginProgram) -> tuple[MarginProgram, Undo]:
        return self.scaling.apply(program), partial(self._undo, program)

    def _undo(self, program: MarginProgram, answer: Answer) -> Answer:
        t = self.scaling.decision
        return Answer(self.scaling.weight * answer.w, t * answer.bias, t * answer.scalars, t * answer.decision,
                      self.scaling.certify(program, answer.certificate))

    def describe(self) -> str:
        return self.scaling.describe()


@dataclass(frozen=True, eq=False)
class BoxedBias(Pass):
    """Write a free bias that bounds on decision values hold as one in an interval, over features about their centre.

    With c = Φᵀa / Σa decision values are ⟨w, φ_i − c⟩ + t, and l ≤ Σ a f ≤ h is l ≤ (Σa) t ≤ h: the bias is t − ⟨w, c⟩.

    Parameters
    ----------
    limits : Interval
        Of t; where it is zero alone there is no bias.
    centre : (r,) float array or None
        None where features are about it already.
    """

    name: ClassVar[str] = "box the bias"

    limits: Interval
    centre: FloatArray | None = None

    @classmethod
    def of(cls, program: MarginProgram, accepts: Accepts) -> BoxedBias | None:
        """Return the pass for a free bias that some bound holds."""
        if not program.free_bias:
            return None
        centre = centre_of(program.features, program.decision)
        limits, _ = bias_limits(_about(program.features, centre), program.decision)
        if limits.low > limits.high:
            raise InfeasibleError(
                f"bounds on decision values contradict one another: with features about their mean, they ask for a "
                f"bias of at least {limits.low:.6g} and of at most {limits.high:.6g}; relax one of them")
        return cls(limits, centre) if np.isfinite([limits.low, limits.high]).any() else None

    def apply(self, program: MarginProgram) -> tuple[MarginProgram, Undo]:
        return replace(program, features=_about(program.features, self.centre),
                       free_bias=not self.limits.low == self.limits.high == 0.0), partial(self._undo, program)

    def _undo(self, program: MarginProgram, answer: Answer) -> Answer:
        shift = 0.0 if self.centre is None else self.centre @ program.unpack(answer.w)
        return replace(answer, bias=answer.bias - shift)

    def describe(self) -> str:
        about = "" if self.centre is None else ", over features about another centre"
        return f"bounds on decision values hold the bias within {self.limits.low:.6g} and {self.limits.high:.6g}{about}"


def _about(features: FeatureOperator, centre: FloatArray | None) -> FeatureOperator:
    return features if centre is None else AffineFeatures(features, shift=centre)


NORMAL: tuple[type[Pass], ...] = (BoxedBias,)  # to the form in which relaxations see every program
PASSES: tuple[type[Pass], ...] = (Units,)


@dataclass(frozen=True, eq=False)
class Presolved:
    """Represent a program after its passes.

    Parameters
    ----------
    declared : MarginProgram
        As it was.
    program : MarginProgram
        As it is solved.
    passes : tuple of Pass
        Those that changed something.
    undos : tuple of callable
        One a pass.
    """

    declared: MarginProgram
    program: MarginProgram
    passes: tuple[Pass, ...] = ()
    undos: tuple[Undo, ...] = ()

    @classmethod
    def of(cls, program: MarginProgram, accepts: Accepts, kinds: tuple[type[Pass], ...] = PASSES) -> Presolved:
        """Return a program after the passes of some kinds."""
        found = cls(program, program)
        for kind in kinds:
            step = kind.of(found.program, accepts)
            found = found if step is None else found.after(step)
        return found

    def after(self, step: Pass) -> Presolved:
        """Return this after one more pass."""
        program, undo = step.apply(self.program)
        return Presolved(self.declared, program, (*self.passes, step), (*self.undos, undo))

    def undo(self, answer: Answer) -> Answer:
        """Return an answer to the program as declared."""
        for undo in reversed(self.undos):
            answer = undo(answer)
        return answer

    @property
    def optional(self) -> tuple[Pass, ...]:
        """Return the passes that can be left out."""
        return tuple(step for step in self.passes if step.optional)

    def plain(self) -> Presolved:
        """Return the program without the passes that can be left out."""
        found = Presolved(self.declared, self.declared)
        for step in self.passes:
            found = found if step.optional else found.after(step)
        return found


__all__ = ["NORMAL", "PASSES", "Answer", "BoxedBias", "Pass", "Presolved", "Units"]
