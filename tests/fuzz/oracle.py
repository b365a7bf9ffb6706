"""The independent judge: own features, own label set, own value, own optimum by enumeration.

Every optimum here is the value of the formula, in plain numpy, at a point that satisfies the declaration: an upper
bound of the true one whatever the conic solver did. A bound above it is wrong beyond doubt.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from conic import Builder, Program, Rows, Solved
from formulas import Affine, Margins
from models import Model, Row

EPS = np.finfo(float).eps
ENTRIES = 70_000  # labellings times points that are enumerated


class Ambiguous(Exception):
    """Signal a model whose own numbers leave open what it declares: rounding decides."""


@dataclass
class Point:
    """Represent weights (r, columns), bias and scalars, and what the formula makes of them."""

    labels: np.ndarray
    w: np.ndarray
    bias: float
    scalars: np.ndarray
    value: float
    parts: float


@dataclass
class Optimum:
    point: Point | None
    complete: bool
    solves: int
    members: int


def exact_sum(coefficients: np.ndarray, values: np.ndarray) -> float:
    return math.fsum(float(a) * int(v) for a, v in zip(coefficients, values))


class Oracle:
    """Judge one model.

    Parameters
    ----------
    model : Model
    earlier : list of (n,) arrays
        Decision values, without bias, of earlier solutions the weights are orthogonal to.
    """

    def __init__(self, model: Model, earlier: list[np.ndarray] | None = None) -> None:
        self.model = model
        self.features = self._features(earlier or [])
        lengths = np.linalg.norm(self.features, axis=1)
        self.longest = float(lengths.max(initial=0.0))
        if model.kernel[0] == "linear":  # centring rounds by the length of the points as they are given
            self.longest = max(self.longest, float(np.linalg.norm(model.X, axis=1).max()))
        self.size = float(np.sqrt(np.mean(lengths**2))) or 1.0
        self.laplacian = np.zeros((model.n, model.n))
        for coefficient, graph in model.manifolds:
            self.laplacian += coefficient * (np.diag(graph.sum(axis=1)) - graph)
        self.decision = [self._decision_row(row) for row in model.decision]
        self._programs: dict[Any, Any] = {}

    # -- features -----------------------------------------------------------------------------------------

    def _features(self, earlier: list[np.ndarray]) -> np.ndarray:
        m = self.model
        X = m.X.astype(np.longdouble)
        if m.kernel[0] == "linear":
            phi = X
            if m.centre:
                phi = X - X.mean(axis=0)
                phi[:, np.abs(phi).max(axis=0) <= 64 * EPS * np.abs(X).max(axis=0)] = 0.0
            phi = phi.astype(float)
        else:
            phi = _factor(gram(m), m.centre)
        if m.bias == "penalised":
            phi = np.column_stack([phi, np.ones(m.n)])
        if earlier:
            directions = np.column_stack([np.linalg.lstsq(phi, f, rcond=1e-11)[0] for f in earlier])
            directions /= np.maximum(np.linalg.norm(directions, axis=0), 1e-300)
            u, s, _ = np.linalg.svd(directions, full_matrices=False)
            u = u[:, s > 1e-12 * np.max(s, initial=0.0)]
            phi = phi - (phi @ u) @ u.T
        return phi

    def _decision_row(self, row: Row) -> tuple[np.ndarray, float, float, float]:
        """Return (direction in weights, weight of the bias, lower, upper) with rounding noise set to zero."""
        a = row.coefficients
        direction = self.features.T @ a
        size = np.abs(self.features).T @ np.abs(a)
        top = float(size.max(initial=0.0))
        relative = float(np.abs(direction).max(initial=0.0)) / top if top > 0 else 0.0
        if 1e-13 < relative < 1e-6:
            raise Ambiguous
        if relative <= 1e-13:
            direction = np.zeros_like(direction)
        total = math.fsum(a)
        heft = math.fsum(np.abs(a))
        if heft and 1e-14 < abs(total) / heft < 1e-6 and self.model.bias is True:
            raise Ambiguous
        bias = 0.0 if not heft or abs(total) <= 1e-14 * heft else total
        return direction, bias if self.model.bias is True else 0.0, row.lower, row.upper

    # -- the label set ------------------------------------------------------------------------------------

    def admits(self, y: np.ndarray, loose: bool = True) -> bool:
        """Return whether labels satisfy every constraint; `loose` forgives the rounding of sums, nothing else."""
        m = self.model
        allowed = (-1, 1) if m.k == 2 else range(m.k)
        if not np.all(np.isin(y, list(allowed))):
            return False
        if any(y[i] != y[j] for i, j in m.must) or any(y[i] == y[j] for i, j in m.cannot):
            return False
        if any(y[i] != v for i, v in m.known.items()):
            return False
        counts = self._counts(y)
        if any(np.any(counts < low) or np.any(counts > high) for low, high in m.sizes):
            return False
        return all(_holds(row, y, loose) for row in m.rows)

    def _counts(self, y: np.ndarray) -> np.ndarray:
        if self.model.k == 2:
            return np.array([np.sum(y == -1), np.sum(y == 1)])
        return np.bincount(y, minlength=self.model.k)

    def members(self) -> np.ndarray | None:
        """Return every labelling that satisfies the constraints without forgiveness, None where B is too large."""
        m = self.model
        if m.k**m.n * m.n > ENTRIES * (4 if m.k == 2 else 1):
            return None
        values = (-1, 1) if m.k == 2 else tuple(range(m.k))
        Y = np.array(list(itertools.product(values, repeat=m.n))) if m.n <= 6 else _grid(values, m.n)
        keep = np.ones(len(Y), dtype=bool)
        for i, j in m.must:
            keep &= Y[:, i] == Y[:, j]
        for i, j in m.cannot:
            keep &= Y[:, i] != Y[:, j]
        for i, v in m.known.items():
            keep &= Y[:, i] == v
        Y = Y[keep]
        for row in m.rows:
            heft = EPS * 8 * m.n * (np.abs(row.coefficients).sum() + _rim(row))
            sums = Y @ row.coefficients
            inside = (sums >= row.lower + heft) & (sums <= row.upper - heft)
            edge = ~inside & (sums >= row.lower - heft) & (sums <= row.upper + heft)
            for at in np.flatnonzero(edge):
                inside[at] = _holds(row, Y[at], loose=False)
            Y = Y[inside]
        for low, high in m.sizes:
            counts = np.stack([(v == Y).sum(axis=1) for v in values], axis=1)
            Y = Y[np.all((counts >= low) & (counts <= high), axis=1)]
        return Y

    # -- the value ----------------------------------------------------------------------------------------

    def margins(self, labels: np.ndarray, decision: np.ndarray) -> np.ndarray:
        m = self.model
        if m.k == 2:
            return labels * decision
        own = decision[np.arange(m.n), labels]
        if m.coding == "simplex":
            return own
        rest = decision.copy()
        rest[np.arange(m.n), labels] = -np.inf
        return own - rest.max(axis=1)

    def value(self, labels: np.ndarray, decision: np.ndarray, norm: float, scalars: np.ndarray) -> tuple[float, float]:
        """Return the objective and the sum of the moduli of its parts; `scalars` holds those of mean_variance last."""
        m = self.model
        parts = [m.norm * norm, m.constant]
        if m.manifolds:
            share = (m.k - 1) / m.k if m.coding == "simplex" else 1.0  # the values of V, as in the norm
            apart = decision[:, None] - decision[None]  # pair by pair: values that differ little cancel in fᵀLf
            apart = apart**2 if apart.ndim == 2 else np.sum(apart**2, axis=2)
            parts.append(-0.5 * share * float(np.sum(self.laplacian * apart)))
        parts += [c * s for c, s in zip(m.costs, scalars)]
        parts += self._loss_parts(self.margins(labels, decision), scalars)
        return math.fsum(parts), math.fsum(map(abs, parts))

    def _loss_parts(self, margins: np.ndarray, scalars: np.ndarray) -> list[float]:
        parts: list[float] = []
        own = len(self.model.scalars)
        for t in self.model.terms:
            g = margins[t.index]
            if t.aggregate == "mean_variance":
                s, own = scalars[own], own + 1
                parts += [-t.coefficient * t.eta * s, t.coefficient * t.lam * float(np.mean((g - s) ** 2))]
                continue
            entries = t.formula.value(Margins(g, t.index, scalars))
            if t.aggregate == "var":
                parts.append(t.coefficient * float(np.var(entries)))
                continue
            entries = entries if t.weights is None else t.weights[t.index] * entries
            entries = entries / len(entries) if t.aggregate == "mean" else entries
            parts += [float(t.coefficient * v) for v in entries]
        return parts

    @functools.cached_property
    def dust(self) -> float:
        """Return what is nothing against the losses at the zero hyperplane: a value that small is zero.

        Losses that vanish there have the unit of their slopes, over the points as they are given.
        """
        zero = np.zeros(self.model.n)
        level = sum(map(abs, self._loss_parts(zero, np.zeros(self._scalars))))
        return 1e-13 * (level or (sum(self._slopes(zero)) * self.longest) ** 2 / self.model.norm)

    def jitter(self, labels: np.ndarray, decision: np.ndarray, norm: float, scalars: np.ndarray) -> float:
        """Return how far rounding in the decision values and scalars can move the value."""
        reach = max(float(np.max(np.abs(decision), initial=0.0)), self.longest * math.sqrt(norm))
        margins = self.margins(labels, decision)
        base = np.array(self._loss_parts(margins, scalars))
        moves = [0.0]
        for step in (1e-13, -1e-13, 1e-12, -1e-12):  # a kink may lie just beyond the first
            for g, s in ((margins + step * reach, scalars), (margins, scalars * (1 + step))):
                moves.append(float(np.abs(np.array(self._loss_parts(g, s)) - base).sum()) * 1e-13 / abs(step))
        apart = np.abs(decision[:, None] - decision[None]).reshape(len(labels), len(labels), -1).sum(axis=2)
        return max(moves) + 1e-13 * reach * float(np.sum(np.abs(self.laplacian) * apart))

    # -- the best over weights at given labels ------------------------------------------------------------

    def at_labels(self, labels: np.ndarray, pattern: np.ndarray | None = None) -> tuple[Point | None, Solved | None]:
        """Return the best point found at given labels, and the conic solver's answer in its first units."""
        best, first = None, None
        for number, units in enumerate(self._units()):
            fixed = self._program(units, pattern)
            try:
                found = fixed.solve(labels)
            except Exception:  # the conic solver refuses what is far out of scale: other units are tried
                continue
            if number == 0:
                first = found
            point = self._point(labels, fixed.weights(found), fixed.bias(found), fixed.scalars(found))
            if point is not None and (best is None or point.value < best.value):
                best = point
        zero = self._point(labels, np.zeros((self.features.shape[1], self._columns)), 0.0, np.zeros(self._scalars))
        if zero is not None and (best is None or zero.value < best.value):
            best = zero
        return best, first

    def _point(self, labels: np.ndarray, w: np.ndarray, bias: float, scalars: np.ndarray) -> Point | None:
        """Return a point brought into the decision bounds, None where it cannot be."""
        m = self.model
        if not (np.all(np.isfinite(w)) and np.isfinite(bias) and np.all(np.isfinite(scalars))):
            return None
        scalars = np.array([max(s, 0.0) if k < len(m.scalars) and m.scalars[k][0] else s
                            for k, s in enumerate(scalars)])
        if m.k == 2:
            for direction, weight, lower, upper in self.decision:
                reached = float(direction @ w[:, 0]) + weight * bias
                if lower <= reached <= upper:
                    continue
                target = lower if reached < lower else upper
                if weight:
                    bias += (target - reached) / weight
                elif direction @ direction > 0:
                    w = w + (direction * ((target - reached) / (direction @ direction)))[:, None]
                elif not lower <= 0 <= upper:
                    return None
            for direction, weight, lower, upper in self.decision:
                reached = float(direction @ w[:, 0]) + weight * bias
                heft = float(np.abs(direction) @ np.abs(w[:, 0])) + abs(weight * bias)
                if not lower - 1e-12 * heft <= reached <= upper + 1e-12 * heft:
                    return None
        else:
            for direction, _, _, upper in self.decision:
                spread = float(np.ptp(direction @ w @ codes(m.k).T if m.coding == "simplex" else direction @ w))
                if spread > upper:
                    w = w * (upper / spread)
        decision = self.decide(w, bias)
        value, parts = self.value(labels, decision, float(np.sum(w**2)), scalars)
        return Point(labels, w, bias, scalars, value, parts) if np.isfinite(value) else None

    def decide(self, w: np.ndarray, bias: float) -> np.ndarray:
        f = self.features @ w
        if self.model.k == 2:
            return f[:, 0] + bias
        return f @ codes(self.model.k).T if self.model.coding == "simplex" else f

    @property
    def _columns(self) -> int:
        m = self.model
        return m.k - 1 if m.k == 2 or m.coding == "simplex" else m.k

    @property
    def _scalars(self) -> int:
        return len(self.model.scalars) + sum(t.aggregate == "mean_variance" for t in self.model.terms)

    def _units(self) -> list[tuple[float, float]]:
        """Return (unit of decision values, unit of the objective) to try."""
        m = self.model
        zero = np.zeros(m.n)
        slope = sum(abs(p) for p in self._slopes(zero))
        level = sum(map(abs, self._loss_parts(zero, np.zeros(self._scalars))))
        strength = slope * self.size**2 / m.norm
        units = [(1.0, max(m.norm / self.size**2, slope, level))]
        if strength < 1e-2 and strength > 0:
            units.append((strength, strength**2 * m.norm / self.size**2))
        if strength > 1e2:
            units.append((1.0, m.norm / self.size**2))
        return units

    def _slopes(self, margins: np.ndarray) -> list[float]:
        scalars, out = np.zeros(self._scalars), []
        base = self._loss_parts(margins, scalars)
        for step in (1e-3, -1e-3):
            out.append(sum(abs(a - b) for a, b in zip(self._loss_parts(margins + step, scalars), base)) / 1e-3)
        return [max(out)]

    def _program(self, units: tuple[float, float], pattern: np.ndarray | None) -> Fixed:
        key = units if pattern is None else (units, tuple(pattern))
        if key not in self._programs:
            self._programs[key] = Fixed(self, *units, pattern)
        return self._programs[key]

    @property
    def is_convex(self) -> bool:
        """Return whether fixed labels leave a convex problem: always but for rising Crammer-Singer losses."""
        m = self.model
        return m.coding != "crammer-singer" or all(
            t.formula is not None and t.formula.falling and t.aggregate != "var" for t in m.terms)

    # -- enumeration --------------------------------------------------------------------------------------

    def optimum(self, most: int = 80) -> Optimum:
        """Return the best over all members of B; solves are saved by weak duality, which bounds all labellings."""
        Y = self.members()
        if Y is None:
            return Optimum(None, False, 0, -1)
        total = len(Y)
        if self.model.k > 2 and self._is_symmetric():
            first = np.array([_by_appearance(y) for y in Y]).reshape(Y.shape)
            Y = np.unique(first, axis=0)
        lower = np.full(len(Y), -np.inf)
        open_ = np.ones(len(Y), dtype=bool)
        best, solves = None, 0
        while open_.any() and solves < most:
            at = int(np.flatnonzero(open_)[np.argmin(lower[open_])])
            if best is not None and lower[at] >= best.value - 1e-10 * best.parts:
                return Optimum(best, True, solves, total)
            point, found = self.at_labels(Y[at])
            solves += 1
            open_[at] = False
            if point is not None and (best is None or point.value < best.value):
                best = point
            if found is not None and found.status == "Solved":
                cut = self._program(self._units()[0], None).cut(found, Y[at], Y)
                if cut is not None:
                    lower = np.maximum(lower, cut)
        complete = not open_.any() or (best is not None and lower[open_].min() >= best.value - 1e-10 * best.parts)
        return Optimum(best, bool(complete), solves, total)

    def _is_symmetric(self) -> bool:
        """Return whether every renaming of the clusters maps B to itself."""
        m = self.model
        return not m.known and all(np.ptp(low) == 0 and np.ptp(high) == 0 for low, high in m.sizes)


class Fixed:
    """The conic program at fixed labels, in units: f = unit · f', objective = price · objective'.

    Built for the first labelling; others change the signs or the codes in the rows that tie margins to weights.
    """

    def __init__(self, oracle: Oracle, unit: float, price: float, pattern: np.ndarray | None) -> None:
        m = oracle.model
        self.oracle, self.unit, self.price, self.pattern = oracle, unit, price, pattern
        self.phi = oracle.features / oracle.size
        self.width = self.phi.shape[1] * oracle._columns
        self.codes = codes(m.k) if m.k == 2 or m.coding == "simplex" else None
        self.columns_ = np.arange(self.width).reshape(self.phi.shape[1], oracle._columns)

    def _build(self, labels: np.ndarray) -> Program:
        m, o, unit = self.oracle.model, self.oracle, self.unit
        b = Builder(unit)
        b.columns(self.width)
        self.bias_column = int(b.columns(1)[0]) if m.bias is True else None
        gamma = b.columns(m.n)
        b.scalars = list(map(int, b.columns(o._scalars)))
        self.scalar_columns = b.scalars
        for s, (nonneg, _) in enumerate(m.scalars):
            if nonneg:
                b.at_least(b.scalar(s, 1), Rows(np.zeros(1)))
        self._tie(b, gamma, labels)
        self._bound(b)
        objective = self._losses(b, gamma)
        kappa = m.norm * (unit / o.size) ** 2
        metric = kappa * np.eye(self.width)
        if m.manifolds:
            block = unit**2 * self.phi.T @ o.laplacian @ self.phi
            metric += np.kron(block, np.eye(o._columns))
        quadratic = 2 * metric / self.price
        self.inverse = np.linalg.inv(quadratic)
        scaled = Rows(objective.constant / self.price, tuple((c, v / self.price) for c, v in objective.terms),
                      tuple((c, v / self.price) for c, v in objective.squares))
        return Program(b, scaled, quadratic)

    def _tie(self, b: Builder, gamma: np.ndarray, labels: np.ndarray) -> None:
        """Add γ' = ⟨c_y, V'φ⟩ (first n rows), or γ' ≤ f_y − f_q for every other q."""
        m = self.oracle.model
        one = np.ones(m.n)
        if self.codes is not None:
            code = self.codes[_clusters(labels, m.k)]
            terms = [(np.full(m.n, self.columns_[a, q]), self.phi[:, a] * code[:, q])
                     for a in range(self.phi.shape[1]) for q in range(code.shape[1])]
            if self.bias_column is not None:
                terms.append((np.full(m.n, self.bias_column), code[:, 0]))
            b.zero.insert(0, (Rows(np.zeros(m.n), ((gamma, -one), *terms)), None))
            return
        for shift in range(1, m.k):
            other = (labels + shift) % m.k
            rows = Rows(np.zeros(m.n), tuple(
                term for a in range(self.phi.shape[1]) for term in (
                    (self.columns_[a, labels], self.phi[:, a]), (self.columns_[a, other], -self.phi[:, a]))))
            if self.pattern is None:
                b.at_least(rows, Rows(np.zeros(m.n), ((gamma, one),)))
                continue
            q = self.pattern
            tied = Rows(np.zeros(m.n), tuple(
                term for a in range(self.phi.shape[1]) for term in (
                    (self.columns_[a, labels], self.phi[:, a]), (self.columns_[a, q], -self.phi[:, a]))))
            if shift == 1:
                b.zero.insert(0, (tied.plus(Rows(np.zeros(m.n), ((gamma, -one),))), None))
            b.at_least(rows, tied)

    def _bound(self, b: Builder) -> None:
        m, o = self.oracle.model, self.oracle
        for direction, weight, lower, upper in o.decision:
            scale = float(np.linalg.norm(direction)) / o.size + abs(weight)
            if scale == 0:
                continue
            if m.k == 2:
                terms = tuple((self.columns_[a], np.array([direction[a] / o.size / scale]))
                              for a in range(len(direction)))
                if weight:
                    terms += ((np.array([self.bias_column]), np.array([weight / scale])),)
                row = Rows(np.zeros(1), terms)
                if upper < np.inf:
                    b.at_least(Rows(np.array([upper / scale / self.unit])), row)
                if lower > -np.inf:
                    b.at_least(row, Rows(np.array([lower / scale / self.unit])))
                continue
            outputs = np.eye(m.k) if self.codes is None else self.codes
            for p, q in itertools.permutations(range(m.k), 2):
                apart = (outputs[p] - outputs[q]) / o.size / scale
                terms = tuple((self.columns_[a, [c]], np.array([direction[a] * apart[c]]))
                              for a in range(len(direction)) for c in np.flatnonzero(apart))
                b.at_least(Rows(np.array([upper / scale / self.unit])), Rows(np.zeros(1), terms))

    def _losses(self, b: Builder, gamma: np.ndarray) -> Rows:
        m = self.oracle.model
        total = Rows(np.array([m.constant]))
        for s, cost in enumerate(m.costs):
            total = total.plus(b.scalar(s, 1).times(cost))
        own = len(m.scalars)
        for t in m.terms:
            count = len(t.index)
            margins = Rows(np.zeros(count), ((gamma[t.index], np.full(count, self.unit)),))
            e = Margins(margins, t.index, ())
            if t.aggregate == "mean_variance":
                formula, weight, s = Affine(1.0, 0.0, ((own, -1.0),)), t.coefficient * t.lam / count, own
                own += 1
                total = total.plus(b.scalar(s, 1).times(-t.coefficient * t.eta))
                rows = _square_of(formula.rows(e, b), b)
            elif t.aggregate == "var":
                centre, weight = b.new(1), t.coefficient / count
                (column, unit), = centre.terms
                lowered = t.formula.rows(e, b).plus(
                    Rows(np.zeros(count), ((np.full(count, column[0]), np.full(count, -unit[0])),)))
                rows = _square_of(lowered, b)
            else:
                rows = t.formula.rows(e, b)
                rows = rows if t.weights is None else rows.times(t.weights[t.index])
                weight = t.coefficient / count if t.aggregate == "mean" else t.coefficient
            total = total.plus(_added(rows.times(weight)))
        return total

    def solve(self, labels: np.ndarray) -> Solved:
        if self.codes is None or self.pattern is not None:
            return self._build(labels).solve()
        if not hasattr(self, "program"):
            self.program = self._build(labels)
            count = self.width + (self.bias_column is not None)
            self.places = self.program.entries(range(self.oracle.model.n), range(count))
            code = self.codes[_clusters(labels, self.oracle.model.k)]
            self.simple = self.oracle.model.k == 2
            self.signs = code[:, 0] if self.simple else None
        if self.simple:
            data = self.program.base.copy()
            for i, sign in enumerate(labels * self.signs):
                if sign < 0:
                    data[self.places[i]] *= -1
            self.program.A.data = data
            return self.program.solve()
        return self._build(labels).solve()

    def weights(self, found: Solved) -> np.ndarray:
        return found.x[: self.width].reshape(self.columns_.shape) * (self.unit / self.oracle.size)

    def bias(self, found: Solved) -> float:
        return self.unit * float(found.x[self.bias_column]) if self.bias_column is not None else 0.0

    def scalars(self, found: Solved) -> np.ndarray:
        return self.unit * found.x[self.scalar_columns] if self.scalar_columns else np.zeros(0)

    def cut(self, found: Solved, labels: np.ndarray, Y: np.ndarray) -> np.ndarray | None:
        """Return, in the user's units, a lower bound of every labelling: the duals of one, weak duality for all.

        It is as exact as the solver's duals and only decides which labellings are solved.
        """
        m = self.oracle.model
        if self.codes is None or self.bias_column is not None or any(
                np.any(direction) for direction, _, _, _ in self.oracle.decision):
            return None
        u = found.z[: m.n]

        def spread(labellings: np.ndarray) -> np.ndarray:
            code = self.codes[_clusters(labellings, m.k)] * u[:, None]
            v = np.einsum("bnq,na->baq", code, self.phi).reshape(len(labellings), -1)
            return 0.5 * np.sum((v @ self.inverse) * v, axis=1)

        return self.price * (found.dual + spread(labels[None])[0] - spread(Y))


def codes(k: int) -> np.ndarray:
    """Return k unit vectors of inner products −1/(k−1), as rows; ±1 for two."""
    if k == 2:
        return np.array([[-1.0], [1.0]])
    values, vectors = np.linalg.eigh(np.eye(k) - 1.0 / k)
    return vectors[:, values > 0.5] * np.sqrt(k / (k - 1.0))


def gram(m: Model) -> np.ndarray:
    """Return the kernel matrix of the declared points."""
    X, name = m.X.astype(float), m.kernel[0]
    if name == "precomputed":
        return np.asarray(m.kernel[1], dtype=float)
    if name in ("rbf", "callable"):
        squares = ((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2)
        return np.exp(-squares / (2 * m.kernel[1] ** 2))
    _, degree, offset, scale = m.kernel
    return (scale * (X @ X.T) + offset) ** degree


def _factor(K: np.ndarray, centre: bool) -> np.ndarray:
    n, heft = len(K), float(np.abs(K).max())
    if centre:
        H = np.eye(n) - 1.0 / n
        K = H @ K @ H
        if np.abs(K).max() <= 64 * EPS * heft:  # one point many times
            K = np.zeros_like(K)
    values, vectors = np.linalg.eigh((K + K.T) / 2)
    top = max(float(values[-1]), 1e-300)
    if np.any(K) and top <= 1e8 * EPS * heft:  # centring leaves less than half of the digits
        raise Ambiguous
    if np.any((np.abs(values) > 1e-13 * top) & (np.abs(values) < 1e-5 * top)):
        raise Ambiguous
    keep = values > 1e-9 * top
    return vectors[:, keep] * np.sqrt(values[keep])


def _clusters(labels: np.ndarray, k: int) -> np.ndarray:
    return (labels + 1) // 2 if k == 2 else labels


def _square_of(rows: Rows, b: Builder) -> Rows:
    v = b.new(len(rows.constant))
    b.equal(v, rows)
    return v.squared()


def _added(rows: Rows) -> Rows:
    """Return the sum of rows as one row."""
    return Rows(np.array([rows.constant.sum()]), tuple(rows.terms), tuple(rows.squares))


def _rim(row: Row) -> float:
    return max((abs(b) for b in (row.lower, row.upper) if np.isfinite(b)), default=0.0)


def _holds(row: Row, y: np.ndarray, loose: bool) -> bool:
    total = exact_sum(row.coefficients, y)
    room = 8 * len(y) * EPS * (math.fsum(np.abs(row.coefficients)) + _rim(row)) if loose else 0.0
    return row.lower - room <= total <= row.upper + room


def _grid(values: tuple[int, ...], n: int) -> np.ndarray:
    k = len(values)
    number = np.arange(k**n)
    digits = (number[:, None] // k ** np.arange(n - 1, -1, -1)) % k
    return np.asarray(values)[digits]


def _by_appearance(y: np.ndarray) -> np.ndarray:
    names: dict[int, int] = {}
    return np.array([names.setdefault(int(v), len(names)) for v in y])
