"""The saddle problem of the papers: u in a box, with the bounds L₁, L₂ and the steps their theorems need."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from margindsl.program.losses import Losses
from margindsl.typing import FloatArray
from margindsl_solvers.engines.saddle.model import SaddleModel

DENSE_ORDER = 2000  # columns up to which eigenvalues are computed


class BoxModel:
    """Restrict the duals to {|u| ≤ τ} ∩ dom and bound G and its gradient there.

    G(u, y_k) = −Σ cρ*(−u/c) − uᵀd − ½‖v_k‖², v_k = Φᵀ(y_k∘ũ); ∂_uG = ρ*'(−u/c) − (a y_k∘Φv_k + d). The papers
    write it in (α, β) with u = α − β; one number a row is the same problem without the directions α = β.

    `tau`: the half-width τ; None takes one that holds the optimum, from ½(Σ‖w_k‖)² ≤ Σ c(ρ(d) − min ρ).
    """

    def __init__(self, model: SaddleModel, tau: float | None = None) -> None:
        self.model, self.losses = model, model.losses
        self.tau = self.safe_tau() if tau is None else tau
        lower, upper = np.empty(self.losses.rows), np.empty(self.losses.rows)
        for conjugate, (_, part) in zip(model.conjugates, self.losses.slices()):
            low, high = conjugate.domain
            c = model.weights[part]
            lower[part] = np.maximum(-self.tau, -scaled_end(c, high))
            upper[part] = np.minimum(self.tau, -scaled_end(c, low))
        self.lower, self.upper = np.minimum(lower, 0.0), np.maximum(upper, 0.0)

    # -- the box ------------------------------------------------------------------------------------

    def safe_tau(self) -> float:
        """Return max c|ρ'| over the arguments |aγ + d| that weights no worse than w = 0 can reach."""
        losses, shifts = self.losses, np.asarray(self.losses.shifts, dtype=float)
        least = np.empty(losses.rows)
        for conjugate, (term, part) in zip(self.model.conjugates, losses.slices()):
            least[part] = -term.weights * float(conjugate(0.0))
        room = float(np.sum(losses.row_losses(shifts) - least))
        norms = np.sqrt(np.asarray(self.model.form.features.row_norms(), dtype=float))[losses.points]
        reach = np.abs(losses.slopes) * norms * math.sqrt(2.0 * max(room, 0.0))
        ends = [losses.derivative(shifts + sign * reach) for sign in (-1.0, 1.0)]
        return max(float(np.max(np.abs(ends), initial=0.0)), 1e-12)

    def project(self, u: FloatArray) -> FloatArray:
        """Return the Euclidean projection onto the box."""
        return np.clip(u, self.lower, self.upper)

    def scaled(self, u: FloatArray) -> FloatArray:
        """Return x = −u/c, inside the domains of the conjugates; zero on rows without weight."""
        c = self.model.weights
        return self.model.clip(np.divide(-u, c, out=np.zeros(len(u)), where=c > 0))

    # -- values and gradients -----------------------------------------------------------------------

    def linear(self, u: FloatArray) -> float:
        """Return −Σ cρ*(−u/c) − uᵀd."""
        return -self.losses.conjugate_value(-self.model.weights * self.scaled(u))

    def linear_slope(self, u: FloatArray) -> FloatArray:
        """Return its supergradient ρ*'(−u/c) − d."""
        slopes = self.model.conjugate_slopes(self.scaled(u))
        return np.where(self.model.weights > 0, slopes - self.losses.shifts, 0.0)

    # -- constants ----------------------------------------------------------------------------------

    @cached_property
    def radius(self) -> float:
        """Return the Euclidean norm of the farthest corner of the box."""
        return float(np.linalg.norm(np.maximum(-self.lower, self.upper)))

    @cached_property
    def spectral(self) -> float:
        """Return λ Σ a² of the point where that is greatest, λ of ΦᵀΦ or its trace: ‖v_k‖² ≤ it · ‖u‖²."""
        losses, features = self.losses, self.model.form.features
        slopes = np.bincount(losses.points, weights=losses.slopes**2, minlength=losses.n)
        few = features.rank <= DENSE_ORDER
        greatest = np.linalg.eigvalsh(np.asarray(features.gram(), dtype=float))[-1] if few else features.trace
        return max(float(greatest), 0.0) * float(slopes.max(initial=0.0))

    @cached_property
    def bound_of_value(self) -> float:
        """Return L₁ ≥ |G| on the box."""
        total = float(np.sum(np.maximum(-self.lower, self.upper) * np.abs(self.losses.shifts)))
        for conjugate, (term, part) in zip(self.model.conjugates, self.losses.slices()):
            c, negligible = term.weights, abs(float(term.loss(0.0)))
            ends = [np.abs(np.asarray(conjugate(end[part]))) for end in self._ends]
            total += float(np.sum(c * np.maximum(np.maximum(*ends), negligible)))
        return total + 0.5 * self.spectral * self.radius**2

    @cached_property
    def bound_of_slope(self) -> float:
        """Return L₂ ≥ ‖∂_uG‖ on the box."""
        slopes = np.maximum(*(np.abs(self.model.conjugate_slopes(end)) for end in self._ends))
        rows = np.where(self.model.weights > 0, slopes + np.abs(self.losses.shifts), 0.0)
        return float(np.linalg.norm(rows)) + self.spectral * self.radius

    @cached_property
    def _ends(self) -> tuple[FloatArray, FloatArray]:
        return self.scaled(self.lower), self.scaled(self.upper)


@dataclass(frozen=True)
class TheoremSteps:
    """Represent the mirror map aΦ(μ) + bΦ(u), the step η and the bound it proves on the expected gap."""

    a: float
    b: float
    eta: float
    bound: float

    def times(self, factor: float) -> TheoremSteps:
        """Return the steps with η multiplied; another η than the theorem's proves no bound."""
        return self if factor == 1.0 else TheoremSteps(self.a, self.b, self.eta * factor, math.inf)


Schedule = Callable[..., TheoremSteps]  # (box, iterations, [primal weight]) -> steps


def descent_steps(box: BoxModel, horizon: int) -> TheoremSteps:
    """Return the steps of ODMC, Theorem 1, for T steps of sampled gradients.

    a = |B|L₁/√log|B|, b = √2L₂/(√m τ), η = √(2/T), gap ≤ (|B|L₁√(2 log|B|) + L₂τ√m)/√T, τ√m the radius of the box.
    """
    entropy = math.log(max(box.model.count, 2))
    first = box.bound_of_value * box.model.count
    second, radius = box.bound_of_slope, max(box.radius, 1e-300)
    bound = (first * math.sqrt(2.0 * entropy) + second * radius) / math.sqrt(horizon)
    return TheoremSteps(first / math.sqrt(entropy), math.sqrt(2.0) * second / radius, math.sqrt(2.0 / horizon), bound)


def prox_steps(box: BoxModel, horizon: int, weight: float = 1.0) -> TheoremSteps:
    """Return the mirror map of ssODM with a step that needs no smoothness.

    a = 1/(ω√log|B|), b = ω√2/(τ√m) (ssODM, Section 4.2, at a primal weight ω = 1). The paper states no η. Let
    G² = (|B|L₁)²/a + L₂²/b bound the squared dual norm of a gradient estimate, and Ω = a log|B| + b mτ²/2. Two
    estimates differ by at most 2G, and so does one from its mean, hence (Juditsky, Nemirovski and Tauvel 2011,
    Section 3) E gap ≤ 2Ω/(ηT) + 4ηG² = 4√2 G√(Ω/T) at η = √(Ω/2T)/G.
    """
    entropy, radius = math.log(max(box.model.count, 2)), max(box.radius, 1e-300)
    a, b = 1.0 / (weight * math.sqrt(entropy)), weight * math.sqrt(2.0) / radius
    omega = a * entropy + 0.5 * b * radius**2
    first = box.bound_of_value * box.model.count
    size = max(math.sqrt(first**2 / a + box.bound_of_slope**2 / b), 1e-300)
    return TheoremSteps(a, b, math.sqrt(omega / (2.0 * horizon)) / size, 4.0 * math.sqrt(2.0 * omega / horizon) * size)


def scaled_end(weights: FloatArray, end: float) -> FloatArray:
    """Return c times an end of a domain, infinite or not; zero where c is."""
    return np.where(weights > 0, np.multiply(weights, end, where=weights > 0, out=np.zeros(len(weights))), 0.0)


def bounded(losses: Losses) -> bool:
    """Return whether every ρ* has finite slopes at the finite ends of its domain, as the theorems ask."""
    for conjugate in (term.loss.conjugate() for term in losses.terms):
        ends = [end for end in conjugate.domain if np.isfinite(end)]
        if not all(np.isfinite(conjugate.derivative(end)) for end in ends):
            return False
    return True
