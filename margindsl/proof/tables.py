"""Losses as tables for a proof: the quadratic pieces of all that is lost at a point, and its logistic terms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from margindsl.calculus import PLQ
from margindsl.calculus.smooth import Logistic
from margindsl.program.losses import Losses
from margindsl.typing import FloatArray

NEAR = 4 * 2.0**-52  # of the parts of an argument, or a value: how near rounding leaves it to a knot, or the least one
STEPS, FURTHEST = 100, 80.0  # of the bisection for a minimum, over t = sinh(x) with |x| no further
SMALLEST = 1e-290  # of a slope: what is smaller has lost digits, or would in products


class UnknownProof(Exception):
    """Say why there is no proof in plain arrays."""


class NoProof(UnknownProof):
    """Say why a certificate proves nothing, whatever means there are to check it."""


def loss_tables(losses: Losses, parted: bool = False) -> dict[str, Any]:
    """Return arrays of the losses: of points, or of rows where scalars are shared or losses are by label.

    Loss i is, between `left` and `right` of each of its cells, At² + Bt + C at t = slope·margin + coupling·s − anchor,
    plus c·log(1 + exp(−ax − d)) for its logistic terms. Anchors are where a cell is least: what vanishes there but for
    rounding of its parts is zero, and what is the least the loss can be is that.

    `parted`: whether no cell holds margins of both signs.
    """
    shared, n = losses.by_rows, losses.n
    terms: list[tuple[Any, ...]] = []  # (base, place, c, a, d) with c·base(ax + d) part of the loss at each place
    for term, part in losses.slices():
        rows = np.arange(part.start, part.stop)[term.weights > 0]
        weights, shifts = term.weights[term.weights > 0], losses.shifts[rows]
        slopes, position = (np.ones(len(rows)), rows) if shared else (losses.slopes[rows], losses.points[rows])
        for factor, a, b, base in term.loss.atoms():
            if not isinstance(base, (PLQ, Logistic)):
                raise UnknownProof(f"the loss {base!r} has no form a proof knows")
            terms.append((base, position, factor * weights, a * slopes, a * shifts + b))
    curved, tables = [t for t in terms if isinstance(t[0], Logistic)], [t for t in terms if isinstance(t[0], PLQ)]
    count = losses.rows if shared else n
    columns = [np.concatenate([t[i] for t in curved]) if curved else np.zeros(0) for i in range(1, 5)]
    return {
        "points": losses.points if shared else np.arange(n), "slopes": losses.slopes if shared else np.ones(n),
        "bare": losses.bare if shared else np.zeros(n),
        "coupling": losses.coupling if shared else np.zeros((n, 0)),
        "costs": losses.scalars.costs, "nonneg": np.asarray(losses.scalars.nonneg, dtype=bool),
        **_cells(tables, count, parted),
        "log_at": columns[0].astype(int), "log_c": columns[1], "log_a": columns[2], "log_d": columns[3]}


def _cells(tables: list[tuple[Any, ...]], count: int, parted: bool) -> dict[str, Any]:
    """Return the cells of the sums of losses at every place; where all are alike, those of one are repeated."""
    whole = np.arange(count)
    if count > 1 and all(np.array_equal(rows, whole) and not any(map(np.ptp, rest)) for _, rows, *rest in tables):
        one = _cells([(base, *(z[:1] for z in rest)) for base, *rest in tables], 1, parted)
        return {name: np.repeat(whole, len(x)) if name == "cell" else np.tile(x, count) for name, x in one.items()}
    everyone, ends = np.arange(count), (-np.inf, np.inf, 0.0) if parted else (-np.inf, np.inf)
    owner, knot = [everyone for _ in ends], [np.full(count, end) for end in ends]
    for base, position, _, a, d in tables:
        moving = a != 0
        for x in {x for piece in base.pieces for x in piece[:2] if math.isfinite(x)}:
            owner, knot = [*owner, position[moving]], [*knot, (x - d[moving]) / a[moving]]
    order = np.lexsort((np.concatenate(knot), np.concatenate(owner)))
    own, x = np.concatenate(owner)[order], np.concatenate(knot)[order]
    cell = (own[1:] == own[:-1]) & (x[1:] > x[:-1])
    own, left, right = own[1:][cell], x[:-1][cell], x[1:][cell]
    low, high = (np.where(np.isinf(x), 0.0, x) for x in (left, right))
    middle = np.where(np.isinf(left), np.where(np.isinf(right), 0.0, high - np.abs(high) - 1),
                      np.where(np.isinf(right), low + np.abs(low) + 1, low / 2 + high / 2))
    start, held = np.searchsorted(own, np.arange(count + 1)), np.ones(len(own), dtype=bool)
    (A, B), found = np.zeros((2, len(own))), []
    for base, position, c, a, d in tables:
        many = np.diff(start)[position]
        at = np.arange(int(many.sum())) + np.repeat(start[position] - np.cumsum(many) + many, many)
        c, a, d = (np.repeat(z, many) for z in (c, a, d))
        pieces, z = np.array(base.pieces, dtype=float), a * middle[at] + d
        piece = np.searchsorted(pieces[1:, 0], z)
        held[at[(z < pieces[0, 0]) | (z > pieces[-1, 1])]] = False
        square, slope, constant = pieces[piece, 2:].T
        found.append((at, c, a, d, square, slope, constant, np.where(a == 0, base(d), base.minimum())))
        A += np.bincount(at, c * square * a * a, len(own))
        B += np.bincount(at, c * a * (2 * square * d + slope), len(own))
    # where Ax² + Bx is least in each cell, a finite end of it or zero where that is at infinity
    with np.errstate(divide="ignore", invalid="ignore"):
        anchor = np.where(A > 0, np.clip(-B / (2 * A), left, right), np.where(B > 0, left, right))
    anchor = np.where(np.isfinite(anchor), anchor, np.where(np.isfinite(left), left, right))
    anchor = np.where(np.isfinite(anchor), anchor, 0.0)
    for end in (left, right):  # a vertex at a knot is that knot
        anchor = np.where(np.isfinite(end) & (np.abs(anchor - end) <= NEAR * np.abs(end)), end, anchor)
    B, steep, C, size, least = np.zeros((5, len(own)))
    for at, c, a, d, square, slope, constant, low in found:
        z, reach = a * anchor[at] + d, np.abs(a * anchor[at]) + np.abs(d)
        bend, tilt = np.abs(square), np.abs(slope)
        parts = (a * (2 * square * z + slope), np.abs(a) * (2 * bend * reach + tilt),
                 (square * z + slope) * z + constant, (bend * reach + tilt) * reach + np.abs(constant), low)
        for total, part in zip((B, steep, C, size, least), parts):
            total += np.bincount(at, c * part, len(own))
    B, C = np.where(np.abs(B) <= NEAR * steep, 0.0, B), np.where(np.abs(C - least) <= NEAR * size, least, C)
    cells = {"cell": own, "left": left, "right": right, "anchor": anchor, "A": A, "B": B, "C": C}
    return {name: x[held] for name, x in cells.items()}


def tangents(tables: dict[str, Any], u: FloatArray, q: FloatArray) -> FloatArray:
    """Return slopes in [−1, 0] of tangents of the logistic terms that prove the most of min h(t) + ut + ½qt², for every
    dual point: those where that is least, unless falling squares make it low in two places.

    Shapes: `u` (P, m), `q` (P, m).

    `tables`: of `loss_tables`.
    """
    at, c, a, d = (tables[name] for name in ("log_at", "log_c", "log_a", "log_d"))
    if not len(at):
        return np.zeros((len(u), 0))
    positions, where = np.unique(at, return_inverse=True)
    used = np.isin(tables["cell"], positions)
    own = np.searchsorted(positions, tables["cell"][used])
    left, right, A, B, C, anchor = (tables[name][used] for name in ("left", "right", "A", "B", "C", "anchor"))
    start, order = np.searchsorted(own, np.arange(len(positions))), np.argsort(where, kind="stable")
    last = np.append(start[1:], len(own)) - 1
    first = np.searchsorted(where[order], np.arange(len(positions)))
    u, q = u[:, positions], np.broadcast_to(q, u.shape)[:, positions]
    low, high, most = np.full(u.shape, -FURTHEST), np.full(u.shape, FURTHEST), np.sinh(FURTHEST)
    half, ends = q[:, own] / 2, np.clip([left, right], -most, most)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        for _ in range(STEPS):  # the more the tangents at t prove the nearer t is to where they and the rest are least
            t = np.sinh(low / 2 + high / 2)
            v = -1 / (1 + np.exp(a * t[:, where] + d))
            linear = np.add.reduceat((c * a * v)[:, order], first, axis=1)
            tilt = (u + linear)[:, own]
            lowest = np.where(A + half > 0, np.clip((2 * A * anchor - B - tilt) / (2 * (A + half)), *ends), ends[0])
            best, there = np.full(tilt.shape, np.inf), np.zeros(tilt.shape)
            for x in (np.broadcast_to(ends[0], tilt.shape), np.broadcast_to(ends[1], tilt.shape), lowest):
                value = (A * (x - anchor) + B) * (x - anchor) + (half * x + tilt) * x + C
                best, there = np.where(value < best, value, best), np.where(value < best, x, there)
            least = np.minimum.reduceat(best, start, axis=1)[:, own]
            x = np.minimum.reduceat(np.where(best <= least, there, np.inf), start, axis=1)
            low, high = np.where(x > t, low / 2 + high / 2, low), np.where(x > t, high, low / 2 + high / 2)
    cell = np.minimum(start + np.add.reduceat(t[:, own] > right, start, axis=1), last)
    slope = 2 * A[cell] * (t - anchor[cell]) + q * t + B[cell] + u + linear
    # Where nothing but the tangents curves, their slopes must cancel u to the last digit: the most curved gives way.
    loose = (2 * A[cell] + q == 0) & (np.abs(slope) <= 2.0**-30 * (np.abs(B[cell]) + np.abs(u) + np.abs(linear)))
    weight = c * np.abs(a) * (-v * (1 + v) + 1e-300)
    chosen = weight >= np.maximum.reduceat(weight[:, order], first, axis=1)[:, where]
    share = np.add.reduceat((chosen * (c * a) ** 2)[:, order], first, axis=1)[:, where]
    moved = np.where(chosen, (c * a) * np.where(loose, slope, 0.0)[:, where] / share, 0.0)
    v = np.clip(v - moved, -1.0, 0.0)
    return np.where(v > -SMALLEST, 0.0, v)
