"""Forms of fixed labels: outputs, bounds on decision values and a bias by codes; margins linear in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from margindsl.calculus.accuracy import greatest_ratio
from margindsl.errors import DeclarationError
from margindsl.features import AffineFeatures, CodedRows
from margindsl.host.frozen import frozen_property
from margindsl.labelset.codes import differences, simplex_codes
from margindsl.program.answers import Variable
from margindsl.program.bounds import contradiction, is_unbounded
from margindsl.program.equalities import moved_duals
from margindsl.program.form import Form
from margindsl.program.gauge import Gauge
from margindsl.program.losses import Losses
from margindsl.program.outside import HELD, Outside
from margindsl.typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class LabelledForm(Form):
    """Represent what problems of fixed labels share: outputs z_i = Vᵀφ_i + β in the coordinates of codes.

    Decision values are the products f = Z Cᵀ with the codes of all labels. A vector x = (w, β, s) holds the columns of
    V one after another, a free bias and the shared scalars.

    Parameters
    ----------
    labels : (n,) int array
        0..k−1.
    codes : (k, q) float array
        Those of labels as rows; of two clusters, −1 and +1, when left out.
    gauge: Gauge, optional
        What stands in place of ½‖w‖²; solvers see forms without one.
    """

    labels: IntArray
    codes: FloatArray = field(default_factory=partial(simplex_codes, 2), kw_only=True)
    gauge: Gauge | None = field(default=None, kw_only=True)
    outside: Outside | None = field(default=None, kw_only=True)  # beside ½‖w‖², of two clusters
    clusters: int = field(init=False)  # k
    width: int = field(init=False)  # q, coordinates of a code
    size_of_w: int = field(init=False)  # q r
    border: int = field(init=False)  # coordinates of a free bias, 0 without one

    def __post_init__(self) -> None:
        super().__post_init__()
        k, q = self.codes.shape
        vars(self).update(clusters=k, width=q, size_of_w=q * self.features.rank, border=q * self.free_bias)
        if self.labels.shape != (self.n,):
            raise DeclarationError(f"labels: given shape {self.labels.shape}, expected ({self.n},)")
        if self.labels.min() < 0 or self.labels.max() >= self.clusters:
            raise DeclarationError(f"labels of {self.clusters} clusters are the whole numbers below {self.clusters}")

    # -- coordinates --------------------------------------------------------------------------------

    def unpack(self, w: FloatArray) -> FloatArray:
        """Return V (r, q) of a vector w."""
        return w.reshape(self.width, self.features.rank).T

    def split(self, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return w, β (q,), zero where it is not free, and s of x."""
        r = self.size_of_w
        return x[:r], x[r : r + self.border] if self.free_bias else np.zeros(self.width), x[r + self.border :]

    def join(self, w: FloatArray, bias: FloatArray | float, scalars: FloatArray | None = None) -> FloatArray:
        """Return x = (w, β, s)."""
        beta = np.broadcast_to(bias, self.width)[: self.border]
        return np.concatenate([w, beta, np.zeros(self.losses.scalars.count) if scalars is None else scalars])

    def packed(self, w: FloatArray, bias: FloatArray | float) -> FloatArray:
        """Return the columns of V one after another, below each its entry of a free bias."""
        V = self.unpack(w)
        return np.ravel((np.vstack([V, np.broadcast_to(bias, self.width)]) if self.free_bias else V).T)

    def plane(self, answer: Mapping[str, FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Return the bias β (q,) and the shared scalars of an answer."""
        bias = np.broadcast_to(np.asarray(answer.get("bias", 0.0), dtype=float), self.width)
        return bias, np.asarray(answer.get("scalars", np.zeros(self.losses.scalars.count)))

    def outputs(self, w: FloatArray, bias: FloatArray | float = 0.0) -> FloatArray:
        """Return the (n, k) decision values."""
        return np.asarray((self.features.apply(self.unpack(w)) + bias) @ self.codes.T)

    def margins(self, decision: FloatArray) -> FloatArray:
        """Return the (n,) margins of the labels at decision values (n, k)."""
        raise NotImplementedError

    def objective(self, w: FloatArray, bias: FloatArray | float = 0.0, scalars: FloatArray | None = None) -> float:
        """Return the primal objective at (w, β, s), decision bounds not included."""
        return self.regulariser(w, bias) + self.losses.value(self.margins(self.outputs(w, bias)), scalars)

    def regulariser(self, w: FloatArray, bias: FloatArray | float = 0.0) -> float:
        """Return ½‖w‖², or the gauge, and terms of CVXPY; infinite where its constraints are broken."""
        if self.outside is not None:
            one = 1.0 / float(np.sqrt(self.features.trace / self.n) or 1.0)  # the norm for decision values of one
            value, broken = self.outside.at(w, float(np.ravel(bias)[0]), one)
            return 0.5 * float(w @ w) + value if broken <= HELD else np.inf
        return 0.5 * float(w @ w) if self.gauge is None else self.gauge.value(self.unpack(w))

    def variables(self) -> dict[str, Variable]:
        scalars = self.losses.scalars
        return {"w": Variable((self.size_of_w,)),
                "bias": Variable((self.width,), default=None if self.free_bias else 0.0),
                "scalars": Variable((scalars.count,), least=np.where(scalars.nonneg, 0.0, -np.inf)),
                "tau": Variable((len(self.bound_rows[0]),), needed=False)}

    def steps(self, points: IntArray) -> IntArray:
        """Return the numbers by which a proof says that points have their labels: from 1, n times labels added."""
        return np.asarray(points + 1 + self.n * self.labels[points])

    @property
    def is_summed(self) -> bool:
        """Return whether points are streamed and value and slope are sums over them: one smooth loss a point."""
        return False

    def summed(self, x: FloatArray, bends: bool = False) -> Any:
        """Return the objective of a form that `is_summed` at a `packed` x, gradient, and where it `bends` the Hessian.

        It takes one pass; the last sums are kept, since who judges an answer asks for them again.
        """
        raise NotImplementedError

    def duals(self, answer: Mapping[str, FloatArray]) -> FloatArray | None:
        """Return the dual numbers of an answer, None where it has none."""
        return answer.get("u")

    # -- bounds on decision values --------------------------------------------------------------------

    @frozen_property
    def bound_rows(self) -> tuple[FloatArray, FloatArray]:
        """Return (G, H) (J, q r) and (J, q), what the bounded sums gain with w and β.

        Of more than two clusters a bound is one on the differences of every two (slides Eq. 18).
        """
        if not self.decision:
            return np.zeros((0, self.size_of_w)), np.zeros((0, self.width))
        (sums, totals), D = self.decision_rows, differences(self.codes)
        rows = np.einsum("pc,jr->jpcr", D, sums).reshape(len(sums) * len(D), self.size_of_w)
        return rows, np.einsum("pc,j->jpc", D, totals).reshape(len(rows), self.width)

    @frozen_property
    def bound_ends(self) -> tuple[FloatArray, FloatArray]:
        """Return the (J,) lower and upper ends of the bounded sums."""
        many = len(differences(self.codes))
        lower, upper = (np.repeat([float(end) for end in ends], many) for ends in (
            [bound.lower for bound in self.decision], [bound.upper for bound in self.decision]))
        return lower, upper

    @property
    def bound_normals(self) -> FloatArray:
        """Return the (J, q r [+q]) rows of the bounded sums in w and a free bias."""
        G, H = self.bound_rows
        return np.hstack([G, H]) if self.free_bias else G

    def support(self, tau: FloatArray) -> float:
        """Return Σ sup {τ_j t : t within the ends of bound j}, what bounds cost in the dual."""
        if not len(tau):
            return 0.0
        lower, upper = self.bound_ends
        ends = np.where(tau > 0, upper, lower)
        return float(np.sum(np.multiply(tau, ends, out=np.zeros(len(tau)), where=tau != 0)))

    def primal_residual(self, w: FloatArray, bias: Any = 0.0, scalars: FloatArray | None = None) -> float:
        """Return the largest violation of decision bounds and scalar signs, relative to the size of their rows."""
        worst = 0.0
        if self.decision:
            (G, H), (lower, upper) = self.bound_rows, self.bound_ends
            beta = np.broadcast_to(bias, self.width)
            values, sizes = G @ w + H @ beta, np.linalg.norm(G, axis=1) * np.linalg.norm(w)
            sizes += np.abs(H) @ np.maximum(np.abs(beta), self.units[1]) * self.free_bias
            for over, limits in ((lower - values, lower), (values - upper, upper)):
                broken = np.maximum(over, 0.0)
                worst = max(worst, greatest_ratio(broken, np.where(broken > 0, sizes + np.abs(limits), 1.0)))
        return max(worst, 0.0 if scalars is None else self.losses.scalars.violation(scalars))

    @property
    def contradiction(self) -> tuple[int, ...]:
        many, lengths = len(differences(self.codes)), [np.linalg.norm(bound.weights) for bound in self.decision]
        positions = contradiction(self.bound_normals, self.bound_ends, np.repeat(lengths, many) * float(
            np.sqrt(self.features.trace + self.n * self.free_bias)))
        return tuple(sorted({position // many for position in positions}))

    def structure(self) -> tuple[Any, ...] | None:
        return (*(super().structure() or ()), self.codes.tobytes(), self.gauge, self.outside)


@dataclass(frozen=True, eq=False)
class FixedLabelForm(LabelledForm):
    """Represent the convex problem left when the labels y are fixed and margins are γ_i = ⟨c(y_i), z_i⟩.

    min over w, β, s of ½‖w‖² + qᵀs + Σ_r c_r ρ_r(a_r γ_p(r) + b_rᵀs + d_r), z = Vᵀφ + β, subject to the decision
    bounds; of two clusters γ = y f. A difference-of-convex step is one, too: its losses majorise ρ(|f|) at the labels.
    Dual (mathematics, section 1):
    max −Σ cρ*(−u/c) − uᵀd − ½‖Σ_i ũ_i c(y_i) ⊗ φ_i − Gᵀτ‖² − Σ_j support_j(τ_j), ũ_i = Σ_{r at i} a_r u_r,
    subject to Σ b u = q and, with a free bias, Σ ũ_i c(y_i) = Hᵀτ.

    A solver returns the variables ``w`` (q r,), ``bias`` (q,), ``scalars`` (S,), ``u`` (m,) and ``tau`` (J,); of a form
    that `is_summed` without a free bias it may leave u out.
    """

    falls: ClassVar[bool] = True  # whether duals at fixed labels prove a bound, as where Crammer-Singer losses fall

    @property
    def seen(self) -> Losses:
        """Return the losses whose rows the duals belong to."""
        return self.losses

    @property
    def is_summed(self) -> bool:
        losses = self.losses
        alone = self.gauge is None and self.outside is None and not self.decision
        return bool(alone and self.features.is_streamed and losses.is_smooth and losses.is_identity
                    and len(losses.terms) == 1 and not losses.scalars.count)

    @cached_property
    def bordered(self) -> CodedRows:
        """Return the features c(y_i) ⊗ φ_i, with a one below φ_i where a bias is free, of `packed` vectors."""
        features = AffineFeatures(self.features, constant=1.0) if self.free_bias else self.features
        return CodedRows(features, self.labels, self.codes)

    def summed(self, x: FloatArray, bends: bool = False) -> Any:
        kept, found = vars(self).get("_summed", (None, ()))
        if kept != x.tobytes() or len(found) < 2 + bends:
            term, ridge = self.losses.terms[0], self.packed(np.ones(self.size_of_w), 0.0)
            value, *slopes = self.bordered.fold(partial(_summed, term.loss, x, bends), term.weights, term.shifts)
            of_norm = 0.5 * float(x @ (ridge * x)), ridge * x, np.diag(ridge)
            found = tuple(a + b for a, b in zip((value, *slopes), of_norm))
            vars(self)["_summed"] = x.tobytes(), found
        return found[:2 + bends]

    def duals(self, answer: Mapping[str, FloatArray]) -> FloatArray:
        """Return the dual numbers (m,) of an answer, −c ρ'(v) at the hyperplane of one without."""
        if (u := answer.get("u")) is not None:
            return u
        bias, scalars = self.plane(answer)
        v = self.losses.arguments(self.margins(self.outputs(answer["w"], bias)), scalars)
        return -self.losses.derivative(v)

    @frozen_property
    def own(self) -> FloatArray:
        """Return the codes (n, q) of the points' labels."""
        return self.rows.own

    @frozen_property
    def rows(self) -> CodedRows:
        """Return the features c(y_i) ⊗ φ_i (n × q r), in which margins are linear."""
        return CodedRows(self.features, self.labels, self.codes)

    def margins(self, decision: FloatArray) -> FloatArray:
        return np.asarray(decision[np.arange(self.n), self.labels])

    def variables(self) -> dict[str, Variable]:
        return super().variables() | {"u": Variable((self.losses.rows,), needed=self.free_bias or not self.is_summed)}

    def bracket(self, answer: Mapping[str, FloatArray]) -> tuple[float, float]:
        if answer.get("u") is None:  # the duals −c ρ'(v) at the hyperplane, whose gap is half of a squared gradient
            value, gradient = self.summed(self.packed(answer["w"], 0.0))
            return value - 0.5 * float(gradient @ gradient), value
        least = -np.inf if self.outside is not None else self.dual_objective(answer["u"], answer.get("tau"))
        return (least,
                self.objective(answer["w"], answer["bias"], answer["scalars"]))

    @property
    def is_unbounded(self) -> bool:
        return is_unbounded(self.losses, self.bias_rows, self.bound_ends, self.bound_rows[1])

    @property
    def bias_rows(self) -> FloatArray:
        """Return (m, q) what arguments of the losses gain with a free bias, (m, 0) without."""
        return (self.losses.slopes[:, None] * self.own[self.losses.points])[:, : self.border]

    def point_duals(self, u: FloatArray) -> FloatArray:
        """Return duals of points; of rows, where shared scalars couple them."""
        return self.losses.point_duals(u)

    def dual_direction(self, u: FloatArray, tau: FloatArray | None = None) -> FloatArray:
        """Return the (q r,) weights w(u, τ) = Σ_i ũ_i c(y_i) ⊗ φ_i − Gᵀτ of a dual point."""
        w = self.rows.adjoint(self.losses.scatter(u))
        return w if tau is None or not len(tau) else w - self.bound_rows[0].T @ tau

    def dual_objective(self, u: FloatArray, tau: FloatArray | None = None) -> float:
        """Return the dual objective at (u, τ); −inf outside the domain of a conjugate."""
        w = self.dual_direction(u, tau)
        cost = 0.5 * float(w @ w) if self.gauge is None else float(
            self.gauge.conjugate(self.gauge.squares(self.unpack(w)).sum(axis=1)[:, None])[0])
        value = -self.losses.conjugate_value(u) - cost
        return value if tau is None else value - self.support(tau)

    def dual_residual(self, u: FloatArray, tau: FloatArray | None = None) -> float:
        """Return the largest violation of the dual's equalities (shared scalars, free bias)."""
        slack = np.append(self.losses.scalar_slack(u), self.bias_terms(u, tau).sum(axis=0))
        return float(np.max(np.abs(slack), initial=0.0))

    def dual_error(self, u: FloatArray, tau: FloatArray | None = None) -> float:
        """Return the largest violation of the dual's equalities (shared scalars, free bias), relative to its terms."""
        terms, losses = self.bias_terms(u, tau), self.losses
        size = np.abs(terms).sum(axis=0)
        if len(terms):  # rows of one point may cancel
            size = np.maximum(size, np.abs(losses.slopes * u) @ np.abs(self.own)[losses.points])
        return max(losses.scalar_residual(u), greatest_ratio(terms.sum(axis=0), size))

    def projected(self, u: FloatArray, tau: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (u, τ) in their domains with Σ b u = q and, with a free bias, Σ ũ_i c(y_i) = Hᵀτ."""
        return moved_duals(self.losses, self.bias_rows, self.bound_ends, self.bound_rows[1], u, tau)

    def bias_terms(self, u: FloatArray, tau: FloatArray | None = None) -> FloatArray:
        """Return the terms (M, q) of Σ ũ_i c(y_i) − Hᵀτ, which a free bias makes zero; none without one."""
        if not self.free_bias:
            return np.zeros((0, self.width))
        terms = self.own * self.losses.scatter(u)[:, None]
        return terms if tau is None else np.vstack([terms, -self.bound_rows[1] * tau[:, None]])


def _summed(loss: Any, x: FloatArray, bends: bool, rows: FloatArray, weights: FloatArray,
            shifts: FloatArray) -> tuple[Any, ...]:
    """Return the part of one block of features."""
    margins = rows @ x + shifts
    values, slopes = loss.value_and_derivative(margins)
    value, gradient = float(weights @ values), (weights * slopes) @ rows
    if not bends:
        return value, gradient
    curved = weights * np.maximum(loss.curvature(margins), 0.0)
    held = np.flatnonzero(curved)
    if 2 * len(held) < len(rows) or not rows.flags.writeable:
        rows, curved = rows[held], curved[held]
    rows *= np.sqrt(curved)[:, None]  # in place, and half a product
    return value, gradient, rows.T @ rows
