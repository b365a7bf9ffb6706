"""Constraints on labels and on decision values: each prints and lowers itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from margindsl.errors import DeclarationError
from margindsl.language import grammar
from margindsl.language.decisions import DecisionRows
from margindsl.language.entries import broadcast, constant_value, frozen
from margindsl.language.expressions import COMPARED, Constraint, Expression
from margindsl.language.linear import LinearPart, split_equality, split_inequality
from margindsl.language.margins import Hyperplane, Labels
from margindsl.language.printing import SHOWN_ENTRIES, number_latex, number_text, subscript
from margindsl.program.bounds import DecisionBound, joined
from margindsl.typing import FloatArray, IntArray

MOST_ENTRIES = 512  # of a constraint point by point, each of which has a weight a point


@dataclass(eq=False)
class Conditions:
    """Collect the constraints of a problem as arrays; every constraint adds its own, see `Constraint.lower`.

    Parameters
    ----------
    labels : Labels
        Those of the objective; constraints on others are refused.
    hyperplane : Hyperplane
        Likewise, the first of `planes` where there are several.
    combined : list of (lower, upper, weights)
        Bounds on sums over several hyperplanes, or over another one.
    """

    labels: Labels
    hyperplane: Hyperplane
    planes: tuple[Hyperplane, ...] = ()
    must: list[IntArray] = field(default_factory=list)
    cannot: list[IntArray] = field(default_factory=list)
    known: list[tuple[IntArray, IntArray]] = field(default_factory=list)
    bounds: list[tuple[FloatArray, float, float]] = field(default_factory=list)
    decision: list[DecisionBound] = field(default_factory=list)
    orthogonal: list[Any] = field(default_factory=list)
    outside: list[Any] = field(default_factory=list)  # constraints of CVXPY
    sizes: list[Any] = field(default_factory=list)
    barred: list[tuple[IntArray, IntArray]] = field(default_factory=list)
    groups: list[tuple[IntArray, FloatArray, FloatArray]] = field(default_factory=list)
    combined: list[tuple[float, float, dict[Hyperplane, Any]]] = field(default_factory=list)

    def check_own(self, at: Constraint, labels: Labels | None = None, hyperplane: Hyperplane | None = None) -> None:
        """Raise unless labels and hyperplane of a constraint, where it has some, are those of the problem."""
        if labels is not None and labels is not self.labels:
            raise grammar.TWO_PROBLEMS.broken_by(at.text(), what="labellings")
        if hyperplane is not None and all(hyperplane is not own for own in (self.hyperplane, *self.planes)):
            raise grammar.TWO_PROBLEMS.broken_by(at.text(), what="hyperplanes")

    def add_bound(self, at: Constraint, part: LinearPart, lower: float, upper: float) -> None:
        """Add lower ≤ weights · y ≤ upper, or the same of decision values."""
        self.check_own(at, part.label_node)
        for plane in part.planes:
            self.check_own(at, hyperplane=plane)
        lower, upper = lower + 0.0, upper + 0.0  # messages print no -0
        if part.labels is not None and part.planes:
            raise grammar.MIXED_CONSTRAINT.broken_by(at.text())
        if lower > upper:
            raise grammar.EMPTY_BOUND.broken_by(at.text(), value=f"{(upper - lower) / 2:.6g}")
        if part.labels is not None:
            if self.labels.clusters > 2:
                raise grammar.LABEL_SUM.broken_by(at.text(), clusters=str(self.labels.clusters))
            self.bounds.append((part.labels, lower - part.noise, upper + part.noise))
        elif [plane is self.hyperplane for plane in part.planes] == [True]:
            weights, sizes = part.planes[self.hyperplane]
            self.decision.append(DecisionBound(weights, lower, upper, sizes))
        elif part.planes:
            self.combined.append((lower, upper, part.planes))
        else:
            raise grammar.NO_VARIABLE.broken_by(at.text())

    def _decision(self) -> tuple[DecisionBound, ...]:
        """Return the bounds on decision values, checked: constraints of users add their own."""
        n = self.hyperplane.n
        for number, bound in enumerate(self.decision):
            if not isinstance(bound, DecisionBound):
                raise DeclarationError(f"decision bound {number} was given as {type(bound).__name__}; expected "
                                       "DecisionBound(weights, lower, upper)")
            if np.shape(bound.weights) != (n,) or not np.all(np.isfinite(bound.weights)):
                raise DeclarationError(f"weights of decision bound {number} have shape {np.shape(bound.weights)}; "
                                       f"expected ({n},), one finite number per point")
        return joined(self.decision)

    def all_bounds(self) -> list[tuple[float, float, dict[Hyperplane, Any]]]:
        """Return all bounds on decision values, by hyperplane."""
        return [*((b.lower, b.upper, {self.hyperplane: (b.weights, b.sizes)}) for b in self._decision()),
                *self.combined]

    def decision_rows(self) -> list[DecisionRows]:
        """Return the decision values in bounds, in turn."""
        return [DecisionRows(None, {plane: np.flatnonzero(weights if sizes is None else sizes)})
                for _, _, planes in self.all_bounds() for plane, (weights, sizes) in planes.items()]

    def arrays(self) -> dict[str, Any]:
        """Return the fields of a `Declaration`."""
        pairs, none = np.zeros((0, 2), dtype=int), np.zeros(0, dtype=int)
        return {
            "must": np.concatenate([pairs, *self.must]), "cannot": np.concatenate([pairs, *self.cannot]),
            "known": (np.concatenate([none, *(i for i, _ in self.known)]),
                      np.concatenate([none, *(v for _, v in self.known)])),
            "label_bounds": tuple(self.bounds), "decision": self._decision(),
            "orthogonal": tuple(self.orthogonal), "sizes": tuple(self.sizes), "groups": tuple(self.groups),
            "barred": (np.concatenate([none, *(i for i, _ in self.barred)]),
                       np.concatenate([none, *(v for _, v in self.barred)]))}


class Comparison(Constraint):
    """Represent a relation of two expressions."""

    sign: ClassVar[str] = ""
    sign_latex: ClassVar[str] = ""

    parts = ("left", "right")

    def __init__(self, left: Expression, right: Expression) -> None:
        self.left, self.right = left, right

    def entries(self) -> list[tuple[Expression, Expression]]:
        """Return both sides of every entry, of a relation point by point."""
        count = broadcast(self)[:1]
        if not count:
            return [(self.left, self.right)]
        if count[0] > MOST_ENTRIES:
            raise grammar.ENTRYWISE_CONSTRAINT.broken_by(self.text(), most=str(MOST_ENTRIES))
        return [(self.left[i] if self.left.shape else self.left, self.right[i] if self.right.shape else self.right)
                for i in range(count[0])]

    @property
    def children(self) -> tuple[Expression, Expression]:
        """Return both sides."""
        return self.left, self.right

    def text(self) -> str:
        return f"{self.left.text()} {self.sign} {self.right.text()}"

    def latex(self) -> str:
        return rf"{self.left.latex()} {self.sign_latex} {self.right.latex()}"


class Inequality(Comparison):
    """Represent ``left <= right``."""

    sign = "<="
    sign_latex = r"\le"

    def lower(self, into: Conditions) -> None:
        for left, right in self.entries():
            into.add_bound(self, *split_inequality(left, right, self.text()))


COMPARED["<="] = Inequality


class Equality(Comparison):
    """Represent ``left == right``, no links and no known labels."""

    sign = "=="
    sign_latex = "="

    def lower(self, into: Conditions) -> None:
        for left, right in self.entries():
            into.add_bound(self, *split_equality(left, right, self.text()))


class Links(Constraint):
    """Represent must-links or cannot-links of pairs of labels.

    Parameters
    ----------
    kind : str
        ``"must-link"`` or ``"cannot-link"``.
    sides : (Expression, Expression), optional
        Both sides where it was written as a comparison of labels.
    """

    parts = ("labels",)

    def __init__(self, labels: Labels, pairs: IntArray, kind: str,
                 sides: tuple[Expression, Expression] | None = None) -> None:
        self.labels, self.pairs, self.kind, self.sides = labels, frozen(pairs), kind, sides

    __array_ufunc__ = None  # arrays of weights leave the product to us

    def __mul__(self, weight: Any) -> Any:
        """Return the energy of pairs that weighs [y_i ≠ y_j], of which this is the cannot-link, or [y_i = y_j]."""
        return COMPARED["pairs"](self, weight)

    __rmul__ = __mul__

    def lower(self, into: Conditions) -> None:
        into.check_own(self, labels=self.labels)
        (into.must if self.kind == "must-link" else into.cannot).append(self.pairs)

    def text(self) -> str:
        if self.sides is not None:
            return f"{self.sides[0].text()} {'==' if self.kind == 'must-link' else '!='} {self.sides[1].text()}"
        pairs = f"{len(self.pairs)} pairs"
        if 2 * len(self.pairs) <= SHOWN_ENTRIES:
            pairs = f"[{', '.join(f'({i}, {j})' for i, j in self.pairs.tolist())}]"
        return f"md.{self.kind.replace('-', '_')}({self.labels.text()}, {pairs})"

    def latex(self) -> str:
        sign = "=" if self.kind == "must-link" else r"\ne"
        name = self.labels.letter()
        if 2 * len(self.pairs) <= SHOWN_ENTRIES:
            pairs = self.pairs.astype(str).tolist()
            return r",\ ".join(f"{subscript(name, i)} {sign} {subscript(name, j)}" for i, j in pairs)
        family = r"\mathcal{M}" if self.kind == "must-link" else r"\mathcal{C}"
        first, second = subscript(name, "i"), subscript(name, "j")
        return rf"{first} {sign} {second} \quad ((i,j) \in {family},\ |{family}| = {len(self.pairs)})"


class Known(Constraint):
    """Represent known labels of some points, or of several clusters those that are not theirs.

    Parameters
    ----------
    left, values : Expression
        The labels as written, and a constant: the label of each point.
    sign : {"==", "!="}
        Whether the values are the labels or, of two clusters, the other ones.
    """

    parts = ("labels", "right")

    def __init__(self, labels: Labels, index: IntArray, left: Expression, values: Expression,
                 sign: str = "==") -> None:
        self.labels, self.index, self.sign = labels, frozen(index), sign
        self.left, self.right = left, values
        self.excludes = sign == "!=" and labels.clusters > 2
        self.values()

    def lower(self, into: Conditions) -> None:
        into.check_own(self, labels=self.labels)
        (into.barred if self.excludes else into.known).append((self.index, self.values()))

    def values(self) -> IntArray:
        """Return the label of each point."""
        numbers = np.asarray(constant_value(self.right))
        if numbers.ndim and numbers.shape != self.index.shape:
            raise DeclarationError(f"`{self.left.text()} {self.sign} values`: {len(self.index)} points against "
                                   f"{len(numbers)} values")
        numbers = np.broadcast_to(numbers, self.index.shape)
        bad = ~self.labels.names.is_label(numbers)
        if np.any(bad):
            raise DeclarationError(
                f"`{self.left.text()} {self.sign} values`: point {int(self.index[bad][0])} is given "
                f"{numbers[bad][0]:g}, expected {self.labels.names.expected}")
        return (numbers if self.sign == "==" or self.excludes else -numbers).astype(int)

    def text(self) -> str:
        return f"{self.left.text()} {self.sign} {self.right.text()}"

    def latex(self) -> str:
        name, sign = self.labels.letter(), r"\ne" if self.excludes else "="
        if len(self.index) <= SHOWN_ENTRIES:
            return r",\ ".join(f"{subscript(name, str(i))} {sign} {number_latex(value)}" for i, value in zip(
                self.index.tolist(), self.values().tolist()))
        entry, given = subscript(name, "i"), subscript(rf"\bar {name}", "i")
        return rf"{entry} {sign} {given} \quad (i \in \mathcal{{L}},\ |\mathcal{{L}}| = {len(self.index)})"


class Sizes(Constraint):
    """Represent bounds on the sizes of k clusters, or on how many points of a group each holds."""

    parts = ("chosen",)

    def __init__(self, labels: Labels, at_least: Any, at_most: Any, index: IntArray | None = None,
                 chosen: Expression | None = None, written: str = "") -> None:
        self.labels, self.chosen, self.written = labels, labels if chosen is None else chosen, written
        self.index = index if index is None else frozen(index)
        self.at_least, self.at_most = frozen(at_least), frozen(at_most)

    def lower(self, into: Conditions) -> None:
        into.check_own(self, labels=self.labels)
        index = np.arange(self.labels.n) if self.index is None else self.index
        if self.labels.clusters == 2:  # a sum of labels
            low, high = 2 * self.at_least - len(index), 2 * self.at_most - len(index)
            weights = np.broadcast_to(1.0, len(index)) if self.index is None else np.bincount(
                index, minlength=self.labels.n).astype(float)
            into.bounds.append((weights, max(low[1], -high[0]), min(high[1], -low[0])))
        elif self.index is None:
            into.sizes.append(self)
        else:
            into.groups.append((index, self.at_least, self.at_most))

    def text(self) -> str:
        if self.written:
            return self.written
        low, high = (", ".join(map(number_text, bound)) for bound in (self.at_least, self.at_most))
        return f"md.sizes({self.chosen.text()}, at_least=[{low}], at_most=[{high}])"

    def latex(self) -> str:
        name, k = subscript(self.labels.letter(), "i"), len(self.at_least)
        group = "" if self.index is None else r" \in G"
        bounds = [(number_latex(low), number_latex(high)) for low, high in zip(self.at_least, self.at_most)]
        alike = len(set(bounds)) == 1
        rows = [rf"{low} \le |\{{i{group} : {name} = {'c' if alike else c}\}}| \le {high}"
                for c, (low, high) in enumerate(bounds[:1] if alike else bounds)]
        return r",\ ".join(rows) + (rf" \quad (c = 0, \dots, {k - 1})" if alike else "")


@dataclass(frozen=True, eq=False)
class Earlier:
    """Represent what an earlier solution was when it was declared: its hyperplane and where it lay."""

    weights: FloatArray
    bias: float
    decision: FloatArray


class CvxpyConstraint(Constraint):
    """Represent a constraint on the weights and the bias that is written in CVXPY."""

    parts = ("hyperplane",)

    def __init__(self, hyperplane: Hyperplane, function: Any) -> None:
        self.hyperplane, self.function = hyperplane, function

    def lower(self, into: Conditions) -> None:
        into.check_own(self, hyperplane=self.hyperplane)
        into.outside.append(self.function)

    def text(self) -> str:
        return f"md.cvxpy_constraint({self.hyperplane.text()}, ...)"


class Orthogonal(Constraint):
    """Represent wᵀv = 0 against earlier solutions."""

    parts = ("hyperplane",)

    def __init__(self, hyperplane: Hyperplane, solutions: tuple[Any, ...]) -> None:
        self.hyperplane = hyperplane
        self.solutions = tuple(Earlier(frozen(s.weights), float(s.bias), frozen(s.decision)) for s in solutions)

    def lower(self, into: Conditions) -> None:
        into.check_own(self, hyperplane=self.hyperplane)
        into.orthogonal.extend(self.solutions)

    def text(self) -> str:
        return f"md.orthogonal({self.hyperplane.text()}, {len(self.solutions)} earlier solutions)"
