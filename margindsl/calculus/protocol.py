"""The contract every one-dimensional closed proper convex function honours."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np

from margindsl.calculus.root import OfRoots, monotone_root
from margindsl.errors import CalculusError
from margindsl.typing import ArrayLike, FloatArray

LEVEL = 1e-9  # relative difference of two values far away of a function that has reached its limit
FAR = 1e15  # slopes are read off at this distance; those that grow tenfold from a thousandth of it are infinite

# What operations make derives the class below, and is entered here where it is defined.
OPERATIONS: dict[str, Callable[..., ConvexFunction]] = {}


class ConvexFunction(ABC):
    """Represent a closed proper convex function ρ: R → R ∪ {+∞}.

    A loss of one's own subclasses this class. Required are `domain`, `__call__`, `derivative`, `curvature` and, for
    conic solvers, `conic`; everything else has a generic version built on these. Every method is vectorised: arrays
    broadcast, and a scalar argument gives a float.

    Examples
    --------
    >>> from margindsl.calculus import Logistic
    >>> loss = Logistic()
    >>> round(loss(0.0), 6), loss.derivative(0.0), loss.smoothness
    (0.693147, -0.5, 0.25)
    """

    __array_ufunc__ = None  # numpy scalars leave arithmetic to this class; arrays are refused

    # -- values and derivatives ---------------------------------------------------------------------

    @property
    @abstractmethod
    def domain(self) -> tuple[float, float]:
        """Return the ends (lower, upper) of the closure of {x : ρ(x) < ∞}."""

    @abstractmethod
    def __call__(self, x: ArrayLike) -> Any:
        """Return ρ(x), +∞ outside the domain."""

    @abstractmethod
    def derivative(self, x: ArrayLike) -> Any:
        """Return one element of ∂ρ(x): the right derivative where it is finite, else the left one.

        Outside the domain it is −∞ below and +∞ above, which keeps it nondecreasing.
        """

    def value_and_derivative(self, x: ArrayLike) -> tuple[Any, Any]:
        """Return ρ(x) and `derivative(x)` together; a class may do so in less time than one by one."""
        return self(x), self.derivative(x)

    def subdifferential(self, x: ArrayLike) -> tuple[Any, Any]:
        """Return the ends (lo, hi) of the interval ∂ρ(x); lo > hi, namely (∞, −∞), where it is empty.

        The generic version is for functions differentiable in the whole of R.
        """
        slope = self.derivative(x)
        return slope, slope

    @abstractmethod
    def curvature(self, x: ArrayLike) -> Any:
        """Return a generalised second derivative, ≥ 0 (that of the piece on the right at a breakpoint)."""

    # -- duality ------------------------------------------------------------------------------------

    def atoms(self) -> tuple[tuple[float, float, float, ConvexFunction], ...]:
        """Return (factor, a, b, base) with ρ(x) = Σ factor · base(a x + b); bases are no sums, multiples or such."""
        return ((1.0, 1.0, 0.0, self),)

    def conjugate(self) -> ConvexFunction:
        """Return the Fenchel conjugate ρ*(u) = sup_x u x − ρ(x), by its points where no closed form is given."""
        return OPERATIONS["conjugate"](self)

    @property
    def is_solved_apart(self) -> bool:
        """Return whether it is a sum whose conjugate has no formula: its summands are solved faster apart."""
        return False

    def prox(self, x: ArrayLike, step: ArrayLike = 1.0) -> Any:
        """Return argmin_v ρ(v) + (v − x)²/(2 step); a CalculusError if a step is not positive and finite."""
        step = checked_step(step)
        x, step = np.broadcast_arrays(np.asarray(x, dtype=float), step)
        return shaped(monotone_root(self, x, step))

    def prox_derivative(self, x: ArrayLike, step: ArrayLike = 1.0) -> Any:
        """Return an element of the Clarke derivative of x ↦ prox(x, step), a number in [0, 1]."""
        return shaped(1.0 / (1.0 + checked_step(step) * self.curvature(self.prox(x, step))))

    def envelope(self, step: float) -> ConvexFunction:
        """Return the Moreau envelope x ↦ min_v ρ(v) + (v − x)²/(2 step), smooth with constant at most 1/step."""
        return OPERATIONS["envelope"](self, float(checked_step(step)))

    # -- shape --------------------------------------------------------------------------------------

    @property
    def is_smooth(self) -> bool:
        """Return whether ρ is differentiable on all of R with a Lipschitz derivative."""
        return bool(np.isfinite(self.smoothness))

    @property
    def smoothness(self) -> float:
        """Return the Lipschitz constant of ρ' on R, ∞ if there is none."""
        return float("inf")

    @property
    def is_affine(self) -> bool:
        """Return whether ρ(x) = s x + c on all of R."""
        return False

    @property
    def is_nonincreasing(self) -> bool:
        """Return whether ρ is known to be nonincreasing on R."""
        return False

    @property
    def is_nondecreasing(self) -> bool:
        """Return whether ρ is known to be nondecreasing on R."""
        return False

    @property
    def is_root_convex(self) -> bool:
        """Return whether q ↦ ρ(√q) is known to be convex on q ≥ 0, i.e. ρ'(s)/s nondecreasing on s > 0.

        Every nonincreasing convex function is: |ρ'| and 1/s both decrease.
        """
        return self.is_nonincreasing

    def argmin(self) -> tuple[float, float]:
        """Return the ends (lo, hi) of the set of minimisers.

        Where the infimum is not attained, both ends are the infinity towards which ρ decreases.
        """
        if not (self.is_nonincreasing or self.is_nondecreasing):
            point = float(monotone_root(self, np.zeros(()), None))
            return point, point
        side, least, low, high = 1.0 if self.is_nonincreasing else -1.0, self.minimum(), -FAR, 1.0
        while self(side * high) > least and high < FAR:
            high *= 2
        if self(side * high) > least:
            return side * np.inf, side * np.inf
        for _ in range(200):
            middle = low + (high - low) / 2
            low, high = (middle, high) if self(side * middle) > least else (low, middle)
        return (high, np.inf) if side > 0 else (-np.inf, -high)

    def minimum(self) -> float:
        """Return inf ρ, possibly −∞; of a function that falls or rises everywhere its limit, if that can be told."""
        if self.is_nonincreasing or self.is_nondecreasing:
            side = 1.0 if self.is_nonincreasing else -1.0
            start, near, far = (float(self(side * x)) for x in (0.0, FAR / 1000, FAR))
            if not abs(near - far) <= LEVEL * (max(abs(start), abs(far)) if np.isfinite(start) else abs(far)):
                raise CalculusError(f"the infimum of {self!r} is not known; give its class a `minimum` method")
            return far
        lo, hi = self.argmin()
        return float(self(next(x for x in (lo, hi, 0.0) if np.isfinite(x))))

    # -- algebra ------------------------------------------------------------------------------------

    def split(self) -> tuple[ConvexFunction, ConvexFunction]:
        """Return (d, i) with ρ = d + i, d convex nonincreasing, i convex nondecreasing; constants go to d.

        A CalculusError if no such pair of known form exists.
        """
        if self.is_nonincreasing:
            return self, OPERATIONS["constant"](0.0)
        if self.is_nondecreasing:
            return OPERATIONS["constant"](0.0), self
        raise CalculusError(f"{self!r} cannot be split into a nonincreasing and a nondecreasing part; "
                            "give its class a `split` method, or use a piecewise linear-quadratic loss")

    def __add__(self, other: ConvexFunction | float) -> ConvexFunction:
        if isinstance(other, ConvexFunction):
            return OPERATIONS["sum"](self, other)
        return OPERATIONS["sum"](self, number(other, "summand")) if isinstance(other, Real) else NotImplemented

    def __radd__(self, other: float) -> ConvexFunction:
        return self + other

    def __mul__(self, factor: float) -> ConvexFunction:
        """Return factor·ρ for factor ≥ 0; zero keeps the domain: 0·ρ is the indicator of it."""
        return OPERATIONS["multiple"](self, self._factor(factor)) if isinstance(factor, Real) else NotImplemented

    def __rmul__(self, factor: float) -> ConvexFunction:
        return self * factor

    def unshifted(self) -> tuple[ConvexFunction, float]:
        """Return (φ, d) with ρ(x) = φ(x + d); d is zero where no shift can be told from the rest."""
        return self, 0.0

    def precompose(self, a: float, b: float = 0.0) -> ConvexFunction:
        """Return x ↦ ρ(a x + b), for any real a (also zero and negative).

        A CalculusError if a = 0 and ρ(b) = ∞: the result would be +∞ everywhere.
        """
        return OPERATIONS["composition"](self, number(a, "slope"), number(b, "shift"))

    # -- what forms need ----------------------------------------------------------------------------

    def minimum_with_quadratic(
        self, weight: ArrayLike, curvature: ArrayLike, lower: ArrayLike = -np.inf
    ) -> Any:
        """Return min over s ≥ lower of weight·ρ(s) + curvature·s²/2, −∞ where unbounded below.

        Weight zero keeps the domain of ρ. The generic version takes a curvature < 0 where q ↦ ρ(√q) is convex and
        finite, for lower ≥ 0.

        Parameters
        ----------
        weight : array_like of float, ≥ 0
        curvature : array_like of float
            May be negative for piecewise linear-quadratic functions.
        lower : array_like of float

        A CalculusError if a weight is negative, or a curvature is and the function cannot bear it.
        """
        w, k, lower = (np.array(a, dtype=float) for a in np.broadcast_arrays(weight, curvature, lower))
        refuse_negative_weights(w)
        bottom, top = np.maximum(lower, self.domain[0]), self.domain[1]
        if np.any(k < 0):
            return shaped(np.where(k < 0, self._minimum_with_concave(w, np.minimum(k, 0.0), lower),
                                   self.minimum_with_quadratic(w, np.maximum(k, 0.0), lower)))
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            step = w / k
        curved = (k > 0) & (w > 0) & np.isfinite(step)  # a curvature too small for a step is no more than none
        flat = (w > 0) & ~curved & (k >= 0)
        point = np.zeros_like(w)
        if np.any(curved):
            point[curved] = self.prox(np.zeros(np.count_nonzero(curved)), step[curved])
        point = np.clip(point, bottom, np.maximum(top, bottom))
        value = np.where(k > 0, k * point**2 / 2, 0.0)
        value[curved] += w[curved] * self(point[curved])
        if np.any(flat):
            finite = finite_member(*self.argmin())
            least = np.maximum(bottom[flat], self.argmin()[0] if finite is None else finite)
            attained = np.isfinite(least)
            beyond = self.minimum() if finite is None else np.nan
            value[flat] = w[flat] * np.where(attained, self(np.where(attained, least, 0.0)), beyond)
        return shaped(np.where((bottom > top) | np.isposinf(bottom), np.inf, value))

    @abstractmethod
    def conic(self, cp: Any, x: Any) -> tuple[Any, list[Any]]:
        """Return a cvxpy expression equal to ρ(x) elementwise once minimised, and its constraints.

        Parameters
        ----------
        cp : module
            The cvxpy module.
        x : affine cvxpy expression, shape (m,)

        Returns
        -------
        expression : convex cvxpy expression, shape (m,)
            May be multiplied elementwise by a non-negative cvxpy parameter without losing DPP.
        constraints : list of cvxpy constraints
        """

    # -- inside -------------------------------------------------------------------------------------

    def _minimum_with_concave(self, w: FloatArray, k: FloatArray, lower: FloatArray) -> FloatArray:
        """Return min over s ≥ lower of w ρ(s) + k s²/2 for k ≤ 0, a convex problem in q = s²; −∞ at the limit."""
        known = self.is_nonincreasing or (self.is_root_convex and np.all(lower >= 0))
        if not (known and np.isposinf(self.domain[1])):
            raise CalculusError(f"the minimum of {self!r} plus a concave quadratic is not known in closed "
                                "form; use a piecewise linear-quadratic loss")
        rises = -k < w * float(self.derivative(FAR)) / FAR
        slope, s = np.divide(-k, 2 * w, out=np.zeros_like(w), where=rises), np.array(lower)
        s[rises] = np.sqrt(np.maximum(monotone_root(OfRoots(self), slope[rises], None), lower[rises] ** 2))
        value = np.where(np.isposinf(lower), np.inf, -np.inf)
        held = rises & ~np.isposinf(s)
        value[held] = w[held] * np.asarray(self(s[held])) + k[held] * s[held] ** 2 / 2
        return value

    def _factor(self, factor: float) -> float:
        value = number(factor, "factor")
        if value < 0:
            raise CalculusError(f"{value:g} times {self!r} would be concave; give a non-negative factor")
        return value


# -- what functions take and give ---------------------------------------------------------------------


def shaped(values: ArrayLike) -> Any:
    """Return an array as it is, and a zero-dimensional one as a float."""
    return float(values) if np.ndim(values) == 0 else values  # type: ignore[arg-type]


def number(value: object, name: str) -> float:
    """Return a finite float, or refuse with a sentence naming it."""
    try:
        result = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        result = float("nan")
    if not np.isfinite(result):
        raise CalculusError(f"{name} {value!r} is not a finite number; give a real number")
    return result


def finite_member(lower: float, upper: float) -> float | None:
    """Return a finite point of an interval: an end, else zero; None for an interval at infinity."""
    return next((x for x in (lower, upper, 0.0) if np.isfinite(x) and lower <= x <= upper), None)


def checked_step(step: ArrayLike) -> FloatArray:
    """Return the steps as an array of positive finite floats, or refuse."""
    values = np.asarray(step, dtype=float)
    if values.ndim == 0 and 0.0 < float(values) < np.inf:
        return values
    if values.size and not (values.min() > 0 and values.max() < np.inf):
        raise CalculusError("a proximal step must be positive and finite; "
                            f"given steps from {values.min():g} to {values.max():g}")
    return values


def checked_loss(loss: ConvexFunction) -> ConvexFunction:
    """Return a loss, or refuse one that some points show to be infinite somewhere, not convex, or to have slopes, a
    conjugate or a least value of another.
    """
    if tuple(loss.domain) != (-np.inf, np.inf):
        raise CalculusError(f"{loss!r} is infinite outside {loss.domain}; expected a loss that is finite everywhere, "
                            "such as one that rises steeply there")
    x = np.sinh(np.linspace(-5.0, 5.0, 80))  # dense near zero, to ±74
    with np.errstate(all="ignore"):
        value, u = np.asarray(loss(x), dtype=float), np.asarray(loss.derivative(x), dtype=float)
        if not value.shape == u.shape == x.shape:
            raise CalculusError(f"{loss!r} gives arrays of other shapes than it takes; expected one value a number")
        products, middle = u[:, None] * x, np.median(np.abs(value))
        for words, dual in (("derivative", lambda: u * x - value), ("conjugate", lambda: loss.conjugate()(u))):
            given = np.asarray(dual(), dtype=float)[:, None]
            room = 1e-6 * (np.abs(products) + np.abs(value) + np.abs(given) + 1e-3 * middle)
            if not np.all(value >= products - given - room):  # Fenchel-Young
                raise CalculusError(f"{loss!r} is not convex, or its {words} is not its own: expected "
                                    "rho(x) + rho*(u) >= u x")
    fine = np.linspace(-10.0, 10.0, 20_001)  # dents that fit between the points above
    if np.any(np.diff(np.asarray(loss.derivative(fine), dtype=float)) < -1e-9 * float(np.abs(u).max())):
        raise CalculusError(f"{loss!r} is not convex: its derivative falls")
    for never, side in (("rises", 1.0), ("falls", -1.0)):
        if (loss.is_nonincreasing if side > 0 else loss.is_nondecreasing) and np.any(side * u > 0):
            raise CalculusError(f"{loss!r} says that it never {never}, and has a slope of {side * np.max(side * u):g}")
    try:
        least = loss.minimum()
    except CalculusError:  # not known, which what needs it says
        return loss
    if not least <= value.min() + 1e-9 * (abs(value.min()) + 1e-3 * middle):
        raise CalculusError(f"{loss!r} has a value of {value.min():g}, below the {least:g} that its `minimum` says")
    return loss


def refuse_negative_weights(weights: FloatArray) -> None:
    """Refuse weights that are negative or NaN."""
    if weights.size and not np.all(weights >= 0):
        raise CalculusError(f"weight {weights.min():g} of a convex function would make it concave; "
                            "give non-negative weights")
