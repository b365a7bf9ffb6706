"""Kernels as users declare them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable as Function
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from margindsl.errors import Called, DeclarationError, UnknownNameError, one_of
from margindsl.features.distances import inner_products, squared_distances, squared_norms
from margindsl.features.points import Owned, Points, check_points
from margindsl.features.width import Width, check_width, find_width, given
from margindsl.host.extensions import KERNELS, registered
from margindsl.typing import FloatArray

METHODS = ("auto", "cholesky", "nystrom")


class Kernel(Called, ABC):
    """Give inner products k(x, z) = <phi(x), phi(z)> of implicit features.

    Attributes
    ----------
    method : str
        How the factor is made: "auto", "cholesky" or "nystrom".
    rank : int or None
        Cap on the number of columns of the factor.
    tol : float
        The factor stops when its trace error is at most tol times the trace.
    """

    method: str = "auto"
    rank: int | None = None
    tol: float = 1e-10

    @abstractmethod
    def matrix(self, X: Points, Z: Points) -> FloatArray:
        """Return the kernel values between two sets of points.

        Parameters
        ----------
        X : ndarray or csr_array (n, d)
        Z : ndarray or csr_array (m, d)

        Returns
        -------
        ndarray (n, m)
        """

    @abstractmethod
    def diagonal(self, X: Points) -> FloatArray:
        """Return k(x_i, x_i) for each point, shape (n,)."""

    def fit(self, X: Points, rng: np.random.Generator) -> Kernel:
        """Return the kernel with every parameter that depends on the points made a number.

        Parameters
        ----------
        rng : Generator
            Draws samples of the points.

        Raises
        ------
        DeclarationError
            Where the points, or a function that is called, do not fit.
        """
        return self

    def describe(self) -> str:
        """Return the kernel's name and parameters in a few words."""
        return type(self).__name__.lower()

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name, as scikit-learn asks estimators for theirs."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init}  # type: ignore[arg-type]

    def set_params(self, **parameters: Any) -> Kernel:
        """Return the kernel with other parameters; it is itself left as it is, for a declaration may hold it.

        Raises
        ------
        UnknownNameError
            If it has no such parameter.
        DeclarationError
            If one is outside its domain.
        """
        known = self.get_params()
        for name in parameters:
            one_of(f"parameter of kernel {self.describe()}", name, known)
        return type(self)(**known | parameters)

    def __sklearn_clone__(self) -> Kernel:
        return self

    def _check_factor(self) -> None:
        one_of("kernel method", self.method, METHODS)
        if self.rank is not None and (isinstance(self.rank, bool) or not _is_count(self.rank)):
            raise DeclarationError(f"rank={given(self.rank)}; a positive integer or None is expected.")
        if not (_is_number(self.tol) and 0 <= self.tol < 1):
            raise DeclarationError(
                f"tol={given(self.tol)}; a number in [0, 1) is expected, the relative trace error."
            )


@dataclass(frozen=True)
class Linear(Kernel):
    """Use the points themselves as features: k(x, z) = <x, z>."""

    def matrix(self, X: Points, Z: Points) -> FloatArray:
        return inner_products(X, Z)

    def diagonal(self, X: Points) -> FloatArray:
        return squared_norms(X)


@dataclass(frozen=True)
class RBF(Kernel):
    """Use the Gaussian kernel k(x, z) = exp(-|x - z|^2 / (2 width^2)).

    Parameters
    ----------
    width : positive float, "median", "mean", or a positive multiple of mean_distance or sqrt_mean_distance
        "median" and the multiples refer to the distances between points (a sample of 1000 when there are
        more).
    method : {"auto", "cholesky", "nystrom"}
    rank : int or None
        Cap on the columns; None: all up to 2000 points, 500 above.
    tol : float in [0, 1)
        Trace error at which pivoted Cholesky stops, relative to the trace of the centred kernel matrix.

    Raises
    ------
    DeclarationError
        If a parameter is outside its domain.
    UnknownNameError
        If `width` or `method` is an unknown string.

    Examples
    --------
    >>> RBF(width=1.0).matrix(np.zeros((1, 2)), np.ones((1, 2))).round(4).tolist()
    [[0.3679]]
    """

    meant: ClassVar = {"gamma": "The width of exp(-|x - z|^2 / (2 width^2)) is 1 / sqrt(2 * gamma).",
             **dict.fromkeys(("sigma", "length_scale", "bandwidth"), "Write md.RBF(width).")}

    width: Width = "median"
    _: KW_ONLY
    method: str = "auto"
    rank: int | None = None
    tol: float = 1e-10

    def __post_init__(self) -> None:
        check_width(self.width)
        self._check_factor()

    def fit(self, X: Points, rng: np.random.Generator) -> RBF:
        return replace(self, width=find_width(self.width, X, rng))

    def matrix(self, X: Points, Z: Points) -> FloatArray:
        if not _is_number(self.width):
            raise DeclarationError(
                f"width={self.width!r} needs points first: call fit(X, rng), or give a number."
            )
        values = squared_distances(X, Z)
        # Divide twice: width**2 may underflow.
        values /= -2 * float(self.width)  # type: ignore[arg-type]
        values /= float(self.width)  # type: ignore[arg-type]
        with np.errstate(under="ignore"):  # points far apart
            return np.exp(values, out=values)

    def diagonal(self, X: Points) -> FloatArray:
        return np.ones(X.shape[0])

    def describe(self) -> str:
        return f"RBF(width {self.width:.4g})" if _is_number(self.width) else f"RBF(width {self.width})"


@dataclass(frozen=True)
class Polynomial(Kernel):
    """Use the polynomial kernel k(x, z) = (scale <x, z> + offset)^degree.

    Parameters
    ----------
    degree : int, at least 1
    offset : float, at least 0
    scale : float, positive
    method, rank, tol
        As for `RBF`.

    Raises
    ------
    DeclarationError
        If a parameter is outside its domain.

    Examples
    --------
    >>> Polynomial(degree=2).matrix(np.ones((1, 2)), np.ones((1, 2))).tolist()
    [[9.0]]
    """

    meant: ClassVar = {"coef0": "Write offset=.", "gamma": "Write scale=."}

    degree: int = 3
    offset: float = 1.0
    scale: float = 1.0
    _: KW_ONLY
    method: str = "auto"
    rank: int | None = None
    tol: float = 1e-10

    def __post_init__(self) -> None:
        if not _is_count(self.degree):
            raise DeclarationError(f"degree={given(self.degree)}; an integer of at least 1 is expected.")
        if not (_is_number(self.offset) and self.offset >= 0):
            raise DeclarationError(
                f"offset={given(self.offset)}; a number of at least 0 keeps the kernel positive semidefinite."
            )
        if not (_is_number(self.scale) and self.scale > 0):
            raise DeclarationError(f"scale={given(self.scale)}; a positive number is expected.")
        self._check_factor()

    def matrix(self, X: Points, Z: Points) -> FloatArray:
        return self._power(inner_products(X, Z))

    def diagonal(self, X: Points) -> FloatArray:
        return self._power(squared_norms(X))

    def _power(self, products: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return _finite((self.scale * products + self.offset) ** self.degree, self)

    def describe(self) -> str:
        return f"polynomial(degree {self.degree}, offset {self.offset:g}, scale {self.scale:g})"


@dataclass(frozen=True)
class Callable(Kernel):
    """Use any symmetric positive semidefinite function of two sets of points.

    Parameters
    ----------
    function : callable
        ``function(X, Z)`` returns the (n, m) matrix of values for X (n, d) and Z (m, d).
    method, rank, tol
        As for `RBF`.

    Examples
    --------
    >>> Callable(lambda X, Z: X @ Z.T).matrix(np.eye(2), np.ones((1, 2))).tolist()
    [[1.0], [1.0]]
    """

    function: Function[[Any, Any], Any]
    _: KW_ONLY
    method: str = "auto"
    rank: int | None = None
    tol: float = 1e-10

    SYMMETRY_SAMPLE: ClassVar[int] = 40

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise DeclarationError(
                f"the kernel function is {self.function!r}; something called as f(X, Z) is expected."
            )
        self._check_factor()

    def fit(self, X: Points, rng: np.random.Generator) -> Callable:
        sample = X[np.sort(rng.choice(X.shape[0], min(X.shape[0], self.SYMMETRY_SAMPLE), replace=False))]
        K = self.matrix(sample, sample)
        gap = np.abs(K - K.T).max()
        if gap > 1e-8 * np.abs(K).max():
            raise DeclarationError(
                f"the kernel {self.name} is not symmetric: k(x, z) and k(z, x) differ by up to {gap:.2e}. "
                "Return a symmetric function, for instance (k(X, Z) + k(Z, X).T) / 2."
            )
        return self

    def matrix(self, X: Points, Z: Points) -> FloatArray:
        raw = self.function(X, Z)
        values = raw.toarray() if sp.issparse(raw) else np.asarray(raw)
        if values.shape != (X.shape[0], Z.shape[0]) or values.dtype.kind not in "biuf":
            raise DeclarationError(
                f"the kernel {self.name} returned shape {values.shape} and type {values.dtype} for "
                f"{X.shape[0]} and "
                f"{Z.shape[0]} points; a real matrix {(X.shape[0], Z.shape[0])} is expected: f(X, Z) of "
                "all pairs."
            )
        return _finite(np.array(values, dtype=np.float64), self)

    def diagonal(self, X: Points) -> FloatArray:
        blocks = [slice(s, s + 32) for s in range(0, X.shape[0], 32)]
        return np.concatenate([np.diag(self.matrix(X[b], X[b])) for b in blocks])

    @property
    def name(self) -> str:
        """Return the function's name."""
        return getattr(self.function, "__name__", type(self.function).__name__)

    def describe(self) -> str:
        return f"kernel({self.name})"


@dataclass(frozen=True, eq=False)
class Precomputed(Kernel):
    """Use a given kernel matrix K, symmetric positive semidefinite.

    New points are given by their values (m, n) against the n points of K.

    Parameters
    ----------
    K : array-like (n, n)
        Asymmetry up to 1e-8 relative to the largest entry is averaged away.
    repair : {None, "shift", "clip"}
        What to do when K is indefinite: nothing (an error), add |lambda_min| to the diagonal, or set negative
        eigenvalues to zero. After a shift, new points are mapped as points distinct from all n.
    rank, tol
        As for `RBF`; with `rank` None all columns are kept.

    Raises
    ------
    DeclarationError
        If K is not square, not finite, not symmetric, or (without `repair`) indefinite.

    Examples
    --------
    >>> Precomputed([[2.0, 1.0], [1.0, 2.0]]).describe()
    'precomputed'
    """

    K: Any
    _: KW_ONLY
    repair: str | None = None
    rank: int | None = None
    tol: float = 1e-10
    method: str = field(default="cholesky", init=False, repr=False)
    owned: Owned = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.repair is not None:
            one_of("repair of an indefinite kernel", self.repair, ["shift", "clip"])
        self._check_factor()
        points = check_points(self.K, name="the kernel matrix")
        object.__setattr__(self, "owned", Owned(points, "the kernel matrix"))
        object.__setattr__(self, "K", self.owned.points)

    def matrix(self, X: Points, Z: Points) -> FloatArray:
        raise DeclarationError(
            "a precomputed kernel has no formula for points. Give the (m, n) kernel values of new points "
            "instead."
        )

    def diagonal(self, X: Points) -> FloatArray:
        return np.diag(np.asarray(self.K, dtype=np.float64)).copy()

    def describe(self) -> str:
        repaired = {"clip": "(clipped to semidefinite)", "shift": "(shifted to semidefinite)"}
        return f"precomputed{repaired.get(self.repair or '', '')}"


NAMED: dict[str, type[Kernel]] = {"linear": Linear, "rbf": RBF, "polynomial": Polynomial}


def kernel_names() -> tuple[str, ...]:
    """Return the names of kernels with default options, those that other packages register among them."""
    return (*NAMED, *(name for name in registered(KERNELS) if name not in NAMED))


@dataclass(frozen=True)
class Kernels(Kernel):
    """Add kernels up, each with columns of its own, so that `md.norm(f, "kernels")` chooses among them."""

    kernels: tuple[Kernel, ...]

    def __post_init__(self) -> None:
        if not self.kernels or any(isinstance(kernel, (Kernels, Precomputed)) for kernel in self.kernels):
            raise DeclarationError("a list of kernels holds kernels of the points, such as [md.RBF(0.5), md.Linear()]")

    def matrix(self, X: Points, Z: Points) -> FloatArray:
        return np.sum([kernel.matrix(X, Z) for kernel in self.kernels], axis=0)

    def diagonal(self, X: Points) -> FloatArray:
        return np.sum([kernel.diagonal(X) for kernel in self.kernels], axis=0)

    def describe(self) -> str:
        return " + ".join(kernel.describe() for kernel in self.kernels)


def as_kernel(spec: Any) -> Kernel:
    """Turn what users write into a kernel."""
    if isinstance(spec, Kernel):
        return spec
    if isinstance(spec, (list, tuple)):
        return Kernels(tuple(map(as_kernel, spec)))
    if isinstance(spec, str):
        if spec == "precomputed":
            raise DeclarationError("kernel='precomputed' names no matrix. Write kernel=Precomputed(K).")
        if spec in NAMED:
            return NAMED[spec]()
        others = registered(KERNELS, spec)
        if spec.lower() not in others:
            raise UnknownNameError("kernel", spec, kernel_names())
        made = others[spec.lower()].load()()
        if not isinstance(made, Kernel):
            raise DeclarationError(
                f"the kernel {spec!r} of another package is a {type(made).__name__}, expected a Kernel; its entry "
                f"point in group {KERNELS!r} must name a subclass of margindsl.features.Kernel that needs no arguments")
        return made
    if isinstance(spec, type) and issubclass(spec, Kernel):
        raise DeclarationError(
            f"the kernel is the class {spec.__name__}; an instance is expected. Write {spec.__name__}(...)."
        )
    if callable(spec):
        return Callable(spec)
    raise DeclarationError(
        f"the kernel is a {type(spec).__name__}; a name, a kernel such as RBF('median'), or a callable "
        "f(X, Z) is expected. "
        "For a kernel matrix write Precomputed(K)."
    )


def _finite(values: FloatArray, kernel: Kernel) -> FloatArray:
    if not np.isfinite(values).all():
        raise DeclarationError(
            f"the kernel {kernel.describe().split('(')[0]} gave NaN or infinite values. Rescale the "
            "points or the kernel."
        )
    return values


def _is_number(value: Any) -> bool:
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    return number and bool(np.isfinite(value))


def _is_count(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) >= 1
