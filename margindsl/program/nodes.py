"""What bounds a node of branch and bound, where some labels are decided: the lift of the others and the weights, one of
the weights alone, or the least losses of the others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np

from margindsl.host.frozen import frozen_property
from margindsl.labelset.forcing import Path
from margindsl.program.absorption import absorbed_envelopes
from margindsl.program.bounded_bias import NO_BIAS, Interval
from margindsl.program.branching import BranchNodeForm, PointLosses, node_dual, with_bias
from margindsl.program.certificates import Certificate, fixed_label_case, fixed_label_value, projected_duals
from margindsl.program.equalities import project_duals
from margindsl.program.lift import LiftForm, LiftPoint, contracted
from margindsl.program.lift_certificate import point_arrays, repaired_point
from margindsl.program.program import MarginProgram
from margindsl.program.split import stretch
from margindsl.typing import BoolArray, FloatArray, IntArray

NEAR = 1e-9  # of the parts of the square of a radius, by which it is greater: what rounding may do to it is less


@dataclass(frozen=True, eq=False)
class NodeBounds(ABC):
    """Bound the values of all labellings that agree with the decided ones, by dual points of two arrays (u, rest)."""

    program: MarginProgram
    known: Callable[[], float] = field(default=lambda: np.inf, kw_only=True)  # returns the value of the best labels

    kind: ClassVar[str] = "cases"  # of the certificate

    @property
    @abstractmethod
    def zero(self) -> tuple[FloatArray, FloatArray]:
        """Return a dual point that says nothing of any label."""

    @abstractmethod
    def repaired(self, z: IntArray, answer: Mapping[str, FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Return the dual point of an answer to the fixed-label problem of a node without open points."""

    @abstractmethod
    def value(self, z: IntArray, u: FloatArray, rest: FloatArray) -> float:
        """Return what a dual point proves of a node with components z, −∞ where it proves nothing."""

    @abstractmethod
    def case(self, u: FloatArray, rest: FloatArray) -> dict[str, Any]:
        """Return a dual point as one case of a proof, its path left out."""

    def kept(self) -> dict[str, Any]:
        """Return what dual points are written for, beside the program."""
        return {}

    def inherited(self, z: IntArray, below: IntArray, u: FloatArray) -> FloatArray:
        """Return the u of a node of components z as that of a child, with those of `below`."""
        return u

    def branches(self, path: Path) -> list[int]:
        """Return the labels that the next component on a path can take; one-sided decision bounds tell signs apart."""
        labels = self.program.labels
        alike = all(bound.is_symmetric for bound in self.program.decision)
        return labels.branches(path) if alike else list(range(labels.clusters))

    def signs(self, z: IntArray) -> IntArray:
        """Return the codes −1 and +1 of the points, 0 where open, of components z."""
        labels = self.program.labels
        return labels.signs(labels.at_points(z))

    def completed(self, z: IntArray) -> IntArray:
        """Return the labels (n,) of components z, those that are open of any value."""
        labels = self.program.labels
        return labels.at_points(np.where(z < 0, labels.clusters - 1, z))


@dataclass(frozen=True, eq=False)
class JointNodes(NodeBounds):
    """Bound nodes by the lift of all labels and weights, its cuts included, contracted to what is open.

    A dual point is written for the lift of all: u, then q, d, κ, γ and η, where what belongs to decided components
    stands at one of them.

    Parameters
    ----------
    lift : LiftForm
        Of two clusters; without a reference every point has a component. Bounds are of labels better than those known.
    outer : (b, m) float array
        Duals of the points whose labels are known, which say where the weights of better labels are.
    """

    lift: LiftForm
    outer: FloatArray = field(default_factory=lambda: np.zeros((0, 0)), kw_only=True)
    last: dict[bytes, tuple[LiftForm, IntArray, IntArray, IntArray]] = field(
        default_factory=dict, init=False, repr=False)  # the contraction made last

    kind: ClassVar[str] = "lift"

    @property
    def zero(self) -> tuple[FloatArray, FloatArray]:
        none = np.zeros(self.lift.losses.rows)  # scalars that are shared may ask for more
        return self.repaired(np.asarray(self.program.labels.pinned), {"u": none, "inner": self.lift.losses.held})

    def contraction(self, z: IntArray) -> tuple[LiftForm, IntArray, IntArray, IntArray]:
        """Return the lift with the components z decided, and how multipliers go over."""
        key = z.tobytes()
        if key not in self.last:
            self.last.clear()
            self.last[key] = contracted(self.lift, self.signs(z))
        return self.last[key]

    def kept(self) -> dict[str, Any]:
        cuts = self.lift.cuts
        return {"outer": self.outer} | {f"cuts {f.name}": np.asarray(getattr(cuts, f.name)) for f in fields(cuts)}

    def inherited(self, z: IntArray, below: IntArray, u: FloatArray) -> FloatArray:
        turned = self.lift.absorbed & (self.signs(z) == 0) & (self.signs(below) < 0)  # of f above, of −f below
        return np.where(turned[self.lift.losses.points], -u, u)

    @frozen_property
    def decided(self) -> PartialNodes:
        """Return the problems of the decided points alone, of which duals say where w is."""
        return PartialNodes(self.program)

    @frozen_property
    def around(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the balls of `outer`."""
        return balls(self.contraction(np.asarray(self.program.labels.pinned))[0], self.outer)

    def inner(self, z: IntArray, answer: Mapping[str, FloatArray]) -> FloatArray:
        """Return the duals (m,) of an answer to the problem of the decided points, of others those of linear losses."""
        losses = self.program.losses
        if answer.get("u") is None or losses.scalars.count:
            return self.lift.losses.held
        u, own = project_duals(losses, np.asarray(answer["u"], dtype=float)), self.lift.losses
        if own.rows == losses.rows > self.program.n:  # none are merged, but some may be of ρ(−x) and minus the argument
            rows = np.divide(u * losses.slopes, own.slopes, out=1.0 * u, where=own.slopes != 0)
        else:
            rows = losses.scatter(u)[own.points]
        return np.where((self.signs(z)[own.points] != 0) & (own.held == 0), rows, own.held)

    def form(self, z: IntArray, inner: FloatArray) -> LiftForm:
        """Return the node problem, arguments of losses where better labels have them."""
        form = self.contraction(z)[0]
        if not self.program.is_held:
            return form
        around = self.around if len(self.outer) else balls(form, inner[None])
        return bounded(form, within(form, self.known(), *around))

    def of_decided(self, z: IntArray, inner: FloatArray, tau: Any = None) -> dict[str, FloatArray]:
        """Return what duals of the decided points prove by themselves, as an answer to a node's lift.

        Multipliers τ of bounds |Σ a f| ≤ l are those η = |τ|/l of their squares.
        """
        form, d = self.contraction(z)[0], np.zeros(self.contraction(z)[0].count)
        eta = np.zeros(len(form.decision))
        if tau is not None:
            eta[:] = [abs(float(t)) / bound.reach if bound.reach else 0.0 for t, bound in zip(
                np.ravel(tau), self.program.decision) if np.isfinite(bound.reach)]
        if form.reference is not None:
            own = self.signs(z) * form.losses.scatter(inner)
            H = np.append(form.features.adjoint(own), own.sum())[:form.order]  # of a free bias, which has no norm, too
            P = np.diag(np.arange(form.order) < form.features.rank) + (form.sigma.T * eta) @ form.sigma
            d[form.reference] = H @ (np.linalg.pinv(P, hermitian=True) @ H if eta.any() else H)
        return {"u": inner, "d": d, "eta": eta, "inner": inner}

    def repaired(self, z: IntArray, answer: Mapping[str, FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Return the dual point of an answer to a node's lift, with `inner` beside it."""
        _, target, _, group = self.contraction(z)
        point, _ = repaired_point(self.form(z, answer["inner"]), answer)
        d, gamma = np.zeros(self.lift.count), np.zeros(self.lift.cuts.count)
        d[np.unique(target, return_index=True)[1]] = point.d
        owner, first = np.unique(group, return_index=True)
        gamma[first[owner >= 0]] = point.gamma
        return point.u, np.concatenate([point.q, d, point.kappa, gamma, point.eta, answer["inner"]])

    def point(self, u: FloatArray, rest: FloatArray) -> tuple[LiftPoint, FloatArray]:
        """Return a dual point of the lift of all, and the duals that say where w is."""
        form = self.lift
        lengths = form.losses.rows, form.count, len(form.balance), form.cuts.count, len(form.decision)
        *parts, inner = np.split(rest, np.cumsum(lengths))
        return LiftPoint(u, *parts), inner

    def value(self, z: IntArray, u: FloatArray, rest: FloatArray) -> float:
        _, target, turn, group = self.contraction(z)
        (point, inner), cuts = self.point(u, rest), self.lift.cuts
        form, alone = self.form(z, inner), group < 0
        d, at = np.bincount(target, point.d, form.count), cuts.positions[alone]
        # what a cut on one component is worth stands in the diagonal
        rows = np.zeros((np.count_nonzero(alone), form.count))
        np.add.at(rows, (np.arange(len(rows))[:, None], target[at]), turn[at] * cuts.signs[alone])
        d -= np.sum(point.gamma[alone, None] * rows**2, axis=0)
        gamma = np.bincount(group[~alone], point.gamma[~alone], form.cuts.count)
        kappa = np.where(form.omega.any(axis=1), point.kappa, 0.0)
        return repaired_point(form, vars(replace(point, d=d, kappa=kappa, gamma=gamma)))[1]

    @frozen_property
    def outer_at_points(self) -> FloatArray:
        """Return `outer` as certificates hold it, once for all cases of a tree."""
        return np.array([self.lift.losses.point_duals(row) for row in self.outer])

    def bounding_duals(self, inner: FloatArray) -> dict[str, FloatArray]:
        """Return the duals that say where weights are as arrays of a certificate."""
        outer = {"outer": self.outer_at_points} if len(self.outer) else {}
        return {"inner": self.lift.losses.point_duals(inner)} | outer

    def case(self, u: FloatArray, rest: FloatArray) -> dict[str, Any]:
        point, inner = self.point(u, rest)
        arrays = point_arrays(self.lift, point) | self.bounding_duals(inner)
        return {name: x[None] if name in Certificate.UNITS and name != "outer" else x for name, x in arrays.items()}


@dataclass(frozen=True, eq=False)
class LiftedNodes(NodeBounds):
    """Bound nodes by the lifted weights, in which the labels of open points are absorbed (`BranchNodeForm`): (u, a).

    Crammer-Singer margins are in units of the coded ones that they are at most.
    """

    @frozen_property
    def table(self) -> PointLosses:
        """Return the losses by points."""
        return PointLosses.build(self.program.bounding.losses)

    @frozen_property
    def directions(self) -> FloatArray:
        """Return the codes (k, q), or their differences (k, k, q) from those of rivals."""
        program = self.program
        if program.kind.is_linear:
            return program.codes
        return (program.codes[:, None] - program.codes) / stretch(program.clusters)

    @frozen_property
    def absorbed(self) -> PointLosses:
        """Return what is charged where labels are absorbed, by points."""
        return PointLosses.build(absorbed_envelopes(self.program.kind.by_length(self.program)))

    @frozen_property
    def phi(self) -> FloatArray:
        """Return the features (n, r), with a column of ones for a bias."""
        return with_bias(self.program.features, self.bias)

    @property
    def bias(self) -> Interval:
        """Return the limits of the bias, those of the one bound that holds it closest."""
        return NO_BIAS if self.narrowest is None else self.program.bias_limits[self.narrowest]

    @frozen_property
    def narrowest(self) -> int | None:
        """Return which of the decision bounds holds the bias closest."""
        limits = self.program.bias_limits
        return min(limits, key=lambda position: limits[position].reach) if limits else None

    @property
    def zero(self) -> tuple[FloatArray, FloatArray]:
        n = self.program.n
        return np.zeros((n, *self.directions.shape[1:-1])), np.zeros(n + 2 * (self.bias.reach > 0))

    def rest(self, a: FloatArray, eta: float = 0.0, tau: float = 0.0) -> FloatArray:
        """Return the second array of a dual point: a, and with a bias the multipliers of its square and of itself."""
        return np.append(a, [eta, tau]) if self.bias.reach > 0 else a

    def codes(self, z: IntArray) -> FloatArray:
        """Return the codes (n, q) of the points, or differences (n, k, q), zero where open, of components z."""
        labels, codes = self.program.labels, self.directions[self.program.labels.at_points(z)]
        codes[(z < 0)[labels.component]] = 0.0
        return codes

    def split(self, rest: FloatArray) -> tuple[FloatArray, float, float]:
        """Return a, η and τ."""
        n = self.program.n
        return (rest[:n], float(rest[n]), float(rest[n + 1])) if len(rest) > n else (rest, 0.0, 0.0)

    def form(self, z: IntArray, **options: Any) -> BranchNodeForm:
        """Return the node problem."""
        return BranchNodeForm(self.program.features, self.program.losses, self.codes(z),
                              table=self.table, absorbed=self.absorbed, bias=self.bias, **options)

    def repaired(self, z: IntArray, answer: Mapping[str, FloatArray]) -> tuple[FloatArray, FloatArray]:
        program = self.program
        if not program.kind.is_linear:
            form = program.fix_labels(self.completed(z))
            u = form.point_duals(projected_duals(form, form.duals(answer), None)[0]) * stretch(program.clusters)
            return u, self.rest(np.zeros(program.n))
        u = program.losses.scatter(project_duals(program.losses, np.asarray(answer["u"])))
        tau = float((self.phi.T @ (u[:, None] * self.codes(z)))[-1, 0]) if self.bias.reach > 0 else 0.0
        return u, self.rest(np.zeros(program.n), tau=tau)

    def value(self, z: IntArray, u: FloatArray, rest: FloatArray) -> float:
        a, eta, tau = self.split(rest)
        return node_dual(self.table, self.phi, self.codes(z), u, a, self.bias, eta, tau)

    def case(self, u: FloatArray, rest: FloatArray) -> dict[str, Any]:
        a, eta, tau = self.split(rest)
        bounds = self.program.decision
        held, both = np.zeros((2, 1, len(bounds))), [bool(np.isfinite(bound.reach)) for bound in bounds]
        if self.narrowest is not None:
            total = float(bounds[self.narrowest].weights.sum())
            held[:, 0, self.narrowest] = eta / total**2, tau / total
        return {"u": self.program.kind.own_duals(self.program, u)[None], "q": a[None], "eta": held[0][:, both],
                "tau": held[1]}


@dataclass(frozen=True, eq=False)
class PartialNodes(NodeBounds):
    """Bound nodes by the problem of the decided points alone, the others at their least losses: duals (u, τ).

    It takes whatever leaves a convex problem at fixed labels: any losses, biases, bounds on decision values, scalars,
    and Crammer-Singer margins with falling losses.
    """

    last: dict[bytes, Any] = field(default_factory=dict, init=False, repr=False)  # the form made last

    def form(self, z: IntArray) -> Any:
        """Return the fixed-label problem in which open points have no loss."""
        key = z.tobytes()
        if key not in self.last:
            program, decided = self.program, self.decided(z)
            terms = tuple(replace(term, weights=np.where(decided[term.points], term.weights, 0.0))
                          for term in program.losses.terms)
            self.last.clear()
            self.last[key] = replace(program, losses=replace(program.losses, terms=terms)).fix_labels(self.completed(z))
        return self.last[key]

    def decided(self, z: IntArray) -> BoolArray:
        """Return (n,) whether the label of a point is decided."""
        labels = self.program.labels
        return np.asarray(z >= 0)[labels.component]

    def least(self, z: IntArray) -> float:
        """Return the sum of the least losses of the open points, which is left out of their problem; −inf without."""
        decided, total = self.decided(z), 0.0
        for term in self.program.losses.terms:
            weight = float(np.sum(term.weights[~decided[term.points]]))
            total += weight * term.loss.minimum() if weight > 0 else 0.0
        return total

    @property
    def zero(self) -> tuple[FloatArray, FloatArray]:
        form = self.program.fix_labels(self.completed(np.asarray(self.program.labels.pinned)))
        u, tau = (np.zeros(form.variables()[name].shape) for name in ("u", "tau"))
        return u, tau

    def repaired(self, z: IntArray, answer: Mapping[str, FloatArray]) -> tuple[FloatArray, FloatArray]:
        form = self.form(z)
        duals = form.duals(answer)
        if duals is None or not form.falls:
            return self.zero
        u, tau = projected_duals(form, duals, answer.get("tau"))
        return (u, tau) if np.isfinite(fixed_label_value(form, u, tau)) else self.zero

    def value(self, z: IntArray, u: FloatArray, rest: FloatArray) -> float:
        form = self.program.fix_labels(self.completed(z))
        held, losses = self.decided(z), form.seen
        if np.any(u[~held[losses.points] & (losses.slopes != 0)]):  # rows that see a label
            return -np.inf
        return fixed_label_value(form, u, rest)

    def case(self, u: FloatArray, rest: FloatArray) -> dict[str, Any]:
        form = self.program.fix_labels(self.completed(np.asarray(self.program.labels.pinned)))
        return fixed_label_case(form, u, rest)


# -- where decision values of better labels lie, by what the losses of decided points leave --


def balls(form: LiftForm, u: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return (b,) and (b, r) least values and middles of balls of weights, of duals u (b, m), and (n,) what open labels
    add to the reach of decision values.

    With these ½|w|² + Σcρ ≥ Σ D(u, 0) + ½|w − H|² − ½|H|², H = Σ u y φ: where that is below the value of a labelling, w
    lies in a ball about H, known but for open labels of linear losses.
    """
    apart, losses, zero, used = replace(form, domain=None), form.losses, np.zeros(form.losses.rows), np.any(u, axis=0)
    low = np.full(len(u), apart.least(zero, zero)[~used].sum())
    for term, part in losses.slices():  # all at once: there are twice as many as points
        rows, x = np.flatnonzero(used[part]), u[:, part][:, used[part]]
        values = term.taken(np.tile(rows, len(u))).conjugate_values(x.ravel()).reshape(x.shape)
        low -= (values + x * term.shifts[rows]).sum(axis=1)
    H = np.array([form.features.adjoint(form.decided * losses.scatter(row)) for row in u]).reshape(
        len(u), form.features.rank)
    loose = unknown(form)
    far = np.abs(form.features.toarray()) @ loose if loose.any() else np.zeros(form.n)
    bent = (losses.held == 0) | form.absorbed[losses.points]
    if np.any(far[losses.points[bent]]):  # as of kinks of ramps, which say nothing useful of other losses
        low = np.full_like(low, -np.inf)
    return low - 0.5 * np.sum(np.square(np.abs(H) + loose), axis=1), H, far


def unknown(form: LiftForm) -> FloatArray:
    """Return (r,) how far open labels of linear losses may move H = Σ u y φ, which has one u of theirs."""
    losses = form.losses
    more = np.abs(losses.held * losses.slopes) * (form.decided == 0)[losses.points]
    return np.bincount(losses.points, more, form.n) @ np.abs(form.features.toarray()) if more.any() else np.zeros(
        form.features.rank)


def within(form: LiftForm, value: float, least: FloatArray, H: FloatArray, more: FloatArray) -> FloatArray:
    """Return (n, 2) ends between which decision values lie for all labellings with a value below a given one."""
    norms = np.sum(H * H, axis=1)
    with np.errstate(invalid="ignore"):
        square = np.maximum(0.0, 2.0 * (value - least)) + NEAR * (abs(value) + abs(least) + norms)
    radius = np.where(np.isfinite(square), np.sqrt(square), np.inf)
    middle, reach = form.features.apply(H.T), np.multiply.outer(np.sqrt(form.features.row_norms()), radius)
    reach += more[:, None]
    return np.stack([np.max(middle - reach, axis=1, initial=-np.inf), np.min(middle + reach, axis=1, initial=np.inf)],
                    axis=1)


def bounded(form: LiftForm, ends: FloatArray) -> LiftForm:
    """Return a lift in which decision values lie between ends (n, 2); open points of a component in both signs', but
    for conditional rows.
    """
    losses, codes = form.losses, np.where(form.absorbed, 1, form.decided)
    codes[losses.points[form.conditioned]] = 1
    both = np.abs(ends).max(axis=1)[:, None] * np.array([-1.0, 1.0])
    ends = np.where((codes == 0)[:, None], both, np.where((codes < 0)[:, None], -ends[:, ::-1], ends))[losses.points]
    ends = np.sort(losses.slopes[:, None] * ends, axis=1)  # wider where there are no such labels
    bent = (losses.held == 0) | form.absorbed[losses.points]
    ends[~bent] = -np.inf, np.inf  # linear losses have one dual, which is in use
    return replace(form, domain=ends) if bent.any() and np.all(np.isfinite(ends[bent])) else form
