"""Regularisers of the norms of blocks of weights: group norms, selection of columns, norms that are not squared."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from margindsl.host.frozen import freeze_fields
from margindsl.typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Gauge:
    """Represent R(V) = ½p Σt² + ½cT² + eT of the norms t_v = ‖V_v‖ of blocks of rows of V, and T = Σt.

    With p + c = 1 it is at least ½‖V‖², so that whatever bounds a program with that norm bounds one with the gauge.
    ½cT² + eT = min over x of ½Σ t²/x + e²X/2(1 − cX), X = Σx, attained at x = t/(cT + e): the weights of kernels that
    are chosen in the model (Rakotomamonjy et al. 2008), up to their sum.

    Parameters
    ----------
    block : (r,) int array
        The block of each column of features; −1 for what has ½‖V‖² alone.
    plain, group, linear : float
        p, c, e ≥ 0 with p + c = 1, or p = c = 0 < e.
    """

    block: IntArray
    plain: float
    group: float
    linear: float
    count: int = field(init=False)  # number of blocks

    def __post_init__(self) -> None:
        vars(self)["count"] = int(self.block.max(initial=-1)) + 1
        freeze_fields(self)

    @property
    def is_squared(self) -> bool:
        """Return whether R(V) ≥ ½‖V‖²."""
        return self.plain + self.group > 0

    def text(self) -> str:
        """Return it as a formula of the norms t of blocks."""
        parts = ((self.plain / 2, "sum t^2"), (self.group / 2, "(sum t)^2"), (self.linear, "sum t"))
        return " + ".join(f"{a:.6g} {word}" for a, word in parts if a) + f" of {self.count} blocks t = |w_v|"

    def squares(self, V: FloatArray) -> FloatArray:
        """Return (B + 1, …) the sums of squares of V (r, …) over the columns of blocks, of block −1 last."""
        found = np.zeros((self.count + 1, *V.shape[1:]))
        np.add.at(found, self.block, V**2)
        return found

    def value(self, V: FloatArray) -> float:
        """Return R at weights (r, q)."""
        *squares, rest = self.squares(V).sum(axis=1).tolist()
        T = float(np.sum(np.sqrt(squares)))
        return 0.5 * (rest + self.plain * sum(squares) + self.group * T * T) + self.linear * T

    def conjugate(self, squares: FloatArray) -> FloatArray:
        """Return R* at directions of squared block norms (B + 1, M): max over t ≥ 0 of hᵀt − R(t), block by block.

        t_v = (h_v − e − cT)₊/p, where T follows from the number of blocks that are not zero; max (h − e)₊²/2c for
        p = 0, and for p = c = 0 zero where h ≤ e, else infinite.
        """
        top = np.sort(np.maximum(np.sqrt(squares[:-1]) - self.linear, 0.0), axis=0)[::-1]
        rest = 0.5 * squares[-1]
        if not self.plain:
            return rest + (0.5 * top[0] ** 2 / self.group if self.group else np.where(top[0] > 0, np.inf, 0.0))
        sums, shares = np.cumsum(top, axis=0), self.group / (
            self.plain + self.group * np.arange(1, self.count + 1.0)[:, None])
        last = np.maximum((top > shares * sums).sum(axis=0) - 1, 0)[None]
        S, Q, share = (np.take_along_axis(np.broadcast_to(a, top.shape), last, 0)[0]
                       for a in (sums, np.cumsum(top**2, axis=0), shares))
        return np.asarray(rest + 0.5 * (Q - share * S**2) / self.plain)
