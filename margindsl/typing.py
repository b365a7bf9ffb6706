"""Type names shared by all rooms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    FloatArray: TypeAlias = NDArray[np.floating[Any]]
    IntArray: TypeAlias = NDArray[np.integer[Any]]
    BoolArray: TypeAlias = NDArray[np.bool_]
    RandomState: TypeAlias = int | np.random.Generator | None
else:
    FloatArray = IntArray = BoolArray = ArrayLike = RandomState = Any

__all__ = ["ArrayLike", "BoolArray", "FloatArray", "IntArray", "RandomState"]
