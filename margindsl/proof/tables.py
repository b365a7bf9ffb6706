"""Losses as tables for a proof: the quadratic pieces of all that is lost at a point, and its logistic terms."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from margindsl.calculus import PLQ
from margindsl.calculus.smooth import Logistic
from margindsl.program.losses import Losses
from margindsl.typing import FloatArray, IntArray

NEAR = 4 * 2.0**-52  # of the parts of an argument, or a value: how near rounding leaves it to a knot, or the least one
FEW = 16  # places at which pieces are evaluated in rationals
STEPS, FURTHEST = 100, 80.0  # of the bisection for a minimum, over t = sinh(x) with |x| no further
FLOAT = np.finfo(float)
SMALLEST = 1e-290  # of a slope: what is smaller has lost digits, or would in products


class UnknownProof(Exception):
    """Say why there is no proof in plain arrays."""


class NoProof(UnknownProof):
    """Say why a certificate proves nothing, whatever means there are to check it."""


def loss_tables(losses: Losses, parted: bool = False) -> dict[str, Any]:
    """Return arrays of the losses: of points, or of rows where scalars are shared.

    Loss i is, between `left` and `right` of each of its cells, At² + Bt + C at t = slope·margin + coupling·s − anchor,
    plus c·log(1 + exp(−ax − d)) for its logistic terms; `steep` and `size` are sums of moduli of the parts of B and C.
    Anchors are where a cell is least, so that what vanishes there is zero and not what rounding leaves of it. Loss i is
    nowhere less than `floor`, which says no more than the cells but for their rounding.

    Parameters
    ----------
    parted : bool
        Whether no cell holds margins of both signs.
    """
    shared, n = losses.scalars.count > 0, losses.n
    terms = _terms(losses, shared)
    curved, tables = [t for t in terms if isinstance(t[0], Logistic)], [t for t in terms if isinstance(t[0], PLQ)]
    count = losses.rows if shared else n
    cells, floor = _cells(tables, count, parted), np.zeros(count)
    for base, place, c, a, d, _ in tables:
        floor += np.bincount(place, c * np.where(a == 0, base(d), base.minimum()), count)
    columns = [np.concatenate([t[i] for t in curved]) if curved else np.zeros(0) for i in range(1, 5)]
    return {
        "points": losses.points if shared else np.arange(n), "slopes": losses.slopes if shared else np.ones(n),
        "coupling": losses.coupling if shared else np.zeros((n, 0)),
        "costs": losses.scalars.costs, "nonneg": np.asarray(losses.scalars.nonneg, dtype=bool),
        **cells, "floor": np.maximum(floor, -FLOAT.max),
        "log_at": columns[0].astype(int), "log_c": columns[1], "log_a": columns[2], "log_d": columns[3]}


def _terms(losses: Losses, shared: bool) -> list[tuple[Any, ...]]:
    """Return (base, place, c, a, d, e) with c·base(ax + d) part of the loss at each place, d a sum of parts of size e.

    Where d is a number as declared, e is 0.
    """
    found = []
    for term, part in losses.slices():
        rows = np.arange(part.start, part.stop)[term.weights > 0]
        weights = term.weights[term.weights > 0]
        for factor, a, b, base in term.loss.atoms():
            if not isinstance(base, (PLQ, Logistic)):
                raise UnknownProof(f"the loss {base!r} has no form a proof knows")
            slopes, shifts = np.ones(len(rows)) if shared else losses.slopes[rows], losses.shifts[rows]
            place = rows if shared else losses.points[rows]
            parts = np.where((shifts == 0) | ((abs(a) == 1) & (b == 0)), 0.0, np.abs(a * shifts) + abs(b))
            found.append((base, place, factor * weights, a * slopes, a * shifts + b, parts))
    return found


def _cells(tables: list[tuple[Any, ...]], count: int, parted: bool) -> dict[str, Any]:
    """Return the cells of the sums of losses at every place; where all are alike, those of one are repeated."""
    whole = np.arange(count)
    if count > 1 and all(np.array_equal(place, whole) and not any(map(np.ptp, rest)) for _, place, *rest in tables):
        one = _cells([(base, *(z[:1] for z in rest)) for base, *rest in tables], 1, parted)
        return {name: np.repeat(whole, len(x)) if name == "cell" else np.tile(x, count) for name, x in one.items()}
    everyone, ends = np.arange(count), (-np.inf, np.inf, 0.0) if parted else (-np.inf, np.inf)
    owner, knot = [everyone for _ in ends], [np.full(count, end) for end in ends]
    terms = np.zeros(count, dtype=int)  # that are no constants
    for base, place, _, a, d, _ in tables:
        moving = a != 0
        terms += np.bincount(place[moving], minlength=count)
        for x in {x for piece in base.pieces for x in piece[:2] if math.isfinite(x)}:
            owner, knot = [*owner, place[moving]], [*knot, (x - d[moving]) / a[moving]]
    order = np.lexsort((np.concatenate(knot), np.concatenate(owner)))
    own, x = np.concatenate(owner)[order], np.concatenate(knot)[order]
    cell = (own[1:] == own[:-1]) & (x[1:] > x[:-1])
    own, left, right = own[1:][cell], x[:-1][cell], x[1:][cell]
    low, high = (np.where(np.isinf(x), 0.0, x) for x in (left, right))
    middle = np.where(np.isinf(left), np.where(np.isinf(right), 0.0, high - np.abs(high) - 1),
                      np.where(np.isinf(right), low + np.abs(low) + 1, low / 2 + high / 2))
    start, held = np.searchsorted(own, np.arange(count + 1)), np.ones(len(own), dtype=bool)
    sums, found = np.zeros((5, len(own))), []
    for base, place, c, a, d, parts in tables:
        many = np.diff(start)[place]
        at = np.arange(int(many.sum())) + np.repeat(start[place] - np.cumsum(many) + many, many)
        parts = np.where(terms[place] > 1, np.inf, parts)
        c, a, d, parts = (np.repeat(z, many) for z in (c, a, d, parts))
        t, z = np.array(base.pieces, dtype=float), a * middle[at] + d
        piece = np.searchsorted(t[1:, 0], z)
        held[at[(z < t[0, 0]) | (z > t[-1, 1])]] = False
        found.append((at, c, a, d, parts, piece, t, base.minimum()))
        square, slope = t[piece, 2], t[piece, 3]
        sums[0] += np.bincount(at, c * square * a * a, len(own))
        sums[1] += np.bincount(at, c * a * (2 * square * d + slope), len(own))
    anchor = _lowest(left, right, sums[0], sums[1])
    sums[:] = 0.0
    for at, c, *rest in found:
        for row, part in zip(sums, _anchored(anchor[at], *rest)):
            row += np.bincount(at, c * part, len(own))
    names = "cell", "left", "right", "anchor", "A", "B", "C", "steep", "size"
    return dict(zip(names, (x[held] for x in (own, left, right, anchor, *sums))))


def _lowest(left: FloatArray, right: FloatArray, A: FloatArray, B: FloatArray) -> FloatArray:
    """Return where Ax² + Bx is least in each cell, a finite end of it or zero where that is at infinity."""
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.where(A > 0, np.clip(-B / (2 * A), left, right), np.where(B > 0, left, right))
    low = np.where(np.isfinite(low), low, np.where(np.isfinite(left), left, right))
    low = np.where(np.isfinite(low), low, 0.0)
    for end in (left, right):  # a vertex at a knot is that knot
        low = np.where(np.isfinite(end) & (np.abs(low - end) <= NEAR * np.abs(end)), end, low)
    return low


def _anchored(anchor: FloatArray, a: FloatArray, d: FloatArray, parts: FloatArray, piece: IntArray,
              pieces: FloatArray, least: float) -> tuple[FloatArray, ...]:
    """Return A, B, C and the sizes of the parts of B and C of pieces at ax + d, about an anchor, the least value known.

    A loss of its own at a place (`parts` is finite) is moved by rounding as a whole: by that of d, and by that of its
    anchor where this is no knot. That of knots and anchors themselves is relative to them.
    """
    knots, z = np.unique(pieces[:, :2]), a * anchor + d
    knots, reach = knots[np.isfinite(knots)], np.abs(a * anchor) + np.abs(d)
    held = d == 0
    for knot in knots:
        near = np.abs(z - knot) <= NEAR * (reach + abs(knot))
        z, held = np.where(near, knot, z), held | near
    reach = np.where(held & (parts < np.inf), parts, np.where((np.abs(a) == 1) & (d == 0), 0.0, reach))
    n2, n1, n0 = pieces[piece, 2:].T
    value, size = (n2 * z + n1) * z + n0, (np.abs(n2 * z) + np.abs(n1)) * np.abs(z) + np.abs(n0)
    for number, (square, slope, constant) in enumerate(pieces[:, 2:]):
        own = piece == number
        places, first, where = np.unique(z[own], return_index=True, return_inverse=True)
        if len(places) <= FEW:  # as with losses of the margins themselves: no more than their knots
            exact = np.array([float((Fraction(square) * x + Fraction(slope)) * x + Fraction(constant))
                              for x in map(Fraction, places.tolist())])
            exact = np.where(np.abs(exact - least) <= NEAR * size[own][first], least, exact)  # coefficients are rounded
            value[own], size[own] = exact[where], np.abs(exact)[where]
    steep = np.abs(2 * n2 * z) + np.abs(n1)
    return n2 * a * a, a * (2 * n2 * z + n1), value, np.abs(a) * steep, size + steep * reach


def tangents(tables: dict[str, Any], u: FloatArray, q: FloatArray) -> FloatArray:
    """Return slopes in [−1, 0] of tangents of the logistic terms where h(t) + ut + ½qt² is least, for every dual point.

    Shapes: `u` (P, m), `q` (P, m).

    Parameters
    ----------
    tables : dict
        Of `loss_tables`.
    """
    at, c, a, d = (tables[name] for name in ("log_at", "log_c", "log_a", "log_d"))
    if not len(at):
        return np.zeros((len(u), 0))
    places, where = np.unique(at, return_inverse=True)
    used = np.isin(tables["cell"], places)
    own = np.searchsorted(places, tables["cell"][used])
    right, A, B, steep, anchor = (tables[name][used] for name in ("right", "A", "B", "steep", "anchor"))
    start, order = np.searchsorted(own, np.arange(len(places))), np.argsort(where, kind="stable")
    last = np.append(start[1:], len(own)) - 1
    first = np.searchsorted(where[order], np.arange(len(places)))
    u, q = u[:, places], np.broadcast_to(q, u.shape)[:, places]
    low, high = np.full(u.shape, -FURTHEST), np.full(u.shape, FURTHEST)
    with np.errstate(over="ignore"):
        for _ in range(STEPS):
            t = np.sinh(low / 2 + high / 2)
            v = -1 / (1 + np.exp(a * t[:, where] + d))
            cell = np.minimum(start + np.add.reduceat(t[:, own] > right, start, axis=1), last)
            pull = np.add.reduceat((c * a * v)[:, order], first, axis=1)
            slope = 2 * A[cell] * (t - anchor[cell]) + q * t + B[cell] + u + pull
            low, high = np.where(slope > 0, low, low / 2 + high / 2), np.where(slope > 0, low / 2 + high / 2, high)
    # Where nothing but the tangents curves, their slopes must cancel u to the last digit: the most curved gives way.
    loose = (2 * A[cell] + q == 0) & (np.abs(slope) <= 2.0**-30 * (steep[cell] + np.abs(u) + np.abs(pull)))
    weight = c * np.abs(a) * (-v * (1 + v) + 1e-300)
    chosen = weight >= np.maximum.reduceat(weight[:, order], first, axis=1)[:, where]
    share = np.add.reduceat((chosen * (c * a) ** 2)[:, order], first, axis=1)[:, where]
    moved = np.where(chosen, (c * a) * np.where(loose, slope, 0.0)[:, where] / share, 0.0)
    v = np.clip(v - moved, -1.0, 0.0)
    return np.where(v > -SMALLEST, 0.0, v)


__all__ = ["NoProof", "UnknownProof", "loss_tables", "tangents"]
