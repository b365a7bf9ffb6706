"""Random models over the whole grammar, one a seed."""

from __future__ import annotations

from typing import Any

import numpy as np
from formulas import (
    Abs,
    Affine,
    Constant,
    Formula,
    Huber,
    Logistic,
    Maximum,
    Pieces,
    Pos,
    Square,
    Sum,
    epsilon_insensitive,
    hinge,
    odm,
    squared_hinge,
)
from models import Model, Row, Term

Rng = np.random.Generator
CONTAINERS = ("dense", "dense", "list", "csr", "csc", "float32", "fortran", "memmap", "frame", "strided")


def draw(seed: int) -> Model:
    """Return the model of a seed."""
    rng = np.random.default_rng([20260, seed])
    k = int(rng.choice([2, 3, 4], p=[0.82, 0.12, 0.06]))
    n = _count(rng, k)
    truth = rng.integers(0, k, n)
    truth[:k] = rng.permutation(k)
    X = _points(rng, n, truth)
    m = Model(seed, n, k, X, 2 * truth - 1 if k == 2 else truth)
    if k > 2:
        m.coding = str(rng.choice(["crammer-singer", "simplex"]))
    m.centre = bool(rng.random() < 0.8)
    m.bias = _pick(rng, [False, True, "penalised"], [0.6, 0.2, 0.2] if k == 2 else [0.7, 0.03, 0.27])
    _kernel(rng, m)
    _objective(rng, m)
    _label_set(rng, m)
    _decision(rng, m)
    if rng.random() < 0.06 and m.kernel[0] == "linear":
        m.manifolds.append((float(10 ** rng.uniform(-2, 1)), _graph(rng, n)))
    if rng.random() < 0.04 and k == 2 and not m.tags & {"scaled X"}:
        m.earlier = int(rng.integers(1, 3))
    m.parameters = bool(rng.random() < 0.15)
    m.changed = m.parameters and bool(rng.random() < 0.5)
    return m


def _pick(rng: Rng, options: list[Any], p: list[float] | None = None) -> Any:
    return options[int(rng.choice(len(options), p=p))]


def _count(rng: Rng, k: int) -> int:
    if k > 2:
        return int(rng.integers(k, 8 if k == 3 else 6))
    style = rng.random()
    if style < 0.03:
        return int(rng.integers(30, 61))
    return int(rng.integers(11, 15)) if style < 0.10 else int(rng.integers(2, 11))


def _points(rng: Rng, n: int, truth: np.ndarray) -> np.ndarray:
    d = int(rng.integers(1, 5))
    centres = rng.normal(size=(int(truth.max()) + 1, d)) * rng.uniform(0, 2)
    X = rng.normal(size=(n, d)) + centres[truth]
    style = rng.integers(12)
    if style == 0:
        X = np.round(2 * X)
    elif style == 1:
        X = X[:, :1] * rng.normal(size=d)
    elif style == 2:
        X[rng.integers(0, n, n // 2)] = X[rng.integers(0, n, n // 2)]
    elif style == 3:
        X[:, int(rng.integers(d))] = rng.choice([0.0, 1.0, 0.1, 1e3])
    elif style == 4:
        X[rng.integers(0, n)] = 0.0
    elif style == 5:
        X = X + rng.choice([1.0, 30.0, 1000.0])
    elif style == 6 and rng.random() < 0.2:
        X = np.tile(X[:1], (n, 1))
    elif style == 7:
        X = X * 10 ** rng.uniform(-2, 2, d)
    return X


def _scale(rng: Rng, likely: float) -> float:
    """Return one, or a factor up to 1e±3; what is refused beyond is a table of its own."""
    style = rng.random()
    if style < likely:
        return float(10 ** rng.uniform(-3, 3)) if rng.random() < 0.6 else float(10.0 ** rng.integers(-3, 4))
    return float(10 ** rng.uniform(-2, 2)) if style < 0.5 + likely / 2 else 1.0


# -- features ---------------------------------------------------------------------------------------------


def _kernel(rng: Rng, m: Model) -> None:
    name = _pick(rng, ["linear", "rbf", "polynomial", "precomputed", "callable"], [0.66, 0.14, 0.08, 0.08, 0.04])
    spread = float(np.median(np.linalg.norm(m.X[:, None] - m.X[None], axis=2))) or 1.0
    factor = _scale(rng, 0.2)
    if factor > 1e2 or factor < 1e-2:
        m.tags.add("scaled X")
    if name == "polynomial":
        factor = float(10 ** rng.uniform(-0.5, 0.5))
        m.tags.discard("scaled X")
    m.X = m.X * factor
    m.container = str(rng.choice(CONTAINERS))
    if m.container == "float32":
        m.X = m.X.astype(np.float32).astype(float)
    if name in ("rbf", "callable"):
        m.kernel = (name, float(factor * spread * rng.uniform(0.3, 1.0)))
    elif name == "polynomial":
        m.kernel = (name, int(rng.integers(1, 4)), float(rng.choice([0.0, 1.0, 0.5])), float(rng.choice([1.0, 0.5])))
    elif name == "precomputed":
        A = rng.normal(size=(m.n, int(rng.integers(1, m.n + 1)))) * factor
        m.kernel = (name, A @ A.T)
    m.X.setflags(write=False)


def _graph(rng: Rng, n: int) -> np.ndarray:
    W = rng.random((n, n)) * (rng.random((n, n)) < 0.4)
    W = np.triu(W, 1)
    return W + W.T


# -- objective --------------------------------------------------------------------------------------------


def _objective(rng: Rng, m: Model) -> None:
    m.norm = 0.5 * _scale(rng, 0.08)
    m.halves = bool(rng.random() < 0.7)
    lam = float(10 ** rng.uniform(-1, 2)) * _scale(rng, 0.15)
    if not 1e-4 < lam < 1e5:
        m.tags.add("scaled lambda")
    if m.kernel[0] != "linear" and m.tags & {"scaled lambda"}:  # truncated kernels under huge weights are other kernels
        lam = min(lam, 1e3)
    own = rng.random()
    if own < (0.25 if m.coding == "crammer-singer" else 0.10):
        _with_scalars(rng, m, lam)
        return
    for _ in range(_pick(rng, [1, 2, 3], [0.7, 0.2, 0.1])):
        m.terms.append(_term(rng, m, lam * float(rng.choice([1.0, 1.0, 0.1, 3.0]))))
    if rng.random() < 0.05:
        m.constant = float(rng.normal() * 10)


def _with_scalars(rng: Rng, m: Model, lam: float) -> None:
    """Add losses with scalars shared by the points, all bounded below."""
    everyone = np.arange(m.n)
    style = rng.integers(5)
    if style == 0:
        count = 2 if rng.random() < 0.2 else 1
        for _ in range(count):
            m.terms.append(Term(float(rng.choice([1.0, 0.3, 10.0])), "mean_variance", None, everyone,
                                eta=float(rng.uniform(0.2, 2)), lam=lam))
        return
    weight = float(rng.uniform(1.5, 5.0))
    twice = rng.random() < 0.15
    names = ["s", "s"] if twice else ["s", "t"]
    m.scalars.append((bool(rng.random() < 0.5), names[0]))
    m.costs.append(-1.0)
    below = Affine(-1.0, 0.0, ((0, 1.0),))
    if style in (1, 2):
        m.terms.append(Term(weight, "mean", Pos(below), everyone))
    else:
        m.terms.append(Term(weight, "mean", Square(Pos(below)), everyone))
    if style == 4 or twice:
        m.scalars.append((False, names[1]))
        m.costs.append(0.2)
        m.terms.append(Term(0.3 * weight, "mean", Square(Pos(Affine(1.0, 0.0, ((1, -1.0),)))), everyone))
    if style == 3:
        m.terms.append(_term(rng, m, lam))


def _term(rng: Rng, m: Model, lam: float) -> Term:
    n = m.n
    index = np.arange(n)
    if rng.random() < 0.2 and n > 2:
        index = np.sort(rng.choice(n, int(rng.integers(1, n)), replace=False))
    if rng.random() < 0.05:
        return Term(lam, "var", Affine(float(rng.choice([1.0, 2.0, -0.5])), 0.0), np.arange(n))
    aggregate = _pick(rng, ["mean", "sum", "entry"], [0.72, 0.24, 0.04])
    if aggregate == "entry":
        index = index[:1]
    weights = None
    style = rng.random()
    if style < 0.15:
        weights = rng.uniform(0, 2, n)
    elif style < 0.19:
        weights = np.where(rng.random(n) < 0.3, 0.0, 1.0)
        weights[index[0]] = 1.0
    elif style < 0.23:
        weights = 10.0 ** rng.uniform(-3, 3, n)
        m.tags.add("scaled weights")
    elif style < 0.26:
        weights = np.full(n, float(10.0 ** rng.integers(-3, 4)))
        m.tags.add("scaled weights")
    falling = m.coding == "crammer-singer" and rng.random() < 0.8
    return Term(lam, aggregate, _loss(rng, n, falling), index, weights)


def _affine(rng: Rng, n: int) -> Affine:
    """Return g, or now and then an increasing affine function of it, also by points."""
    style = rng.random()
    if style < 0.75:
        return Affine()
    if style < 0.85:
        return Affine(float(rng.uniform(0.3, 3)), float(rng.normal()))
    if style < 0.92:
        return Affine(rng.uniform(0.3, 3, n), 0.0)
    if style < 0.97:
        return Affine(1.0, np.round(rng.normal(size=n), 2))
    return Affine(float(10 ** rng.uniform(-2, 2)), 0.0)


def _decreasing(g: Affine, end: float) -> Affine:
    return Affine(-g.slope, end - g.shift)


def _loss(rng: Rng, n: int, falling: bool) -> Formula:
    """Return a loss; one in ten that may rise is turned (paid for agreement), one in five steeper."""
    g = _affine(rng, n)
    aside = rng.spawn(1)[0]  # models of old seeds stay else
    turn = -1.0 if aside.random() < 0.1 and not falling else 1.0
    turn *= float(aside.choice([1.03, 0.1, 3.0, 0.7, 1 / 3])) if aside.random() < 0.2 else 1.0
    g = Affine(turn * g.slope, g.shift)
    while True:
        loss = _random_loss(rng, g, n, Affine(turn))
        if loss.falling or not falling:
            return loss


def _random_loss(rng: Rng, g: Affine, n: int, plain: Affine) -> Formula:
    style = int(rng.integers(20))
    end = float(rng.choice([1.0, 1.0, 0.0, 2.5, 1e-6, 0.3]))
    if style <= 2:
        return hinge(g)
    if style <= 4:
        return squared_hinge(g)
    if style <= 6:
        return odm(g, float(rng.choice([0.0, 0.4, 1.0])), float(rng.choice([0.0, 0.2, 0.5])))
    if style == 7:
        return epsilon_insensitive(g, float(rng.choice([0.0, 0.1, 0.5])))
    if style <= 9:
        return Logistic(_decreasing(g, float(rng.choice([0.0, 0.0, 1.0]))))
    if style == 10:
        return Huber(_decreasing(g, end), float(rng.choice([0.2, 1.0, 3.0])))
    if style == 11:
        return Square(_decreasing(g, end), bool(rng.random() < 0.5))
    if style == 12:
        return Abs(_decreasing(g, end), bool(rng.random() < 0.2))
    if style == 13:
        return Maximum((_decreasing(g, end), Affine(0.1 * g.slope, 0.1 * g.shift - 0.2), Constant(0.0)))
    if style == 14:
        return Pos(_decreasing(g, end))
    if style == 15:
        return _pieces(rng, plain)
    if style == 16:
        return _nested(rng, plain, end)
    if style == 17:
        return _decreasing(plain, end) if rng.random() < 0.5 else _decreasing(g, 0.0)
    inner = tuple(_random_loss(rng, plain, n, plain) for _ in range(2))
    weights = [float(rng.choice([1.0, 0.3, 2.0])) for _ in inner]
    if rng.random() < 0.15:
        weights[0] = rng.uniform(0, 2, n)
    return Sum(inner, tuple(weights), bool(rng.random() < 0.3))


def _pieces(rng: Rng, g: Affine) -> Pieces:
    """Return a convex piecewise quadratic with up to three breakpoints."""
    count = int(rng.integers(0, 4))
    ends = tuple(np.sort(rng.choice(np.arange(-4, 9), count, replace=False)) / 2.0)
    q = float(rng.choice([0.0, 0.5, 1.0]))
    s = float(rng.choice([-1.0, -2.0, 0.0])) - 2 * q
    table = [(q, s, float(rng.choice([0.0, 1.0, 5.0])))]
    for end in ends:
        q0, s0, c0 = table[-1]
        slope = 2 * q0 * end + s0
        value = q0 * end**2 + s0 * end + c0
        q1 = float(rng.choice([0.0, 0.5, 1.0, 0.0]))
        s1 = slope + float(rng.choice([0.0, 0.5, 1.0])) - 2 * q1 * end
        table.append((q1, s1, value - q1 * end**2 - s1 * end))
    return Pieces(g, ends, tuple(table))


def _nested(rng: Rng, g: Affine, end: float) -> Formula:
    """Return compositions the grammar takes: of positive parts, moduli, maxima and squares."""
    base = Pos(_decreasing(g, end))
    style = int(rng.integers(7))
    if style == 0:
        return Square(Sum((base, Abs(_decreasing(g, 0.5))), (1.0, 0.5)))
    if style == 1:
        return Pos(Sum((Square(base), Constant(-0.3)), (1.0, 1.0)))
    if style == 2:
        return Maximum((Square(_decreasing(g, end)), Affine(-3.0, 1.0)))
    if style == 3:
        return Square(Maximum((base, Abs(Affine(0.2, -0.1)))))
    if style == 4:
        return Abs(Sum((base, Square(base)), (1.0, 1.0)), bool(rng.random() < 0.5))
    if style == 5:
        return Pos(Sum((Logistic(Affine(-1.0)), Constant(-0.4)), (1.0, 1.0)))
    return Pos(Sum((base, Affine(0.1, 0.0)), (1.0, 1.0)))


# -- label set --------------------------------------------------------------------------------------------


def _label_set(rng: Rng, m: Model) -> None:
    y, n = m.truth, m.n
    if rng.random() < 0.45:
        for _ in range(int(rng.integers(1, 4))):
            i, j = map(int, rng.choice(n, 2, replace=False))
            (m.must if y[i] == y[j] else m.cannot).append((i, j))
    if rng.random() < 0.25:
        m.known = {int(i): int(y[i]) for i in rng.choice(n, int(rng.integers(1, min(n, 3) + 1)), replace=False)}
    if rng.random() < 0.02:
        m.known = {i: int(y[i]) for i in range(n)}
    if m.k == 2:
        for _ in range(_pick(rng, [0, 1, 2], [0.25, 0.6, 0.15])):
            m.rows.append(_label_row(rng, m))
    if rng.random() < (0.1 if m.k == 2 else 0.6):
        counts = np.array([np.sum(y == v) for v in ((-1, 1) if m.k == 2 else range(m.k))])
        slack = int(rng.integers(0, 3))
        low, high = np.maximum(counts.min() - slack, 0), np.minimum(counts.max() + slack, n)
        if rng.random() < 0.3:
            low, high = np.maximum(counts - slack, 0), np.minimum(counts + slack, n)
        m.sizes.append((np.broadcast_to(low, (m.k,)).copy(), np.broadcast_to(high, (m.k,)).copy()))
    if rng.random() < 0.03 and m.rows:
        m.rows[0].upper = m.rows[0].lower = float(n + 2)  # nothing has such a sum
        m.rows[0].coefficients, m.rows[0].plain, m.rows[0].mean, m.rows[0].style = np.ones(n), True, False, "equal"
        m.tags.add("empty B")


def _label_row(rng: Rng, m: Model) -> Row:
    n, y = m.n, m.truth
    style = int(rng.integers(10))
    a, plain, subset = np.ones(n), style <= 4, None
    if style == 5:
        a = rng.integers(-1, 4, n).astype(float)
    elif style == 6:
        a = rng.uniform(0.2, 2.0, n)
    elif style == 7:
        a = np.full(n, 0.4)
        a[: max(1, n // 8)] = 10.0 ** float(rng.integers(3, 7))
        m.tags.add("huge label weight")
    elif style == 8:
        subset = np.sort(rng.choice(n, int(rng.integers(1, n + 1)), replace=False))
        a = np.bincount(subset, minlength=n).astype(float)
    elif style == 9:
        a = rng.choice([1.0, 1.0, 0.1, 1e-3], n)
    if not np.any(a):
        a[0] = 1.0
    unit = _scale(rng, 0.15) if not plain or rng.random() < 0.1 else 1.0
    if unit != 1.0:
        plain, a, subset = False, a * unit, None
    mean = plain and rng.random() < 0.2
    a = a / n if mean else a
    total = float(a @ y)
    step = float(np.min(np.abs(a[a != 0])))
    slack = step * float(rng.choice([0, 0, 1, 2, 3, 4]))
    kind = rng.random()
    if kind < 0.5:
        return Row(a, -(abs(total) + slack), abs(total) + slack, "abs", mean, subset, plain)
    if kind < 0.62:
        return Row(a, total, total, "equal", mean, subset, plain)
    low, high = total - slack, total + step * float(rng.choice([0, 1, 2, 4]))
    if kind < 0.75:
        low = -np.inf
    elif kind < 0.88:
        high = np.inf
    return Row(a, low, high, "two", mean, subset, plain)


# -- bounds on decision values ----------------------------------------------------------------------------


def _decision(rng: Rng, m: Model) -> None:
    if rng.random() >= (0.5 if m.bias is True else 0.12):
        return
    n = m.n
    for _ in range(_pick(rng, [1, 2], [0.85, 0.15])):
        a, plain = np.ones(n), True
        style = rng.random()
        if style < 0.15:
            a, plain = rng.uniform(0.5, 2.0, n), False
        elif style < 0.25 and n > 2:
            i, j = map(int, rng.choice(n, 2, replace=False))
            a, plain = np.zeros(n), False
            a[i], a[j] = 1.0, -1.0
        elif style < 0.32:
            a, plain = np.full(n, float(10.0 ** rng.integers(-3, 4))), False
        bound = float(rng.choice([0.0, 0.1, 1.0, 3.0, 1e-9])) * float(np.abs(a).max())
        if rng.random() < 0.08:
            bound *= _scale(rng, 0.5)
        kind = rng.random()
        if kind < 0.75 or m.k > 2:
            m.decision.append(Row(a, -bound, bound, "abs", False, None, plain))
        elif kind < 0.85:
            m.decision.append(Row(a, -bound, 2 * bound, "two", False, None, plain))
        elif kind < 0.93:
            m.decision.append(Row(a, -np.inf, bound, "two", False, None, plain))
        else:
            m.decision.append(Row(a, bound, bound, "equal", False, None, plain))
