"""What formulas and problems are made of: shapes, values of constants, indices of points, attributes set once."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from margindsl.errors import DeclarationError, GrammarError
from margindsl.typing import FloatArray

Shape = tuple[int, ...]


def as_values(value: Any) -> FloatArray:
    """Return a number or one number a point as a read-only array."""
    array = read_array(value, "a formula")
    if array.dtype == object and all(map(is_number, array.flat)):
        try:
            array = array.astype(float)  # fractions, nullable columns of pandas
        except OverflowError:
            raise DeclarationError(
                "a number beyond the largest float entered a formula; expected finite numbers") from None
    if array.dtype.kind not in "biufc":
        coded = "; code names of labels as +1 and -1, or 0..k-1" if array.dtype.kind in "US" else ""
        raise DeclarationError(
            f"{value!r} cannot enter a formula: expected a number, a 1-D array of numbers or an expression{coded}")
    if array.ndim > 1:
        raise DeclarationError(
            f"an array of shape {array.shape} entered a formula; expected a number or a 1-D array, "
            "one number a point")
    if np.iscomplexobj(array):
        raise DeclarationError("a complex number entered a formula; expected real numbers")
    with np.errstate(over="ignore"):  # numbers of more than 64 bits
        values = array.astype(float)
    if not np.all(np.isfinite(values)):
        raise DeclarationError("NaN or infinity entered a formula; expected finite numbers")
    values.flags.writeable = False
    return values


def is_number(value: Any) -> bool:
    """Return whether a value is a real number, which truth values and durations are not."""
    return isinstance(value, Real) and not isinstance(value, (bool, np.timedelta64))


def read_array(value: Any, what: str) -> np.ndarray:
    """Return what a user gave as an array."""
    if np.ma.isMaskedArray(value) and np.ma.is_masked(value):
        raise DeclarationError(f"a masked array with masked entries entered {what}; fill them or drop those points")
    try:
        return np.asarray(value)
    except ValueError:
        raise DeclarationError(f"a ragged list entered {what}; expected an array of numbers") from None


def broadcast(node: Any) -> Shape:
    """Return the common shape of the children of a node."""
    shapes = [child.shape for child in node.children if child.shape]
    for shape in shapes[1:]:
        if shape != shapes[0]:
            raise DeclarationError(f"`{node.text()}`: {shapes[0][0]} entries against {shape[0]}; index both to the "
                                   "same points")
    return shapes[0] if shapes else ()


def as_index(index: Any, n: int, name: str) -> tuple[np.ndarray, bool]:
    """Return a non-negative integer index array and whether a single item was meant."""
    if isinstance(index, slice):
        try:
            return np.arange(n)[index], False
        except (TypeError, ValueError) as error:
            raise DeclarationError(f"{name}[{index}]: {error}") from None
    if isinstance(index, tuple):  # one index a dimension in numpy
        shown = ", ".join(map(str, index))
        raise DeclarationError(f"{name}[{shown or '()'}]: expected integers, a slice or a boolean mask of one dimension"
                               f"; write {name}[{f'[{shown}]' if index else ':'}] for {'those' if index else 'all'} "
                               "points")
    array = read_array(index, f"the index of {name}")
    if array.dtype == bool:
        if array.shape != (n,):
            raise DeclarationError(f"{name}[mask]: mask of shape {array.shape}, expected ({n},)")
        return np.flatnonzero(array), False
    if array.size == 0:
        return np.zeros(0, dtype=int), False
    if array.dtype.kind not in "iu":
        raise DeclarationError(f"{name}[{index!r}]: expected integers, a slice or a boolean mask")
    if array.ndim > 1:
        raise DeclarationError(f"{name}[index]: index of shape {array.shape}, expected one dimension")
    flat = np.atleast_1d(array)
    bad = (flat < -n) | (flat >= n) if array.dtype.kind == "i" else flat >= n
    if np.any(bad):
        raise DeclarationError(f"{name}[{int(flat[bad][0])}]: out of range for {n} points (0..{n - 1})")
    flat = flat.astype(int)
    return np.where(flat < 0, flat + n, flat), array.ndim == 0


def read_flag(value: Any, what: str, advice: str = "") -> bool:
    """Return a truth value, Python's or numpy's, given for an option written as ``Hyperplane(centre=``."""
    if not isinstance(value, (bool, np.bool_)):
        raise DeclarationError(f"{what}{value!r}): expected True or False{advice}")
    return bool(value)


def frozen(values: Any) -> np.ndarray:
    """Return a read-only copy."""
    array = np.array(values)
    array.flags.writeable = False
    return array


def constant_value(expression: Any) -> Any:
    """Return the present value of a constant formula, a float or an (m,) array."""
    with np.errstate(all="ignore"):
        value = np.asarray(expression.numeric(), dtype=float)
    if not np.all(np.isfinite(value)):
        raise GrammarError(expression.text(), "has no finite value at the present values of its parameters",
                           "Change them, or rescale the formula.")
    return value if value.ndim else float(value)


def fix_once(owner: Any, name: str, value: Any) -> None:
    """Set an attribute of a part of a declaration, public ones once: what was declared does not change."""
    made = getattr(type(owner), name, None)
    derived = isinstance(made, property) and made.fset is None
    if derived or (name in owner.__dict__ and not name.startswith("_")):
        raise DeclarationError(
            f"{name} of this {type(owner).__name__} was declared and does not change; declare another one, or let an "
            "md.Parameter change its value")
    if name == "value" and made is None and "value" not in type(owner).__annotations__:
        raise DeclarationError(
            f"a {type(owner).__name__} takes no value: labels to start from are problem.solve(warm_start=labels), "
            "known ones a constraint, y[rows] == labels")
    object.__setattr__(owner, name, value)


ANSWERS = ("value", "status", "bound", "gap", "w", "weights", "coef_", "labels", "labels_", "solve")
RULES_HELD = ("is_dcp", "is_qp", "is_convex", "is_concave", "curvature")

_OWN = "give your own loss with md.plq or a subclass of md.ConvexFunction"
_LOGISTIC = f"Write md.logistic(-g), log(1 + exp(-g)), for margins g, or {_OWN}."
_POINTS = "Write md.sum(a * f) for a product with a vector, A @ f for one with a matrix A, (m, n)."
_SQUARE = "Write md.sq_norm(f), the squared norm of the weights."
# What to write for functions of numpy and CVXPY that are no part of the language.
HINTS: dict[str, str] = {
    **dict.fromkeys(("exp", "expm1", "log", "log1p", "logaddexp", "log_sum_exp", "entr", "kl_div"), _LOGISTIC),
    **dict.fromkeys(("dot", "matmul", "inner", "vdot", "tensordot"), _POINTS),
    **dict.fromkeys(("norm", "norm1", "norm2", "pnorm", "norm_inf", "quad_form"),
                    f"{_SQUARE} A norm of losses is md.sum(loss), md.mean(loss**2) or md.max(loss)."),
    "sum_squares": "Write md.sum(x**2), or md.sq_norm(f) for the weights.", "inv_pos": f"For 1 / x, {_OWN}.",
    **dict.fromkeys(("clip", "where", "sign", "heaviside"),
                    "A loss is convex in the margin: md.maximum(a, b), md.pos(a), abs(a)."),
    **dict.fromkeys(("sqrt", "power", "cbrt", "float_power"), f"Write x**2 or abs(x), or {_OWN}."),
    "multiply": "Write a * b.", "Variable": "Declare md.Labels(n), md.Hyperplane(X) and md.Scalar().",
    "Maximize": "Write md.Minimize of the negative.", "neg": "Write md.pos(-x).", "abs": "Write abs(x).",
    "scalene": "Write two md.pos.", "ramp": "Write md.minimum(md.hinge(g), cap).",
    "explain": "Write problem.compile().explain().",
    **dict.fromkeys(("CLARABEL", "ECOS", "HIGHS", "OSQP", "SCS", "MOSEK", "GUROBI"), "Name a solver: solver='scs'."),
    **dict.fromkeys(("MarginClusterer", "ODMClassifier", "SemiSupervisedODM", "MaximumMarginEmbedding"),
                    "It is in md.estimators.")}


class Unanswered:
    """Say, of what holds answers in other modelling languages, where they are in this one."""

    if not TYPE_CHECKING:  # a checker sees attributes that are none

        def __getattr__(self, name: str) -> Any:
            message = f"{type(self).__name__!r} object has no attribute {name!r}"
            if name in RULES_HELD:
                message += ("; rules of disciplined margin programming are checked when md.Problem is declared, with "
                            "a GrammarError where one is broken")
            if name in HINTS or name in ("sum", "mean", "max", "min", "var"):
                message += f"; {HINTS.get(name, f'write md.{name}(...)')}"
            if name in ANSWERS:
                message += ("; solving leaves declarations as they are, what was found is in the solution: "
                         "solution = problem.solve(), then solution.value, .bound, .status, .labels, .decision")
            raise AttributeError(message, name=name, obj=self)
