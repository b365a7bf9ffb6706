"""Type names shared by all rooms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    # The names tell the reader what an array holds; numpy's stubs lose the dtype in most arithmetic.
    FloatArray: TypeAlias = NDArray[Any]
    IntArray: TypeAlias = NDArray[Any]
    BoolArray: TypeAlias = NDArray[Any]
    RandomState: TypeAlias = int | np.random.Generator | None
else:
    FloatArray = IntArray = BoolArray = ArrayLike = RandomState = Any

__all__ = ["ArrayLike", "BoolArray", "FloatArray", "IntArray", "RandomState"]
