"""From a declaration to a margin program: grammar, label set, features, regulariser; what of it may be trivial."""

from __future__ import annotations

import sys
import time
import warnings
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from margindsl.calculus.accuracy import rounding
from margindsl.errors import DeclarationError, InfeasibleError, RefusalError, TrivialityWarning
from margindsl.features import AffineFeatures, DenseFeatures, FeatureOperator, build, in_span
from margindsl.features.maps import NoMap
from margindsl.features.stacked import Blocks, Stacked, stacked
from margindsl.labelset import LabelSet, presolve
from margindsl.language.graphs import RankOne
from margindsl.language.lowering import Declaration
from margindsl.language.margins import Hyperplane
from margindsl.program.bounded_bias import moves_with_bias, sum_vanishes, summed
from margindsl.program.bounds import DecisionBound
from margindsl.program.gauge import Gauge
from margindsl.program.passes import NORMAL, Presolved, check_magnitudes
from margindsl.program.program import MarginProgram
from margindsl.typing import FloatArray

LOST = 1e-6  # part of the norm of weights that rounding of manifold terms may change
ROUNDING = 1e-13  # features this small against those they are projected from are what rounding left
STRAY = 1e-2  # features this small against those may be what inaccurate weights of earlier solutions left
# Features built again agree to rounding on one machine; another one may sum in another order.
ACCURACY = 1e-6
TRIVIAL = (
    "neither cluster sizes, known labels nor cannot-links exclude the all-equal labelling, and one cluster may win "
    "everywhere; add md.sizes(y, at_least=m), or abs(md.sum(y)) <= b of two clusters, or declare the hyperplane "
    "centred and without a bias, with equal weights of the points")


@dataclass(frozen=True, eq=False)
class Prepared:
    """Represent the parts of a compiled problem that do not change with its parameters.

    Parameters
    ----------
    bases : tuple of FeatureOperator
        The features of every hyperplane (centred, with the constant feature of a penalised bias).
    """

    bases: tuple[FeatureOperator, ...]

    @property
    def base(self) -> FeatureOperator:
        """Return the features of the first hyperplane."""
        return self.bases[0]

    @cached_property
    def rotated(self) -> FeatureOperator:
        """Return the features, wide sparse ones of few points rotated onto the span of the points."""
        return in_span(self.base)


@dataclass
class Draft:
    """Hold what is known of a problem while it is compiled: also what was known when the time was up."""

    problem: Any
    declaration: Declaration | None = None
    labels: LabelSet | None = None
    seconds: dict[str, float] = field(default_factory=dict)  # by step

    def compiled(self) -> MarginProgram:
        """Return the margin program: every rule of the grammar checked, labels presolved, features built."""
        began = time.perf_counter()
        self.declaration = declaration = self.problem.lower()
        lowered = time.perf_counter()
        self.labels = labels = prepare_labels(declaration)
        presolved = time.perf_counter()
        program = assemble(declaration, self.problem.prepared(), labels, self.problem.text())
        self.seconds |= {"grammar": lowered - began, "labels": presolved - lowered,
                         "features": time.perf_counter() - presolved}
        return program


def prepare_features(hyperplanes: tuple[Hyperplane, ...], rotate: bool = True) -> Prepared:
    """Build the features of hyperplanes once; columns stay apart unless they may be rotated."""
    return Prepared(tuple(
        build(plane.X, plane.kernel, centre=plane.centre, penalised_bias=plane.bias == "penalised", is_checked=True,
              rotate=rotate) for plane in hyperplanes))


def prepare_labels(declaration: Declaration) -> LabelSet:
    """Presolve the label set of a declaration."""
    return presolve(declaration.labels.n, declaration.labels.clusters, must=declaration.must,
                    cannot=declaration.cannot, known=declaration.known, bounds=declaration.label_bounds,
                    sizes=[(size.at_least, size.at_most) for size in declaration.sizes],
                    barred=declaration.barred, groups=declaration.groups)


def assemble(declaration: Declaration, prepared: Prepared, labels: LabelSet,
             text: str = "") -> MarginProgram:
    """Return the margin program: the coefficient of ½‖w‖² divided out, quadratic terms moved into features."""
    ridge, rows = declaration.ridge, declaration.rows
    maps = declaration.orthogonal or declaration.manifolds or declaration.by_columns or declaration.gauge
    if rows is not None and rows.blocks:
        factors, weights, view = zip(*rows.blocks)
        blocks = Blocks(prepared.bases, factors, weights, view, rows.parents[:weights[0].shape[0] - rows.labels.n])
        features: FeatureOperator = blocks if maps else in_span(blocks)
    else:
        features = prepared.base if maps else prepared.rotated
    if declaration.orthogonal:
        features = _project_out(features, declaration.orthogonal)
    if declaration.manifolds:
        features = _manifold_metric(features, declaration.manifolds, ridge, declaration.planes)
    gauge = None
    if declaration.gauge is not None:  # columns by blocks, weights as parts of the regulariser of its hyperplanes
        (norms, p, c, e), columns, count = declaration.gauge, [], 0
        for plane, base in zip(declaration.planes, prepared.bases):
            block = next((np.asarray(norm.block(base)) + count for norm in norms if norm.hyperplane is plane), None)
            columns.append(np.full(base.rank, -1) if block is None else block)
            count += 0 if block is None else int(np.ptp(block)) + 1
        columns += [] if rows is None or rows.matrix is None else [np.full(rows.matrix.shape[1], -1)]
        own = p + c or e
        gauge = Gauge(np.concatenate(columns), p / own, c / own, e / float(np.sqrt(own * ridge)))
    if rows is not None and rows.matrix is not None:
        features = stacked(features, rows.parents[features.n - rows.labels.n:], rows.turned, rows.matrix)
    outside = declaration.outside
    if outside is not None:
        outside.checked(features.rank)
        outside = replace(outside, terms=tuple((c / ridge, term) for c, term in outside.terms))
    normal = Presolved.of(MarginProgram(
        features, labels, declaration.losses.rescaled(1.0 / ridge), declaration.decision,
        free_bias=declaration.free_bias, scale=ridge, constant=declaration.constant, text=text,
        coding=declaration.coding, source=declaration, gauge=gauge,
        outside=outside), NORMAL)
    program = normal.program
    decision, identities = _settle_decision(declaration.decision, program.features, program.free_bias)
    program = replace(program, decision=decision, identities=identities, normal=normal)
    check_magnitudes(program)
    # Of k clusters decision bounds are |Σ a f_p − Σ a f_q| ≤ l over all pairs (slides Eq. 18).
    if program.clusters > 2 and any(not bound.is_symmetric for bound in decision):
        raise RefusalError(
            f"a bound on decision values of {program.clusters} clusters is one on their differences and has no sign; "
            f"write abs(md.sum({declaration.hyperplane.name})) <= l")
    if program.clusters > 2 and program.weight_bounds and program.free_bias and program.coding == "simplex":
        raise RefusalError(
            "of simplex-coded margins with a bias, decision bounds must be on the bias alone: declare one bound, or "
            "several with weights in one proportion; or use bias='penalised', coding='crammer-singer', or md.sizes")
    return program


def outline(declaration: Declaration, labels: LabelSet, text: str = "") -> MarginProgram:
    """Return the margin program without features, so that only w = 0 is left."""
    features = DenseFeatures(np.zeros((declaration.labels.n, 0)), NoMap(), "not built, for the time was up")
    decision = tuple(DecisionBound(b.weights, b.lower, b.upper) for b in declaration.decision)
    return MarginProgram(
        features, labels, declaration.losses.rescaled(1.0 / declaration.ridge), decision,
        scale=declaration.ridge, constant=declaration.constant, text=text, coding=declaration.coding)


def _settle_decision(bounds: tuple[DecisionBound, ...], features: FeatureOperator,
                     free_bias: bool) -> tuple[tuple[DecisionBound, ...], tuple[str, ...]]:
    """Return the decision bounds, and sentences on those that hold for every hyperplane.

    Σ a f = wᵀΦᵀa + b Σ a. Where Φᵀa (and Σ a, for a free bias) is what rounding leaves of sums that vanish, as those
    over centred features do, the bound says 0 ≤ or ≥ its limits: an identity, or never true.
    """
    kept, identities = [], []
    for bound in bounds:
        own = bound.weights, bound.sizes
        if not sum_vanishes(features, *own) or (free_bias and moves_with_bias(*own)):
            kept.append(bound)
            continue
        sentence = (f"the weighted sum of decision values is zero for every hyperplane over these features "
                f"({features.describe()})")
        if not bound.lower <= 0.0 <= bound.upper:
            # as a user would write it: of positive weights, without infinite limits
            low, high = (bound.lower, bound.upper) if bound.weights.sum() >= 0 else (-bound.upper, -bound.lower)
            before, after = f"{low:.6g} <= " if np.isfinite(low) else "", f" <= {high:.6g}" if np.isfinite(high) else ""
            raise InfeasibleError(f"{sentence}, so that {before}sum{after} never holds; remove the bound, or declare "
                                  "the hyperplane with centre=False or a bias")
        identities.append(f"{bound.lower:.6g} <= sum a f <= {bound.upper:.6g} is dropped: {sentence}")
    return tuple(kept), tuple(identities)


def _project_out(features: FeatureOperator, solutions: tuple[Any, ...]) -> FeatureOperator:
    """Return features orthogonal to the weight vectors of earlier solutions (MME, slides Eq. 23)."""
    W = np.column_stack([np.asarray(s.weights, dtype=float) for s in solutions])
    if W.shape[0] != features.rank:
        raise DeclarationError(
            f"md.orthogonal: an earlier solution has {W.shape[0]} weights, these features {features.rank}; "
            "solve both over the same points and kernel")
    for number, solution in enumerate(solutions):
        if first_other(features, solution.weights, solution.bias, solution.decision) is not None:
            raise DeclarationError(
                f"md.orthogonal: the weights of earlier solution {number} give these points other decision values than "
                "it has; it was found over other points or with another kernel. Solve both over the same")
    largest = np.max(features.row_norms())
    left, noise = _complement(features, W)
    if np.max(left.row_norms()) <= STRAY**2 * largest:  # little is left of the points, or what fits left of theirs
        left, noise = _complement(features, _within_points(features, W))
    if np.max(left.row_norms()) <= noise**2 * largest:  # nothing is left of the points
        return AffineFeatures(features, np.zeros_like(left.matrix_map), words="orthogonal")
    return left


def _complement(features: FeatureOperator, W: FloatArray) -> tuple[AffineFeatures, float]:
    """Return features orthogonal to some weight vectors, and what rounding leaves of those along them, relative.

    Directions are of unit length, whatever the weights' sizes: singular vectors err by rounding times σ₁/σ_r.
    """
    vectors, values, _ = np.linalg.svd(W / np.maximum(np.linalg.norm(W, axis=0), np.finfo(float).tiny))
    spanned = int(np.sum(values > 1e-6 * values[0]))
    complement = vectors[:, spanned:]
    if not complement.shape[1]:
        raise DeclarationError(f"md.orthogonal: {W.shape[1]} earlier solutions span all {W.shape[0]} features")
    return (AffineFeatures(features, complement @ complement.T, words="orthogonal"),
            ROUNDING * (values[0] / values[spanned - 1] if spanned else 1.0))


def _within_points(features: FeatureOperator, W: FloatArray) -> FloatArray:
    """Return weights without what a fit, accurate to a gap, leaves in directions that no point has.

    New weights have no such part either: their inner products with earlier ones stay as they are.
    """
    values, vectors = np.linalg.eigh(features.gram())
    absent = vectors[:, values <= rounding(values.sum(), features.n)]
    return np.asarray(W - absent @ (absent.T @ W))


def _manifold_metric(features: FeatureOperator, manifolds: tuple[tuple[float, Any, Any], ...], ridge: float,
                     planes: tuple[Hyperplane, ...]) -> FeatureOperator:
    """Return Φ R⁻¹ with RᵀR = I + Σ 2μ/κ ΦᵀLΦ, Φ here of the rows of a term: ½‖w‖² carries the manifold terms."""
    metric, size = np.eye(features.rank), float(features.rank)
    for coefficient, laplacian, rows in manifolds:
        weights = tuple(map(rows.weights, planes))
        own = (features.of(weights) if isinstance(features, Blocks) else
               features if isinstance(rows.planes[planes[0]], np.ndarray) and len(rows) == features.n else
               Blocks((features,), (1.0,), weights))
        if isinstance(laplacian, RankOne):
            sums = summed(own, laplacian.weights, laplacian.sizes)
            squares, parts = np.outer(sums, sums), sums @ sums
        else:
            matrix = own.toarray()
            squares, parts = matrix.T @ (laplacian @ matrix), 2.0 * laplacian.diagonal() @ own.row_norms()
        metric += (2.0 * coefficient / ridge) * squares
        size += (2.0 * coefficient / ridge) * float(parts)
    if rounding(size, features.n) >= LOST:
        raise DeclarationError(
            f"manifold terms weigh {size:.1e} times the regulariser, beside which double precision loses it; expected "
            f"at most {LOST / rounding(1.0, features.n):.0e} times: weigh them less, or standardise the columns")
    inverse = np.linalg.inv(np.linalg.cholesky((metric + metric.T) / 2)).T
    return AffineFeatures(features, inverse, words="manifold metric")


def mapped(features: Any, weights: FloatArray) -> tuple[Any, FloatArray]:
    """Return the features that new points are mapped to, and weights (r, ...) for them, of those of a program."""
    if isinstance(features, Stacked):
        features, weights = features.base, weights[:features.base.rank]
    while isinstance(features, AffineFeatures) and features.matrix_map is not None:
        features, weights = features.base, features.to_base(weights)
    return features.viewed(weights) if isinstance(features, Blocks) else (features, weights)


def first_other(features: FeatureOperator, weights: FloatArray, bias: FloatArray | float,
                decision: FloatArray) -> int | None:
    """Return the first point at which features · weights + bias differ from its decision value; None without one."""
    decision = np.asarray(decision, dtype=float)
    finite = np.isfinite(decision)
    if not np.any(finite):
        return None
    values = decision[finite]
    # Values that hardly differ from one another, beside a large bias, must not hide other features.
    weights = np.asarray(weights, dtype=float)
    allowed = ACCURACY * float(np.ptp(values)) + ROUNDING * (float(np.abs(values).max()) + float(np.abs(bias).max()))
    rounded = ROUNDING * np.outer(np.sqrt(features.row_norms()), np.linalg.norm(weights, axis=0))
    found = np.asarray(features.apply(weights)) + bias
    other = finite & ~(np.abs(found - decision) <= allowed + rounded.reshape(decision.shape))
    return int(np.argwhere(other)[0][0]) if np.any(other) else None


def warn_if_trivial(program: MarginProgram) -> None:
    """Warn when one label for all points is allowed and may be better than w = 0."""
    labels = (np.full(program.n, label) for label in range(program.clusters))
    if program.decision or not any(map(program.labels.contains, labels)) or _gains_nothing(program):
        return
    frame, level = sys._getframe(), 1  # the warning belongs to the first frame outside the library
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "margindsl":
        frame, level = frame.f_back, level + 1
    warnings.warn(TRIVIAL, TrivialityWarning, stacklevel=level)


def _gains_nothing(program: MarginProgram) -> bool:
    """Return whether one label for all points is known to be no better than w = 0, which every labelling has.

    The decision values of a hyperplane without bias over centred features have mean zero, and by Jensen's inequality
    losses of equal weights cost at least what they cost at the mean. In one of k Crammer-Singer clusters margins are
    concave in the decision values, so that their mean is at most zero: no better for losses that fall below zero.
    """
    planes = getattr(program.source, "planes", ())
    if not planes or program.free_bias or any(plane.bias == "penalised" for plane in planes):
        return False
    terms = program.losses.terms
    if not program.kind.is_linear and any(
            term.coupling.any() or np.any(term.slopes * np.asarray(term.loss.derivative(term.shifts)) > 0.0)
            for term in terms):
        return False
    for term in terms:  # whether rows of one argument have equal weights over all points
        rows = np.column_stack([term.slopes, term.shifts, term.coupling])
        group = np.zeros(term.rows, dtype=int)
        if not np.all(rows == rows[:1]):
            group = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
        for kind in range(int(group.max()) + 1):
            own = group == kind
            weights = np.bincount(term.points[own], weights=term.weights[own], minlength=program.n)
            if float(np.ptp(weights)) > rounding(float(weights.max()), program.n):
                return False
    return sum_vanishes(program.features, np.ones(program.n))
