"""Certified lower bounds of fixed clusters with Crammer-Singer margins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from margindsl.accuracy import greatest_ratio
from margindsl.program.certificates import FEASIBLE, Certificate, DualPoint, decided
from margindsl.program.clusters import ClusterForm
from margindsl.typing import FloatArray


@dataclass(frozen=True, eq=False)
class ClusterCertificate(Certificate):
    """Prove a bound of a fixed-cluster problem without rising losses by a dual point (u, τ).

    Weak duality for max over u ≥ 0 of −Σ cρ*(−Σ_q u_q/c) − ½‖Σ_i Σ_q u_iq (b_{y_i} − b_q) ⊗ φ_i − Gᵀτ‖² − Σ ℓ|τ|;
    with a free bias the same sum over ones for φ is zero.

    Parameters
    ----------
    form : ClusterForm
    u : (m, k) float array
    tau : (J,) float array
    """

    form: ClusterForm
    u: FloatArray
    tau: FloatArray

    @property
    def value(self) -> float:
        """Return the dual objective."""
        return self.form.dual_objective(self.u, np.zeros(0), self.tau)

    def verify(self) -> bool:
        """Recompute the dual objective and its residual."""
        value, terms = self.value, self.form.bias_terms(self.u, np.zeros(0), self.tau)
        level = greatest_ratio(terms.sum(axis=0), np.abs(terms).sum(axis=0)) <= FEASIBLE
        return bool(level and not self.form.parts.rising.rows and self.bound <= value + 1e-9 * abs(value))

    def dual_point(self) -> DualPoint:
        """Return one case with a dual for every cluster but a point's own."""
        falling, n = self.form.parts.falling, self.form.n
        u = np.zeros((n, self.form.clusters))
        np.add.at(u, falling.points, self.u)
        return DualPoint("cases", {
            "u": u[None], "q": np.zeros((1, n)), "tau": self.tau[None],
            "paths": decided(self.form.losses, self.form.labels, False)})

    def describe(self) -> str:
        """Return one line saying what the proof is."""
        return "dual point of the fixed-cluster problem"


def certify_clusters(form: ClusterForm, u: FloatArray | None, tau: FloatArray | None) -> ClusterCertificate | None:
    """Return the certificate of a dual point, moved onto the equalities of a free bias.

    None without a dual point, or with rising losses, which are not convex.
    """
    if u is None or form.parts.rising.rows:
        return None
    u, tau = np.asarray(u), np.zeros(len(form.balance[1])) if tau is None else np.asarray(tau, dtype=float)
    if form.free_bias:
        u, tau = _level(form, u, tau)
    bound = form.dual_objective(u, np.zeros(0), tau)
    certificate = ClusterCertificate(bound, form, u, tau)
    return certificate if np.isfinite(bound) and certificate.verify() else None


def _level(form: ClusterForm, u: FloatArray, tau: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (u, τ) whose sums a free bias makes zero: a bound takes up the rest, else flows between clusters do.

    The u are flows from the clusters of points to others. Those from p to q times 1 + z_p − z_q leave nothing over
    where z solves a Laplacian system; divided by the largest such factor they stay in the domain of the conjugates.
    """
    k, h, rest = form.clusters, form.decision_rows[1], form.bias_terms(u, np.zeros(0), tau).sum(axis=0)
    if np.any(h != 0):
        tau = np.array(tau).reshape(len(h), len(form.pairs))
        place = int(np.argmax(np.abs(h) * (np.abs(tau).sum(axis=1) > 0) + 1e-9 * np.abs(h)))
        tau[place] += form.pairs @ rest / (k * h[place])
        return u, tau.ravel()
    own, flows = form.labels[form.parts.falling.points], np.zeros((k, k))
    np.add.at(flows, own, u)
    flows = flows + flows.T
    z = np.linalg.lstsq(np.diag(flows.sum(axis=1)) - flows, -rest, rcond=None)[0]
    factor = 1.0 + z[own][:, None] - z
    return u * (factor / factor.max(initial=1.0)), tau
