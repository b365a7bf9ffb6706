"""Certified lower bounds: repaired dual points, checked without trusting any solver (mathematics, 3.1)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from margindsl.program.clusters import ClusterForm
from margindsl.program.equalities import FEASIBLE, project_duals
from margindsl.program.forms import FixedLabelForm
from margindsl.program.losses import Losses
from margindsl.typing import FloatArray, IntArray

SAFETY = 1e-10  # relative inflation of a repaired dual point, above the rounding of an eigenvalue solve
WIDE_SAFETY = 1e-6  # the same where eigenvalues are bounds


@dataclass(frozen=True, eq=False)
class DualPoint:
    """Represent what proves a bound: a kind ("lift", "cases", "pool") and arrays in units of the regulariser ½‖w‖².

    Parameters
    ----------
    arrays : dict of str to float array
        `u` counts margins of points (rows, where losses share scalars), `q` their squares; `d`, `kappa`, `theta` the
        label matrix, its lifted bounds `vectors` and its cuts; `eta` squared decision bounds, which have limits on both
        sides, `tau` decision bounds.
    """

    kind: str
    arrays: dict[str, FloatArray]

    UNITS: ClassVar[dict[str, tuple[int, int]]] = {
        "u": (1, -2), "tau": (1, -2), "q": (0, -2), "eta": (0, -2), "d": (2, -2), "kappa": (2, -2), "theta": (2, -2)}

    def rescaled(self, decision: float, features: float, ridge: float = 1.0) -> DualPoint:
        """Return the dual point of the program with features times s, decision values times t, all times κ.

        An array of the units (i, j) becomes κ tⁱ sʲ times itself.

        Parameters
        ----------
        decision, features, ridge : float
            t, s and κ.
        """
        factor = {name: ridge * decision**i * features**j for name, (i, j) in self.UNITS.items()}
        return DualPoint(self.kind, {name: np.asarray(x) * factor[name] if name in factor else x
                                     for name, x in self.arrays.items()})


def decided(form: FixedLabelForm | ClusterForm) -> IntArray:
    """Return the path (1, n) of a case that decides the labels of all points with a loss, by the numbers of steps."""
    order, losses = np.zeros(form.n, dtype=int), form.losses
    points = losses.points[losses.weights > 0]  # labels without a loss are no part of the case
    order[points] = form.steps(points)
    return order[None]


@dataclass(frozen=True, eq=False)
class Certificate(ABC):
    """Represent a proof that no labelling in B has a value below `bound` (in units of the program).

    Parameters
    ----------
    bound : float
        The certified lower bound.
    """

    bound: float

    @property
    def is_trivial(self) -> bool:
        """Return whether losses and norm prove the bound by themselves, whatever the relaxation."""
        return False

    @abstractmethod
    def verify(self) -> bool:
        """Recompute the bound from the stored dual point and return whether it proves `bound`."""

    def dual_point(self) -> DualPoint:
        """Return the dual point as plain arrays, point by point, for a proof that is checked elsewhere."""
        raise NotImplementedError(f"{type(self).__name__} has no dual point of the kinds a proof knows")

    def describe(self) -> str:
        """Return one line saying what the proof is."""
        return type(self).__name__


@dataclass(frozen=True, eq=False)
class FixedLabelCertificate(Certificate):
    """Prove a bound of a fixed-label problem by a dual point (u, τ).

    Of Crammer-Singer margins u has a column a cluster, where all losses fall: ΣC ρ(γ) ≥ −Σcρ*(−Σ_q u_q/c) − Σ u_q
    (f_y − f_q) for u ≥ 0, so that completing the square in W gives the dual objective; a free bias is one more column
    of features without a norm, and asks that w(u, τ) where φ is one is zero.
    """

    form: FixedLabelForm | ClusterForm
    u: FloatArray  # (m,)
    tau: FloatArray  # (J,)

    @property
    def value(self) -> float:
        """Return the dual objective."""
        return self.form.dual_objective(self.u, self.tau)

    def verify(self) -> bool:
        value = self.value
        held = self.form.falls and self.form.dual_error(self.u, self.tau) <= FEASIBLE
        return bool(held and self.bound <= value + 1e-9 * abs(value))

    def dual_point(self) -> DualPoint:
        return DualPoint("cases", {
            "u": self.form.point_duals(self.u)[None], "q": np.zeros((1, self.form.n)),
            "tau": np.asarray(self.tau)[None], "paths": decided(self.form)})

    def describe(self) -> str:
        return "dual point of the fixed-label problem"


@dataclass(frozen=True, eq=False)
class LeastValueCertificate(Certificate):
    """Prove that no value lies below Σ c min ρ, since ½‖w‖² ≥ 0: what losses and norm say by themselves.

    Parameters
    ----------
    bounds : int
        The number of bounds on decision values with limits on both sides, of which no use is made.
    """

    losses: Losses
    bounds: int = 0

    @property
    def is_trivial(self) -> bool:
        return True

    @classmethod
    def of(cls, losses: Losses, bounds: int = 0) -> LeastValueCertificate:
        """Return the certificate of some losses, with bound −inf where they have no least value."""
        return cls(losses.least_value(), losses, bounds)

    def verify(self) -> bool:
        return bool(self.bound <= self.losses.least_value())

    def dual_point(self) -> DualPoint:
        return unlifted_point(np.zeros(self.losses.n), np.zeros(self.bounds))

    def describe(self) -> str:
        return "least value of the losses, the norm being no less than zero"


@dataclass(frozen=True, eq=False)
class CombinedCertificate(Certificate):
    """Prove a bound by cases: every labelling of B falls under one of the parts.

    Parameters
    ----------
    reason : str
        Why the cases cover B.
    """

    parts: tuple[Certificate, ...]
    reason: str = ""

    def verify(self) -> bool:
        return bool(self.parts) and all(p.verify() for p in self.parts) and (
            self.bound <= min(p.bound for p in self.parts) + 1e-12 * abs(self.bound))

    def dual_point(self) -> DualPoint:
        points = [part.dual_point() for part in self.parts]
        return DualPoint(points[0].kind, {
            name: np.concatenate([point.arrays[name] for point in points]) for name in points[0].arrays})

    def describe(self) -> str:
        return f"{len(self.parts)} cases: {self.reason}"


def unlifted_point(q: FloatArray, eta: FloatArray) -> DualPoint:
    """Return a lifted dual point without labels: u and d are zero, the squares q (n,) carry everything."""
    n = len(q)
    return DualPoint("lift", {
        "u": np.zeros(n), "q": q, "d": np.zeros(n), "kappa": np.zeros(0), "eta": eta, "theta": np.zeros(0),
        "component": np.arange(n), "sign": np.ones(n, dtype=int), "vectors": np.zeros((n, 0)),
        "cut_rows": np.zeros((0, 3), dtype=int), "cut_columns": np.zeros((0, 3), dtype=int),
        "cut_products": np.zeros((0, 3))})


def certify_fixed_labels(form: FixedLabelForm | ClusterForm, u: FloatArray | None,
                         tau: FloatArray | None) -> FixedLabelCertificate | None:
    """Return the certificate of a dual point (u, τ) of fixed labels, moved onto its equalities.

    None without a dual point that proves something, or where losses of Crammer-Singer margins rise.

    Shapes: `u` (m,), `tau` (J,).
    """
    if u is None or not form.falls:
        return None
    u = np.asarray(u, dtype=float)
    shape: Any = form.variables()["tau"].shape
    tau = np.zeros(shape) if tau is None else np.array(tau, dtype=float)
    u, tau = form.levelled(u, tau)
    certificate = FixedLabelCertificate(form.dual_objective(u, tau), form, u, tau)
    return certificate if np.isfinite(certificate.bound) and certificate.verify() else None


__all__ = [
    "FEASIBLE", "SAFETY", "WIDE_SAFETY", "Certificate", "CombinedCertificate", "DualPoint", "FixedLabelCertificate",
    "LeastValueCertificate", "certify_fixed_labels", "project_duals", "unlifted_point"]
