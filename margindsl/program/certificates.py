"""Certified lower bounds as data: dual points that `proof/check.py` judges (mathematics, 3.1)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from html import escape
from typing import Any, ClassVar

import numpy as np

from margindsl.host.clock import EIGEN_WORK
from margindsl.program.clusters import ClusterForm
from margindsl.program.equalities import FEASIBLE
from margindsl.program.forms import FixedLabelForm
from margindsl.program.losses import Losses
from margindsl.typing import FloatArray, IntArray

CHECKED = 8e3  # multiply-adds that take as long as a check of one entry of features; 5,500 to 11,000 were measured
A_LEAF = 3e7  # the same of one dual point, whatever its size; 2e7 to 3e7 were measured (iris, wine, heart)
LOW = 1e-9  # of the greatest entry of a diagonal: one that is next to nothing


@dataclass(frozen=True, eq=False)
class Certificate:
    """Represent a claim that no labelling in B has a value below `bound`, and the dual point that proves it.

    It is data: `Solution.verify` judges it.

    Parameters
    ----------
    bound : float
        In units of the program, of a solution in those of its value.
    kind : {"lift", "cases", "pool", "parts"}
        One dual point of a lift; a dual point for each case of a tree; dual points of which one proves every labelling;
        certificates of groups of points.
    arrays : dict of str to array
        In units of the regulariser ½‖w‖²: `u` counts margins of points (rows, where losses share scalars), `q` their
        squares; `d`, `kappa`, `theta` the label matrix, its lifted bounds `vectors` and its cuts; `eta` squared
        decision bounds, which have limits on both sides, `tau` decision bounds; `paths` the labels a case decides;
        `inner` duals of decided points, which say where the weights of labels are that are better than `known`, and
        `outer` those of known labels, for all cases.
    words : str
        One line saying what the proof is.
    is_trivial : bool
        Whether losses and norm prove the bound by themselves, whatever the relaxation.
    parts : tuple of (float, (m,) int array, Certificate)
        The share of the norm of a group, its points, and what is proved of them with losses divided by it.
    """

    bound: float
    kind: str = field(default="lift", kw_only=True)
    arrays: dict[str, Any] = field(default_factory=dict, kw_only=True)
    words: str = field(default="", kw_only=True)
    is_trivial: bool = field(default=False, kw_only=True)
    parts: tuple[tuple[float, IntArray, Certificate], ...] = field(default=(), kw_only=True)

    def __repr__(self) -> str:
        return f"Certificate(bound={self.bound:.6g}, kind={self.kind!r}{f', {self.words}' * bool(self.words)})"

    def _repr_html_(self) -> str:
        shown = {"bound": f"{self.bound:.6g}", "proof": escape(self.words or self.kind),
                "arrays": ", ".join(f"{name} {np.shape(held)}" for name, held in self.arrays.items() if np.size(held))}
        rows = "".join(f'<tr><th scope="row">{name}</th><td>{text}</td></tr>' for name, text in shown.items())
        return f"<div><b>Certificate</b><table>{rows}</table></div>"

    UNITS: ClassVar[dict[str, tuple[int, int]]] = {
        "u": (1, -2), "tau": (1, -2), "q": (0, -2), "eta": (0, -2), "d": (2, -2), "kappa": (2, -2), "theta": (2, -2),
        "inner": (1, -2), "outer": (1, -2), "known": (0, -2), "v": (1, -2), "e": (2, -2)}

    def rescaled(self, decision: float, features: float, ridge: float = 1.0) -> Certificate:
        """Return the dual point of the program with features times s, decision values times t, all times κ.

        An array of the units (i, j) becomes κ tⁱ sʲ times itself; the bound stays.

        `decision`, `features`, `ridge`: t, s and κ.
        """
        factor = {name: ridge * decision**i * features**j for name, (i, j) in self.UNITS.items()}
        arrays = {name: np.asarray(x) * factor[name] if name in factor else x for name, x in self.arrays.items()}
        return replace(self, arrays=arrays, parts=tuple(
            (share, own, part.rescaled(decision, features, ridge)) for share, own, part in self.parts))

    def work(self, n: int, r: int) -> float:
        """Return the multiply-adds of a check: passes over features (n, r), products with cuts, eigenvalues of both."""
        if self.parts:
            return sum(part.work(len(own), r) for _, own, part in self.parts)
        d, q, theta = (np.atleast_2d(np.asarray(self.arrays.get(name, np.zeros(1)))) for name in ("d", "q", "theta"))
        inner, columns = r if q.any() else 1, 0
        if self.kind == "lift":  # a cut each, for the diagonal of a proof is positive; without labels there is none
            low = np.count_nonzero(d <= LOW * np.max(d)) // len(d) if d.any() else 0
            columns = int(r + low + np.count_nonzero(theta.any(axis=0)))
        order = min(n, columns)
        each = A_LEAF + n * (r * inner + order * columns) + EIGEN_WORK * (inner**3 + order**3)
        return float(CHECKED * n * r + len(q) * each)


def lifted_arrays(u: FloatArray, q: FloatArray, d: FloatArray, **others: Any) -> dict[str, Any]:
    """Return the arrays of a lifted dual point in which what is not given is zero, and every point a component.

    `u`, `q` (m,); `others`: `kappa` (J,) with `vectors` (N, J), `eta` (L,), `component` and `sign` (n,), `theta` (T,)
    with the entries ±1 of cuts, `cut_positions` and `cut_signs` (T, w).
    """
    cuts = np.zeros((0, 1), dtype=int)
    return {"u": u, "q": q, "d": d, "kappa": np.zeros(0), "vectors": np.zeros((len(d), 0)), "eta": np.zeros(0),
            "component": np.arange(len(d)), "sign": np.ones(len(d), dtype=int), "theta": np.zeros(0),
            "cut_positions": cuts, "cut_signs": cuts, **others}


def certify_least_value(losses: Losses, bounds: int = 0) -> Certificate:
    """Return the certificate that no value lies below Σ c min ρ, −∞ where losses have no least value.

    `bounds`: the number of bounds on decision values with limits on both sides, of which no use is made.
    """
    zero = np.zeros(losses.n)
    return Certificate(losses.least_value(), arrays=lifted_arrays(zero, zero, zero, eta=np.zeros(bounds)),
                       words="least value of the losses, the norm being no less than zero", is_trivial=True)


def fixed_label_case(form: FixedLabelForm | ClusterForm, u: FloatArray, tau: FloatArray) -> dict[str, Any]:
    """Return the arrays of a dual point (u, τ) of fixed labels as a case, which decides all points with a loss.

    Of Crammer-Singer margins u has a column a cluster, where all losses fall: Σc ρ(γ) ≥ −Σcρ*(−Σ_q u_q/c) − Σ u_q
    (f_y − f_q) for u ≥ 0, so that completing the square in W gives the dual objective; a free bias is one more column
    of features without a norm, and asks that w(u, τ) where φ is one is zero.
    """
    paths, points = np.zeros((1, form.n), dtype=int), form.losses.points[form.losses.weights > 0]
    paths[0, points] = form.steps(points)
    return {"u": form.point_duals(u)[None], "q": np.zeros((1, form.n)), "tau": np.asarray(tau)[None], "paths": paths}


def fixed_label_value(form: FixedLabelForm | ClusterForm, u: FloatArray, tau: FloatArray) -> float:
    """Return the dual objective of fixed labels, −∞ at what is no dual point or where Crammer-Singer losses rise."""
    held = form.falls and form.dual_error(u, tau) <= FEASIBLE
    return float(form.dual_objective(u, tau)) if held else -np.inf


def projected_duals(form: FixedLabelForm | ClusterForm, u: Any, tau: Any) -> tuple[FloatArray, FloatArray]:
    """Return duals (u, τ) of an answer to fixed labels moved onto their equalities; τ may be None, for zero."""
    shape: Any = form.variables()["tau"].shape
    return form.projected(np.asarray(u, dtype=float), np.zeros(shape) if tau is None else np.array(tau, dtype=float))


def certify_fixed_labels(form: FixedLabelForm | ClusterForm, u: FloatArray | None,
                         tau: FloatArray | None) -> Certificate | None:
    """Return the certificate of a dual point (u, τ) of fixed labels, moved onto its equalities.

    None without a dual point that proves something, or where losses of Crammer-Singer margins rise.

    `u` (m,) or (m, k), `tau` (J,).
    """
    if u is None or not form.falls or form.outside is not None:
        return None
    u, tau = projected_duals(form, u, tau)
    bound = fixed_label_value(form, u, tau)
    return Certificate(bound, kind="cases", arrays=fixed_label_case(form, u, tau),
                       words="dual point of the fixed-label problem") if np.isfinite(bound) else None
