"""A random model written in the language, with varied spelling."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
from formulas import Margins
from models import Model, Row

import margindsl as md


class Writer:
    """Write one model; parameters get the right values when `settle` is called."""

    def __init__(self, model: Model) -> None:
        self.model, self.rng = model, np.random.default_rng([4711, model.seed])
        self.algebra = np.random.default_rng([4712, model.seed])
        self.parameters: list[tuple[md.Parameter, float]] = []

    def number(self, value: float) -> Any:
        if not self.model.parameters or self.rng.random() < 0.5:
            return value
        first = 2.0 * value if self.model.changed and value > 1 else value  # a value every formula admits
        parameter = md.Parameter(first, name=f"p{self.rng.integers(99)}")
        self.parameters.append((parameter, value))
        return parameter

    def settle(self) -> None:
        for parameter, value in self.parameters:
            parameter.value = value

    def problem(self, earlier: tuple[Any, ...] = ()) -> md.Problem:
        m = self.model
        y = md.Labels(m.n) if m.k == 2 else md.Labels(m.n, clusters=m.k)
        f = md.Hyperplane(self.points(), self.kernel(), m.bias, centre=m.centre)
        g = y * f if m.k == 2 else md.margin(y, f, coding=m.coding)
        self.scalars = [md.Scalar(nonneg=nonneg, name=name) for nonneg, name in m.scalars]
        norm = 2 * m.norm * md.sq_norm(f) / 2 if m.halves else m.norm * md.sq_norm(f)
        if m.halves and m.norm == 0.5:
            norm = md.sq_norm(f) / 2
        objective = norm
        for cost, s in zip(m.costs, self.scalars):
            objective = objective + cost * s
            if self.algebra.random() < 0.2:
                objective = objective + self.cancelled(s, abs(cost))
        for term in m.terms:
            parts = (1.0,) if self.algebra.random() < 0.9 else (0.3, 0.7)
            for part in parts:
                objective = objective + part * self.term(term, self.disguised(g))
        if self.algebra.random() < 0.1:
            weight, c = 10.0 ** self.algebra.uniform(-6, 9, 2)
            objective = objective + weight * abs(self.nothing(f, c) if m.k == 2 else self.nothing(g, c))
        for coefficient, graph in m.manifolds:
            objective = objective + coefficient * md.manifold(f, graph)
        if m.constant:
            objective = objective + m.constant
        constraints = self.constraints(y, f)
        if earlier:
            constraints.append(md.orthogonal(f, list(earlier)))
        return md.Problem(md.Minimize(objective), constraints)

    def term(self, t: Any, g: Any) -> Any:
        lam = self.number(t.coefficient)
        if t.aggregate == "mean_variance":
            return lam * md.mean_variance(g, self.number(t.eta), self.number(t.lam))
        whole = len(t.index) == self.model.n
        late = not whole and self.rng.random() < 0.5 and t.aggregate != "entry"
        index = np.arange(self.model.n) if whole or late else t.index
        chosen = g if whole or late else g[index]
        inner = t.formula.expression(Margins(chosen, index, self.scalars, md, self.number))
        if t.weights is not None:
            inner = t.weights[index] * inner
        if late:
            inner = inner[t.index]
        if t.aggregate == "entry":
            return lam * inner[0]
        return lam * {"mean": md.mean, "sum": md.sum, "var": md.var}[t.aggregate](inner)

    def constraints(self, y: Any, f: Any) -> list[Any]:
        m, out = self.model, []
        if len(m.must) > 1 and self.rng.random() < 0.5:
            out.append(md.must_link(y, m.must))
        else:
            out += [y[i] == y[j] for i, j in m.must]
        if len(m.cannot) > 1 and self.rng.random() < 0.5:
            out.append(md.cannot_link(y, np.array(m.cannot)))
        else:
            out += [y[i] != y[j] for i, j in m.cannot]
        if m.known:
            out.append(y[list(m.known)] == list(m.known.values()))
        for v in (y, f) if m.k == 2 else (f,):
            if self.algebra.random() < 0.1:
                out.append(abs(self.nothing(v, float(10.0 ** self.algebra.uniform(-6, 6)))) <= 0)
        for row in m.rows:
            out += self.row(row, y)
        for row in m.decision:
            out += self.row(row, f)
        for low, high in m.sizes:
            same = np.ptp(low) == 0 and np.ptp(high) == 0
            out.append(md.sizes(y, at_least=int(low[0]) if same else list(map(int, low)),
                                at_most=int(high[0]) if same else list(map(int, high))))
        return out

    def nothing(self, v: Any, c: float) -> Any:
        """Return what is zero but for rounding, as users write it who move terms about."""
        i, share = int(self.algebra.integers(self.model.n)), self.algebra.random()
        return (c * v[i] - c * share * v[i] - c * (1 - share) * v[i] if self.algebra.random() < 0.5
                else 0.1 * c * v[i] + 0.2 * c * v[i] - 0.3 * c * v[i])

    def cancelled(self, v: Any, size: float) -> Any:
        """Return what is zero but for rounding of its size."""
        c = size * float(10.0 ** self.algebra.uniform(-3, 1))
        return 0.1 * c * v + 0.2 * c * v - 0.3 * c * v

    def disguised(self, g: Any) -> Any:
        return g if self.algebra.random() < 0.9 else g + self.cancelled(g, 1.0)

    def row(self, row: Row, v: Any) -> list[Any]:
        if row.mean:
            total = md.mean(v)
        elif row.subset is not None:
            total = md.sum(v[row.subset])
        elif row.plain:
            total = md.sum(v)
        elif np.ptp(row.coefficients) == 0 and self.rng.random() < 0.5:
            total = md.sum(float(row.coefficients[0]) * v)
        else:
            total = md.sum(row.coefficients * v)
        if self.algebra.random() < 0.3:
            # Larger parts would leave more of their rounding in the row than the oracle's own knows.
            size = float(np.abs(row.coefficients).max())
            total = total + self.nothing(v, size * float(10.0 ** self.algebra.uniform(-6, 1)))
        if row.style == "abs":
            return [abs(total) <= row.upper]
        if row.style == "equal":
            return [total == row.upper]
        out = []
        if row.lower > -np.inf:
            out.append(total >= row.lower if self.rng.random() < 0.5 else row.lower <= total)
        if row.upper < np.inf:
            out.append(total <= row.upper)
        return out

    def kernel(self) -> Any:
        name, *rest = self.model.kernel
        if name == "rbf":
            return md.RBF(rest[0])
        if name == "polynomial":
            return md.Polynomial(rest[0], rest[1], rest[2])
        if name == "precomputed":
            return md.Precomputed(rest[0])
        if name == "callable":
            width = rest[0]
            return lambda X, Z: np.exp(-((X[:, None, :] - Z[None, :, :]) ** 2).sum(axis=2) / (2 * width**2))
        return "linear" if self.rng.random() < 0.5 else md.Linear()

    def points(self) -> Any:
        X, container = np.array(self.model.X), self.model.container
        if self.model.kernel[0] == "precomputed":
            return None if self.rng.random() < 0.5 else X
        if self.model.kernel[0] == "callable":
            container = "dense"
        if container == "list":
            return X.tolist()
        if container in ("csr", "csc"):
            from scipy import sparse

            return {"csr": sparse.csr_array, "csc": sparse.csc_matrix}[container](X)
        if container == "float32":
            return X.astype(np.float32)
        if container == "fortran":
            return np.asfortranarray(X)
        if container == "strided":
            wide = np.zeros((2 * X.shape[0], X.shape[1]))
            wide[::2] = X
            return wide[::2]
        if container == "memmap":
            with tempfile.NamedTemporaryFile(suffix=".dat") as file:  # the map outlives the name
                X.tofile(file.name)
                return np.memmap(file.name, dtype=float, mode="r", shape=X.shape)
        if container == "frame":
            import pandas as pd

            return pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])
        return X
