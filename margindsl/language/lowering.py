"""Lower an objective and constraints to plain arrays: the declaration the compiler presolves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from margindsl.calculus import PLQ
from margindsl.calculus.accuracy import without_rounding
from margindsl.errors import CalculusError, GrammarError
from margindsl.language import grammar
from margindsl.language.atoms import Curve, CvxpyTerm, Manifold, Mean, Norm, SquaredNorm, Total, Variance
from margindsl.language.constraints import Conditions, Constraint, Sizes
from margindsl.language.curves import Affine, Lowered, Piece, PointwiseParameters, is_zero, lower_entries, merge, scale
from margindsl.language.decisions import DecisionRows, RowTable
from margindsl.language.entries import constant_value
from margindsl.language.expressions import (
    Absolute,
    ByLabel,
    Constant,
    Expression,
    Index,
    Maximum,
    Negation,
    PositivePart,
    Product,
    Quotient,
    Square,
    Sum,
    Transformed,
    Truncated,
)
from margindsl.language.graphs import RankOne
from margindsl.language.linear import linear_part
from margindsl.language.margins import Hyperplane, Labels, Margin, outside_margins
from margindsl.language.norms import norms_of, terms_of
from margindsl.language.printing import free_name
from margindsl.language.rows import OfLabel, PairEnergy, Ramp, Rows, with_blocks, with_rows
from margindsl.language.symbols import Parameter, Scalar
from margindsl.program.bounded_bias import moves_with_bias
from margindsl.program.bounds import DecisionBound, with_finite_costs
from margindsl.program.losses import Losses, LossTerm, SharedScalars, added
from margindsl.program.outside import Outside
from margindsl.typing import FloatArray, IntArray

MOST_GROUPS, _NOTHING = 512, PLQ.constant(0.0)
LINEAR = {Total, Mean, Index, Sum, Negation, Product, Quotient, Labels, Constant, Parameter}  # in sums of labels


@dataclass(frozen=True, eq=False)
class Declaration:
    """Represent a checked problem as arrays, before features and label set are presolved.

    Parameters
    ----------
    losses : Losses
        In the user's units.
    ridge : float
        Coefficient of ½‖w‖², positive.
    manifolds : tuple of (float, matrix, rows)
        Terms coefficient · fᵀLf: a graph's sparse Laplacian, `RankOne` for a squared sum, weights of squares; f are
        sums of decision values (`DecisionRows`), those of the hyperplane where rows are None.
    coding : str
        The coding of the margins.
    planes : tuple of Hyperplane
        All of the objective, of which `hyperplane` is the first with margins.
    """

    labels: Labels
    hyperplane: Hyperplane
    losses: Losses
    ridge: float
    manifolds: tuple[tuple[float, Any, Any], ...] = ()
    constant: float = 0.0
    must: IntArray = field(default_factory=lambda: np.zeros((0, 2), dtype=int))  # (m, 2)
    cannot: IntArray = field(default_factory=lambda: np.zeros((0, 2), dtype=int))  # (m, 2)
    known: tuple[IntArray, IntArray] = (np.zeros(0, dtype=int), np.zeros(0, dtype=int))  # (index, values)
    label_bounds: tuple[tuple[FloatArray, float, float], ...] = ()  # (n,)
    decision: tuple[DecisionBound, ...] = ()
    orthogonal: tuple[Any, ...] = ()
    sizes: tuple[Sizes, ...] = ()
    coding: str = "binary"
    rows: Rows | None = None  # beyond those of the points
    barred: tuple[IntArray, IntArray] = (np.zeros(0, dtype=int), np.zeros(0, dtype=int))  # points, labels not theirs
    groups: tuple[tuple[IntArray, FloatArray, FloatArray], ...] = ()  # points, sizes at least and at most (k,)
    planes: tuple[Hyperplane, ...] = ()
    outside: Outside | None = None  # of CVXPY, in the user's units
    capped: Declaration | None = None  # the same with losses at a cap as they are, by which bounds are proved
    gauge: tuple[tuple[Norm, ...], float, float, float] | None = None  # norms T, with p, c, e of ½p‖w‖² + ½cT² + eT

    @property
    def by_columns(self) -> bool:
        """Return whether the columns of the points have to stay apart."""
        return self.outside is not None or (self.gauge is not None and any(n.by_columns for n in self.gauge[0]))

    @property
    def free_bias(self) -> bool:
        """Return whether there is a bias that no norm holds."""
        return self.hyperplane.bias is True

    @property
    def column_names(self) -> tuple[Any, ...] | None:
        """Return the names of the columns of the points, of several hyperplanes a tuple of those of each."""
        names = tuple(plane.column_names for plane in self.planes)
        return names[0] if len(names) == 1 else names if any(names) else None

    @property
    def own_labels(self) -> Labels:
        """Return the labels of the points, without those of further rows."""
        return self.labels if self.rows is None else self.rows.labels


class ObjectiveParts:
    """Collect the parts of an objective while its tree is walked."""

    def __init__(self) -> None:
        self.ridges: dict[Hyperplane, float] = {}
        self.manifolds: list[tuple[float, Any, DecisionRows]] = []
        self.constant = 0.0
        self.scalar_costs: dict[Scalar, FloatArray] = {}  # with the sums of the sizes of their parts
        self.rows: list[tuple[Any, Affine, FloatArray]] = []  # function, argument, weights
        self.factors: list[Product | Quotient] = []  # multiples above the present node
        self.pairs: list[tuple[float, PairEnergy]] = []  # with their factors
        self.label_costs: list[tuple[float, FloatArray, Expression]] = []  # of sums of two labels
        self.ramps: list[Any] = []  # kinks, margins, which of them, weights, slopes, shifts
        self.concave: dict[Hyperplane, Expression] = {}  # squared norms of negative coefficient
        self.outside: list[tuple[float, Any]] = []  # terms of CVXPY
        self.norms: list[tuple[list[Norm], float, float]] = []  # with weights of half their square, and of themselves

    def written(self, e: Expression) -> Expression:
        """Return a regulariser with all its factors, as the user wrote them."""
        return self.factors[0] if self.factors else e

    def add_quadratic(self, e: Expression, coefficient: float, matrix: Any, plane: Hyperplane) -> None:
        """Add coefficient · fᵀ matrix f."""
        if coefficient < 0:
            raise grammar.REGULARISER_SIGN.broken_by(self.written(e), coefficient=f"{coefficient:.6g}")
        self.manifolds.append((coefficient, matrix, DecisionRows(None, {plane: np.arange(plane.n)})))

    def add_scalar(self, scalar: Scalar, costs: Any = 0.0) -> None:
        """Add to the linear cost of a shared scalar."""
        found = np.array([np.sum(costs), np.sum(np.abs(costs))])
        self.scalar_costs[scalar] = self.scalar_costs.get(scalar, np.zeros(2)) + found

    def add_entries(self, lowered: Lowered, weight: float, rows: int) -> None:
        """Add weight · Σ over rows of a lowered entrywise expression."""
        import scipy.sparse as sp

        lowered = self._merged(scale(lowered, weight, Constant(weight)))
        for piece in lowered.pieces:
            weights, function = np.array(np.broadcast_to(piece.weight, (rows,)), dtype=float), piece.function
            argument = piece.argument
            if isinstance(function, Ramp):
                held = np.flatnonzero(weights)
                slope, shift = (np.broadcast_to(c, (rows,))[held] for c in (argument.slope, argument.shift))
                self.ramps.append((function.kinks, argument.points, held, weights[held], slope, shift))
            elif isinstance(function, OfLabel):
                argument, half = function.lowered(argument, weights)
                self.label_costs.append((function.sign, half, function.labels))
                self.constant += float(half.sum()) * (1.0 if is_zero(argument.slope) else -1.0)
                if is_zero(argument.slope):
                    continue
                function = function.loss
            elif (isinstance(function, PLQ) and len(function.coefficients) == 1 and function.coefficients[0, 0] > 0
                  and not np.any(np.isfinite(function.domain)) and argument.points is not None
                  and argument.points.labels is None and not argument.coupling and not is_zero(argument.slope)):
                # weights · (q x² + s x + c) of decision values without labels: the squares join the regulariser
                (q, s, c), points = function.coefficients[0], argument.points
                slope, shift = (np.broadcast_to(x, weights.shape) for x in (argument.slope, argument.shift))
                self.manifolds.append((1.0, sp.diags_array(weights * q * slope**2).tocsr(), points))
                constant = float(weights @ (q * shift**2 + s * shift + c)) / rows
                self._add_affine(Affine(weights * slope * (2 * q * shift + s), constant, points=points), rows)
                continue
            self.rows.append((function, argument, weights))
            for scalar in argument.coupling:
                self.add_scalar(scalar)
        self._add_affine(lowered.affine, rows)

    @staticmethod
    def _merged(lowered: Lowered) -> Lowered:
        """Merge pieces that share one argument where the sum has a conjugate; else the piecewise quadratic ones."""
        pieces = lowered.pieces
        if not pieces or any(isinstance(p.weight, np.ndarray) for p in pieces):
            return lowered
        regular = tuple(p for p in pieces if isinstance(p.function, PLQ))
        rest = tuple(p for p in pieces if p not in regular)
        for together, apart in ((pieces, ()), (regular, rest)):
            try:
                return Lowered(Affine(points=lowered.points), (*_joint(lowered.affine, together), *apart), 1)
            except (PointwiseParameters, LookupError, CalculusError):
                continue
        return lowered

    def _add_affine(self, affine: Affine, rows: int) -> None:
        self.constant += float(np.sum(np.broadcast_to(affine.shift, (rows,))))
        for scalar, cost in affine.coupling.items():
            self.add_scalar(scalar, np.broadcast_to(cost, (rows,)))
        if not is_zero(affine.slope):
            linear = Affine(slope=affine.slope, points=affine.points)
            self.rows.append((PLQ.affine(1.0, 0.0), linear, np.ones(rows)))


def _joint(affine: Affine, pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
    """Return affine + Σ pieces as one piece."""
    common = max((float(piece.weight) for piece in pieces), default=0.0)
    if common == 0.0:
        raise LookupError
    scaled = tuple(Piece(piece.weight / common, piece.function, piece.argument) for piece in pieces)
    function, argument = merge(Lowered(affine.times(1.0 / common), scaled, 1))
    if len(pieces) > 1 and function.is_solved_apart:
        raise LookupError
    return (Piece(common, function, argument),)


def _walk(e: Any, coefficient: float, parts: ObjectiveParts) -> None:
    """Add coefficient · e to the parts of an objective."""
    kind = type(e)
    if e.is_constant:
        parts.constant += coefficient * constant_value(e)
    elif kind is Sum:
        for term in e.children:
            _walk(term, coefficient, parts)
    elif kind is Negation:
        _walk(e.inner, -coefficient, parts)
    elif kind in (Product, Quotient):
        if e.constant.shape:
            raise grammar.UNKNOWN_OBJECTIVE.broken_by(e)
        parts.factors.append(e)
        with np.errstate(over="ignore"):
            factor = coefficient / e.divisor() if kind is Quotient else coefficient * constant_value(e.constant)
        if not np.isfinite(factor):
            raise grammar.NOT_FINITE.broken_by(e)
        _walk(e.inner, factor, parts)
        parts.factors.pop()
    elif isinstance(e, Scalar):
        parts.add_scalar(e, coefficient)
    elif kind is SquaredNorm:
        parts.ridges[e.hyperplane] = parts.ridges.get(e.hyperplane, 0.0) + 2.0 * coefficient
        if coefficient < 0:
            parts.concave[e.hyperplane] = parts.written(e)
    elif kind is Norm or (kind is Square and any(isinstance(node, Norm) for node in e.walk())):
        norms = [e] if kind is Norm else terms_of(e.inner)
        if coefficient < 0:
            raise grammar.REGULARISER_SIGN.broken_by(parts.written(e), coefficient=f"{coefficient:.6g}")
        if any(not isinstance(norm, Norm) for norm in norms):
            raise grammar.NORM.broken_by(e, what="something else in its square")
        parts.norms.append((norms, 0.0, coefficient) if kind is Norm else (norms, 2.0 * coefficient, 0.0))
    elif kind is CvxpyTerm:
        if coefficient < 0:
            raise grammar.REGULARISER_SIGN.broken_by(parts.written(e), coefficient=f"{coefficient:.6g}")
        parts.outside.append((coefficient, e.function))
    elif kind is PairEnergy:
        parts.pairs.append((coefficient, e))
    elif kind in (Total, Mean, Index) and any(isinstance(node, Labels) for node in outside_margins(e)):
        labels = next(node for node in outside_margins(e) if isinstance(node, Labels))
        part = linear_part(e, e.text()) if {type(node) for node in outside_margins(e)} <= LINEAR else None
        if part is None or part.labels is None:
            raise grammar.LABELS_IN_OBJECTIVE.broken_by(e)
        if labels.clusters > 2:
            raise grammar.LABEL_SUM.broken_by(e, clusters=str(labels.clusters))
        parts.label_costs.append((coefficient, part.labels, e))
        parts.constant += coefficient * part.constant
    elif kind is Manifold:
        parts.add_quadratic(e, coefficient, e.laplacian, e.hyperplane)
    elif kind is Square and not e.shape and len(kinds := {id(node): node for node in e.walk() if isinstance(
            node, Hyperplane | Margin | Transformed)}) == 1 and isinstance(plane := next(iter(kinds.values())),
                                                                            Hyperplane):  # (Σ a f)², no loss
        try:
            part = linear_part(e.inner, e.text())
        except GrammarError:
            raise grammar.SOFT_BALANCE.broken_by(e) from None
        if part.labels is not None or part.constant != 0.0:
            raise grammar.SOFT_BALANCE.broken_by(e)
        parts.add_quadratic(e, coefficient, RankOne(*part.planes[plane]), plane)
        if plane.bias is True and moves_with_bias(*part.planes[plane]):
            raise grammar.FREE_BALANCE.broken_by(e)
    elif kind in (Index, Total, Mean, Variance, PositivePart, Absolute, Square, Maximum, Curve, Truncated, ByLabel):
        _walk_entries(e, coefficient, parts)
    else:
        raise grammar.UNKNOWN_OBJECTIVE.broken_by(e)


def _walk_entries(e: Expression, coefficient: float, parts: ObjectiveParts) -> None:
    if isinstance(e, Variance):
        _check_parameters(e, coefficient, parts)
        if coefficient < 0 or lower_entries(e.inner, np.arange(len(e.inner))).pieces:
            raise grammar.VARIANCE.broken_by(e)
        inner, count, weight = (e.inner - e.centre) ** 2, len(e.inner), coefficient / len(e.inner)
    elif isinstance(e, (Total, Mean)):
        inner, count = e.inner, len(e.inner)
        weight = coefficient / count if isinstance(e, Mean) else coefficient
    else:
        inner, count, weight = e, 1, coefficient
    for rows, lowered in _groups(inner, count):
        if lowered.sign * weight < 0:
            _check_parameters(e, -1.0, parts)
            factor = "-" if coefficient == -1 else f"{coefficient:.6g} * "
            raise grammar.CONVEX_LOSS.broken_by(inner if coefficient > 0 else f"{factor}{e.text()}")
        parts.add_entries(lowered, weight, len(rows))


def _check_parameters(e: Expression, sign: float, parts: ObjectiveParts) -> None:
    """Raise when the sign of a term is negative and so is a parameter in it or before it."""
    if sign >= 0:
        return
    for node in (node for factor in (*(above.constant for above in parts.factors), e) for node in factor.walk()):
        if isinstance(node, Parameter) and np.any(np.asarray(node.value) < 0):
            raise grammar.NEGATIVE_PARAMETER.broken_by(node, value=f"{np.min(node.value):.6g}")


def _groups(inner: Expression, count: int) -> list[tuple[IntArray, Lowered]]:
    """Return rows with equal per-point numbers and what they lower to, one group unless merging needs more."""
    rows = np.arange(count)
    try:
        return [(rows, lower_entries(inner, rows))]
    except PointwiseParameters:
        pass
    _, group = np.unique(np.column_stack(_arrays(inner, rows)), axis=0, return_inverse=True)
    number = int(group.max()) + 1
    if number > MOST_GROUPS:
        raise grammar.MANY_SETTINGS.broken_by(inner, number=str(number), most=str(MOST_GROUPS))
    groups = (rows[group == k] for k in range(number))
    return [(some, lower_entries(inner, some)) for some in groups]


def _arrays(e: Expression, rows: IntArray) -> list[FloatArray]:
    """Return the per-point constants of an expression at its rows."""
    if e.is_constant:
        if not e.shape:
            return []
        return [np.asarray(np.broadcast_to(e.numeric(), e.shape), dtype=float)[rows]]
    if not e.shape:
        rows = np.zeros(len(rows), dtype=int)
    if isinstance(e, Index):
        return _arrays(e.inner, e.index[rows])
    return [column for child in e.children for column in _arrays(child, rows)]


def declare(objective: Expression, constraints: Iterable[Constraint]) -> Declaration:
    """Return the checked declaration of a problem."""
    constraints = tuple(constraints)
    margins = [node for node in objective.walk() if isinstance(node, Margin)]
    if not margins:
        raise grammar.NO_MARGIN.broken_by(objective)
    if len({id(node) for node in objective.walk() if isinstance(node, Labels)}) > 1:
        raise grammar.TWO_PROBLEMS.broken_by(objective, what="labellings")
    if len({m.coding for m in margins}) > 1:
        raise grammar.TWO_CODINGS.broken_by(objective)
    labels, coding = next(node for node in objective.walk() if isinstance(node, Labels)), margins[0].coding
    planes = tuple({id(node): node for node in objective.walk() if isinstance(node, Hyperplane)}.values())
    hyperplane = next(node for node in margins[0].hyperplane.walk() if isinstance(node, Hyperplane))
    conditions = Conditions(labels, hyperplane, planes)
    for constraint in constraints:
        if not isinstance(constraint, Constraint):
            raise grammar.NOT_CONSTRAINT.broken_by(repr(constraint))
        constraint.lower(conditions)
    if objective.shape:
        raise grammar.NOT_SCALAR.broken_by(objective)
    parts = ObjectiveParts()
    _walk(objective, 1.0, parts)
    norms = norms_of(parts, coding, conditions) if parts.norms else None
    for plane in planes:
        if parts.ridges.get(plane, 0.0) == 0:
            raise grammar.NO_REGULARISER.broken_by(objective, plane=plane.text())
        if parts.ridges[plane] < 0:
            raise grammar.REGULARISER_SIGN.broken_by(parts.concave[plane], coefficient=f"{parts.ridges[plane] / 2:.6g}")
    rows = [a.points for _, a, _ in parts.rows if a.points is not None and not is_zero(a.slope)]
    if labels.clusters > 2 and any(points.labels is None for points in rows):
        raise grammar.BARE_DECISION.broken_by(objective, clusters=str(labels.clusters))
    plain = all(isinstance(x, np.ndarray) and points.labels is not None and np.array_equal(x, points.labels)
                for points in rows for x in points.planes.values())
    table, n = None, labels.n
    if not (plain and len(planes) == 1 and hyperplane.n == n):
        table = RowTable.of(n, planes, rows, conditions.decision_rows())
        n += len(table.parents)
    position: dict[int, Any] = dict(zip(map(id, rows), [x.labels for x in rows] if table is None else table.positions))
    positions = [position.get(id(a.points), np.zeros(len(weights), dtype=int)) for _, a, weights in parts.rows]
    declared = Declaration(labels, hyperplane, _losses(parts, positions, n), parts.ridges[hyperplane],
                           tuple(parts.manifolds), parts.constant, coding=coding, planes=planes,
                           gauge=norms, **conditions.arrays())
    if parts.outside or conditions.outside:
        for what, met in (("several clusters", labels.clusters > 2),
                          ("a penalised bias", hyperplane.bias == "penalised"),
                          ("other norms, graphs, hyperplanes or pairs", bool(
                              norms or parts.manifolds or table or parts.pairs or parts.label_costs or parts.ramps)),
                          ("bounds on decision values", bool(hyperplane.bias and conditions.decision)),
                          ("earlier solutions", bool(conditions.orthogonal))):
            if met:
                raise grammar.OUTSIDE.broken_by(hyperplane, what=what)
        declared = replace(declared, outside=Outside(tuple(parts.outside), tuple(conditions.outside)))
    if table is not None:
        declared = with_blocks(declared, table, parts.ridges, conditions)
    if not (parts.pairs or parts.label_costs or parts.ramps):
        return declared
    costs = sum((factor * weights for factor, weights, _ in parts.label_costs), np.zeros(labels.n))
    ramps = [(kinks, position[id(points)][held], *numbers) for kinks, points, held, *numbers in parts.ramps]
    capped = replace(declared, losses=_losses(parts, positions, n, capped=True)) if ramps else None
    if capped is not None and (parts.pairs or costs.any()):
        capped = with_rows(capped, parts.pairs, costs, [])
    return replace(with_rows(declared, parts.pairs, costs, ramps), capped=capped)


def _losses(parts: ObjectiveParts, positions: list[IntArray], n: int, capped: bool = False) -> Losses:
    scalars, names = list(parts.scalar_costs), list[str]()
    for text in (s.text() for s in scalars):  # of several variances each has its mean
        names.append(free_name(text, names))
    shared = SharedScalars(np.array([float(without_rounding(*parts.scalar_costs[s])) for s in scalars]),
                           np.array([s.nonneg for s in scalars], dtype=bool),
                           tuple(names), tuple(scalars))
    terms: list[LossTerm] = []
    apart: list[LossTerm] = []
    for (function, argument, weights), points in zip(parts.rows, positions):
        is_ramp = isinstance(function, Ramp)
        found = (function.capped if capped else function.convex) if is_ramp else function
        (apart if is_ramp and capped else terms).append(_term(found, argument, weights, points, scalars))
    for step in (added, _join, added):  # what is nothing is no part of a sum, not even of its unit
        terms = list(step(term for term in terms if np.any(term.weights > 0) and term.loss != _NOTHING))
    losses = Losses(n, (*terms, *apart), shared)
    return losses if capped else with_finite_costs(losses)


def _term(function: Any, argument: Affine, weights: FloatArray, points: IntArray,
          scalars: list[Scalar]) -> LossTerm:
    m = len(weights)

    def column(c: Any) -> FloatArray:
        return np.broadcast_to(np.asarray(c, dtype=float), (m,))  # of one number no entry takes memory

    coupling = np.zeros((m, len(scalars)))
    column_of = {s: k for k, s in enumerate(scalars)}  # list.index would compare with ==, which declares
    for s, c in argument.coupling.items():
        coupling[:, column_of[s]] = column(c)
    return LossTerm(function, points, weights, column(argument.slope), column(argument.shift), coupling,
                    None if is_zero(argument.turn) else column(argument.turn))


def _join(terms: Iterable[LossTerm]) -> list[LossTerm]:
    """Join terms with one function into one, sorted by point when each point occurs once."""
    joined: list[list[LossTerm]] = []
    for term in terms:
        for family in joined:
            if family[0].loss is term.loss or family[0].loss == term.loss:
                family.append(term)
                break
        else:
            joined.append([term])
    for number, family in enumerate(joined):
        if len(family) == 1 and np.all(np.diff(family[0].points) >= 0):
            continue
        fields = {name: np.concatenate([getattr(t, name) for t in family])
                  for name in ("points", "weights", "slopes", "shifts", "coupling")}
        if any(t.bare is not None for t in family):
            fields["bare"] = np.concatenate([np.zeros(t.rows) if t.bare is None else t.bare for t in family])
        order = np.argsort(fields["points"], kind="stable")
        joined[number] = [LossTerm(family[0].loss, **{name: array[order] for name, array in fields.items()})]
    return [family[0] for family in joined]
