"""Proximal Newton steps on the primal, its kinks smoothed: the squared sum of norms exactly, the losses to second order."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from margindsl.contract import Budget, Status
from margindsl.typing import FloatArray, IntArray
from margindsl_solvers.engines.saddle.alternation import takes_turns
from margindsl_solvers.engines.saddle.model import Point, SaddleModel
from margindsl_solvers.engines.saddle.run import SaddleCourse

# All tuned on noisy copies of MNIST's 8 and 9 (100,000 x 48) and on letters, hinge and ODM.
SHARE = 0.25  # of the gap that smoothing may cost; the width falls by no more than LEAST at a step
LEAST = 0.1
ROWS = 3_000  # with curvature, of which a step takes a sample of so many
INNER, STILL = 60, 1e-2  # inner steps granted at least, and their move, relative to the first, that ends them
EVEN = 0.2  # of the inner metric spread over all labellings, so that those without mass can enter
POWER = 6  # products for the length of the inner steps
LENGTHS = (1.0, 0.7, 0.4, 0.2, 0.1, 0.05, 0.01)  # of a step
SLOW, FAILURES = 0.7, 3  # times the gap: what a step should reach, and how many in a row may not
MISLED = 0.5  # relative gap from which w = 0 is tried, too


def smooths(model: SaddleModel) -> bool:
    """Return whether the primal is one in W alone, with finite losses."""
    return takes_turns(model) and not len(model.costs)


def norms(W: FloatArray) -> FloatArray:
    """Return the lengths ‖w_k‖."""
    return np.sqrt(np.einsum("kr,kr->k", W, W))


def shrink(Z: FloatArray, steps: FloatArray) -> FloatArray:
    """Return argmin over W of ½(Σ‖w_k‖)² + Σ ‖w_k − z_k‖²/2τ_k.

    w_k = (1 − τ_kθ/‖z_k‖)₊ z_k with θ = Σ‖w_k‖, so that θ = Σ‖z_k‖/(1 + Στ_k) over the rows kept, those of the
    greatest ‖z_k‖/τ_k.

    Parameters
    ----------
    Z : (T, r) float array
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
    """Represent q(Δ) = −⟨V, Δ⟩ + ½ Σ_i h_i (Σ_k y_k,i φ_iᵀδ_k)², the losses about W, by some of the points.

    Parameters
    ----------
    V : (T, q r) float array
        The negative gradient, of all points.
    phi : (p, r) float array
    labels : (T q, p) float array
    curvature : (p,) float array
        h ≥ 0.
    """

    V: FloatArray
    phi: FloatArray
    labels: FloatArray
    curvature: FloatArray

    def product(self, D: FloatArray) -> FloatArray:
        """Return the rows Σ_i h_i (Σ_l y_l,i φ_iᵀδ_l) y_k,i φ_i."""
        margins = np.einsum("kp,kp->p", D.reshape(len(self.labels), -1) @ self.phi.T, self.labels)
        return np.asarray((self.labels * (self.curvature * margins)) @ self.phi).reshape(D.shape)

    def steepest(self, metric: FloatArray) -> float:
        """Return the greatest eigenvalue of the product in a metric of the labellings, about, by the power method."""
        D, value = np.random.default_rng(0).normal(size=self.V.shape) * metric[:, None], 0.0
        for _ in range(POWER):
            D /= max(math.sqrt(float(np.sum(D**2 / metric[:, None]))), 1e-300)
            D = metric[:, None] * self.product(D)
            value = math.sqrt(float(np.sum(D**2 / metric[:, None])))
        return 1.1 * value

    def minimise(self, W: FloatArray, metric: FloatArray, limit: int) -> FloatArray:
        """Return Δ near the least q(Δ) + ½(Σ‖w_k + δ_k‖)², by accelerated proximal steps with restarts.

        Parameters
        ----------
        W : (T, q r) float array
        metric : (T,) float array
            The step of w_k is in proportion to it.
        limit : int
            On the steps.

        References
        ----------
        A. Beck, M. Teboulle (2009). A fast iterative shrinkage-thresholding algorithm.
        B. O'Donoghue, E. Candès (2015). Adaptive restart for accelerated gradient schemes, Sec. 3.2.
        """
        steps = metric / max(self.steepest(metric), 1.0 / len(metric))
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
            moved = math.sqrt(float(np.sum(step**2 / steps[:, None])))
            first = first or moved
            if moved <= STILL * first:
                break
        return D


@dataclass(frozen=True, eq=False)
class Place:
    """Represent weights W, the arguments of the losses there, x = ρ'_δ and the values Σ cρ and Σ cρ_δ.

    Parameters
    ----------
    W : (T, q r) float array
    margins, arguments, x : float arrays
    exact, soft : float
    """

    W: FloatArray
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
    budget : Budget
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

    def __init__(self, model: SaddleModel, budget: Budget, W: FloatArray | None, width: float = math.inf,
                 begin: float | None = None) -> None:
        super().__init__(model, budget, begin)
        self.start, self.width, self.failures = W, width, 0
        self.rng = np.random.default_rng(model.form.n)

    def init(self) -> Status | None:
        """Judge the start, and w = 0 where that may be better."""
        model = self.model
        if self.start is not None:
            if not math.isfinite(self.width):
                self.width = self._first_width(model.losses.value(np.zeros(model.form.n)))
            self.place = self._place(self.start, model.margins(self.start))
            self._judge()
        if self.best is None or self.best.error > MISLED:
            plain = model.judge(model.evaluate(np.full(model.count, 1.0 / model.count), model.first_guess()))
            if self.best is None or plain.gap < self.best.gap:
                W = plain.scale * plain.mu[:, None] * plain.directions
                self.certify(replace(plain, W=W))
                self.width = min(self.width, self._first_width(plain.gap))
                self.place = self._place(W, model.margins(W))
                self._judge()
        return None

    def _first_width(self, gap: float) -> float:
        """Return the width that may cost its share of a gap at w = 0: smoothing costs at most ½δ Σ cx²."""
        model = self.model
        x = self._slopes(np.asarray(model.losses.shifts, dtype=float), 0.0)
        most = 0.5 * float(model.weights @ x**2)
        return SHARE * gap / most if most > 0 and gap > 0 else 1.0

    def step(self) -> Status | None:
        """Take one step, judge its end and narrow the smoothing."""
        before = self.best.gap
        self.iterations += 1
        trial = self._ahead()
        if trial is None:
            self.width *= 2.0
            trial = self._place(self.place.W, self.place.margins)
        self.place = trial
        cost = trial.exact - trial.soft
        if cost > SHARE * before:
            self.width *= max(math.sqrt(SHARE * before / cost), LEAST)
            self.place = self._place(trial.W, trial.margins)
        self._judge()
        self.failures = self.failures + 1 if self.best.gap > SLOW * before else 0
        return Status.INACCURATE if self.failures >= FAILURES else None

    def _ahead(self) -> Place | None:
        """Return the place a proximal Newton step ahead, None where no length lowers the smoothed primal."""
        place, model = self.place, self.model
        lengths = norms(place.W)
        total = float(lengths.sum())
        mu = lengths / total if total > 0 else np.full(len(lengths), 1.0 / len(lengths))
        curved = self._curvature(place.arguments)
        points = np.flatnonzero(curved > 0)
        share = max(len(points) / ROWS, 1.0)
        if share > 1.0:
            points = np.sort(self.rng.choice(points, ROWS, replace=False))
        limit = max(INNER, model.form.n // max(len(points), 1))  # no more than a pass
        D = self._quadratic(points, share * curved[points]).minimise(
            place.W, (1.0 - EVEN) * mu + EVEN / len(mu), min(limit, 5 * INNER))
        margins = model.margins(D)
        best: Place | None = None
        for length in LENGTHS:
            trial = self._place(place.W + length * D, place.margins + length * margins)
            if trial.value < (place if best is None else best).value:
                best = trial
            elif best is not None:
                break
            if best is not None and length == 1.0:
                break
        return best

    def _quadratic(self, points: IntArray, curvature: FloatArray) -> Quadratic:
        model = self.model
        return Quadratic(self.V, model.form.features.rows(points), model.labels[:, points].astype(float), curvature)

    def _place(self, W: FloatArray, margins: FloatArray) -> Place:
        """Return the place of weights and their margins at the width held."""
        model, width = self.model, self.width
        arguments = model.losses.arguments(margins)
        x = self._slopes(arguments, width)
        losses, exact, soft = model.losses.row_losses(arguments), 0.0, 0.0
        for conjugate, (term, part) in zip(model.conjugates, model.losses.slices()):
            value = float(losses[part].sum())
            exact += value
            soft += value if term.loss.is_smooth else float(term.weights @ (
                x[part] * arguments[part] - conjugate(x[part]) - 0.5 * width * x[part] ** 2))
        return Place(W, margins, arguments, x, exact, soft)

    def _slopes(self, arguments: FloatArray, width: float) -> FloatArray:
        """Return x = ρ'_δ, the derivative of smooth losses and of the envelopes of others."""
        model, x = self.model, np.zeros(len(arguments))
        for conjugate, (term, part) in zip(model.conjugates, model.losses.slices()):
            v = arguments[part]
            if term.loss.is_smooth or not width > 0:
                x[part] = term.loss.derivative(v)
            else:
                x[part] = conjugate.prox(v / width, 1.0 / width)
        return model.clip(x)

    def _curvature(self, arguments: FloatArray) -> FloatArray:
        """Return the (n,) second derivatives of Σ cρ_δ in the margins."""
        model, h = self.model, np.zeros(len(arguments))
        for conjugate, (term, part) in zip(model.conjugates, model.losses.slices()):
            v = arguments[part]
            h[part] = term.weights * (np.asarray(term.loss.curvature(v)) if term.loss.is_smooth else
                                      np.asarray(conjugate.prox_derivative(v / self.width, 1.0 / self.width))
                                      / self.width)
        return model.losses.spread(h * model.losses.slopes)

    def _judge(self) -> None:
        """Book the place with the best bound on the segment from the best dual point so far to its own."""
        model, place = self.model, self.place
        self.V = model.directions(place.x)
        x, V, linear = place.x, self.V, -model.losses.conjugate_value(-model.weights * place.x)
        dual = linear - 0.5 * float(np.max(norms(V))) ** 2
        if self.best is not None:
            known = self.best.dual + 0.5 * float(self.best.norms.max())
            share = segment(self.best.directions, V, known, linear)
            if share < 1.0:  # ρ* is convex, so the value there is at least the one between
                x, V = self.best.x + share * (x - self.best.x), self.best.directions + share * (V - self.best.directions)
                dual = -model.losses.conjugate_value(-model.weights * x) - 0.5 * float(np.max(norms(V))) ** 2
        squares = norms(V) ** 2
        lengths = norms(place.W)
        total = float(lengths.sum())
        mu = lengths / total if total > 0 else np.full(model.count, 1.0 / model.count)
        point = Point(mu, x, np.zeros(0), V, squares, 0.5 * squares, np.zeros(0), place.arguments,
                      place.square + place.exact, dual, proved=x, fitted=np.zeros(0), W=place.W)
        if self.best is not None and self.best.primal < point.primal:
            point = replace(point, mu=self.best.mu, primal=self.best.primal, W=self.best.W, scale=self.best.scale)
        self.certify(point)


def segment(first: FloatArray, last: FloatArray, known: float, new: float) -> float:
    """Return θ on a grid of greatest (1 − θ) known + θ new − ½ max‖(1 − θ) v_k + θ v'_k‖²."""
    shares = np.linspace(0.0, 1.0, 41)
    a, b, c = (np.einsum("kr,kr->k", p, q)[:, None] for p, q in ((first, first), (first, last), (last, last)))
    squares = (1 - shares) ** 2 * a + 2 * shares * (1 - shares) * b + shares**2 * c
    return float(shares[int(np.argmax((1 - shares) * known + shares * new - 0.5 * squares.max(axis=0)))])
