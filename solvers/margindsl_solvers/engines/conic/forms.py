"""Lower fixed-label and saddle forms to cvxpy problems whose labels, weights and shifts are parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from margindsl.calculus import ConvexFunction
from margindsl.calculus.accuracy import greatest_ratio, relative_gap
from margindsl.features.operator import FeatureOperator
from margindsl.program.forms import FixedLabelForm, Form, SaddleForm
from margindsl.program.losses import Losses
from margindsl.typing import FloatArray, IntArray
from margindsl_solvers.engines.conic import modelling as cp
from margindsl_solvers.engines.rows.model import into_domain

F = TypeVar("F", bound=Form)


class Lowering(ABC, Generic[F]):
    """Hold one cvxpy problem built from a form, and read its solutions in the form's own variables.

    The problem is built once; `load` sets its parameters, so that forms of one structure share a compilation.
    """

    is_dual: ClassVar[bool] = False

    def __init__(self, form: F) -> None:
        self.form = form
        self.problem: cp.Problem = self.build(form)

    @abstractmethod
    def build(self, form: F) -> cp.Problem:
        """Return the problem, its parameters still without values."""

    @abstractmethod
    def load(self, form: F) -> None:
        """Set the parameters from a form that `fits`."""

    @abstractmethod
    def read(self, form: F) -> dict[str, FloatArray]:
        """Return the variables the form's docstring names, from the solved problem."""

    def fits(self, form: F) -> bool:
        """Return whether the form differs from the one built in parameters alone."""
        return same_structure(self.form, form)

    def error(self, form: F, variables: dict[str, FloatArray]) -> float:
        """Return the relative error of an answer, recomputed; 0 where the form judges it elsewhere."""
        return 0.0


def same_structure(a: Form, b: Form) -> bool:
    """Return whether two forms share features, losses, rows, coupling and decision bounds."""
    if a is b:
        return True
    if type(a) is not type(b) or a.features is not b.features or a.free_bias != b.free_bias:
        return False
    pairs, bounds = list(zip(a.losses.terms, b.losses.terms)), zip(a.decision, b.decision)
    alike = a.losses is b.losses or (
        a.losses.n == b.losses.n and len(a.losses.terms) == len(b.losses.terms)
        and all(s.loss is t.loss or s.loss == t.loss for s, t in pairs)
        and all(_same(getattr(s, name), getattr(t, name)) for s, t in pairs for name in ("points", "coupling"))
        and _same(a.losses.scalars.nonneg, b.losses.scalars.nonneg))
    return alike and len(a.decision) == len(b.decision) and all(s is t or (
        s.lower == t.lower and s.upper == t.upper and _same(s.weights, t.weights)) for s, t in bounds)


def _same(a: FloatArray, b: FloatArray) -> bool:
    return a is b or np.array_equal(a, b)


@cache
def cone_of(loss: ConvexFunction, conjugate: bool = False) -> str:
    """Return the hardest cone a loss needs: ``"linear"`` (with a quadratic cost), ``"soc"`` or ``"exp"``."""
    expression, constraints = (loss.conjugate() if conjugate else loss).conic(cp, cp.Variable(1))
    problem = cp.Problem(cp.Minimize(cp.sum(expression)), constraints)
    if problem.is_qp():
        return "linear"
    atoms: list[Any] = problem.atoms()
    exponential = (cp.exp, cp.log, cp.log1p, cp.entr, cp.rel_entr, cp.kl_div, cp.logistic, cp.log_sum_exp, cp.xexp)
    return "exp" if any(issubclass(atom, exponential) for atom in atoms) else "soc"


def selection(losses: Losses) -> sp.csr_array | None:
    """Return the (m, n) matrix that picks the point of every row, None for the identity."""
    if losses.rows == losses.n and np.array_equal(losses.points, np.arange(losses.n)):
        return None
    return sp.csr_array((np.ones(losses.rows), (np.arange(losses.rows), losses.points)), shape=(losses.rows, losses.n))


def reduced(features: FeatureOperator) -> tuple[FloatArray, FloatArray | None]:
    """Return (F, V) with ΦV = F, FFᵀ = ΦΦᵀ and F of one to n columns; V is None when F = Φ."""
    phi = np.asarray(features.toarray(), dtype=float)
    if not phi.any():  # cvxpy writes no square of an empty variable
        return np.zeros((len(phi), 1)), np.zeros((phi.shape[1], 1))
    if phi.shape[1] <= phi.shape[0]:
        return phi, None
    left, values, right = scipy.linalg.svd(phi, full_matrices=False)
    keep = values > 1e-12 * max(values[0], np.finfo(float).tiny)
    return left[:, keep] * values[keep], right[keep].T


class LossParameters:
    """Hold the parameters c, d, q of a separable loss and write Σ c ρ(v), or Σ c ρ*(−ũ) of the dual."""

    def __init__(self, losses: Losses) -> None:
        self.weights = cp.Parameter(losses.rows, nonneg=True, name="weights")
        self.shifts = cp.Parameter(losses.rows, name="shifts")
        self.costs = cp.Parameter(losses.scalars.count, name="costs") if losses.scalars.count else None

    def load(self, losses: Losses) -> None:
        """Set the values."""
        self.weights.value = np.asarray(losses.weights, dtype=float)
        self.shifts.value = np.asarray(losses.shifts, dtype=float)
        if self.costs is not None:
            self.costs.value = np.asarray(losses.scalars.costs, dtype=float)

    def total(self, losses: Losses, argument: Any, conjugate: bool = False) -> tuple[Any, list[Any]]:
        """Return (Σ c ρ(argument), constraints), with ρ* in place of ρ when asked."""
        value: Any = 0.0
        constraints: list[Any] = []
        for term, part in losses.slices():
            if not term.rows:
                continue
            loss = term.loss.conjugate() if conjugate else term.loss
            expression, extra = loss.conic(cp, argument[part])
            value = value + cp.sum(cp.multiply(self.weights[part], expression))
            constraints += extra
        return value, constraints


class LossRows:
    """Hold the losses in the primal, Σcρ(v) + qᵀs with v = Σ_j a_j∘z_j + Bs + d, s ≥ 0 where they must be.

    v is a variable of its own, so that the multiplier of its definition is u = −cρ'(v).
    """

    def __init__(self, losses: Losses, parameters: LossParameters, parts: list[tuple[Any, Any]]) -> None:
        v = cp.Variable(losses.rows, name="v")
        self.s = cp.Variable(losses.scalars.count, name="s") if losses.scalars.count else None
        self.cost, self.constraints = parameters.total(losses, v)
        pick = selection(losses)
        argument = parameters.shifts + sum(
            cp.multiply(slopes, z if pick is None else pick @ z) for slopes, z in parts)
        if self.s is not None:
            self.cost = self.cost + parameters.costs @ self.s
            argument = argument + sp.csr_array(losses.coupling) @ self.s
            nonneg = np.flatnonzero(losses.scalars.nonneg)
            self.constraints += [self.s[nonneg] >= 0] if len(nonneg) else []
        self.definition = v == argument
        self.constraints.append(self.definition)

    def scalars(self) -> FloatArray:
        """Return the (S,) scalars s."""
        return np.zeros(0) if self.s is None else np.asarray(self.s.value)

    def multipliers(self, losses: Losses) -> FloatArray:
        """Return the (m,) multipliers u, in the domain of every ρ*."""
        return into_domain(losses, np.ravel(self.definition.dual_value))


class CouplingRows:
    """Hold Bᵀu = q for free scalars and Bᵀu ≤ q for non-negative ones; its multipliers are the scalars."""

    def __init__(self, losses: Losses, u: Any, costs: Any) -> None:
        nonneg = np.asarray(losses.scalars.nonneg, dtype=bool)
        self.count = losses.scalars.count
        self.parts: list[tuple[IntArray, Any]] = []
        for chosen, is_equality in ((np.flatnonzero(~nonneg), True), (np.flatnonzero(nonneg), False)):
            if len(chosen):
                left = sp.csr_array(losses.coupling[:, chosen].T) @ u
                right = costs[chosen]
                self.parts.append((chosen, left == right if is_equality else left <= right))

    @property
    def constraints(self) -> list[Any]:
        """Return the constraints."""
        return [constraint for _, constraint in self.parts]

    def scalars(self) -> FloatArray:
        """Return the (S,) scalars s."""
        s = np.zeros(self.count)
        for chosen, constraint in self.parts:
            s[chosen] = np.ravel(constraint.dual_value)
        return s


class FixedLabelLowering(Lowering[FixedLabelForm]):
    """Write the primal min ½‖V‖² + qᵀs + Σcρ(v), Z = ΦV + β, v_r = a_r⟨c(y_i), z_i⟩ + Bs + d, in V, β, s, Z, v.

    Z is a variable of its own, so that codes multiply sparse identities and not Φ.
    """

    def build(self, form: FixedLabelForm) -> cp.Problem:
        losses = form.losses
        self.parameters = LossParameters(losses)
        self.coded = [cp.Parameter(losses.rows, name="coded slopes") for _ in range(form.width)]
        phi, self.basis = (np.asarray(form.features.toarray(), dtype=float), None) if form.outside else reduced(
            form.features)
        self.V, Z = cp.Variable((phi.shape[1], form.width), name="V"), cp.Variable((form.n, form.width), name="Z")
        self.bias = cp.Variable((1, form.width), name="bias") if form.free_bias else None
        self.loss_rows = LossRows(losses, self.parameters, [(part, Z[:, j]) for j, part in enumerate(self.coded)])
        plane = phi @ self.V if self.bias is None else phi @ self.V + np.ones((form.n, 1)) @ self.bias
        self.bounds: list[tuple[IntArray, float, Any]] = []  # rows, sign of their multiplier in τ, constraint
        if form.decision:
            G, H = form.bound_rows
            blocks = np.split(G, form.width, axis=1)
            sums = sum((block if self.basis is None else block @ self.basis) @ self.V[:, j]
                       for j, block in enumerate(blocks))
            sums = sums if self.bias is None else sums + H @ self.bias[0]
            lower, upper = form.bound_ends
            equal = np.flatnonzero(lower == upper)
            above = np.flatnonzero((lower != upper) & np.isfinite(upper))
            below = np.flatnonzero((lower != upper) & np.isfinite(lower))
            found = [(equal, 1.0, lambda i: sums[i] == upper[i]), (above, 1.0, lambda i: sums[i] <= upper[i]),
                     (below, -1.0, lambda i: sums[i] >= lower[i])]
            self.bounds = [(chosen, sign, write(chosen)) for chosen, sign, write in found if len(chosen)]
        constraints = [*self.loss_rows.constraints, plane == Z, *(c for _, _, c in self.bounds)]
        cost = 0.5 * cp.sum_squares(self.V) + self.loss_rows.cost
        if form.outside is not None:
            term, rules = form.outside.written(self.V[:, 0], 0.0 if self.bias is None else self.bias[0, 0])
            cost, constraints = cost + term, [*constraints, *rules]
        return cp.Problem(cp.Minimize(cost), constraints)

    def load(self, form: FixedLabelForm) -> None:
        self.parameters.load(form.losses)
        for parameter, codes in zip(self.coded, form.own[form.losses.points].T):
            parameter.value = form.losses.slopes * codes

    def read(self, form: FixedLabelForm) -> dict[str, FloatArray]:
        V = np.asarray(self.V.value)
        tau = np.zeros(len(form.bound_normals))
        for chosen, sign, constraint in self.bounds:
            tau[chosen] += sign * np.ravel(constraint.dual_value)
        return {"w": (V if self.basis is None else self.basis @ V).T.ravel(),
                "bias": np.zeros(form.width) if self.bias is None else np.ravel(self.bias.value),
                "scalars": self.loss_rows.scalars(), "u": self.loss_rows.multipliers(form.losses), "tau": tau}

    def error(self, form: FixedLabelForm, variables: dict[str, FloatArray]) -> float:
        w, bias, s = variables["w"], variables["bias"], variables["scalars"]
        u, tau = variables["u"], variables["tau"]
        if form.outside is not None:  # its terms have no dual point here
            return form.primal_residual(w, bias, s) if np.isfinite(form.objective(w, bias, s)) else np.inf
        primal, dual = form.objective(w, bias, s), form.dual_objective(u, tau)
        noise = form.losses.noise(form.margins(form.outputs(w, bias)), s)
        shortfall = form.dual_residual(u, tau) * max(form.units[1], float(np.abs([*bias, *s]).max()))
        return max(relative_gap(primal, dual, noise, form.units[0]), form.primal_residual(w, bias, s),
                   greatest_ratio(shortfall, max(abs(primal), form.units[0])))


class SaddleLowering(Lowering[SaddleForm]):
    """Write min Σcρ*(−ũ) + uᵀd + ½t² with ‖Φᵀ(y_k∘z)‖ ≤ t, z = Σ a u, u = c∘ũ, Bᵀu = q.

    The multipliers of the T cones, divided by their sum t, are μ. With biases it is r in place of ½t²,
    ½‖Φᵀ(y_k∘z)‖² ≤ r − Σ_i z_i⟨b_k, c(y_k,i)⟩. Their number is a capacity: a smaller working set is filled with
    copies of its last labelling, whose shares of μ are added up again.
    """

    is_dual = True

    def build(self, form: SaddleForm) -> cp.Problem:
        losses = form.losses
        self.capacity = capacity_for(form.count)
        self.parameters = LossParameters(losses)
        self.sloped = cp.Parameter(losses.rows, name="weighted slopes")
        self.shifted = cp.Parameter(losses.rows, name="weighted shifts")
        self.labels = [cp.Parameter((form.n, self.capacity), name="labellings") for _ in range(form.width)]
        phi, self.basis = reduced(form.features)
        self.ut = cp.Variable(losses.rows, name="u/c")
        z = cp.Variable((form.n, 1), name="z")
        directions = cp.Variable((phi.shape[1] * form.width, self.capacity), name="directions")
        pick = selection(losses)
        weighted = cp.multiply(self.sloped, self.ut)
        value, constraints = self.parameters.total(losses, -self.ut, conjugate=True)
        u = cp.multiply(self.parameters.weights, self.ut)
        self.coupling = CouplingRows(losses, u, self.parameters.costs)
        self.tilts = cp.Parameter((form.n, self.capacity), name="biases") if form.is_biased else None
        if self.tilts is None:  # t ≥ ‖v_k‖
            t = cp.Variable(name="t")
            self.shares = cp.norm(directions, axis=0) <= t
            cost, cones = 0.5 * cp.square(t), [self.shares]
        else:  # r ≥ ½‖v_k‖² + b_k y_kᵀz, with ‖v_k‖² ≤ room as a cone
            cost, room = cp.Variable(name="r"), cp.Variable(self.capacity, name="room")
            self.shares = room == 2 * (cost - (self.tilts.T @ z)[:, 0])
            lifted = cp.vstack([2 * directions, cp.reshape(1 - room, (1, self.capacity), order="F")])
            cones = [self.shares, cp.norm(lifted, axis=0) <= 1 + room]
        copies = z @ np.ones((1, self.capacity))
        self.definition = directions == cp.vstack([phi.T @ cp.multiply(part, copies) for part in self.labels])
        constraints += [z[:, 0] == (weighted if pick is None else pick.T @ weighted),
                        self.definition, *cones, *self.coupling.constraints]
        return cp.Problem(cp.Minimize(value + self.shifted @ self.ut + cost), constraints)

    def fits(self, form: SaddleForm) -> bool:
        return super().fits(form) and form.count <= self.capacity and form.is_biased == (self.tilts is not None)

    def load(self, form: SaddleForm) -> None:
        losses = form.losses
        self.parameters.load(losses)
        self.sloped.value = losses.weights * losses.slopes
        self.shifted.value = losses.weights * losses.shifts
        last = np.minimum(np.arange(self.capacity), form.count - 1)
        for position, part in enumerate(self.labels):
            part.value = form.coded(last)[position::form.width].T.astype(float)
        if self.tilts is not None:
            self.tilts.value = sum(part.value * bias for part, bias in zip(self.labels, form.biases[last].T))

    def read(self, form: SaddleForm) -> dict[str, FloatArray]:
        shares = fold(np.maximum(np.ravel(self.shares.dual_value), 0.0), form.count)
        total = shares.sum()
        mu = shares / total if total > 0 else np.full(form.count, 1 / form.count)
        u = into_domain(form.losses, form.losses.weights * np.asarray(self.ut.value))
        # the multiplier of the directions' definition is −μ_k Φᵀ(y_k∘z), more accurate than the product
        W = fold(-np.asarray(self.definition.dual_value), form.count)
        W = np.where(mu > 0, W, 0.0) if form.is_biased else W  # else no masses but the best ones count
        blocks = np.split(W, form.width)
        return {"mu": mu, "u": u, "W": W if self.basis is None else np.vstack([self.basis @ block for block in blocks]),
                "scalars": self.coupling.scalars()}


def fold(values: FloatArray, count: int) -> FloatArray:
    """Return the first count entries of the last axis, the last with the sum of those that follow added."""
    kept = values[..., :count].copy()
    kept[..., -1] += values[..., count:].sum(axis=-1)
    return kept


def capacity_for(count: int) -> int:
    """Return the least power of two ≥ count, at least four."""
    return max(4, 1 << (count - 1).bit_length())
