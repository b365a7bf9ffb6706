"""How a model is solved: relaxation, solver and options at random, defaults included."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from models import Model

import margindsl as md

SOLVERS = ("newton", "clarabel", "ecos", "osqp", "highs", "scs", "lbfgs", "cutting-plane", "cpsp",
           "burer-monteiro", "interior", "node-newton", "mirror-prox", "mirror-descent", "alternating-mu")
LIKELY = {
    "alternating": ("newton", "clarabel", "ecos", "osqp", "highs", "scs", "lbfgs", "cutting-plane",
                    "cpsp"),
    "minimax": ("mirror-prox", "clarabel", "alternating-mu", "mirror-descent", "ecos"),
    "sdp": ("clarabel", "burer-monteiro", "scs"),
    "weight-lifting": ("burer-monteiro", "clarabel", "scs"),
    "exact": ("newton", "clarabel", "node-newton"),
}


LARGE = 14  # points from which exactness may take hours: its answers under a limit are judged


@dataclass
class Plan:
    relaxation: Any
    name: str
    solver: Any
    options: dict[str, Any] = field(default_factory=dict)
    tol: float = 1e-6
    warm: bool = False
    twice: bool = False

    def __str__(self) -> str:
        shown = {key: value for key, value in self.options.items() if key != "warm_start"}
        return f"{self.relaxation!r} x {self.solver!r} {shown}{' warm' if self.warm else ''}"


def plan(model: Model) -> Plan:
    """Return the plan of a model; its seed decides."""
    rng = np.random.default_rng([90210, model.seed])
    names = ["auto", "alternating", "cccp", "cuts-outside", "first-cut", "minimax", "sdp", "gmmc", "weight-lifting",
             "exact", "supervised", "transductive", "safe"]
    weights = np.array([14, 10, 8, 4, 3, 12, 12, 4, 10, 18, 3, 3, 1], dtype=float)
    if model.k > 2:
        weights = np.array([15, 15, 15, 3, 0.5, 10, 15, 0.5, 10, 10, 3, 0.5, 0.5])
    if model.bias is True and not model.decision:
        weights[[5, 6, 7, 8]] *= 0.3
    if not model.known:
        weights[[10, 11, 12]] *= 0.1
    name = str(rng.choice(names, p=weights / weights.sum()))
    name = "parts" if name == "weight-lifting" and model.seed % 4 == 0 else name
    relaxation, tol = _relaxation(rng, name)
    options: dict[str, Any] = {"random_state": int(rng.integers(0, 5))}
    if rng.random() < 0.25:
        options["tol"] = float(rng.choice([1e-3, 1e-4, 1e-8, 0.05]))
        tol = tol or options["tol"]
    if rng.random() < 0.12:
        options["time_limit"] = float(rng.choice([0.01, 0.1, 0.5, 2.0]))
    if rng.random() < 0.05:
        options["max_iter"] = int(rng.choice([1, 5, 50]))
    if name == "exact" and model.n > LARGE:
        options.setdefault("time_limit", 2.0)
    solver = None
    style = rng.random()
    if style < 0.3:
        solver = str(rng.choice(LIKELY.get(name, LIKELY["alternating"])))
    elif style < 0.34:
        solver = str(rng.choice(SOLVERS))
    warm = bool(rng.random() < 0.08)
    return Plan(relaxation, name, solver, options, tol or 1e-6, warm, bool(rng.random() < 0.02))


def _relaxation(rng: np.random.Generator, name: str) -> tuple[Any, float | None]:
    """Return a relaxation by name or with options, and its own tolerance."""
    if name == "auto":
        return None, None
    if rng.random() < 0.12:
        return name, None
    polish = str(rng.choice(["none", "alternate", "search"], p=[0.6, 0.3, 0.1]))
    tol = float(rng.choice([1e-3, 1e-5])) if rng.random() < 0.1 else None
    rounding = int(rng.integers(1, 4))
    if name in ("alternating", "cccp"):
        kind = md.Alternating if name == "alternating" else md.CCCP
        extra = {"continuation": 3} if rng.random() < 0.15 else {}
        start = str(rng.choice(["mixed", "kmeans", "spectral", "random"]))
        return kind(restarts=int(rng.integers(1, 3)), start=start, polish=polish, **extra), None
    if name == "minimax":
        oracle = "exhaustive" if rng.random() < 0.3 else "linearised"
        return md.Minimax(oracle=oracle, rounding=rounding, polish=polish, tol=tol,
                          tighten=bool(rng.random() < 0.5)), tol
    if name == "sdp":
        extra = {"cuts": "all"} if rng.random() < 0.15 else {}
        return md.SDP(rounding=rounding, polish=polish, tol=tol, **extra), tol
    if name == "weight-lifting":
        return md.WeightLifting(rounding=rounding, polish=polish, tol=tol), tol
    if name == "parts":
        return md.Parts(size=int(rng.integers(2, 7))), None
    if name == "exact":
        extra = {"method": str(rng.choice(["enumeration", "branching"]))} if rng.random() < 0.2 else {}
        return md.Exact(starts=1, tol=tol, **extra), tol
    if name == "safe":
        return md.Safe(samples=5, separators=2), None
    return name, None
