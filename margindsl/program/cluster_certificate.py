"""Certified lower bounds of fixed clusters with Crammer-Singer margins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from margindsl.program.certificates import Certificate, DualPoint, decided
from margindsl.program.clusters import ClusterForm
from margindsl.typing import FloatArray


@dataclass(frozen=True, eq=False)
class ClusterCertificate(Certificate):
    """Prove a bound of a fixed-cluster problem without rising losses by a dual point (u, τ).

    Weak duality for max over u ≥ 0 of −Σ cρ*(−Σ_q u_q/c) − ½‖Σ_i Σ_q u_iq (b_{y_i} − b_q) ⊗ φ_i − Gᵀτ‖² − Σ ℓ|τ|.

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
        """Recompute the dual objective."""
        value = self.value
        return bool(not self.form.parts.rising.rows and self.bound <= value + 1e-9 * abs(value))

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
    """Return the certificate of a dual point; None without one, or with rising losses, which are not convex."""
    if u is None or form.parts.rising.rows:
        return None
    tau = np.zeros(len(form.balance[1])) if tau is None else np.asarray(tau, dtype=float)
    bound = form.dual_objective(np.asarray(u), np.zeros(0), tau)
    certificate = ClusterCertificate(bound, form, np.asarray(u), tau)
    return certificate if np.isfinite(bound) and certificate.verify() else None
