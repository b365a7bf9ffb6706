"""What a proof says beside its dual points, so that they are checked in a few steps: trees, units, exact ends."""

from __future__ import annotations

import math

import numpy as np

from margindsl.host.clock import fits_in
from margindsl.proof.check import EPS, LabelSet, Proof
from margindsl.proof.tables import NoProof, UnknownProof
from margindsl.typing import BoolArray, FloatArray, IntArray

MOST_NODES = 1 << 23  # of a tree of all labellings
SPARE = 1 << 13  # nodes to refute what no case covers, beside those on the way to the cases
COMMON = 1e-6  # a remainder below this part of the greatest weight is rounding
MARGIN = 4.0  # times what rounding may have done, by which a matrix is made definite


class Node:
    """Represent labels of components on the way to the cases in a group, and what is known to follow next."""

    def __init__(self, z: IntArray, group: IntArray, forced: tuple[int, ...] = ()) -> None:
        self.z, self.group, self.forced = z, group, forced


def forced(B: LabelSet, z: IntArray) -> IntArray:
    """Return the open components of z (N,) one value of which alone is left by a bound, sizes or links."""
    free, k, allowed, counts = z < 0, B.k, B.left(z[None])[0], B.counts(z)
    over = counts + (free * B.sizes) @ allowed - B.least  # by which clusters reach their sizes
    needed = allowed & (B.sizes[:, None] > over)
    allowed, codes, size = np.where(needed.any(axis=1)[:, None], needed, allowed), B.own[:k], np.abs(B.sums)
    middle, reach = (B.sums @ B.own[z])[:, None], (size @ free + B.slack)[:, None] - size
    for label in range(k):  # sums where one component more is decided
        sums = middle + codes[label] * B.sums
        allowed[:, label] &= ~np.any((sums + reach < B.p.bound_lower[:, None])
                                     | (sums - reach > B.p.bound_upper[:, None]), axis=0)
    same, other = (counts + x[:, None] <= B.most for x in (B.sizes - B.turned_sizes, B.turned_sizes))
    allowed &= same & other[:, ::-1]
    for own, most in zip(B.groups, B.p.group_most):
        allowed &= own[:, None] + [own[z == label].sum() for label in range(k)] <= most
    return np.flatnonzero(free & (allowed.sum(axis=1) <= 1))


def grow(B: LabelSet, asked: IntArray, order: list[IntArray], needed: BoolArray) -> IntArray:
    """Return the tree of decisions that leads to every case, level by level, as `LabelSet.leaves` follows it.

    `asked` (P, N): what labels a case asks of components, -1 for none; `order`: in which order it asks; `needed` (P,
    N): components whose labels a case uses when they follow from what it asks.
    """
    level, tokens = [Node(B.z, np.arange(len(asked)))], [np.zeros(0, dtype=int)]
    most = SPARE + 2 * B.k * asked.size
    while level:
        closed = B.refuted(np.stack([node.z for node in level]))
        found = [(0, -1) if shut else _step(B, node, asked, order, needed) for node, shut in zip(level, closed)]
        tokens.append(np.array([token for token, _ in found]))
        if sum(map(len, tokens)) > most or not fits_in(0.0):
            raise UnknownProof("the cases take too large a tree, or too long a time")
        split = [(node, at) for node, (token, at) in zip(level, found) if token > 0]
        level = [_child(node, at, label, asked) for label in range(B.k) for node, at in split
                 if B.takes(node.z[None], label)[0]]
    return np.concatenate(tokens)


def _step(B: LabelSet, node: Node, asked: IntArray, order: list[IntArray], needed: BoolArray) -> tuple[int, int]:
    """Return the token of a node, and the component it decides."""
    z = node.z
    rest = (asked[node.group] >= 0) & (z < 0)
    done = ~rest.any(axis=1)
    at = -1
    if done.any():
        case = int(node.group[np.argmax(done)])
        if np.any(needed[case] & (z < 0)):
            node.forced = tuple(i for i in node.forced if z[i] < 0) or tuple(forced(B, z))
            at = node.forced[0] if node.forced else -1
        if at < 0:
            return -1 - case, -1
    elif len(node.group):
        at = int(next(i for i in order[node.group[0]] if z[i] < 0))
    else:
        at = int(np.argmax(z < 0))
        if z[at] >= 0:
            raise NoProof("the cases leave labellings uncovered")
    return int(np.argmax(B.component == at)) + 1, at


def _child(node: Node, at: int, label: int, asked: IntArray) -> Node:
    z, ask = node.z.copy(), asked[node.group, at]
    z[at] = label
    return Node(z, node.group[(ask < 0) | (ask == label)], node.forced)


def every_labelling(B: LabelSet, proof: Proof, points: int) -> IntArray:
    """Return the tree to every labelling of B, each with a dual point that proves the bound, else the most.

    `proof`: with the dual points; `points`: their number.
    """
    Z, tokens = B.z[None], []
    first = np.unique(B.component, return_index=True)[1]
    for at in np.flatnonzero(B.z < 0):
        closed, steps = B.refuted(Z), []
        tokens.append(np.where(closed, 0, first[at] + 1))
        if sum(map(len, tokens)) > MOST_NODES:
            raise UnknownProof("the labellings take too large a tree")
        Z = Z[~closed]
        for label in range(B.k):
            step = Z[B.takes(Z, label)]
            step[:, at] = label
            steps.append(step)
        Z = np.concatenate(steps)
    closed, wanted = B.refuted(Z), proof.bound - proof.constant
    enough = wanted + 8 * EPS * (abs(wanted) + abs(proof.constant))
    best, lowest = np.zeros(len(Z), dtype=int), np.full(len(Z), -np.inf)
    for number in range(points):
        for part in np.array_split(np.flatnonzero(~closed & (lowest < enough)), 1 + Z.size // (1 << 20)):
            try:
                values = proof.leaf_bounds(B, number, Z[part])
            except ValueError:  # a dual point that proves nothing
                break
            best[part] = np.where(values > lowest[part], number, best[part])
            lowest[part] = np.maximum(values, lowest[part])
    return np.concatenate([*tokens, np.where(closed, 0, -1 - best)])


def common_units(B: LabelSet) -> FloatArray:
    """Return the unit that the weights of each bound are multiples of, but for rounding."""
    units = np.ones(len(B.sums))
    for j, c in enumerate(B.sums):
        unit, weights = 0.0, np.unique(np.abs(c[c != 0]))[::-1]
        for w in weights.tolist():
            while w > COMMON * weights[0]:
                unit, w = w, abs(math.remainder(unit, w)) if unit else 0.0
        units[j] = unit or 1.0
    return units


def definite(proof: Proof, q: FloatArray, eta: FloatArray) -> FloatArray:
    """Return squares q (n,) of margins, shrunk until the norm outweighs them by more than rounding.

    `proof`: whose features and bounds on decision values count; `eta` (L,): multipliers of squared bounds on decision
    values.
    """
    phi, q = proof.columns, np.array(q, dtype=float)
    for _ in range(4):
        own = proof.squared(q)
        if not np.any(own > 0):
            return q
        near, far = (proof.norm + np.abs(own) @ x**2 + eta @ y**2 for x, y in (
            (phi, proof.sums), (proof.magnitudes, proof.sizes)))
        held, scale = near > 0, np.sqrt(near[near > 0])
        if not held.any():
            return q
        P = np.diag(proof.norm) - phi.T @ (own[:, None] * phi) + proof.sums.T @ (eta[:, None] * proof.sums)
        values, vectors = np.linalg.eigh(P[held][:, held] / scale / scale[:, None])
        ratio = math.sqrt(np.max(far[held] / near[held], initial=1.0))
        short = MARGIN * proof.rate * (len(values) + 2) * ratio - values[0]
        if short <= 0:
            return q
        gain = float(np.maximum(own, 0.0) @ (phi[:, held] @ (vectors[:, 0] / scale)) ** 2)
        q = np.where(q > 0, q * (1 - min(1.0, 2 * short / max(gain, 1e-300))), q)
    return q
