"""Presolve of magnitudes: the program in units in which features, values and duals are near one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from margindsl.calculus import PLQ
from margindsl.errors import CalculusError, DeclarationError
from margindsl.features import AffineFeatures, FeatureOperator
from margindsl.program.absorption import MOST_SETTINGS, normalise_terms
from margindsl.program.bounds import USUAL, DecisionBound
from margindsl.program.certificates import Certificate
from margindsl.program.losses import Losses
from margindsl.program.program import MarginProgram

EXTREME = 1e120  # ratios of losses to regulariser that are refused: engines square and multiply them
WEAK = 2.0**-10  # total slopes of the losses below this are scaled up
FLAT = 1e-9  # relative change of a slope within reach that is left out of a loss, which only lowers it


@dataclass(frozen=True)
class Scaling:
    """Represent a change of units, Φ = sΦ', w = (t/s)w', b = tb', scalars σ = tσ', f = tf'.

    With L the losses of the program, ½‖w‖² + qᵀσ + L(f) = L(0) + (t/s)²[½‖w'‖² + (s²/t)(qᵀσ' + L_t(f'))], where
    every ρ of L_t is ρ_t(v) = (ρ(tv) − ρ(0))/t. At t = 1 the losses stay as they are and L(0) is not taken out.
    Else decision values stay short of `reach`, and beyond it a ρ_t with kinks there goes on as its tangent, which
    is no higher: bounds hold for the program as it was.
    Both numbers are powers of two, so that features, weights and labels keep every digit.

    Parameters
    ----------
    features : float
        s, near the length of the features.
    decision : float
        t, the size decision values can reach, where losses are too weak to bring them to their kinks.
    """

    features: float = 1.0
    decision: float = 1.0

    @classmethod
    def of(cls, program: MarginProgram, tilt: bool = True) -> Scaling:
        """Return the units of a program, both one where its magnitudes are usual.

        s is the median length of the rows that are not zero, where it is not within a factor 16 of one. t is the
        total slope g of the losses at margin zero, above which ‖w'‖ cannot lie, where losses have no unit of their
        own (ρ(tv) = tρ(v)), or where g is below 2⁻¹⁰; that needs piecewise quadratic losses, no scalars and no free
        bias. Losses too weak, for which neither can be said, make s larger, so that losses and values are of usual
        size.

        Parameters
        ----------
        tilt : bool
            Whether losses may be changed, t ≠ 1.
        """
        s = feature_scale(program.features)
        slope = total_slope(program.losses) * s * s
        if not (np.isfinite(slope) and slope > 0):
            return cls(s)
        if not 1.0 / EXTREME <= slope <= EXTREME:
            raise DeclarationError(
                f"the slope of the losses times the squared length of the features is {slope:.1e} times the "
                f"regulariser, outside {1.0 / EXTREME:g} to {EXTREME:g}: powers of it overflow or vanish. Rescale the "
                "features, for instance to unit variance, or the weight of the losses")
        level = program.losses.at_zero[0]
        if level > EXTREME:
            raise DeclarationError(f"the losses are {level:.1e} times the regulariser at margin zero, beyond "
                                   f"{EXTREME:g}: powers of it overflow. Take off what the losses have in common")
        if tilt and has_no_unit(program.losses):
            return cls(s, power_of_two(slope)) if not WEAK <= slope <= 1.0 / WEAK else cls(s)
        if slope >= WEAK:
            return cls(s)
        if tilt and can_be_tilted(program):
            return cls(s, power_of_two(slope))
        return cls(s / power_of_two(np.sqrt(slope)))

    @property
    def is_identity(self) -> bool:
        """Return whether nothing changes."""
        return self.features == 1.0 and self.decision == 1.0

    @property
    def weight(self) -> float:
        """Return t/s, which turns w' into w."""
        return self.decision / self.features

    def apply(self, program: MarginProgram) -> MarginProgram:
        """Return the program in the new units; `to_user` still gives the user's objective."""
        if self.is_identity:
            return program
        s, t = self.features, self.decision
        features = program.features if s == 1.0 else AffineFeatures(program.features, factor=1.0 / s)
        losses = program.losses
        if t != 1.0 and not has_no_unit(losses):
            losses = tilted(losses, t, reach(features, losses.slope_at_zero() * s * s / t))
        decision = tuple(DecisionBound(b.weights, b.lower / t, b.upper / t) for b in program.decision)
        return replace(
            program, features=features, losses=losses.rescaled(s * s / t), decision=decision,
            scale=program.scale * self.weight**2, constant=program.constant + program.scale * self.offset(program))

    def offset(self, program: MarginProgram) -> float:
        """Return what is taken out of the losses: L(0), or nothing at t = 1."""
        return 0.0 if self.decision == 1.0 else program.losses.value(np.zeros(program.n))

    def certify(self, program: MarginProgram, certificate: Certificate | None) -> Certificate | None:
        """Return the proof for a program of a certificate that is in the new units."""
        if certificate is None or self.is_identity:
            return certificate
        scaled, bound = certificate.data().rescaled(self.decision, self.features), self.weight**2 * certificate.bound
        return replace(scaled, bound=self.offset(program) + bound, words=f"{scaled.words}, {self.describe()}")

    def describe(self) -> str:
        """Return one line saying what is changed."""
        if self.is_identity:
            return "none: features and losses are of usual size"
        return f"features divided by {self.features:g}, decision values by {self.decision:g}"


def power_of_two(x: float) -> float:
    """Return the power of two nearest to a positive number on a logarithmic scale.

    Examples
    --------
    >>> power_of_two(1000.0), power_of_two(0.3)
    (1024.0, 0.25)
    """
    return float(2.0 ** np.round(np.log2(x)))


def feature_scale(features: FeatureOperator) -> float:
    """Return a power of two near the median length of the rows that are not zero, one if it is usual already."""
    norms = np.asarray(features.row_norms())
    norms = norms[norms > 0]
    length = float(np.sqrt(np.median(norms))) if len(norms) else 1.0
    if not np.isfinite(length) or 1.0 / USUAL <= length <= USUAL:
        return 1.0
    return power_of_two(length)


def total_slope(losses: Losses) -> float:
    """Return the slope of the losses at zero, or what the costs of shared scalars make it at the solution."""
    scalars = losses.scalars
    if not scalars.count or not np.any(losses.coupling):
        return losses.slope_at_zero()
    return max(losses.slope_at_zero(), float(np.abs(scalars.costs).sum() / np.abs(losses.coupling).max()))


def has_no_unit(losses: Losses) -> bool:
    """Return whether every loss satisfies ρ(tv) = tρ(v) for t > 0, at no shift: only slopes that change at zero."""
    return all(
        isinstance(term.loss, PLQ) and np.all(term.shifts == 0.0) and np.all(term.loss.breakpoints == 0.0)
        and np.all(term.loss.coefficients[:, [0, 2]] == 0.0)
        and all(end == 0.0 or np.isinf(end) for end in term.loss.domain)
        for term in losses.terms)


def can_be_tilted(program: MarginProgram) -> bool:
    """Return whether L(0) can be taken out exactly and arguments are small when losses are weak, as scalars are not.

    Losses that rise with Crammer-Singer margins are bounded by their least value, which tangents do not have.
    """
    losses = program.losses
    settings = sum(len(np.unique(np.column_stack([t.slopes, t.shifts]), axis=0)) for t in losses.terms)
    return (not program.free_bias and not losses.scalars.count and settings <= MOST_SETTINGS
            and all(bound.lower <= 0.0 <= bound.upper for bound in program.decision)
            and all(isinstance(term.loss, PLQ) for term in losses.terms)
            and bool(np.isfinite(losses.value(np.zeros(losses.n)))) and program.kind.is_convex(program))


def reach(features: FeatureOperator, slope: float) -> float:
    """Return twice the largest |f_i| of hyperplanes no worse than w = 0: ½‖w‖² ≤ g‖w‖ max‖φ‖, so |f| ≤ 2g max‖φ‖².

    Parameters
    ----------
    slope : float
        The slope g of the losses at zero.
    """
    return 4.0 * slope * float(np.max(features.row_norms(), initial=0.0))


def tilted(losses: Losses, t: float, within: float = np.inf) -> Losses:
    """Return the losses with every ρ replaced by ρ_t(v) = (ρ(tv) − ρ(0))/t of the margin, and by less far out.

    Parameters
    ----------
    losses : Losses
        Piecewise quadratic.
    within : float
        |v| up to which ρ_t is kept.
    """
    if any(not isinstance(term.loss, PLQ) for term in losses.terms):
        raise CalculusError("units of decision values are changed for piecewise quadratic losses only")
    return Losses(losses.n, tuple(
        replace(term, loss=flattened(_tilt(cast(PLQ, term.loss), t), within))
        for term in normalise_terms(losses).terms), losses.scalars)


def _tilt(loss: PLQ, t: float) -> PLQ:
    """Return v ↦ (ρ(tv) − ρ(0))/t; the piece at zero has constant zero exactly, so that nothing cancels."""
    q, s, c = loss.coefficients.T
    table = np.column_stack([q * t, s, (c - float(loss(0.0))) / t])
    return PLQ(loss.breakpoints / t, table, loss.lower / t, loss.upper / t)


def flattened(loss: PLQ, within: float) -> PLQ:
    """Return a function no higher than a loss and equal to it for |v| ≤ R: tangents where it has kinks farther out.

    A single piece that is left and bends by less than 1e-9 of its slope over [−R, R] becomes its tangent at zero.

    Parameters
    ----------
    loss : PLQ
        Finite on [−R, R].
    within : float
        R ≥ 0.

    Examples
    --------
    >>> flattened(PLQ([1e6], [[0.0, -1.0, 0.0], [0.0, 0.0, -1e6]]), 10.0)
    PLQ(-x)
    """
    ends = np.concatenate([[loss.lower], loss.breakpoints, [loss.upper]])
    if not (np.isfinite(within) and within >= 0) or np.any(np.abs(np.clip(ends[[0, -1]], -within, within)) < within):
        return loss
    inner = loss.breakpoints[np.abs(loss.breakpoints) < within]
    first = int(np.searchsorted(loss.breakpoints, -within, side="right"))
    table = loss.coefficients[first: first + len(inner) + 1]
    if not len(inner) and abs(table[0, 0]) * within <= FLAT * abs(table[0, 1]):
        return PLQ.affine(float(table[0, 1]), float(table[0, 2]))
    knots = inner
    for at, far, row in ((-within, ends[ends < -within], table[0]), (within, ends[ends > within], table[-1])):
        if not np.any(np.isfinite(far)) or row[0] == 0.0:
            continue
        tangent = [0.0, 2.0 * row[0] * at + row[1], row[2] - row[0] * at * at]
        table = np.vstack([[tangent], table]) if at < 0 else np.vstack([table, [tangent]])
        knots = np.concatenate([[at], knots]) if at < 0 else np.concatenate([knots, [at]])
    return PLQ(knots, table)


__all__ = [
    "Scaling", "can_be_tilted", "feature_scale", "flattened", "has_no_unit",
    "power_of_two", "reach", "tilted",
]
