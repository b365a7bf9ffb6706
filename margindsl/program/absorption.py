"""Losses with the labels absorbed: functions of |f| instead of y f."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from margindsl.calculus import PLQ, ConvexFunction, maximum
from margindsl.calculus.accuracy import rounding
from margindsl.errors import CalculusError
from margindsl.program.losses import Losses, LossTerm

MOST_SETTINGS = 512


def absorbed_terms(losses: Losses) -> Losses:
    """Return equal losses of the margins alone with shifts zero, moved into the functions, and slopes one.

    Rows are grouped by their slope and shift; each group gets its own function.
    """
    if losses.scalars.count:
        raise CalculusError("the labels cannot be absorbed where losses depend on shared scalars (md.Scalar, or the "
                            "free mean in md.var and md.mean_variance)")
    terms: list[LossTerm] = []
    for term in losses.terms:
        if np.all(term.slopes == 1.0) and np.all(term.shifts == 0.0):
            terms.append(term)
            continue
        settings, group = np.unique(np.column_stack([term.slopes, term.shifts]), axis=0, return_inverse=True)
        if len(settings) > MOST_SETTINGS:
            raise CalculusError(
                f"the labels cannot be absorbed in a loss with {len(settings)} different per-point arguments "
                f"(at most {MOST_SETTINGS})")
        for k, (slope, shift) in enumerate(settings):
            own = term.taken(np.flatnonzero(group.ravel() == k))
            terms.append(replace(own, loss=term.loss.precompose(float(slope), float(shift)), slopes=np.ones(own.rows),
                                 shifts=np.zeros(own.rows)))
    return Losses(losses.n, tuple(terms), losses.scalars)


def absorbed_envelopes(losses: Losses) -> Losses:
    """Return `absorbed_terms` with every loss ρ replaced by a function of |f| no higher than the best label's loss."""
    absorbed = absorbed_terms(losses)
    return replace(absorbed, terms=tuple(replace(term, loss=root_envelope(term.loss)) for term in absorbed.terms))


def root_envelope(loss: ConvexFunction) -> ConvexFunction:
    """Return e with e(s) ≤ min(ρ(s), ρ(−s)) for s ≥ 0 and q ↦ e(√q) convex: the loss itself where it is one.

    A rising part of linear growth grows as √q, under which nothing convex in q rises: the envelope is flat from the
    minimum on. One of quadratic growth As² is replaced by ½As² + α, no higher than it. A loss that prefers one sign
    here and the other there is replaced by its least value.

    Examples
    --------
    >>> [float(root_envelope(PLQ([1.0], [[0.0, -1.0, 1.0], [0.0, 1.0, -1.0]]))(s)) for s in (0.0, 0.5, 1.0, 3.0)]
    [1.0, 0.5, 0.0, 0.0]
    """
    if not prefers_agreement(loss):
        turned = loss.precompose(-1.0)
        if prefers_agreement(turned):
            return root_envelope(turned)
        if not np.isfinite(loss.minimum()):
            raise CalculusError(f"labels are not absorbed in the loss {loss!r}, which has no least value")
        return PLQ.constant(float(loss.minimum()))
    if loss.is_root_convex:
        return loss
    falling, growth = loss.split()[0], float(loss.coefficients[-1, 0]) if isinstance(loss, PLQ) else 0.0
    if not growth > 0:
        return falling
    beta, least = 0.5 * growth, float(loss.minimum())
    alpha = float(loss.minimum_with_quadratic(1.0, -2.0 * beta, lower=0.0)) - least
    return falling + PLQ([float(np.sqrt(-alpha / beta))], [[0.0, 0.0, 0.0], [beta, 0.0, alpha]])


def prefers_agreement(loss: ConvexFunction) -> bool:
    """Return whether ρ(s) ≤ ρ(−s) for all s ≥ 0, so that the sign of f is the best label.

    Exact for piecewise quadratics: the difference is checked at its knots, at the vertices between and beyond them
    and at infinity; other losses pass when they only fall, sums when their summands pass.
    """
    if loss.is_nonincreasing:
        return True
    if not isinstance(loss, PLQ):
        parts = [base.precompose(a, b) for _, a, b, base in loss.atoms()]
        return len(parts) > 1 and all(map(prefers_agreement, parts))
    ends = np.abs(np.array([end for piece in loss.pieces for end in piece[:2]]))
    knots = np.unique(np.concatenate([[0.0], ends[np.isfinite(ends)]]))
    beyond = 2.0 * knots[-1] or 1.0  # within the last piece, as good as any point there
    middle = np.append((knots[:-1] + knots[1:]) / 2, beyond)
    with np.errstate(divide="ignore", invalid="ignore"):  # beyond both ends of the domain slopes are ∞ − ∞
        slope = np.asarray(loss.derivative(middle)) + np.asarray(loss.derivative(-middle))
        bend = np.asarray(loss.curvature(middle)) - np.asarray(loss.curvature(-middle))
        vertex = middle - slope / bend
        inside = np.isfinite(vertex) & (vertex > knots) & (vertex < np.append(knots[1:], np.inf))
        points = np.concatenate([knots, [beyond], vertex[inside]])
        agreed, opposed = np.asarray(loss(points)), np.asarray(loss(-points))
        difference, parts = agreed - opposed, np.abs(agreed) + np.abs(np.nan_to_num(opposed, posinf=0.0))
    # It may rise without end; where one side has an end, a point beyond it decides.
    (p, r, _), (q, s, _) = loss.coefficients[[0, -1]]
    rises = q > p if abs(q - p) > rounding(q + p) else s + r > rounding(abs(s) + abs(r))
    return bool(np.all(np.isnan(difference) | (difference <= rounding(parts)))) and not (
        rises and np.all(np.isinf(loss.domain)))


def absorb_labels(losses: Losses) -> Losses:
    """Return the losses γ ↦ ρ↓(γ) + ρ↑(|γ|) of a difference-of-convex step (mathematics, 3.3)."""
    terms: list[LossTerm] = []
    for term in losses.terms:
        falls = term.falls or (term.loss.is_affine and np.all(term.slopes <= 0))
        if falls or not isinstance(term.loss, PLQ) or term.coupling.shape[1]:
            terms.append(term)  # the least over labels is no more than at the present ones: a majoriser that touches
            continue
        for new in absorbed_terms(Losses(int(term.points.max(initial=-1)) + 1, (term,))).terms:
            falling, rising = new.loss.split()
            terms.append(LossTerm(falling + fold(rising), new.points, new.weights, new.slopes, new.shifts,
                                  new.coupling))
    return Losses(losses.n, tuple(terms), losses.scalars)


def fold(rising: ConvexFunction) -> ConvexFunction:
    """Return γ ↦ ρ↑(|γ|) for a convex nondecreasing ρ↑: the larger of ρ↑(γ) and ρ↑(−γ)."""
    return maximum(rising, rising.precompose(-1.0, 0.0))
