"""The margin program: the one canonical form every declaration is lowered to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from margindsl.calculus import PLQ
from margindsl.errors import CalculusError, DeclarationError
from margindsl.features.operator import FeatureOperator
from margindsl.host.frozen import frozen
from margindsl.labelset import LabelSet
from margindsl.labelset.codes import contrasts, simplex_codes
from margindsl.program.absorption import absorb_labels
from margindsl.program.bounded_bias import BiasLimits, Interval, bias_limits
from margindsl.program.bounds import DecisionBound
from margindsl.program.clusters import ClusterForm, runner_up
from margindsl.program.dump import dump_decision, dump_losses
from margindsl.program.forms import FixedLabelForm
from margindsl.program.gauge import Gauge
from margindsl.program.losses import Losses
from margindsl.program.outside import Outside
from margindsl.program.split import SplitLosses, falling_losses, parted, simplex_losses, stretch, whole_duals
from margindsl.typing import FloatArray, IntArray

NOBODY = -2  # no label


@dataclass(frozen=True, eq=False)
class MarginProgram:
    """Represent the canonical margin program (mathematics, section 1).

    scale · min over y ∈ B, w, b, s of [½‖w‖² + qᵀs + Σ_r c_r ρ_r(a_r y_p f_p + b_rᵀs + d_r)] + constant,
    f = Φw (+ b), subject to bounds on decision values. The coefficient of the user's regulariser is
    divided out into `scale`, so that every form below carries ½‖w‖² exactly.

    Parameters
    ----------
    features : FeatureOperator
        The operator Φ.
    labels : LabelSet
        The presolved label set B of k clusters.
    losses : Losses
        The separable part, in units of the regulariser.
    decision : tuple of DecisionBound
        Bounds on decision values.
    free_bias : bool
        Whether an unpenalised bias is added to the decision values.
    scale, constant : float
        The affine map from the program's value to the user's objective.
    text : str
        The declaration, for messages and `explain`.
    coding : {"binary", "crammer-singer", "simplex"}
        What the margins are: "binary" of two clusters, the others of more. Decision values are f = Φ V Cᵀ (n, k).
    identities : tuple of str
        Declared bounds on decision values that hold for every hyperplane and were dropped, for `explain`.
    source : object, optional
        The declaration it was lowered from, against which proofs are checked.
    normal : Presolved, optional
        The passes that led to it from the program of the declaration.
    gauge : Gauge, optional
        What stands in place of ½‖w‖² and is no less; relaxations without fixed labels take ½‖w‖².
    """

    features: FeatureOperator
    labels: LabelSet
    losses: Losses
    decision: tuple[DecisionBound, ...] = ()
    free_bias: bool = False
    scale: float = 1.0
    constant: float = 0.0
    text: str = ""
    coding: str = "binary"
    identities: tuple[str, ...] = ()
    source: Any = None
    normal: Any = None
    gauge: Gauge | None = None
    outside: Outside | None = None  # terms and constraints of CVXPY, which relaxations without fixed labels drop
    n: int = field(init=False)  # points
    clusters: int = field(init=False)  # k
    kind: Coding = field(init=False)  # how decision values, labels and margins go together
    codes: FloatArray = field(init=False)  # (k, q) matrix C with f = Φ V Cᵀ
    label_codes: FloatArray = field(init=False)  # (k, q) unit ones, whose products with V'φ are margins of `bounding`
    size_of_w: int = field(init=False)  # q r

    def __post_init__(self) -> None:
        kind, k = CODINGS.get(self.coding), self.labels.clusters
        if kind is None:
            raise DeclarationError(f"coding of a margin program is {self.coding!r}; expected one of "
                                   f"{', '.join(CODINGS)}")
        if not self.features.n == self.labels.n == self.losses.n:
            raise DeclarationError(
                f"labels cover {self.labels.n} points, the hyperplane {self.features.n}, the losses "
                f"{self.losses.n}; declare all over the same points")
        if not self.scale > 0:
            raise DeclarationError(f"scale of a margin program is {self.scale}, expected a positive number")
        codes = kind.codes(k)
        vars(self).update(n=self.losses.n, clusters=k, kind=kind, codes=frozen(codes),
                          label_codes=frozen(simplex_codes(k)), size_of_w=codes.shape[1] * self.features.rank)

    def to_user(self, value: float) -> float:
        """Return the user's objective for a value of the normalised program."""
        return self.scale * value + self.constant

    @cached_property
    def bias(self) -> BiasLimits:
        """Return the limits of the bias: zero without one, infinite where no bound on decision values holds it."""
        limits = bias_limits(self.features, self.decision)[0] if self.free_bias else Interval(0.0, 0.0)
        return BiasLimits.of(self.label_codes, limits)

    @cached_property
    def bias_limits(self) -> dict[int, Interval]:
        """Return the limits that single bounds on the bias alone set to it, by their places."""
        if not self.free_bias:
            return {}
        limits = {position: bias_limits(self.features, (bound,)) for position, bound in enumerate(self.decision)}
        return {position: interval for position, (interval, alone) in limits.items() if alone[0] and interval.is_finite}

    @cached_property
    def weight_bounds(self) -> tuple[DecisionBound, ...]:
        """Return the bounds on decision values that are not on the bias alone."""
        if not self.free_bias:
            return self.decision
        _, alone = bias_limits(self.features, self.decision)
        return tuple(bound for bound, only in zip(self.decision, alone) if not only)

    @cached_property
    def split(self) -> SplitLosses:
        """Return the losses as falling and rising parts."""
        return SplitLosses.of(self.losses)

    @property
    def is_convex(self) -> bool:
        """Return whether the problem left when the labels are fixed is convex."""
        return self.kind.is_convex(self)

    @cached_property
    def bounding(self) -> MarginProgram:
        """Return a program whose margins are inner products with codes of labels, and whose values are no higher."""
        return self.kind.bounding(self)

    @property
    def is_held(self) -> bool:
        """Return whether duals of some points hold the weights in balls, and arguments of ρ by these (`within`)."""
        free = self.free_bias or (self.source is not None and self.source.free_bias)  # which costs nothing, in proofs
        return not (free or self.losses.by_rows) and all(isinstance(term.loss, PLQ) for term in self.losses.terms)

    @property
    def is_biased(self) -> bool:
        """Return whether there is a bias."""
        return bool(self.bias.reach > 0)

    @property
    def lifted_decision(self) -> tuple[DecisionBound, ...]:
        """Return bounds on the lengths of sums of coded decision values, which those with limits on both sides imply.

        A bound on one side says nothing of a length, and a relaxation without it proves no less.
        """
        bounds = [(b, BiasLimits.of(self.label_codes, Interval(-b.reach, b.reach)).reach)
                  for b in self.decision if np.isfinite(b.reach)]
        return tuple(b if b.is_symmetric and b.upper == radius else DecisionBound(b.weights, -radius, radius)
                     for b, radius in bounds)

    @property
    def unlifted(self) -> str:
        """Return what a bound proved with `lifted_decision` leaves out, for an offer."""
        return "" if len(self.lifted_decision) == len(self.decision) else (
            "; bounds on decision values without limits on both sides are used in rounding, not in the bound")

    def code_sum(self, labels: IntArray, scatter: FloatArray) -> FloatArray:
        """Return V = Σ_i s_i φ_i c(y_i)ᵀ (r, q), the weights that duals s (n,) stand for, Σ_i s_i y_i below for a bias.
        """
        turned = scatter[:, None] * self.label_codes[labels]
        V = self.features.adjoint(turned)
        return np.vstack([V, turned.sum(axis=0)]) if self.is_biased else V

    def code_gains(self, V: FloatArray, scatter: FloatArray) -> FloatArray:
        """Return gains (n, k) whose best labels y maximise ⟨V, Σ_i s_i φ_i c(y_i)ᵀ⟩.

        A row Σ_i s_i y_i below stands for the bias that is best there.
        """
        r = self.features.rank
        bias = self.bias.end(V[r]) if len(V) > r else 0.0
        return self.gains_of(scatter[:, None] * (self.features.apply(V[:r]) + bias))

    def code_cost(self, V: FloatArray) -> float:
        """Return ‖V‖² + 2 max bΣ_i s_i y_i, twice what duals pay for a labelling, of a `code_sum` V."""
        r = self.features.rank
        return float(np.sum(V[:r] ** 2) + 2.0 * np.sum(self.bias.support(V[r:])))

    def gains_of(self, vectors: FloatArray) -> FloatArray:
        """Return gains (n, k) whose best labels have the greatest inner products of codes with vectors (n, q)."""
        return np.asarray(vectors @ self.label_codes.T)

    def fix_labels(self, labels: IntArray, runner: IntArray | None = None) -> Any:
        """Return the form left when the labels are fixed.

        Parameters
        ----------
        labels : (n,) int array
            0..k−1.
        runner : (n,) int array, optional
            For Crammer-Singer margins the clusters at which a rising loss is majorised.
        """
        return self.kind.fix_labels(self, np.asarray(labels), runner)

    def rescaled(self, factor: float) -> MarginProgram:
        """Return the same program with the weight of every loss, and the cost of every scalar, times a factor > 0."""
        return replace(self, losses=self.losses.rescaled(factor))

    def objective(self, labels: IntArray, w: FloatArray, bias: FloatArray | float = 0.0,
                  scalars: FloatArray | None = None, decision: FloatArray | None = None) -> float:
        """Return the user's objective at labels (n,), w (q r,), bias (q,) and shared scalars (S,)."""
        return self.to_user(self.value_at(labels, w, bias, scalars, decision))

    def value_at(self, labels: IntArray, w: FloatArray, bias: FloatArray | float = 0.0,
                 scalars: FloatArray | None = None, decision: FloatArray | None = None) -> float:
        """Return the normalised objective at labels (n,), w (q r,), bias (q,), scalars (S,) and, if known, decision
        values (n, k).
        """
        form = self.fix_labels(labels)
        if decision is None and form.is_summed:
            return form.summed(form.packed(w, bias))[0]
        decision = form.outputs(w, bias) if decision is None else decision
        value = self.losses.with_labels(2.0 * labels - 1).value(self.margins(labels, decision), scalars)
        return form.regulariser(w, bias) + value

    def size(self, fit: Any) -> tuple[float, float]:
        """Return ½‖w‖² + Σ |c ρ| + |q|ᵀ|s| of a fit, what its accuracy is relative to, and what rounding may do to it.
        """
        margins, losses = self.margins(fit.labels, fit.decision), self.losses.with_labels(2.0 * fit.labels - 1)
        size = self.fix_labels(fit.labels).regulariser(fit.w, fit.bias) + losses.size(margins, fit.scalars)
        return size, losses.noise(margins, fit.scalars)

    def gains(self, decision: FloatArray, scalars: FloatArray | None = None) -> FloatArray:
        """Return what the best labels at fixed decision values maximise: minus the losses (n, k) in every cluster."""
        costs = self.losses.cluster_costs(self.kind.margin_table(decision), scalars)
        return np.negative(costs, out=costs)

    def chosen(self, w: FloatArray, bias: FloatArray) -> IntArray | None:
        """Return the best labels in B at weights and bias where points are streamed and every point has its own best.

        Decision values and gains stay where the points are, a byte a point comes back. None where links, known labels
        or sizes ask for another choice, or a loss sees more than one point.
        """
        losses, features = self.losses, self.features
        if not (features.is_streamed and losses.is_identity and len(losses.terms) == 1) or losses.scalars.count:
            return None
        term = losses.terms[0]
        choose = partial(_choose, self.kind, self.codes, self.labels.names.order, term.loss, self.unpack(w), bias)
        labels = features.each(choose, term.weights, term.shifts)
        return labels.astype(np.intp) if self.labels.leaves(labels) else None

    def margins(self, labels: IntArray, decision: FloatArray) -> FloatArray:
        """Return the (n,) margins of labels at decision values (n, k)."""
        return self.kind.margins(labels, decision)

    def directions(self, labels: IntArray, decision: FloatArray) -> FloatArray:
        """Return the (m, q) gradients in Vᵀφ of the margins of some points with labels (m,) at decision values."""
        return self.kind.directions(labels, self.kind.rivals(labels, decision), self.codes)

    @property
    def allows_zero(self) -> bool:
        """Return whether w = 0, b = 0 keep the bounds on decision values."""
        return self.outside is None and all(bound.lower <= 0.0 <= bound.upper for bound in self.decision)

    def no_decision(self) -> FloatArray:
        """Return the decision values of w = 0."""
        return np.zeros((self.n, self.clusters))

    def unpack(self, w: FloatArray) -> FloatArray:
        """Return V (r, q) of weights w, the columns of V one after another."""
        return w.reshape(self.codes.shape[1], -1).T

    def weights(self, w: FloatArray) -> FloatArray:
        """Return the weights V Cᵀ (r, k) of the decision functions."""
        return np.asarray(self.unpack(w) @ self.codes.T)

    def dump(self) -> str:
        """Return the program as text, one line a part, for golden tests and `explain`."""
        return "\n".join([
            f"margin program over {self.n} points",
            f"features: {self.features.describe()}",
            f"bias: {'free' if self.free_bias else 'none'}",
            *self.labels.lines(self.coding),
            f"regulariser: {'1/2 |w|^2' if self.gauge is None else self.gauge.text()}",
            *dump_losses(self.losses),
            *[dump_decision(bound) for bound in self.decision],
            *[f"decision bound {text}" for text in self.identities],
            f"value = {self.scale:.6g} * program + {self.constant:.6g}"])


class Coding(ABC):
    """Say how decision values f = Φ V Cᵀ (n, k), labels and margins go together, and which forms that makes."""

    absorbs_labels: ClassVar[bool] = False  # whether the losses of a majorant no longer depend on them
    is_linear: ClassVar[bool] = True  # whether the margins of labels are linear in the hyperplane

    @abstractmethod
    def codes(self, clusters: int) -> FloatArray:
        """Return the codes C (k, q) that turn V into decision values."""

    @abstractmethod
    def fix_labels(self, program: MarginProgram, labels: IntArray, runner: IntArray | None) -> Any:
        """Return the form left when the labels are fixed; rising losses are majorised at a runner-up given."""

    def absorbed(self, program: MarginProgram) -> Losses:
        """Return the losses of a majorant that no longer depends on the labels where it can."""
        return program.losses

    def majorant(self, program: MarginProgram, losses: Losses, labels: IntArray,
                 decision: FloatArray | None = None) -> Any:
        """Return the form of `absorbed` losses that touches the objective at labels and decision values."""
        runner = None if decision is None else runner_up(decision, labels)
        return self.fix_labels(program if losses is program.losses else replace(program, losses=losses), labels, runner)

    def bounding(self, program: MarginProgram) -> MarginProgram:
        """Return a program of coded margins, whose values are no higher; this one, unless it says otherwise."""
        return program

    def own_duals(self, program: MarginProgram, u: FloatArray) -> FloatArray:
        """Return duals (…, m) of the margins of a program, or of its rows with scalars, of those of `bounding`."""
        return u

    def by_length(self, program: MarginProgram) -> Losses:
        """Return losses of the length of Vᵀφ, which no coded margin exceeds either way, that bound the best label's."""
        return falling_losses(program.bounding.losses, opposed=1.0)

    def obstacle(self, program: MarginProgram) -> str:
        """Return why the losses of a program do not go with the margins, nothing where they do."""
        return ""

    def is_convex(self, program: MarginProgram) -> bool:
        """Return whether the problem left when labels are fixed is convex."""
        return True

    @abstractmethod
    def margin_table(self, decision: FloatArray) -> FloatArray:
        """Return the (n, k) margins every point would have in every cluster."""

    def margins(self, labels: IntArray, decision: FloatArray) -> FloatArray:
        """Return the (n,) margins of labels at decision values (n, k)."""
        return np.asarray(self.margin_table(decision)[np.arange(len(decision)), labels])

    def rivals(self, labels: IntArray, decision: FloatArray) -> IntArray:
        """Return the (n,) clusters that margins are against; none is."""
        return np.full(len(labels), NOBODY)

    @abstractmethod
    def directions(self, labels: IntArray, rivals: IntArray, codes: FloatArray) -> FloatArray:
        """Return the (…, n, q) gradients in Vᵀφ of the margins of labels with some `rivals` (…, n)."""


class Coded(Coding):
    """Margins ⟨c_y, Vᵀφ⟩ of k unit codes with inner products −1/(k−1)."""

    def codes(self, clusters: int) -> FloatArray:
        return simplex_codes(clusters)

    def fix_labels(self, program: MarginProgram, labels: IntArray, runner: IntArray | None) -> FixedLabelForm:
        losses = program.losses.with_labels(2.0 * labels - 1)
        return FixedLabelForm(program.features, losses, labels, codes=program.codes, decision=program.decision,
                              free_bias=program.free_bias, gauge=program.gauge, outside=program.outside)

    def margin_table(self, decision: FloatArray) -> FloatArray:
        return decision

    def directions(self, labels: IntArray, rivals: IntArray, codes: FloatArray) -> FloatArray:
        return np.asarray(codes[labels])


class Signed(Coded):
    """Margins y f of the codes −1 and +1: the best margin is |f|, which no longer depends on the label."""

    absorbs_labels = True

    def absorbed(self, program: MarginProgram) -> Losses:
        """Return ρ↓(γ) + ρ↑(|γ|)."""
        return absorb_labels(program.losses)

    def by_length(self, program: MarginProgram) -> Losses:
        return program.losses


class CrammerSinger(Coding):
    """Margins f_y − max over q ≠ y of f_q.

    References
    ----------
    K. Crammer, Y. Singer (2001). On the algorithmic implementation of multiclass kernel-based vector machines.
    """

    is_linear = False

    def fix_labels(self, program: MarginProgram, labels: IntArray, runner: IntArray | None) -> ClusterForm:
        return ClusterForm(program.features, program.losses, labels, program.split, runner, codes=program.codes,
                           decision=program.decision, free_bias=program.free_bias)

    def bounding(self, program: MarginProgram) -> MarginProgram:
        factor = stretch(program.clusters)
        decision = tuple(DecisionBound(b.weights, factor * b.lower, factor * b.upper) for b in program.decision)
        return replace(program, losses=simplex_losses(program.losses, program.clusters), decision=decision,
                       coding="simplex")

    def own_duals(self, program: MarginProgram, u: FloatArray) -> FloatArray:
        u = np.maximum(u, 0.0)
        if not program.losses.scalars.count:
            return u / stretch(program.clusters)
        return whole_duals([part for part in parted(program.losses) if part.falls], u.T, program.losses.rows).T

    def obstacle(self, program: MarginProgram) -> str:
        try:
            program.split  # noqa: B018  (computed once and kept)
        except CalculusError as error:
            return str(error)
        return ""

    def is_convex(self, program: MarginProgram) -> bool:
        return not program.split.rising.rows

    def codes(self, clusters: int) -> FloatArray:
        """Return an orthonormal basis of the contrasts.

        At an optimum Σ_p w_p = 0, since the margins see differences only, and then ‖V‖ = ‖W‖.
        """
        return contrasts(clusters)

    def rivals(self, labels: IntArray, decision: FloatArray) -> IntArray:
        return runner_up(decision, labels)

    def directions(self, labels: IntArray, rivals: IntArray, codes: FloatArray) -> FloatArray:
        return np.asarray(codes[labels] - codes[rivals])

    def margin_table(self, decision: FloatArray) -> FloatArray:
        everyone, best, rest = np.arange(len(decision)), decision.argmax(axis=1), np.array(decision)
        rest[everyone, best] = -np.inf
        table = decision - decision[everyone, best][:, None]
        table[everyone, best] = decision[everyone, best] - rest.max(axis=1)
        return table


def _choose(kind: Coding, codes: FloatArray, order: IntArray, loss: Any, V: FloatArray, bias: FloatArray,
            phi: FloatArray, weights: FloatArray, shifts: FloatArray) -> IntArray:
    """Return the clusters of least loss of a block of points, of ties the first in the order of names."""
    table = kind.margin_table((phi @ V + bias) @ codes.T) + shifts[:, None]
    costs = weights[:, None] * np.asarray(loss(table.ravel())).reshape(table.shape)
    return order[np.argmin(costs[:, order], axis=1)].astype(np.min_scalar_type(len(codes)))


CODINGS: dict[str, Coding] = {"binary": Signed(), "simplex": Coded(), "crammer-singer": CrammerSinger()}
