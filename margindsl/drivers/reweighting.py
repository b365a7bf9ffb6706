"""Fits under a gauge by problems with a squared norm: one for each weighting of the blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import minimize

from margindsl.contract import Budget, RawSolution, Status
from margindsl.features import DenseFeatures
from margindsl.features.maps import NoMap
from margindsl.program.forms import FixedLabelForm
from margindsl.typing import FloatArray

SOLVES, FIRST = 60, 3  # problems of a fit, and those that only reweight; 5 to 15 are what most fits take
EXACT = 1e-15  # accuracy of a problem: duals have the root of it
LEAST = 0.01  # weight of a block beside the greatest, as a part of the accuracy
INSIDE = 1e-10  # relative distance of duals from the end of the domain of an unsquared norm
FREE = 1e3  # of the weights of blocks, at which norms cost next to nothing: duals are well inside


class _Closed(Exception):
    """The gap is closed, or the time is up."""


def reweighted(form: FixedLabelForm, budget: Budget, start: RawSolution | None,
               solve: Callable[[Any, Budget, RawSolution | None], RawSolution]) -> RawSolution:
    """Return the answer to a form with a gauge, from a solver of forms with ½‖w‖².

    R(V) = min over x ≥ 0 of ½Σ(p + 1/x_v)‖V_v‖² + g(X), g(X) = e²X/2(1 − cX), or X = 1/c where e = 0. At weights x the
    least value over V is a convex function F of x with ∂F/∂x_v = −½(h_v/(1 + p x_v))² + g'(X), h_v the norm of
    Σ ũ_i c(y_i) ⊗ φ_i in block v (Rakotomamonjy et al. 2008; Bach 2008). Sequential quadratic programs minimise it
    after a few reweightings x = t/(cT + e), each of which lowers the value. Dual points of every problem are dual
    points of the form; the best of them and the best weights are returned.
    """
    gauge = form.gauge
    assert gauge is not None
    p, c, e, block, B = gauge.plain, gauge.group, gauge.linear, gauge.block, gauge.count
    phi, q = form.features.toarray(), form.width
    inner = budget.replace(tol=max(EXACT, (0.01 * budget.tol) ** 2), cutoff=np.inf, callback=None)
    best: dict[str, Any] = {"value": np.inf, "dual": -np.inf, "raw": None, "variables": {}, "solves": 0, "passes": 0,
                            "start": start, "inside": (None, None, np.inf)}
    least = max(LEAST * budget.tol, 1e-12)
    trace: list[tuple[float, float, float]] = []

    def at(x: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return F, its gradient, and the norms of blocks at weights x."""
        # 1. The problem in coordinates in which its norm is ½‖w‖²; of more columns than points, those of their span
        x = np.maximum(x, least * x.max())  # of dual points that are as good without a block those that hold it down
        root = np.append(np.sqrt(x / (1.0 + p * x)), 1.0)[block]
        scaled, Q = phi * root, None
        if scaled.shape[1] > form.n:
            Q, triangle = np.linalg.qr(scaled.T)
            scaled = triangle.T
        plain = replace(form, gauge=None, features=DenseFeatures(np.ascontiguousarray(scaled), NoMap(), "weighted"))
        begin = best["start"]
        if begin is not None and "w" in begin.variables:
            V = np.divide(form.unpack(begin["w"]), root[:, None], out=np.zeros((len(root), q)), where=root[:, None] > 0)
            begin = replace(begin, variables={**begin.variables, "w": (V if Q is None else Q.T @ V).T.ravel()})
        raw = solve(plain, inner, begin)
        best["solves"] += 1
        best["passes"] += raw.iterations + 1
        if not raw.has_answer:
            best["raw"] = raw
            raise _Closed
        # 2. Its weights, and its dual point, drawn into the domain where only the unsquared norm is there
        V = plain.unpack(raw["w"])
        V = root[:, None] * (V if Q is None else Q @ V)
        u, tau = np.asarray(raw["u"]), raw.get("tau")
        h = np.sqrt(gauge.squares(form.unpack(form.dual_direction(u, tau))).sum(axis=1)[:-1])
        if not gauge.is_squared:
            if not len(trace) and not form.losses.scalars.count:  # zero is a dual point
                best["inside"] = 0.0 * u, 0.0 if tau is None else 0.0 * tau, 0.0
            inner_u, inner_tau, innermost = best["inside"]
            if h.max() < innermost:
                best["inside"] = u, tau, h.max()
            elif h.max() > e > innermost:
                share = max((1.0 - INSIDE) * e - innermost, 0.0) / (h.max() - innermost)
                u = inner_u + share * (u - inner_u)
                tau = None if tau is None else inner_tau + share * (tau - inner_tau)
        (bias, scalars), w = form.plane(raw.variables), V.T.ravel()
        value, dual = form.objective(w, bias, scalars), form.dual_objective(u, tau)
        if value < best["value"]:
            best.update(value=value, raw=raw, start=replace(raw, variables={**raw.variables, "w": w}))
            best["variables"] |= {"w": w, "bias": bias, "scalars": scalars}
        if dual > best["dual"] or "u" not in best["variables"]:
            best.update(dual=dual)
            best["variables"] |= {"u": u} | ({} if tau is None else {"tau": tau})
        trace.append((0.0, best["value"], best["dual"]))
        closed = best["value"] - best["dual"] <= budget.tol * max(abs(best["value"]), form.negligible)
        if closed or best["dual"] >= budget.cutoff or budget.expired or best["solves"] >= SOLVES:
            raise _Closed
        # 3. What the next weights follow from
        t, X = np.sqrt(gauge.squares(V).sum(axis=1)[:-1]), float(x.sum())
        room = 1.0 - c * X
        g, slope = (e * e * X / (2 * room), e * e / (2 * room * room)) if e else (0.0, 0.0)
        return plain.objective(np.asarray(raw["w"]), bias, scalars) + g, slope - 0.5 * (h / (1.0 + p * x)) ** 2, t

    x = np.full(B, 1.0 / (c * B + e) if c else 1.0)
    if start is not None and "w" in start.variables:
        t = np.sqrt(gauge.squares(form.unpack(start["w"])).sum(axis=1)[:-1])
        x = t / (c * t.sum() + e) if t.sum() > 0 else x
        x = np.maximum(x, 1e-3 * x.sum() / B)
        x *= min(1.0, 1.0 / (c * x.sum())) if c and not e else 1.0
    try:
        for _ in range(FIRST):
            t = at(x)[2]
            if not t.sum() > 0:
                break
            x = t / (c * t.sum() + e)
        if not gauge.is_squared and best["inside"][2] > e:
            at(np.full(B, FREE * x.sum()))
        unit, scale = float(x.sum()) / B, max(abs(best["value"]), form.negligible)
        most = 1.0 / c if c else np.inf

        def scaled(z: FloatArray) -> tuple[float, FloatArray]:
            value, gradient, _ = at(np.maximum(unit * z, 0.0))
            return value / scale, gradient * (unit / scale)

        room = {"type": "eq" if not e else "ineq", "fun": lambda z: (most * (1.0 - 1e-9 * (e > 0)) - unit * z.sum()) / (
            unit * B), "jac": lambda z: np.full(B, -1.0 / B)}
        while True:  # a line search that found no step begins anew
            found = minimize(scaled, x / unit, jac=True, method="SLSQP", bounds=[(0.0, 1e3)] * B,
                             constraints=[room] if c else [], options={"ftol": 1e-16, "maxiter": SOLVES})
            x = np.maximum(unit * found.x, 0.0)
            for _ in range(FIRST):
                t = at(x)[2]
                x = t / (c * t.sum() + e) if t.sum() > 0 else x
    except _Closed:
        pass
    raw, gap = best["raw"], best["value"] - best["dual"]
    if not best["variables"]:
        return raw
    closed = gap <= budget.tol * max(abs(best["value"]), form.negligible)
    status = (Status.OPTIMAL if closed else Status.CONVERGED if best["dual"] >= budget.cutoff else
              Status.TIME_LIMIT if budget.expired else Status.INACCURATE)
    words = "" if status is not Status.INACCURATE else f"the weights of blocks left a gap of {gap:.1e}"
    return RawSolution(status, best["variables"], words, best["value"], best["passes"], trace=tuple(trace))
