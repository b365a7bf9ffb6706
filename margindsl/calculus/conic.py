"""The conic form of a piecewise linear-quadratic function, with as few variables as it needs."""

from __future__ import annotations

from typing import Any

import numpy as np

Piece = tuple[float, float, float, float, float]


def conic_form(cp: Any, x: Any, pieces: tuple[Piece, ...], centre: int) -> tuple[Any, list[Any]]:
    """Return a quadratic cvxpy expression equal to ρ(x) once minimised, and linear constraints.

    With e = x − Σ r_j + Σ l_j the part of x that stays on the centre piece, and r_j, l_j ≥ 0 the lengths
    travelled on the pieces to its right and left, the cost is ρ(e) on the centre piece plus, for every
    other piece, slope·length + q·length². Convexity makes it optimal to travel in order.

    Shapes: `x` (m,), `pieces` (from, to, q, s, c).

    Parameters
    ----------
    cp : module
        The cvxpy module.
    centre : int
        Index of the piece to start from.
    """
    constraints: list[Any] = []
    if x.parameters():
        # DPP forbids a parameter times an expression that holds another
        given, x = x, cp.Variable(x.shape)
        constraints.append(x == given)
    if pieces[centre][0] == pieces[centre][1]:
        return cp.Constant(np.full(x.shape, pieces[centre][4])), [*constraints, x == pieces[centre][0]]
    costs: list[Any] = []
    inner = x
    for side, others in ((1.0, pieces[centre + 1:]), (-1.0, pieces[:centre])):
        for a, b, q, s, _ in others:
            length = cp.Variable(x.shape, nonneg=True)
            slope = 2 * q * (a if side > 0 else b) + s
            costs.append(_quadratic(cp, length, q, side * slope, 0.0))
            inner = inner - side * length
            if np.isfinite(b - a):
                constraints.append(length <= b - a)
    lower, upper, q, s, c = pieces[centre]
    if np.isfinite(lower):
        constraints.append(inner >= lower)
    if np.isfinite(upper):
        constraints.append(inner <= upper)
    return _total(cp, [_quadratic(cp, inner, q, s, c), *costs], x.shape), constraints


def _quadratic(cp: Any, x: Any, q: float, s: float, c: float) -> Any:
    terms = ([q * cp.square(x)] if q else []) + ([s * x] if s else []) + ([c] if c else [])
    return _total(cp, terms, x.shape) if terms else None


def _total(cp: Any, terms: list[Any], shape: tuple[int, ...]) -> Any:
    present = [term for term in terms if term is not None]
    if not any(hasattr(term, "shape") for term in present):
        return cp.Constant(np.full(shape, float(sum(present))))
    total = present[0]
    for term in present[1:]:
        total = total + term
    return total
