"""Features made from features: divided by a number, a constant column appended, or a linear map of the columns."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from copy import copy
from functools import partial
from typing import Any

import numpy as np

from margindsl.errors import DeclarationError
from margindsl.features.operator import GRAM_LIMIT, FeatureOperator, Index
from margindsl.host.frozen import frozen, frozen_property
from margindsl.typing import FloatArray, IntArray


class DerivedFeatures(FeatureOperator):
    """Share what features made from other features have in common.

    Parameters
    ----------
    rank : int
        Number of columns.
    is_dense : bool, optional
        Default: whether the base is.
    """

    def __init__(self, base: FeatureOperator, rank: int, is_dense: bool | None = None) -> None:
        self.base, self.n, self.rank = base, base.n, rank
        self.label, self.is_dense = base.label, base.is_dense if is_dense is None else is_dense
        self.trace_error = base.trace_error

    @frozen_property
    def _dense(self) -> FloatArray:
        return self._extend(self.base.matrix)

    @property
    def matrix(self) -> FloatArray:
        return self._dense if self.is_dense else super().matrix

    @abstractmethod
    def _extend(self, rows: FloatArray) -> FloatArray:
        """Return features of the base as features of this operator."""

    @property
    def walks(self) -> bool:  # type: ignore[override]
        """Return whether the base reads points block by block."""
        return self.base.walks

    @property
    def is_remote(self) -> bool:  # type: ignore[override]
        """Return whether the points of the base may be on other machines."""
        return self.base.is_remote

    def parts(self, function: Callable[..., Any], *rows: FloatArray | None) -> Iterator[tuple[slice, Any]]:
        if not self.walks:
            return super().parts(function, *rows)
        return self.base.parts(self._after(function), *rows)

    def fold(self, function: Callable[..., Any], *rows: FloatArray | None) -> Any:
        return self.base.fold(self._after(function), *rows) if self.walks else super().fold(function, *rows)

    def each(self, function: Callable[..., FloatArray], *rows: FloatArray | None) -> FloatArray:
        return self.base.each(self._after(function), *rows) if self.walks else super().each(function, *rows)

    def rows(self, index: Index) -> FloatArray:
        return self._extend(self.base.rows(index))

    def transform(self, X_new: Any) -> FloatArray:
        return self._extend(self.base.transform(X_new))

    def _after(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of features of this operator as one of features of the base."""
        alone = copy(self)  # what is sent to workers must not take the points along
        alone.base, alone.__dict__["_dense"] = None, None  # type: ignore[assignment]
        return partial(_extended, alone._extend, function)


def _extended(extend: Callable[[FloatArray], FloatArray], function: Callable[..., Any], phi: FloatArray,
              *rows: FloatArray | None) -> Any:
    return function(extend(phi), *rows)


def _scaled(factor: float, function: Callable[..., Any], phi: FloatArray, *rows: FloatArray | None) -> Any:
    phi *= phi.dtype.type(factor)  # what is read for a pass belongs to it
    return function(phi, *rows)


class ScaledFeatures(DerivedFeatures):
    """Give products with Phi/s for a power of two s, so that no digit is lost.

    Parameters
    ----------
    divisor : float
        The positive number s.
    """

    def __init__(self, base: FeatureOperator, divisor: float) -> None:
        super().__init__(base, base.rank)
        self.divisor, self.factor = divisor, 1.0 / divisor
        self.skips_zeros = base.skips_zeros
        self.trace_error = base.trace_error * self.factor**2

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScaledFeatures) and self.base is other.base and self.divisor == other.divisor

    def __hash__(self) -> int:
        return hash((id(self.base), self.divisor))

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.base.dtype

    @property
    def offset(self) -> FloatArray | None:
        return None if self.base.offset is None else self.base.offset * self.factor

    @frozen_property
    def trace(self) -> float:
        return self.base.trace * self.factor**2

    def apply(self, W: FloatArray) -> FloatArray:
        return np.asarray(self.base.apply(W) * self.factor)

    def apply_to(self, X_new: Any, W: FloatArray) -> FloatArray:
        return np.asarray(self.base.apply_to(X_new, W) * self.factor)

    def adjoint(self, R: FloatArray) -> FloatArray:
        return np.asarray(self.base.adjoint(R) * self.factor)

    def magnitudes(self, weights: FloatArray) -> FloatArray:
        return np.asarray(self.base.magnitudes(weights) * self.factor)

    def gram(self, weights: FloatArray | None = None, *, limit: int = GRAM_LIMIT) -> FloatArray:
        return np.asarray(self.base.gram(weights, limit=limit) * self.factor**2)

    def row_norms(self) -> FloatArray:
        return np.asarray(self.base.row_norms() * self.factor**2)

    def component_sums(self, component: IntArray, weights: FloatArray, count: int) -> FloatArray:
        return np.asarray(self.base.component_sums(component, weights, count) * self.factor)

    def take(self, index: Index) -> ScaledFeatures:
        return ScaledFeatures(self.base.take(index), self.divisor)

    def describe(self) -> str:
        return f"{self.base.describe()}, divided by {self.divisor:g}"

    def _extend(self, rows: FloatArray) -> FloatArray:
        return np.asarray(rows * rows.dtype.type(self.factor))

    def _after(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return partial(_scaled, self.factor, function)


class ShiftedFeatures(DerivedFeatures):
    """Subtract one vector from every row: the features about another centre."""

    def __init__(self, base: FeatureOperator, shift: FloatArray) -> None:
        super().__init__(base, base.rank)
        self.shift = frozen(np.array(shift, dtype=np.float64))

    @property
    def offset(self) -> FloatArray | None:
        return self.shift if self.base.offset is None else self.base.offset + self.shift

    def apply(self, W: FloatArray) -> FloatArray:
        return self._dense @ W if self.is_dense else self.base.apply(W) - self.shift @ W

    def apply_to(self, X_new: Any, W: FloatArray) -> FloatArray:
        return self.base.apply_to(X_new, W) - self.shift @ W

    def adjoint(self, R: FloatArray) -> FloatArray:
        if self.is_dense:
            return self._dense.T @ R
        return self.base.adjoint(R) - np.multiply.outer(self.shift, np.sum(R, axis=0))

    def take(self, index: Index) -> ShiftedFeatures:
        return ShiftedFeatures(self.base.take(index), self.shift)

    def describe(self) -> str:
        return f"{self.base.describe()}, about the mean of a bound on decision values"

    def _extend(self, rows: FloatArray) -> FloatArray:
        return rows - self.shift


class AugmentedFeatures(DerivedFeatures):
    """Append a constant column, so that the last coordinate of w is a penalised bias.

    Phi' = [Phi, value e]; a value v penalises the bias b by (b/v)^2 / 2.

    Parameters
    ----------
    value : float, not zero
        The constant.
    """

    def __init__(self, base: FeatureOperator, value: float = 1.0) -> None:
        if not np.isfinite(value) or value == 0:
            raise DeclarationError(
                f"the constant feature is {value!r}; a finite non-zero number is expected, such as 1.0."
            )
        super().__init__(base, base.rank + 1)
        self.value = float(value)

    def apply(self, W: FloatArray) -> FloatArray:
        return self.base.apply(W[:-1]) + self.value * W[-1]

    def adjoint(self, R: FloatArray) -> FloatArray:
        return np.concatenate([self.base.adjoint(R), self.value * np.sum(R, axis=0, keepdims=True)])

    def magnitudes(self, weights: FloatArray) -> FloatArray:
        return np.append(self.base.magnitudes(weights), abs(self.value) * np.abs(weights).sum())

    def take(self, index: Index) -> FeatureOperator:
        return AugmentedFeatures(self.base.take(index), self.value)

    def apply_to(self, X_new: Any, W: FloatArray) -> FloatArray:
        return self.base.apply_to(X_new, W[:-1]) + self.value * W[-1]

    def gram(self, weights: FloatArray | None = None, *, limit: int = GRAM_LIMIT) -> FloatArray:
        self._check_gram(limit)
        c = np.ones(self.n) if weights is None else np.asarray(weights, dtype=np.float64)
        side = self.value * self.base.adjoint(c)[:, None]
        corner = np.array([[self.value**2 * c.sum()]])
        return np.block([[self.base.gram(weights, limit=limit), side], [side.T, corner]])

    def row_norms(self) -> FloatArray:
        return self.base.row_norms() + self.value**2

    def describe(self) -> str:
        return f"{self.base.describe()}, constant column {self.value:g}"

    def _extend(self, rows: FloatArray) -> FloatArray:
        return np.hstack([rows, np.full((rows.shape[0], 1), self.value)])


class MappedFeatures(DerivedFeatures):
    """Map the columns linearly: Phi' = Phi M (projection, metric, compression).

    Parameters
    ----------
    map_matrix : ndarray (r, r')
        M.
    label : str
        Added to the base's line.

    Notes
    -----
    `trace_error` is NaN when the base is inexact: what M does to the missing part is not known.
    """

    def __init__(self, base: FeatureOperator, map_matrix: FloatArray, label: str = "mapped") -> None:
        M = np.array(map_matrix, dtype=np.float64)
        if M.ndim != 2 or M.shape[0] != base.rank or M.shape[1] == 0:
            raise DeclarationError(
                f"the map has shape {M.shape}; ({base.rank}, r') with r' >= 1 is expected, one row per "
                "feature column."
            )
        if not np.isfinite(M).all():
            raise DeclarationError("the map has NaN or infinite entries; a finite matrix is expected.")
        super().__init__(base, M.shape[1])
        self.map_matrix, self._what = frozen(M), label
        self.trace_error = 0.0 if base.trace_error == 0 else float("nan")

    def apply(self, W: FloatArray) -> FloatArray:
        return self._dense @ W if self.is_dense else self.base.apply(self.map_matrix @ W)

    def adjoint(self, R: FloatArray) -> FloatArray:
        return self._dense.T @ R if self.is_dense else self.map_matrix.T @ self.base.adjoint(R)

    def magnitudes(self, weights: FloatArray) -> FloatArray:
        return np.asarray(np.abs(self.map_matrix).T @ self.base.magnitudes(weights))

    def rows(self, index: Index) -> FloatArray:
        return self._extend(self.base.rows(index))

    def take(self, index: Index) -> FeatureOperator:
        return MappedFeatures(self.base.take(index), self.map_matrix, self._what)

    def apply_to(self, X_new: Any, W: FloatArray) -> FloatArray:
        return self.base.apply_to(X_new, self.map_matrix @ W)

    def describe(self) -> str:
        return f"{self.base.describe()}, {self._what} to {self.rank} columns"

    def _extend(self, rows: FloatArray) -> FloatArray:
        return rows @ self.map_matrix
