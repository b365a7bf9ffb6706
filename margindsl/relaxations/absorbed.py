"""Label lifts that begin as weight lifts: without bounds on labels both are one problem."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from margindsl.contract import RawSolution, Refusal
from margindsl.drivers.guard import offer_of
from margindsl.drivers.run import Run
from margindsl.program.certificates import Certificate
from margindsl.program.forms import LabelLiftForm
from margindsl.program.repair import repaired
from margindsl.relaxations.weight_lifting import WeightLifting
from margindsl.typing import FloatArray

TOL = 1e-4  # relative accuracy of the weight lift at most, as of the label lift itself
NOISE = 0.05  # beside vectors of labels that a descent starts from, to leave saddles
HALVINGS = 40  # of the interval of a margin


@dataclass(frozen=True, eq=False)
class Absorbed:
    """Represent what a weight lift says of a label lift.

    Parameters
    ----------
    start : RawSolution or None
        A point with factors V and W.
    certificate : Certificate or None
        A bound of both, and of the problem.
    is_solved : bool
        Whether the point is proved to solve the label lift.
    is_last : bool
        Whether it is, or there was no time for more.
    """

    start: RawSolution | None = None
    certificate: Certificate | None = None
    is_solved: bool = False
    is_last: bool = False


def absorbed(run: Run, form: LabelLiftForm, begins: bool = True) -> Absorbed:
    """Return the point and the proof of the weight lift, for a native solver, where there is one.

    The label lift's vectors are best along Wᵀφ_i, at the margin in [0, ‖Wᵀφ_i‖] that costs least; what is left of their
    unit length is of a new direction. Without bounds on labels and links, and where no margin is beyond where its loss
    rises, that is an optimum of the label lift: there the weight lift, which sees lengths, proves more of losses that
    rise. It has no variable for each point, and takes a fraction of the time. Of a lift with cuts, as those of several
    clusters are, it is too far away to begin with.

    Parameters
    ----------
    begins : bool
        Whether a point to begin from is asked for.
    """
    relaxation = WeightLifting()
    if form.has_cuts or not run.solver.native or isinstance(relaxation.accepts(run.program), Refusal):
        return Absorbed()
    lift = relaxation.lower(run.program)
    if isinstance(offer_of(run.solver, lift), Refusal):
        return Absorbed()
    raw = run.solve(lift, tol=max(run.budget.tol, TOL))
    if "W" not in raw.variables:
        return Absorbed()
    with run.stage("certify"):
        certificate = repaired(lift, raw)
    W = np.asarray(raw["W"])
    F = lift.outputs(W)
    expired = certificate is not None and run.budget.expired
    apart = len(np.unique(form.component)) == form.n == form.count  # no links, and no reference
    if certificate is not None and apart and not (expired or form.decision):
        V = _best_vectors(form, F)
        if all(float(np.linalg.norm(bound.vector @ V)) <= bound.radius for bound in form.balance):
            margins = form.sign * np.einsum("np,np->n", F, V[form.component, :-1])
            value = 0.5 * float(np.sum(lift.penalised(W) ** 2)) + form.losses.value(margins)
            if abs(value - certificate.bound) <= max(run.budget.tol, TOL) * abs(value):
                value = max(value, certificate.bound)
                W = np.column_stack([W, np.zeros(len(W))])
                return Absorbed(replace(raw, objective=value, variables={"V": V, "W": W}), certificate, True, True)
    if not begins:
        return Absorbed(certificate=certificate, is_last=expired)
    V = form.contract(F)
    V += NOISE * float(np.abs(V).mean()) * run.rng.standard_normal(V.shape)
    V /= np.maximum(np.linalg.norm(V, axis=1, keepdims=True), np.finfo(float).tiny)
    found = replace(raw, objective=lift.objective(W), variables={"V": V, "W": W})
    return Absorbed(found, certificate, is_last=expired)


def _best_vectors(form: LabelLiftForm, F: FloatArray) -> FloatArray:
    """Return unit rows v_i along outputs F (n, p) as far as losses fall, and on in a new direction, in turns ±."""
    lengths, losses = np.linalg.norm(F, axis=1), form.losses
    low, high = np.zeros(form.n), np.ones(form.n)
    if np.any(losses.spread(losses.derivative(losses.arguments(lengths))) > 0):
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            rises = losses.spread(losses.derivative(losses.arguments(middle * lengths))) > 0
            low, high = np.where(rises, low, middle), np.where(rises, middle, high)
    beyond = np.sqrt(1.0 - high**2)
    turns = np.where(np.cumsum(beyond > 0) % 2, 1.0, -1.0)
    along = np.divide(F, lengths[:, None], out=np.full(F.shape, F.shape[1] ** -0.5), where=lengths[:, None] > 0)
    V = np.empty((form.count, F.shape[1] + 1))
    V[form.component] = form.sign[:, None] * np.column_stack([high[:, None] * along, beyond * turns])
    return V


__all__ = ["Absorbed", "absorbed"]
