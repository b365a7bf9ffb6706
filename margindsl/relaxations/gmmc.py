"""Generalised maximum margin clustering (Valizadegan and Jin 2006): the lift of the squared hinge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from margindsl.calculus import PLQ
from margindsl.contract import Offer, Refusal
from margindsl.program.program import MarginProgram
from margindsl.program.split import merged_rows
from margindsl.relaxations.sdp import SDP

SQUARED_HINGE = PLQ([1.0], [[1.0, -2.0, 1.0], [0.0, 0.0, 0.0]])


@dataclass(frozen=True, kw_only=True)
class GMMC(SDP):
    """Lift the signed outputs v, v_i² ≥ 1, instead of the labels: `margindsl.SDP` for the squared hinge.

    Its slack shifts the kernel, K_c = K + Diag(1/2c), and the dual of the paper, one variable γ a point, is that of the
    lift with u = γ and d = γ − γ²/2c. Label constraints, which the paper has not, take part as they do in `SDP`;
    decision balance |Σf| ≤ l stands in the program, in place of the paper's soft term C_e(eᵀv)².

    Parameters
    ----------
    rounding : int or "sign"
        Sampled directions; "sign" is the paper's rule alone, the sign of the leading outputs (with polish="none").
    cuts, cut_rounds, tol, polish
        As for `margindsl.SDP`.

    References
    ----------
    H. Valizadegan, R. Jin (2006). Generalized maximum margin clustering and unsupervised kernel learning.

    Examples
    --------
    >>> import margindsl as md
    >>> f = md.Hyperplane([[-2.0], [-1.0], [1.0], [2.0]])
    >>> problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.squared_hinge(md.Labels(4) * f))),
    ...                      [abs(md.sum(f)) <= 1])
    >>> solution = problem.solve(GMMC(), random_state=0)
    >>> (solution.labels * solution.labels[0]).tolist()
    [1, 1, -1, -1]
    """

    name: ClassVar[str] = "gmmc"
    summary: ClassVar[str] = "signed outputs lifted; squared hinge"
    most_clusters: ClassVar[float] = 2
    why_so_few: ClassVar[str] = (
        "v² >= 1 says of one output that it has a sign; that one of several exceeds the others by 1 is no bound on "
        "their squares and products")

    def accepts(self, program: MarginProgram) -> Offer | Refusal:
        """Refuse other losses, and a free bias without decision balance."""
        for term in merged_rows(program.losses, np.zeros(program.n, dtype=bool)).terms:
            factor, plain = float(term.loss(0.0)), not (np.any(term.shifts) or np.any(term.coupling))
            if not np.any(term.weights) or (factor == 0 and term.loss.is_affine):  # points without a loss
                continue
            if not (plain and isinstance(term.loss, PLQ) and factor > 0 and term.loss.isclose(factor * SQUARED_HINGE)):
                return Refusal("gmmc takes the squared hinge alone: its slack is a shift of the kernel, K + Diag(1/2c)",
                               "Use md.squared_hinge(y * f), or relaxation='sdp', which takes any convex loss")
        return super().accepts(program)
