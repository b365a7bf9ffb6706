"""Proximal Newton steps on the smoothed primal: the squared sum of norms as it is, the losses to second order."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from margindsl.contract import Budget, Status
from margindsl.typing import FloatArray, IntArray
from margindsl_solvers.engines.saddle.model import Point, SaddleModel
from margindsl_solvers.engines.saddle.run import SaddleCourse

# All tuned on noisy copies of MNIST's 8 and 9 (100,000 x 48) and on letters, hinge and ODM.
# PASSES on copies of digits 3 and 8 (100,000 x 64): with 1, ODM's steps fell short of their least and the gap stalled.
SHARE = 0.25  # of the gap that smoothing may cost; the width falls by no more than LEAST at a step
LEAST = 0.1
ROWS = 3_000  # with curvature, of which a step takes a sample of so many
INNER, MOST, PASSES = 60, 300, 3  # inner steps granted at least and at most, and between them those of so many passes
STILL = 1e-2  # move of an inner step, relative to the first, that ends them
EVEN = 0.2  # of the inner metric spread over all labellings, so that those without mass can enter
POWER, ABOVE = 6, 1.1  # products for the length of the inner steps, and how far above what they find it is put
LENGTHS, ENOUGH = (1.0, 0.7, 0.4, 0.2, 0.1, 0.05, 0.01), 0.1  # of a step, and the part of its fall to be reached
SLOW, FAILURES = 0.7, 3  # times the gap: what a step should reach, and how many in a row may not
MISLED = 0.5  # w = 0 is tried, too, at a start of a larger relative gap, or where less of its length is best


def smooths(model: SaddleModel) -> bool:
    """Return whether the primal is one in W alone."""
    return not model.is_biased and not len(model.costs)


def norms(W: FloatArray) -> FloatArray:
    """Return the lengths ‖w_k‖."""
    return np.sqrt(np.einsum("kr,kr->k", W, W))


def length(D: FloatArray, metric: FloatArray) -> float:
    """Return (Σ‖d_k‖²/m_k)^½."""
    return math.sqrt(float(np.sum(D**2 / metric[:, None])))


def shrink(Z: FloatArray, steps: FloatArray) -> FloatArray:
    """Return argmin over W of ½(Σ‖w_k‖)² + Σ ‖w_k − z_k‖²/2τ_k.

    w_k = (1 − τ_kθ/‖z_k‖)₊ z_k with θ = Σ‖w_k‖, so that θ = Σ‖z_k‖/(1 + Στ_k) over the rows kept, those of the
    greatest ‖z_k‖/τ_k.

    Shapes: `Z` (T, r).

    Parameters
    ----------
    steps : (T,) float array
        τ > 0.

    Examples
    --------
    >>> import numpy as np
    >>> shrink(np.array([[3.0], [1.0]]), np.ones(2))
    array([[1.5],
           [0. ]])
    """
    lengths = norms(Z)
    order = np.argsort(-lengths / steps)
    thetas = np.cumsum(lengths[order]) / (1.0 + np.cumsum(steps[order]))
    kept = np.flatnonzero(lengths[order] > steps[order] * thetas)
    theta = float(thetas[kept[-1]]) if len(kept) else 0.0
    factor = 1.0 - np.divide(steps * theta, lengths, out=np.ones(len(Z)), where=lengths > 0)
    return np.asarray(Z * np.maximum(factor, 0.0)[:, None])


@dataclass(frozen=True, eq=False)
class Quadratic:
    """Represent q(Δ) = −⟨V, Δ⟩ + ½ Σ_i h_i (Σ_k y_k,i φ_iᵀδ_k)², the losses about W, by some of the points."""

    V: FloatArray  # (T, q r), the negative gradient, of all points
    phi: FloatArray  # (p, r)
    labels: FloatArray  # (T q, p)
    curvature: FloatArray  # (p,), h ≥ 0

    def product(self, D: FloatArray) -> FloatArray:
        """Return the rows Σ_i h_i (Σ_l y_l,i φ_iᵀδ_l) y_k,i φ_i."""
        margins = np.einsum("kp,kp->p", D.reshape(len(self.labels), -1) @ self.phi.T, self.labels)
        return np.asarray((self.labels * (self.curvature * margins)) @ self.phi).reshape(D.shape)

    def steepest(self, metric: FloatArray, rng: np.random.Generator) -> float:
        """Return the greatest eigenvalue of the product in a metric of the labellings, about, by the power method."""
        D, value = rng.normal(size=self.V.shape) * metric[:, None], 0.0
        for _ in range(POWER):
            D = metric[:, None] * self.product(D / (length(D, metric) or 1.0))
            value = length(D, metric)
        return ABOVE * value

    def minimise(self, W: FloatArray, metric: FloatArray, limit: int, budget: Budget,
                 rng: np.random.Generator) -> FloatArray:
        """Return Δ near the least q(Δ) + ½(Σ‖w_k + δ_k‖)², by accelerated proximal steps with restarts.

        Shapes: `W` (T, q r).

        `metric` (T,): the step of w_k is in proportion to it; `limit`: on the steps; `budget`: ends them early, with
        what they have.

        References
        ----------
        A. Beck, M. Teboulle (2009). A fast iterative shrinkage-thresholding algorithm.
        B. O'Donoghue, E. Candès (2015). Adaptive restart for accelerated gradient schemes, Sec. 3.2.
        """
        steps = metric / max(self.steepest(metric, rng), 1.0 / len(metric))  # the square has curvature, too
        D = ahead = np.zeros_like(W)
        momentum, first = 1.0, 0.0
        for _ in range(limit):
            found = shrink(W + ahead - steps[:, None] * (self.product(ahead) - self.V), steps) - W
            step, change = found - ahead, found - D
            if float(np.sum(step * change / steps[:, None])) < 0.0:
                momentum = 1.0
            following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum**2))
            ahead = found + (momentum - 1.0) / following * change
            D, momentum = found, following
            moved = length(step, steps)
            first = first or moved
            if moved <= STILL * first or budget.expired:
                break
        return D


@dataclass(frozen=True, eq=False)
class Iterate:
    """Represent weights W, the arguments of the losses there, x = ρ'_δ and the values Σ cρ and Σ cρ_δ."""

    W: FloatArray  # (T, q r)
    margins: FloatArray
    arguments: FloatArray
    x: FloatArray
    exact: float
    soft: float

    @property
    def square(self) -> float:
        """Return ½(Σ‖w_k‖)²."""
        return 0.5 * float(norms(self.W).sum()) ** 2

    @property
    def value(self) -> float:
        """Return the smoothed primal."""
        return self.square + self.soft


class SmoothedRun(SaddleCourse):
    """Minimise ½(Σ‖w_k‖)² + Σ cρ_δ(γ) by proximal Newton steps, δ the width over which kinks are smoothed.

    ρ_δ is the Moreau envelope, so x = ρ'_δ is feasible for the dual, and the gradient −v_k = −Φᵀ(y_k∘ũ), one pass, is
    the certificate, too. Rows of the hinge have curvature within δ of the kink alone: few, so that the quadratic model
    is cheap beside a pass. δ follows the gap, of which smoothing may cost a share. The bound is that of the best dual
    point on the segment from the best so far to x.

    Parameters
    ----------
    model : SaddleModel
        Without biases and scalars (see `smooths`).
    rng : numpy.random.Generator
        Draws the points of the curvature.
    W : (T, q r) float array or None
        The start, None for that of w = 0.
    width : float
        The first δ, infinite for one at the scale of the gap.
    begin : float or None
        `time.monotonic` at which the trace begins.

    References
    ----------
    Y. Nesterov (2005). Smooth minimization of non-smooth functions.
    J. Lee, Y. Sun, M. Saunders (2014). Proximal Newton-type methods for minimizing composite functions.
    F. Roosta-Khorasani, M. Mahoney (2019). Sub-sampled Newton methods.
    """

    counted = "steps"

    def __init__(self, model: SaddleModel, budget: Budget, rng: np.random.Generator, W: FloatArray | None,
                 width: float = math.inf, begin: float | None = None) -> None:
        super().__init__(model, budget, begin)
        self.rng, self.start, self.width, self.failures = rng, W, width, 0

    def init(self) -> Status | None:
        model, point = self.model, None
        if not math.isfinite(self.width):
            self.width = self._first_width(model.losses.value(np.zeros(model.form.n)))
        if self.start is not None:
            given = self.iterate = self._iterate(self.start, model.margins(self.start))
            self.iterate = self._along(-given.W, -given.margins) or given
            point, misled = self._judged(), self.iterate.square < MISLED**2 * given.square
        if point is None or misled or point.error > MISLED:
            plain = model.judge(model.evaluate(np.full(model.count, 1.0 / model.count), model.first_guess()))
            if point is None or plain.gap < point.gap:
                W = plain.scale * plain.mu[:, None] * plain.directions
                self.certify(replace(plain, W=W))
                self.width = min(self.width, self._first_width(plain.gap))
                self.iterate = self._iterate(W, model.margins(W))
                point = self._judged()
        self.certify(point)
        return None

    def _first_width(self, gap: float) -> float:
        """Return the width that may cost its share of a gap at w = 0: smoothing costs at most ½δ Σ cx²."""
        model = self.model
        x = softened_slopes(model, np.asarray(model.losses.shifts, dtype=float), 0.0)
        most = 0.5 * float(model.weights @ x**2)
        return SHARE * gap / most if most > 0 and gap > 0 else 1.0

    def step(self) -> Status | None:
        before, iterate, model = self.best.gap, self.iterate, self.model
        self.iterations += 1
        # 1. a proximal Newton step
        lengths = norms(iterate.W)
        total = float(lengths.sum())
        mu = lengths / total if total > 0 else np.full(len(lengths), 1.0 / len(lengths))
        curved = np.zeros(len(iterate.arguments))  # the second derivatives of Σ cρ_δ, in the margins at last
        for conjugate, (term, part) in zip(model.conjugates, model.losses.slices()):
            v = iterate.arguments[part]
            curved[part] = term.weights * np.asarray(
                term.loss.curvature(v) if term.loss.is_smooth else
                conjugate.prox_derivative(v / self.width, 1.0 / self.width) / self.width)
        curved = model.losses.scatter(curved * model.losses.slopes)
        points = np.flatnonzero(curved > 0)
        share = max(len(points) / ROWS, 1.0)
        if share > 1.0:
            points = np.sort(self.rng.choice(points, ROWS, replace=False))
        limit = min(max(INNER, PASSES * model.form.n // max(len(points), 1)), MOST)
        D = self._quadratic(points, share * curved[points]).minimise(
            iterate.W, (1.0 - EVEN) * mu + EVEN / len(mu), limit, self.budget, self.rng)
        trial = self._along(D, model.margins(D))
        # 2. the width: more where no length lowers the smoothed primal, less where smoothing costs much
        if trial is None:
            self.width *= 2.0
            trial = self._iterate(self.iterate.W, self.iterate.margins)
        self.iterate = trial
        cost = trial.exact - trial.soft
        if cost > SHARE * before:
            self.width *= max(math.sqrt(SHARE * before / cost), LEAST)
            self.iterate = self._iterate(trial.W, trial.margins)
        self.certify(self._judged())
        self.failures = self.failures + 1 if self.best.gap > SLOW * before else 0
        return Status.INACCURATE if self.failures >= FAILURES else None

    def _along(self, D: FloatArray, margins: FloatArray) -> Iterate | None:
        """Return the place the longest part of a step ahead that lowers the value as it should; None if there is none.

        The fall is what the losses' slope and the change of the square say (Lee, Sun and Saunders 2014, Eq. 2.10).
        """
        iterate, model = self.iterate, self.model
        fall = iterate.square - 0.5 * float(norms(iterate.W + D).sum()) ** 2
        fall -= float((model.weights * iterate.x) @ model.losses.at_rows(margins))
        if not fall > 0:
            return None
        trials = (self._iterate(iterate.W + t * D, iterate.margins + t * margins) for t in LENGTHS)
        return next((at for t, at in zip(LENGTHS, trials) if at.value <= iterate.value - ENOUGH * t * fall), None)

    def _quadratic(self, points: IntArray, curvature: FloatArray) -> Quadratic:
        model = self.model
        return Quadratic(self.V, model.form.features.rows(points), model.labels[:, points].astype(float), curvature)

    def _iterate(self, W: FloatArray, margins: FloatArray) -> Iterate:
        """Return the place of weights and their margins at the width held."""
        model, width = self.model, self.width
        arguments = model.losses.arguments(margins)
        x = softened_slopes(model, arguments, width)
        losses, exact, soft = model.losses.row_losses(arguments), 0.0, 0.0
        for conjugate, (term, part) in zip(model.conjugates, model.losses.slices()):
            value = float(losses[part].sum())
            exact += value
            if not term.loss.is_smooth:  # rows without weight are at x = 0, which may lie outside the domain
                held = term.weights > 0
                at, v = x[part][held], arguments[part][held]
                value = float(term.weights[held] @ (at * v - conjugate(at) - 0.5 * width * at**2))
            soft += value
        return Iterate(W, margins, arguments, x, exact, soft)

    def _judged(self) -> Point:
        """Return the place with the best bound on the segment from the best dual point so far to its own."""
        model, iterate, best = self.model, self.iterate, self.best
        x = iterate.x
        V = self.V = model.directions(x)
        linear = -model.losses.conjugate_value(-model.weights * x)
        known = self._known()
        if known is not None:
            share = segment(known[1], V, known[2], linear)
            if share < 1.0:  # ρ* is convex, so the value there is at least the one between
                x, V = known[0] + share * (x - known[0]), known[1] + share * (V - known[1])
                linear = -model.losses.conjugate_value(-model.weights * x)
        squares, lengths = norms(V) ** 2, norms(iterate.W)
        total = float(lengths.sum())
        mu = lengths / total if total > 0 else np.full(model.count, 1.0 / model.count)
        point = Point(mu, x, np.zeros(0), V, squares, 0.5 * squares, np.zeros(0), iterate.arguments,
                      iterate.square + iterate.exact, linear - 0.5 * float(squares.max()), proved=x, fitted=np.zeros(0),
                      W=iterate.W)
        if best is None or point.primal < best.primal:
            return point
        return replace(point, mu=best.mu, primal=best.primal, W=best.W, scale=best.scale)

    def _known(self) -> tuple[FloatArray, FloatArray, float] | None:
        """Return (x, v, −Σ cρ*) of the best dual point so far, at first of x = 0 where that is feasible."""
        if self.best is not None:
            return self.best.x, self.best.directions, self.best.dual + float(self.best.costs.max())
        x = self.model.clip(np.zeros(len(self.model.weights)))
        return None if x.any() else (x, np.zeros((self.model.count, self.model.order)),
                                     -self.model.losses.conjugate_value(x))


def softened_slopes(model: SaddleModel, arguments: FloatArray, width: float) -> FloatArray:
    """Return x = ρ'_δ, the derivative of smooth losses and of the envelopes of others."""
    return model.clip(np.concatenate([np.zeros(0), *(
        term.loss.derivative(arguments[part]) if term.loss.is_smooth or not width > 0 else
        conjugate.prox(arguments[part] / width, 1.0 / width)
        for conjugate, (term, part) in zip(model.conjugates, model.losses.slices()))]))


def segment(first: FloatArray, last: FloatArray, known: float, new: float) -> float:
    """Return θ on a grid of greatest (1 − θ) known + θ new − ½ max‖(1 − θ) v_k + θ v'_k‖²."""
    shares = np.linspace(0.0, 1.0, 41)
    a, b, c = (np.einsum("kr,kr->k", p, q)[:, None] for p, q in ((first, first), (first, last), (last, last)))
    squares = (1 - shares) ** 2 * a + 2 * shares * (1 - shares) * b + shares**2 * c
    return float(shares[int(np.argmax((1 - shares) * known + shares * new - 0.5 * squares.max(axis=0)))])
