"""Kernels and the feature operator: every engine needs only Phi W and Phi^T R."""

from margindsl.features.blocks import BlockFeatures
from margindsl.features.build import build
from margindsl.features.dense import DenseFeatures, FactorFeatures
from margindsl.features.derived import AffineFeatures, CodedRows, DerivedFeatures, SpanFeatures, image, in_span
from margindsl.features.kernels import RBF, Callable, Kernel, Linear, Polynomial, Precomputed, as_kernel, kernel_names
from margindsl.features.operator import FeatureOperator
from margindsl.features.points import check_points
from margindsl.features.sparse import SparseFeatures
from margindsl.features.width import MeanDistance, mean_distance, sqrt_mean_distance

__all__ = [
    "RBF", "AffineFeatures", "BlockFeatures", "Callable", "CodedRows", "DenseFeatures", "DerivedFeatures",
    "FactorFeatures", "FeatureOperator", "Kernel", "Linear", "MeanDistance", "Polynomial", "Precomputed",
    "SpanFeatures", "SparseFeatures", "as_kernel", "build", "check_points", "image", "in_span", "kernel_names",
    "mean_distance", "sqrt_mean_distance",
]
