"""Type names shared by all rooms, and the names that can be given where the library chooses by name.

A name that another package registers is in none of them: give the object itself, as ``problem.solve(MyRelaxation())``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

RelaxationName: TypeAlias = Literal[
    "auto", "alternating", "cccp", "cuts-outside", "exact", "first-cut", "gmmc", "minimax", "parts", "safe", "sdp",
    "supervised", "transductive", "weight-lifting"]
SolverName: TypeAlias = Literal[
    "auto", "alternating-mu", "burer-monteiro", "clarabel", "cpsp", "cutting-plane", "cvxpy", "ecos", "highs",
    "interior", "lbfgs", "mirror-descent", "mirror-prox", "newton", "node-newton", "osqp", "scs",
    "cvxpy:COPT", "cvxpy:CUCLARABEL", "cvxpy:CVXOPT", "cvxpy:DAQP", "cvxpy:GUROBI", "cvxpy:MOSEK", "cvxpy:PIQP",
    "cvxpy:PROXQP", "cvxpy:QOCO", "cvxpy:SDPA", "cvxpy:XPRESS"]
PictureName: TypeAlias = Literal["margins", "profile", "boundary", "convergence", "label_matrix", "features"]
Bias: TypeAlias = bool | Literal["penalised", "penalized"]
KernelName: TypeAlias = Literal["linear", "polynomial", "rbf"]
RecipeName: TypeAlias = Literal[
    "adaptive_cpmmc", "cpm3c", "cpmmc", "cs4vm", "cuts3vm", "fair", "gmmc", "itersvr", "kernel_cpmmc", "lapsvm",
    "lgmmc", "maximum_margin_embedding", "miodm", "mkc", "mmc", "mme", "odm", "odmc", "odmssc", "s4vm", "skmmc",
    "skmmc_v2", "softlinks", "ssodm", "svm", "truncated", "tsvm", "usvm"]

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

__all__ = ["ArrayLike", "Bias", "BoolArray", "FloatArray", "IntArray", "KernelName", "PictureName", "RandomState",
           "RecipeName", "RelaxationName", "SolverName"]
