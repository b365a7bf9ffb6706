"""Losses in parts that fall and rise with their margins, as Crammer-Singer margins and relaxations need them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from margindsl.calculus import ConvexFunction
from margindsl.errors import CalculusError
from margindsl.host.frozen import freeze_fields, frozen_property
from margindsl.program.bounds import is_unbounded
from margindsl.program.losses import Losses, LossTerm
from margindsl.typing import BoolArray, FloatArray, IntArray

MOST_SUMS = 512  # different sums of losses of one point that are made one function


@dataclass(frozen=True, eq=False)
class Part:
    """Represent a part of a term, of slopes a ≥ 0, that falls or rises with its margin."""

    term: LossTerm
    falls: bool
    rows: IntArray  # (m,), the rows of the losses it is a part of
    turn: float  # 1 or −1: its arguments are so many times those of these rows

    def __post_init__(self) -> None:
        freeze_fields(self)

    @property
    def is_constant(self) -> bool:
        """Return whether neither margin nor scalars count."""
        return self.term.loss.is_nonincreasing and self.term.loss.is_nondecreasing


def parted(losses: Losses) -> Iterator[Part]:
    """Yield parts of losses ρ(aγ + bᵀs + d) that fall and rise with the margin and add up to them; constants fall.

    Where a < 0 the argument is turned first. Where a = 0 it may be turned or not, and what rises in it falls in the
    turned one: a loss of scalars alone is two falling parts.
    """
    for term, part in losses.slices():
        for side in (1.0, -1.0, 0.0):
            kept = np.flatnonzero(np.sign(term.slopes) == side)
            if not len(kept):
                continue
            whole = term.loss.precompose(-1.0) if side < 0 else term.loss
            falling, rising = (whole, None) if whole.is_nonincreasing else whole.split()
            found = [(True, falling, side or 1.0)]
            if rising is not None:
                found.append((False, rising, side) if side else (True, rising.precompose(-1.0), -1.0))
            for falls, loss, turn in found:
                yield Part(LossTerm(loss, term.points[kept], term.weights[kept], turn * term.slopes[kept],
                                    turn * term.shifts[kept], turn * term.coupling[kept]),
                           falls, part.start + kept, turn)


def whole_duals(parts: Sequence[Part], u: FloatArray, rows: int) -> FloatArray:
    """Return duals (rows, …) of losses, of duals (m, …) of the rows of some of their parts.

    `rows`: the number of rows of the losses.
    """
    out, start = np.zeros((rows, *u.shape[1:])), 0
    for part in parts:
        np.add.at(out, part.rows, part.turn * u[start : start + len(part.rows)])
        start += len(part.rows)
    return out


@dataclass(frozen=True, eq=False)
class SplitLosses:
    """Represent losses as a falling and a rising part of the margin: ρ = ρ↓ + ρ↑ + constant.

    Shared scalars stand in the arguments of both, their cost beside the falling part.
    """

    falling: Losses
    rising: Losses
    constant: float
    parts: tuple[Part, ...] = ()  # those of the rows of `falling`

    @classmethod
    def of(cls, losses: Losses) -> SplitLosses:
        """Split every loss."""
        parts = list(parted(losses))
        constant = sum(float(np.sum(part.term.weights)) * float(part.term.loss(0.0))
                       for part in parts if part.is_constant)
        moving = [part for part in parts if not part.is_constant]
        falling, rising = (tuple(part for part in moving if part.falls is falls) for falls in (True, False))
        free = replace(losses.scalars, costs=np.zeros(losses.scalars.count))
        return cls(Losses(losses.n, tuple(part.term for part in falling), losses.scalars),
                   Losses(losses.n, tuple(part.term for part in rising), free), constant, falling)

    @frozen_property
    def joined(self) -> Losses:
        """Return the rows of both parts, those that fall first."""
        return replace(self.falling, terms=self.falling.terms + self.rising.terms)


def simplex_losses(losses: Losses, clusters: int) -> Losses:
    """Return losses of the simplex-coded margin that bound those of Crammer-Singer margins from below.

    A margin f_y − max_{q≠y} f_q is at most f_y − mean_{q≠y} f_q = √(k/(k−1)) ⟨c_y, V'φ⟩, V the weights in the
    coordinates of the codes (their mean over clusters only costs ‖W‖). Falling losses are taken there, whatever the
    scalars beside the margin, others by their falling part, the rest being non-negative. Nothing is lost by a
    relaxation that is symmetric in the clusters: its multipliers u_iq of f_y − f_q can be averaged over permutations,
    and then are those of the mean; the scalars see their sums over q alone, which stay as they are.
    """
    bounding = falling_losses(losses, stretch(clusters))
    left_out = (part.term.coupling for part in parted(losses) if not part.falls)
    if any(np.any(coupling) for coupling in left_out) and is_unbounded(bounding):
        raise CalculusError("bounds see only the parts of Crammer-Singer losses that fall with the margin, and here "
                            "the others alone hold a shared scalar: without them the objective falls without end")
    return bounding


def falling_losses(losses: Losses, factor: float = 1.0, opposed: float | None = None) -> Losses:
    """Return losses that fall in m and bound those of margins γ ≤ factor · m from below.

    These are the falling parts, the rising ones being non-negative, unless they rise from −∞.

    `opposed`: what rises from −∞ is taken at −opposed · m, which is at most γ; such parts are an error without it.
    """
    terms = []
    for part in parted(losses):
        if part.falls:
            terms.append(replace(part.term, slopes=factor * part.term.slopes))
        elif part.term.loss.minimum() == -np.inf:
            if opposed is None:
                raise CalculusError("a loss that rises with Crammer-Singer margins f_y - max f_q, which are concave in "
                                    "f, and has no least value is not bounded below by any relaxation here")
            terms.append(replace(part.term, slopes=-opposed * part.term.slopes))
    return Losses(losses.n, tuple(terms), losses.scalars)


def stretch(clusters: int) -> float:
    """Return √(k/(k−1)), how many times its simplex-coded margin a Crammer-Singer margin can be."""
    return float(np.sqrt(clusters / (clusters - 1.0)))


def merged_rows(losses: Losses, absorbed: BoolArray) -> Losses:
    """Return equal losses with slopes one, shifts zero and one row a point, where no scalar is shared.

    A lift sees the sum of a point's losses, and less of them apart. Sums without a conjugate in closed form are made
    where labels are minimised out, and only the sum with a square is looked at; there are no more of different rows
    than 512.

    `absorbed` (n,): whose labels are minimised out.
    """
    if losses.by_rows or not losses.rows or (losses.is_identity and not np.any(losses.shifts)):
        return losses
    order = np.argsort(losses.points, kind="stable")
    many = np.bincount(losses.points, minlength=losses.n)
    number = np.repeat(np.arange(len(losses.terms)), [term.rows for term in losses.terms])
    # the rows of a point side by side, its weights in units of the first
    table = np.full((losses.n, int(many.max()), 4), -1.0)
    position = np.arange(losses.rows) - np.repeat(np.cumsum(many) - many, many)
    table[losses.points[order], position] = np.stack(
        [number, losses.weights, losses.slopes, losses.shifts], axis=1)[order]
    unit = np.where(table[:, 0, 1] > 0, table[:, 0, 1], 1.0)
    table[:, :, 1] /= unit[:, None]
    flat = np.where(table[:, :, :1] < 0, -1.0, table).reshape(losses.n, -1)
    kinds, kind = np.unique(np.column_stack([absorbed, flat.round(13)]), axis=0, return_inverse=True)
    if len(kinds) > MOST_SUMS:
        return losses
    terms = []
    for k, apart in enumerate(kinds[:, 0] == 0):
        points = np.flatnonzero(kind.ravel() == k)
        rows = [(int(t), c, a, d) for t, c, a, d in flat[points[0]].reshape(-1, 4) if t >= 0]
        parts: list[ConvexFunction] = [losses.terms[t].loss.precompose(a, d) * float(c) for t, c, a, d in rows]
        total = [sum(parts[1:], start=parts[0])] if parts else []
        whole = parts if apart and total and total[0].is_solved_apart else total
        terms += [LossTerm(loss, points, unit[points], np.ones(len(points)), np.zeros(len(points)),
                           np.zeros((len(points), 0))) for loss in whole]
    return Losses(losses.n, tuple(terms), losses.scalars)
