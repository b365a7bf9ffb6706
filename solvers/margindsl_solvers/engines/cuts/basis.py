"""Few points whose features span the subspace in which the hyperplane is sought."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.linalg import solve_triangular

from margindsl.features import RBF, AffineFeatures
from margindsl.features.maps import LandmarkMap
from margindsl.features.operator import FeatureOperator
from margindsl.typing import FloatArray, IntArray

WIDE = 10  # candidates examined for one point chosen
DEPENDENT = 1e-10  # squared share of a feature outside the span below which it adds nothing
STARTS, STEPS, NEAR = 10, 50, 0.01  # points moved, their steps, and δ of Algorithm 4 in units of the squared width


@dataclass(frozen=True, eq=False)
class Basis:
    """Hold the span of the features of chosen points: φ(b_1), …, φ(b_p), orthonormalised."""

    key: ClassVar[str] = "basis"  # the name of what was chosen among the variables

    features: FeatureOperator  # the operator Φ (n × r)
    chosen: IntArray | FloatArray  # (p,), the points b
    directions: FloatArray  # (r, p), an orthonormal basis Q of their span
    columns: FloatArray  # (n, p), G = ΦQ; all margins of a hyperplane w = Qω are y∘Gω
    left: FloatArray  # (n,), squared norms of what the span misses of each point's feature

    @classmethod
    def empty(cls, features: FeatureOperator) -> Basis:
        """Return the basis of no points."""
        return cls(features, np.zeros(0, dtype=int), np.zeros((features.rank, 0)), np.zeros((features.n, 0)),
                   np.asarray(features.row_norms(), dtype=float))

    @property
    def size(self) -> int:
        """Return the number p of basis vectors."""
        return len(self.chosen)

    def lift(self, coordinates: FloatArray) -> FloatArray:
        """Return V = QΩ of coordinates (p, q)."""
        return np.asarray(self.directions @ coordinates)

    def residual(self, target: FloatArray) -> FloatArray:
        """Return the part of columns (r, q) outside the span."""
        for _ in range(2):  # once more for what rounding leaves
            target = target - self.directions @ (self.directions.T @ target)
        return target

    def grown(self, target: FloatArray, count: int) -> Basis:
        """Return a basis with up to `count` further points, chosen greedily to approximate a target.

        The point chosen next minimises min_β ‖(Ψ − Ψ̂) − β φ(b)‖ (SKMMC Eq. 44) over the points of the data,
        after the features have been freed of the span, so that all coefficients are re-optimised (Eq. 48).
        All points are scored once, and the best ones at every choice.

        `target` (r, q): the columns of Ψ.
        """
        return self._extended(target, count, self._promising(self.residual(target), WIDE * count))

    def shrunk(self, target: FloatArray, count: int) -> Basis:
        """Return the basis of the `count` points among the chosen that approximate a target best."""
        return self.empty(self.features)._extended(target, count, self.chosen)

    def coefficients(self, V: FloatArray) -> FloatArray:
        """Return (p, q) β with V = Σ_j φ(b_j) β_jᵀ, for V (r, q) in the span (Eq. 27)."""
        return np.asarray(np.linalg.lstsq(self.images(self.chosen).T, V, rcond=None)[0])

    def images(self, points: IntArray | FloatArray) -> FloatArray:
        """Return the features (p, r) of basis vectors."""
        return np.array(self.features.rows(points), dtype=float).reshape(len(points), self.features.rank)

    # -- inside -------------------------------------------------------------------------------------

    def _promising(self, residual: FloatArray, count: int) -> IntArray:
        gain = np.sum(np.asarray(self.features.apply(residual)) ** 2, axis=1)
        open_ = self.left > DEPENDENT * max(float(self.left.max()), np.finfo(float).tiny)
        open_[self.chosen] = False
        score = np.where(open_, gain / np.where(open_, self.left, 1.0), 0.0)
        best = np.argpartition(-score, min(count, len(score)) - 1)[:count]
        return best[score[best] > 0]

    def _extended(self, target: FloatArray, count: int, candidates: IntArray | FloatArray) -> Basis:
        picked, new = self._pursue(self.residual(target), count, candidates)
        if not len(picked):
            return self
        columns = np.asarray(self.features.apply(new))
        left = np.maximum(self.left - np.einsum("np,np->n", columns, columns), 0.0)
        return replace(self, chosen=np.concatenate([self.chosen, candidates[picked]]), left=left,
                       directions=np.hstack([self.directions, new]), columns=np.hstack([self.columns, columns]))

    def _pursue(self, residual: FloatArray, count: int,
                candidates: IntArray | FloatArray) -> tuple[IntArray, FloatArray]:
        """Return (positions in candidates, (r, m) orthonormal directions) of an orthogonal matching pursuit."""
        rows = self.images(candidates)
        norms = np.einsum("ir,ir->i", rows, rows)
        least = DEPENDENT * norms
        rows -= (rows @ self.directions) @ self.directions.T
        gram, along = rows @ rows.T, rows @ residual
        norms, most = np.diag(gram).copy(), min(count, len(candidates))
        lower = np.zeros((len(candidates), most))
        picked: list[int] = []
        while len(picked) < most:  # pivoted Cholesky: rows freed of those picked, seen by products alone
            usable = norms > least
            usable[picked] = False
            score = np.where(usable, np.sum(along**2, axis=1) / np.where(usable, norms, 1.0), 0.0)
            best = int(np.argmax(score))
            if not score[best] > 0:
                break
            k = len(picked)
            new = (gram[best] - lower[:, :k] @ lower[best, :k]) / math.sqrt(norms[best])
            along, norms = along - np.outer(new, along[best] / math.sqrt(norms[best])), norms - new**2
            lower[:, k] = new
            picked.append(best)
        columns = rows[picked].T
        for _ in range(2):  # once more for what rounding leaves
            columns = np.linalg.qr(columns - self.directions @ (self.directions.T @ columns))[0]
        return np.array(picked, dtype=int), columns


@dataclass(frozen=True, eq=False)
class PreImages(Basis):
    """Span the features of points b of space, each found by the steps of SKMMC's Algorithm 4 for a Gaussian kernel."""

    key: ClassVar[str] = "preimages"

    landmarks: FloatArray  # (m, r), the features of the points that all features are sums of

    @classmethod
    def empty(cls, features: FeatureOperator) -> PreImages:
        none, landmarks = Basis.empty(features), expansion(features, np.zeros((features.rank, 1)))[0].landmarks
        return cls(features, np.zeros((0, landmarks.shape[1])), none.directions, none.columns, none.left,
                   features.transform(landmarks))

    def images(self, points: FloatArray) -> FloatArray:
        return self.features.transform(points)

    def grown(self, target: FloatArray, count: int) -> Basis:
        grown: Basis = self
        for _ in range(count):
            grown = grown._extended(target, 1, grown._promising(grown.residual(target), STARTS))
        return grown

    def _promising(self, residual: FloatArray, count: int) -> FloatArray:
        """Return the best landmarks, and where Eq. 46 takes them; its sums over points are one over landmarks."""
        (found, c), g = expansion(self.features, residual), self.landmarks @ residual
        full, spanned = (np.einsum("ir,ir->i", F, F) for F in (self.landmarks, self.landmarks @ self.directions))
        score = np.sum(g**2, axis=1) * (full - spanned > DEPENDENT * full) / np.maximum(full - spanned, DEPENDENT)
        best = np.argsort(-score)[:count]
        start, g = found.landmarks[best], g[best]
        b = start = start.toarray() if sp.issparse(start) else start
        K = found.kernel.matrix(b, found.landmarks)
        shift = g - K @ c  # of a mean and of a constant column
        for _ in range(STEPS):
            z = K * (g @ c.T)
            total = z.sum(axis=1)[:, None]
            moved = np.divide(z @ found.landmarks, total, out=b.copy(), where=total > 0)
            there = found.kernel.matrix(moved, found.landmarks)
            further = there @ c + shift
            better = np.sum(further**2, axis=1, keepdims=True) > np.sum(g**2, axis=1, keepdims=True)
            step = np.where(better, moved - b, 0.0)
            b, K, g = b + step, np.where(better, there, K), np.where(better, further, g)
            if np.max(np.sum(step**2, axis=1)) <= NEAR * found.kernel.width**2:  # type: ignore[attr-defined]
                break
        return np.vstack([b, start])


def expansion(features: FeatureOperator, W: FloatArray) -> tuple[LandmarkMap, FloatArray]:
    """Return the map of a Gaussian kernel and c (m, q): ⟨W, φ(x)⟩ is Σ_j c_j k(l_j, x) and a constant."""
    while isinstance(features, AffineFeatures):
        W, features = features.to_base(W), features.base
    found = getattr(features, "point_map", None)
    if not (isinstance(found, LandmarkMap) and isinstance(found.kernel, RBF)):
        raise TypeError(features.describe())
    root = found.whitening.root
    return found, solve_triangular(root, W, lower=True, trans="T") if found.whitening.triangular else root @ W
