"""Passes over a margin program: each makes it easier to solve, and knows the way back for answers found there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, TypeAlias

import numpy as np

from margindsl.errors import DeclarationError, InfeasibleError
from margindsl.features import AffineFeatures, FeatureOperator
from margindsl.program.bounded_bias import Interval, bias_limits, centre_of
from margindsl.program.certificates import Certificate
from margindsl.program.outside import Outside
from margindsl.program.program import MarginProgram
from margindsl.typing import FloatArray, IntArray

ALIKE = 1e8  # greatest ratio of two lengths of points, or of two loss weights
BALANCED = 1e10  # greatest ratio, either way, of the loss of one point to the regulariser
NEAR = 16.0  # a median length of the points within this factor of one is left alone


def check_magnitudes(program: MarginProgram) -> None:
    """Refuse points and loss weights so unlike one another that double precision loses the small beside the large.

    Raises
    ------
    DeclarationError
    """
    (length, longest), losses = program.features.typical_lengths, program.losses
    if longest > ALIKE * length:
        raise DeclarationError(
            f"the longest point (length {longest:.1e}) is {longest / length:.1e} times as long as half of "
            f"the points, expected at most {ALIKE:g} times; leave outliers out, or standardise the columns")
    level, slope = losses.at_zero
    if np.isfinite(level) and level > BALANCED * slope > 0:
        raise DeclarationError(
            f"losses that fall as at zero are gone at decision values of {level / slope:.1e}, expected at most "
            f"{BALANCED:g}; write thresholds in the unit of the decision values")
    weights = (losses.weights * np.abs(losses.slopes))[(losses.weights > 0) & (losses.slopes != 0)]
    if not len(weights) or not length:
        return
    if weights.max() > ALIKE * weights.min():
        raise DeclarationError(
            f"the weights of losses go from {program.scale * weights.min():.1e} to {program.scale * weights.max():.1e},"
            f" expected within a factor of {ALIKE:g}; set the small ones to zero, or standardise the weights")
    ratio = float(weights.max()) * length**2
    if not 1.0 / BALANCED <= ratio <= BALANCED:
        raise DeclarationError(
            f"the loss of a point weighs {ratio:.1e} times the regulariser, at points of length {length:.1e}; expected "
            f"between {1.0 / BALANCED:g} and {BALANCED:g}: standardise the columns, or weigh the losses otherwise")


@dataclass(frozen=True, eq=False)
class Answer:
    """Represent labels with the hyperplane fitted to them, in the units of one program."""

    labels: IntArray  # (n,)
    w: FloatArray  # (q r,)
    bias: FloatArray  # (q,)
    scalars: FloatArray  # (S,)
    found: Any  # decision values (n, k), or what finds them where points are streamed
    value: float  # of the program, recomputed
    raw: Any  # what the engine said: its status, words and duals, from where another fit starts
    certificate: Certificate | None = None  # of a bound on the values of all labels in B

    @property
    def decision(self) -> FloatArray:
        """Return the decision values (n, k)."""
        return np.asarray(self.found() if callable(self.found) else self.found)


Undo: TypeAlias = Callable[[Answer], Answer]


class Pass(ABC):
    """Change a program into one of the same labels and the same objective of the user.

    Class attribute: `name` (in the list `explain` prints).
    """

    name: ClassVar[str]

    @classmethod
    @abstractmethod
    def of(cls, program: MarginProgram) -> Pass | None:
        """Return the pass for a program, None where it would change nothing."""

    @abstractmethod
    def apply(self, program: MarginProgram) -> tuple[MarginProgram, Undo]:
        """Return the changed program, and what turns an answer to it into one to the program as it was."""

    @abstractmethod
    def describe(self) -> str:
        """Return one line saying what is changed."""


@dataclass(frozen=True)
class Units(Pass):
    """Divide features by one number: with Φ = sΦ' and w = w'/s, ½‖w‖² + L(f) = s⁻²[½‖w'‖² + s²L(f)]."""

    name: ClassVar[str] = "units"

    scale: float  # s, a power of two, which keeps every digit

    @classmethod
    def of(cls, program: MarginProgram) -> Units | None:
        length = program.features.typical_lengths[0] or 1.0
        return None if 1.0 / NEAR <= length <= NEAR else cls(float(2.0 ** np.round(np.log2(length))))

    def apply(self, program: MarginProgram) -> tuple[MarginProgram, Undo]:
        s = self.scale
        features = AffineFeatures(program.features, factor=1.0 / s)
        gauge = None if program.gauge is None else replace(program.gauge, linear=s * program.gauge.linear)
        outside = program.outside and Outside(tuple((s * s * c, term) for c, term in program.outside.terms),
                                              program.outside.rules, program.outside.unit / s)
        return replace(program, features=features, losses=program.losses.rescaled(s * s), scale=program.scale / s**2,
                       gauge=gauge, outside=outside), self._undo

    def _undo(self, answer: Answer) -> Answer:
        proof = answer.certificate
        if proof is not None:
            proof = replace(proof.rescaled(1.0, self.scale), bound=proof.bound / self.scale**2)
        return replace(answer, w=answer.w / self.scale, certificate=proof)

    def describe(self) -> str:
        return f"features divided by {self.scale:g}"


@dataclass(frozen=True, eq=False)
class BoxedBias(Pass):
    """Write a free bias that bounds on decision values hold as one in an interval, over features about their centre.

    With c = Φᵀa / Σa decision values are ⟨w, φ_i − c⟩ + t, and l ≤ Σ a f ≤ h is l ≤ (Σa) t ≤ h: the bias is t − ⟨w, c⟩.
    """

    name: ClassVar[str] = "box the bias"

    limits: Interval  # of t; where it is zero alone there is no bias
    centre: FloatArray | None = None  # (r,), None where features are about it already

    @classmethod
    def of(cls, program: MarginProgram) -> BoxedBias | None:
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
    """Represent a program after its passes."""

    declared: MarginProgram  # as it was
    program: MarginProgram  # as it is solved
    passes: tuple[Pass, ...] = ()  # those that changed something
    undos: tuple[Undo, ...] = ()  # one a pass

    @classmethod
    def of(cls, program: MarginProgram, kinds: tuple[type[Pass], ...] = PASSES) -> Presolved:
        """Return a program after the passes of some kinds."""
        found = cls(program, program)
        for kind in kinds:
            step = kind.of(found.program)
            if step is not None:
                changed, undo = step.apply(found.program)
                found = cls(program, changed, (*found.passes, step), (*found.undos, undo))
        return found

    def undo(self, answer: Answer) -> Answer:
        """Return an answer to the program as declared."""
        for undo in reversed(self.undos):
            answer = undo(answer)
        return answer
