"""What a random model declares, in plain data: points, kernel, losses, constraints, and a truth they were made from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from formulas import Formula


@dataclass
class Term:
    """Represent coefficient · aggregate of weights · formula over some points.

    `aggregate` is "sum", "mean", "var" (of an affine formula), "entry" (one point) or "mean_variance"; the last is
    −η s + λ mean (γ − s)² with a scalar s of its own, and `formula` is None.
    """

    coefficient: float
    aggregate: str
    formula: Formula | None
    index: np.ndarray
    weights: np.ndarray | None = None
    eta: float = 1.0
    lam: float = 1.0


@dataclass
class Row:
    """Represent lower ≤ coefficients · v ≤ upper, v labels or decision values, and how it is written."""

    coefficients: np.ndarray
    lower: float
    upper: float
    style: str = "two"  # "abs", "two", "equal"
    mean: bool = False
    subset: np.ndarray | None = None  # write the sum over these points only
    plain: bool = False  # coefficients are ones


@dataclass
class Model:
    seed: int
    n: int
    k: int
    X: np.ndarray
    truth: np.ndarray
    coding: str = "binary"
    container: str = "dense"
    kernel: tuple[Any, ...] = ("linear",)
    bias: Any = False
    centre: bool = True
    norm: float = 0.5  # coefficient of ‖w‖²
    halves: bool = True  # written sq_norm(f) / 2
    terms: list[Term] = field(default_factory=list)
    scalars: list[tuple[bool, str]] = field(default_factory=list)  # non-negative, name
    costs: list[float] = field(default_factory=list)
    constant: float = 0.0
    manifolds: list[tuple[float, np.ndarray]] = field(default_factory=list)
    must: list[tuple[int, int]] = field(default_factory=list)
    cannot: list[tuple[int, int]] = field(default_factory=list)
    known: dict[int, int] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    sizes: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    decision: list[Row] = field(default_factory=list)
    earlier: int = 0
    parameters: bool = False
    changed: bool = False  # parameters get their value after the declaration
    tags: set[str] = field(default_factory=set)

    def __str__(self) -> str:
        losses = [t.aggregate if t.formula is None else _short(t.formula) for t in self.terms]
        parts = [f"n={self.n}", f"d={self.X.shape[1]}", f"k={self.k}", self.coding, str(self.kernel[0]), self.container,
                 f"bias={self.bias}", f"centre={self.centre}", "+".join(losses)]
        parts += [f"{name}={len(v)}" for name in ("must", "cannot", "known", "rows", "sizes", "decision", "manifolds",
                                                  "scalars") if (v := getattr(self, name))]
        parts += [f"earlier={self.earlier}"] * bool(self.earlier) + ["parameters"] * self.parameters
        return " ".join([*parts, *sorted(self.tags)])


def _short(formula: Formula) -> str:
    word = getattr(formula, "word", type(formula).__name__.lower())
    inner = getattr(formula, "inner", None)
    if isinstance(inner, tuple):
        return f"{word}({','.join(map(_short, inner))})"
    return f"{word}({_short(inner)})" if isinstance(inner, Formula) else word
