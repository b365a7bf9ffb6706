"""From points and a kernel to a feature operator."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import qr, svd

from margindsl.errors import DeclarationError
from margindsl.features.blocks import BlockFeatures
from margindsl.features.dense import DenseFeatures, JoinedFeatures, about_mean
from margindsl.features.derived import AffineFeatures
from margindsl.features.factor import factor_kernel, factor_precomputed
from margindsl.features.kernels import Kernels, Linear, Precomputed, as_kernel
from margindsl.features.maps import LinearMap
from margindsl.features.operator import FeatureOperator
from margindsl.features.points import COPY_BYTES, Points, check_points, is_lazy
from margindsl.features.sparse import SparseFeatures
from margindsl.host.clock import EIGEN_WORK, check
from margindsl.typing import RandomState


def build(
    X: Any,
    kernel: Any = "linear",
    centre: bool = True,
    penalised_bias: bool = False,
    random_state: RandomState = None,
    is_checked: bool = False,
    rotate: bool = True,
) -> FeatureOperator:
    """Build the feature operator Phi of some points, Phi Phi^T ~ K (H K H when centred).

    Parameters
    ----------
    X : array-like (n, d), DataFrame, scipy sparse matrix, memory map, Dask array; None with a precomputed kernel
        Arrays above 512 MB, memory maps and Dask arrays are not copied: a declaration refuses them once changed.
    kernel : Kernel, str or callable
        See `as_kernel`.
    centre : bool
        Subtract the mean feature; new points have the same mean subtracted.
    penalised_bias : bool
        Append a constant column 1, after centring.
    random_state : int, numpy Generator or None
        Draws samples and landmarks; None means seed 0, so that a declaration means one thing.
    is_checked : bool
        Whether X comes from `check_points`, as that of a hyperplane does.
    rotate : bool
        Whether columns of points in more dimensions than there are points may be those of their span.

    Examples
    --------
    >>> phi = build([[0.0], [1.0], [5.0]])
    >>> phi.toarray().ravel().tolist(), phi.describe()
    ([-2.0, -1.0, 3.0], 'linear, 1 columns, centred')
    """
    chosen = as_kernel(kernel)
    rng = np.random.default_rng(0 if random_state is None else random_state)
    if isinstance(chosen, Kernels):
        parts = [build(X, kernel, centre, random_state=rng, is_checked=is_checked) for kernel in chosen.kernels]
        if any(not part.is_dense for part in parts):
            raise DeclarationError("several kernels are of points in memory, not sparse: the linear one has columns of "
                                   "its own beside the others. Give X as an array.")
        joined = JoinedFeatures(parts)
        return AffineFeatures(joined, constant=1.0) if penalised_bias else joined
    if isinstance(chosen, Precomputed):
        features: FeatureOperator = factor_precomputed(chosen, centre)
        given = features.n if X is None else X.shape[0] if hasattr(X, "shape") else len(X)
        if given != features.n:
            raise DeclarationError(f"X has {given} rows, but the kernel matrix is {features.n} x {features.n}. Give "
                                   "X=None or the same points.")
    else:
        points = X if is_checked else check_points(X)
        linear = isinstance(chosen, Linear)
        features = _linear(points, centre, rotate) if linear else factor_kernel(points, chosen, centre, rng)
    return AffineFeatures(features, constant=1.0) if penalised_bias else features


def _linear(points: Points, centre: bool, rotate: bool) -> FeatureOperator:
    if sp.issparse(points):
        return SparseFeatures.from_points(points, centre)
    if is_lazy(points):
        return importlib.import_module("margindsl.features.dask").DaskFeatures.from_points(points, centre)
    if isinstance(points, np.memmap) or points.nbytes > COPY_BYTES:
        return BlockFeatures.from_points(points, centre)
    n, d = points.shape
    matrix, mean = about_mean(points) if centre else (np.array(points, order="C"), None)
    end = ", centred" if centre else ""
    if d <= n or not rotate:
        return DenseFeatures(matrix, LinearMap(d, mean), f"linear, {d} columns{end}")
    # The r <= n dimensions the points span are rotated onto the axes; inner products are unchanged.
    check(8 * d * n**2 + EIGEN_WORK * n**3)
    basis, triangle = qr(matrix.T, mode="economic")
    left, values, right = svd(triangle.T)
    kept = max(1, int((values > d * np.finfo(float).eps * values[0]).sum()))
    return DenseFeatures(left[:, :kept] * values[:kept], LinearMap(d, mean, basis @ right[:kept].T),
                         f"linear, {d} columns rotated to rank {kept}{end}")
