"""Random small problems with an independent description: plain numpy objective and membership in B."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from loss_families import LOSS_FAMILIES, LossFamily

import margindsl as md
from margindsl.typing import Bias, FloatArray, IntArray

KERNELS = ("linear", "linear", "rbf", "polynomial")


@dataclass(frozen=True, eq=False)
class Instance:
    """Represent a random problem with everything needed to recompute it without the library.

    The objective is ridge/2 ‖w‖² + loss(γ, s), γ = y∘f, f = Φw (+ b), Φ centred.

    Parameters
    ----------
    problem : Problem
    X : (n, d) float array
    kernel : str
        ``"linear"``, ``"rbf"`` (width 1.5) or ``"polynomial"`` (degree 2, offset 1).
    bias : False, True or "penalised"
    ridge : float
    family : LossFamily
    parameters : dict of str to float
        Those of the loss family.
    truth : (n,) int array
        A labelling that satisfies every label constraint.
    must, cannot : lists of (int, int)
    known : dict of int to int
    bounds : list of (weights (n,), lower, upper)
        lower ≤ weights · y ≤ upper.
    decision : float or None
        ℓ of |Σf| ≤ ℓ.
    """

    problem: Any
    X: FloatArray
    kernel: str
    bias: Bias
    ridge: float
    family: LossFamily
    parameters: dict[str, float]
    truth: IntArray
    must: list[tuple[int, int]] = field(default_factory=list)
    cannot: list[tuple[int, int]] = field(default_factory=list)
    known: dict[int, int] = field(default_factory=dict)
    bounds: list[tuple[FloatArray, float, float]] = field(default_factory=list)
    decision: float | None = None

    @property
    def n(self) -> int:
        """Return the number of points."""
        return len(self.X)

    def admits(self, y: IntArray) -> bool:
        """Return whether a labelling satisfies every label constraint, read off the lists."""
        return (all(y[i] == y[j] for i, j in self.must) and all(y[i] != y[j] for i, j in self.cannot)
                and all(y[i] == v for i, v in self.known.items())
                and all(lo - 1e-9 <= a @ y <= hi + 1e-9 for a, lo, hi in self.bounds))

    def labellings(self) -> Iterator[IntArray]:
        """Yield every member of B, by trying all 2^n sign vectors."""
        for signs in product((-1, 1), repeat=self.n):
            y = np.array(signs)
            if self.admits(y):
                yield y

    def factor(self) -> FloatArray:
        """Return an (n, r) factor of the centred kernel, a constant column added for a penalised bias."""
        K = _gram(self.X, self.kernel)
        H = np.eye(self.n) - 1.0 / self.n
        values, vectors = np.linalg.eigh(H @ K @ H)
        keep = values > 1e-12 * max(float(values[-1]), 1e-300)
        Phi = vectors[:, keep] * np.sqrt(values[keep])
        return np.column_stack([Phi, np.ones(self.n)]) if self.bias == "penalised" else Phi

    def objective(self, labels: IntArray, decision: FloatArray, squared_norm: float,
                  scalars: dict[str, float]) -> float:
        """Return the objective at labels, decision values, ‖w‖² and shared scalars, in plain numpy."""
        loss = self.family.numeric(labels * decision, scalars, self.parameters)
        return 0.5 * self.ridge * squared_norm + loss

    def __repr__(self) -> str:
        parts = [f"n={self.n}", f"d={self.X.shape[1]}", self.kernel, self.family.name, f"bias={self.bias!r}"]
        parts += [f"{name}={len(value)}" for name in ("must", "cannot", "known", "bounds")
                  if (value := getattr(self, name))]
        return f"Instance({', '.join(parts)})"


def _gram(X: FloatArray, kernel: str) -> FloatArray:
    inner = X @ X.T
    if kernel == "linear":
        return inner
    if kernel == "polynomial":
        return (inner + 1.0) ** 2
    norms = np.diag(inner)
    return np.exp(-(norms[:, None] + norms[None, :] - 2 * inner) / (2 * 1.5**2))


def random_instance(rng: np.random.Generator, n_max: int = 10, *, family: str | None = None,
                    free_bias: float = 0.1) -> Instance:
    """Return one random problem.

    Parameters
    ----------
    rng : numpy.random.Generator
    n_max : int
        Most points, at least 4.
    family : str, optional
        A key of `LOSS_FAMILIES`; None chooses.
    free_bias : float
        Probability of a free bias, which comes with |Σf| ≤ ℓ so that the label lift accepts it.

    Returns
    -------
    Instance
    """
    n, d = int(rng.integers(4, n_max + 1)), int(rng.integers(1, 5))
    truth = np.where(rng.random(n) < 0.5, 1, -1)
    truth[:2] = (1, -1)
    X = rng.normal(size=(n, d)) + 0.8 * truth[:, None] * rng.normal(size=d)
    kernel = str(rng.choice(KERNELS))
    bias, decision = _random_bias(rng, free_bias)
    chosen = LOSS_FAMILIES[family or str(rng.choice(sorted(LOSS_FAMILIES)))]
    parameters = chosen.draw(rng)
    y = md.Labels(n)
    f = md.Hyperplane(X, kernel=_kernel_of(kernel), bias=bias)
    ridge = float(rng.choice([0.5, 1.0, 2.0]))
    objective = (ridge / 2) * md.sq_norm(f) + chosen.declare(y * f, parameters)
    parts = _random_label_set(rng, truth)
    constraints = _declare_constraints(y, **parts)
    if decision is not None:
        constraints.append(abs(md.sum(f)) <= decision)
    return Instance(md.Problem(md.Minimize(objective), constraints), X, kernel, bias, ridge, chosen, parameters,
                    truth, decision=decision, **parts)


def _kernel_of(kernel: str) -> Any:
    return {"linear": "linear", "rbf": md.RBF(1.5), "polynomial": md.Polynomial(2, 1.0)}[kernel]


def _random_bias(rng: np.random.Generator, free_bias: float) -> tuple[Bias, float | None]:
    if rng.random() < free_bias:
        return True, float(rng.uniform(0.2, 2.0))
    return ("penalised", None) if rng.random() < 0.25 else (False, None)


def _random_label_set(rng: np.random.Generator, truth: IntArray) -> dict[str, Any]:
    """Return links, known labels and bounds that the truth satisfies."""
    n = len(truth)
    must: list[tuple[int, int]] = []
    cannot: list[tuple[int, int]] = []
    known: dict[int, int] = {}
    for _ in range(int(rng.integers(0, 4))):
        i, j = map(int, rng.choice(n, 2, replace=False))
        (must if truth[i] == truth[j] else cannot).append((i, j))
    if rng.random() < 0.35:
        known = {int(i): int(truth[i]) for i in rng.choice(n, int(rng.integers(1, 3)), replace=False)}
    bounds = [_random_bound(rng, truth)] if rng.random() < 0.75 else []
    return {"must": must, "cannot": cannot, "known": known, "bounds": bounds}


def _random_bound(rng: np.random.Generator, truth: IntArray) -> tuple[FloatArray, float, float]:
    """Return a symmetric, asymmetric or weighted bound on labels."""
    n = len(truth)
    style = rng.integers(4)
    weights = np.ones(n) if style < 2 else rng.integers(1, 4, n).astype(float)
    if style == 3:
        weights = rng.uniform(0.2, 2.0, n)
    total = float(weights @ truth)
    slack = float(rng.integers(0, 4))
    if style == 1:
        return weights, total - slack, total + float(rng.integers(0, 3))
    return weights, -abs(total) - slack, abs(total) + slack


def _declare_constraints(y: Any, must: Any, cannot: Any, known: Any, bounds: Any) -> list[Any]:
    constraints: list[Any] = [y[i] == y[j] for i, j in must] + [y[i] != y[j] for i, j in cannot]
    if known:
        constraints.append(y[list(known)] == list(known.values()))
    for weights, lower, upper in bounds:
        total = md.sum(y) if np.all(weights == 1) else md.sum(weights * y)
        if lower == -upper:
            constraints.append(abs(total) <= upper)
        else:
            constraints += [total >= lower, total <= upper]
    return constraints


def majorant(form: Any, w: FloatArray, bias: FloatArray | float = 0.0, scalars: FloatArray | None = None) -> float:
    """Return the objective of a form of clusters with the rising part at the given runner-ups."""
    outputs, parts = form.outputs(w, bias), form.parts
    value = 0.5 * float(w @ w) + parts.falling.value(form.margins(outputs), scalars) + parts.constant
    if parts.rising.rows:
        everyone = np.arange(form.n)
        value += parts.rising.value(outputs[everyone, form.labels] - outputs[everyone, form.runner], scalars)
    return value
