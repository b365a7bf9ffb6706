"""Lifts as the forms that are factored: lengths of weights where no label is coupled, else labels of all points."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from margindsl.contract import Budget, RawSolution
from margindsl.program.absorption import root_envelope
from margindsl.program.bounds import QuadraticBound
from margindsl.program.cuts import MatrixCuts
from margindsl.program.forms import LabelLiftForm, WeightLiftForm
from margindsl.program.lift import LiftForm
from margindsl.program.moment import MomentLiftForm
from margindsl.typing import FloatArray


def factored(form: LiftForm) -> WeightLiftForm | LabelLiftForm:
    """Return the form that is factored in place of a lift."""
    losses, options = form.losses, {"decision": form.decision, "free_bias": form.free_bias}
    if not form.count:
        terms = tuple(replace(term, loss=root_envelope(term.loss) if form.clusters == 2 else term.loss.split()[0])
                      for term in losses.terms)
        return WeightLiftForm(form.features, replace(losses, terms=terms), **options)
    apart = np.flatnonzero(form.absorbed)
    component, count = form.component.copy(), form.count + len(apart)
    component[apart] = form.count + np.arange(len(apart))
    balance = tuple(QuadraticBound(np.append(b.vector, np.zeros(len(apart))), b.radius) for b in form.balance)
    parts = form.features, losses, component, form.sign, count, balance, form.reference
    if not form.cuts.count:
        return LabelLiftForm(*parts, **options)
    ends, signs = form.cuts.places, form.cuts.signs
    first, second = np.triu_indices(ends.shape[1], 1)
    products = (signs[:, first] * signs[:, second]).astype(float)
    size = (np.count_nonzero(signs, axis=1) - form.cuts.least) / 2
    cuts = MatrixCuts(ends[:, first], ends[:, second], products / size[:, None], form.cuts.equal)
    return MomentLiftForm(*parts, cuts=cuts, moments=False, **options)


def bridged(solver: Any, form: LiftForm, budget: Budget, start: RawSolution | None) -> RawSolution:
    """Solve a lift through the form that is factored."""
    other = factored(form)
    if isinstance(other, WeightLiftForm):
        raw = solver.solve_weights(other, budget, start)
        if "W" not in raw.variables:
            return raw
        a = raw.get("a", np.zeros(form.n))
        rows = np.bincount(form.losses.points, form.losses.slopes**2, minlength=form.n)[form.losses.points]
        found: dict[str, FloatArray] = {"u": np.zeros(form.losses.rows), "q": -0.5 * a[form.losses.points] / rows,
                                        "V": np.zeros((0, 1)), "W": raw["W"], "eta": raw["eta"]}
        return replace(raw, variables=found)
    size = (np.count_nonzero(form.cuts.signs, axis=1) - form.cuts.least) / 2
    if start is not None:
        tau = 2.0 * size * form.cuts.admissible(start.get("gamma"))
        start = replace(start, variables={**start.variables, "tau": tau})
    raw = solver.solve_labels(other, budget, start)
    if "u" not in raw.variables:
        return raw
    # what a component of one point alone pays, u and d, is paid by its square
    u, d = raw["u"], np.array(raw["d"])
    gamma = raw.get("tau", np.zeros(form.cuts.count)) / (2.0 * size)
    np.add.at(d, form.cuts.places.ravel(), (gamma[:, None] * np.abs(form.cuts.signs)).ravel())
    spread, alone = form.losses.spread(u), np.where(form.absorbed, other.component, 0)
    a = np.divide(spread**2, d[alone], out=np.zeros(form.n), where=form.absorbed & (d[alone] > 0))
    rows = np.bincount(form.losses.points, form.losses.slopes**2, minlength=form.n)[form.losses.points]
    return replace(raw, variables={
        "u": np.where(form.linear, u, 0.0), "q": -0.5 * a[form.losses.points] / rows, "d": d[: form.count],
        "kappa": raw["kappa"], "eta": raw["eta"], "gamma": gamma, "V": raw["V"][: form.count], "W": raw["W"]})
