"""The face of a lift on which what is zero for all labels is zero: sums of decision values and labels, and of codes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice

import networkx as nx
import numpy as np
from scipy.linalg import LinAlgError, block_diag, cho_factor, cho_solve, qr

from margindsl.program.lift import Cuts
from margindsl.typing import FloatArray, IntArray
from margindsl_solvers.engines.lift.arrays import LiftArrays

INDEPENDENT = 1e-9  # relative size of what is not zero
OF_CODES = 350.0  # what rounding costs a proof by a κ of d and γ, in (64 + 3n) EPS; 100 to 460 on 12 of random points


def all_different(cuts: Cuts, clusters: int, count: int) -> list[list[int]]:
    """Return sets of k components that all differ, looked for among the first so many cliques of those that do."""
    graph = nx.Graph(cuts.positions[cuts.equal][:, :2].tolist())
    return [clique for clique in islice(nx.find_cliques(graph), count) if len(clique) == clusters]


@dataclass(frozen=True, eq=False)
class Face:
    """Represent a lift where bounds of zero leave M and W: ωᵀMω = 0 is Mω = 0. Beside them κ and η have no best value.

    So is the sum of k codes that all differ, which is a bound by multipliers of d and γ.

    `whole`, `lift`: with these bounds, and on the face; `kept`: which multipliers of the whole have a place in the
    lift; `bounds`, `vectors`, `kinds`: of independent bounds multipliers, a row each, ω or σ, and 1 of labels, 2 of
    decision values, 0 of codes; `inside`, `beside`: orthonormal bases of the face and of the vectors.
    """

    whole: LiftArrays
    lift: LiftArrays
    kept: IntArray
    bounds: FloatArray
    vectors: FloatArray
    kinds: IntArray
    inside: FloatArray
    beside: FloatArray

    @classmethod
    def of_lift(cls, lift: LiftArrays) -> Face | None:
        """Return the face, None where no bound is zero, or the face has no inner point."""
        N, columns, cuts = lift.form.count, lift.vectors, lift.form.cuts
        flat = np.flatnonzero((lift.kind == 1) | (lift.kind == 2))
        flat = flat[(lift.gain[flat] == 0) & np.any(columns[:, flat] != 0, axis=0)]
        sets, differ = all_different(cuts, lift.form.clusters, N), np.flatnonzero(lift.kind == 3)[cuts.equal]
        kinds = np.append(lift.kind[flat], np.zeros(len(sets), dtype=int))
        vectors = np.column_stack([columns[:, flat], np.zeros((lift.order, len(sets)))])
        bounds = np.zeros((len(kinds), len(lift.gain)))
        bounds[np.arange(len(flat)), flat] = 1.0
        for row, column, own in zip(bounds[len(flat):], vectors.T[len(flat):], sets):
            row[differ[np.isin(cuts.positions[cuts.equal], own).all(axis=1)]] = -1.0
            row[own], column[own] = 2 - len(own), 1.0
        inside, beside, chosen = [], [], np.zeros(0, dtype=int)
        for part, among in ((slice(0, N), np.flatnonzero(kinds < 2)), (slice(N, None), np.flatnonzero(kinds == 2))):
            Q, R, order = qr(vectors[part, among], pivoting=True)
            rank = int(np.sum(np.abs(np.diag(R)) > INDEPENDENT * np.abs(R).max(initial=0.0)))
            inside.append(Q[:, rank:])
            beside.append(Q[:, :rank])
            chosen = np.append(chosen, among[order[:rank]])
        if not len(kinds) or not sum(Q.shape[1] for Q in inside) or np.any(
                np.linalg.norm(inside[0], axis=1) <= INDEPENDENT):
            return None
        kept, basis = np.setdiff1d(np.arange(len(lift.gain)), flat), block_diag(*inside)

        def number(index: IntArray) -> IntArray:
            return index - np.searchsorted(flat, index)

        return cls(lift, replace(
            lift, labels=inside[0].T, features=lift.features @ inside[1],
            extras=basis.T @ np.delete(lift.extras, flat - N, axis=1), constant=basis.T @ lift.constant @ basis,
            single=number(lift.single[kept[kept < len(lift.single)]]), pair=number(lift.pair), kind=lift.kind[kept],
            scale=lift.scale[kept], gain=lift.gain[kept], signed=number(np.setdiff1d(lift.signed, flat)),
            roles=tuple((number(at), rows) for at, rows in lift.roles), again=number(lift.again),
            equalities=lift.equalities[:, kept]),
            kept, bounds[chosen], vectors[:, chosen], kinds[chosen], basis, block_diag(*beside))

    def multipliers(self, y: FloatArray) -> FloatArray:
        """Return multipliers of the whole lift, nearer to zero and d greater where those of the bounds become smaller.

        The less S is inside the greater they are, and what a matrix of great entries proves is less by its rounding.
        """
        whole, N = self.whole, self.whole.form.count
        full = np.zeros(len(whole.gain))
        full[self.kept] = y
        G, least, found = self.beside.T @ self.vectors, np.inf, full
        value = abs(whole.objective(full)) + 0.5 * float(np.abs(full[:N]).sum())
        # κ stands beside d, η beside P₀
        matters = np.einsum("ab,ab->b", G, G) * np.choose(self.kinds, [
            OF_CODES * (64 + 3 * whole.form.n), 4.0 * N * whole.order, value])
        for share in np.append(0.0, 10.0 ** -np.arange(3.0, 13.0, 0.5)):
            moved = full.copy() if len(whole.costs) else (1.0 - share) * full  # E u = h does not shrink
            moved[:N] += 2.0 * share * np.abs(full[:N]).mean() if N else 0.0
            S = whole.constant + whole.matrix(moved)
            edge = self.inside.T @ S @ self.beside
            try:
                factor = cho_factor(self.inside.T @ S @ self.inside)
            except LinAlgError:
                continue
            needed = edge.T @ cho_solve(factor, edge) - self.beside.T @ S @ self.beside
            needed = np.linalg.solve(G, np.linalg.solve(G, needed).T)
            needed = (needed + needed.T) / 2
            size = np.diag(needed).clip(0.0) + np.abs(needed - np.diag(np.diag(needed))).sum(axis=1)
            price = share * value + np.finfo(float).eps * float(size @ matters)
            if price < least:
                least, found = price, moved + (1.0 + INDEPENDENT) * size @ self.bounds
        return found
