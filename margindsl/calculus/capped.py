"""Losses up to a cap, which are not convex: proofs know them, solvers see what is convex and no greater."""

from __future__ import annotations

import numpy as np

from margindsl.calculus.plq import PLQ
from margindsl.host.frozen import frozen


class Capped(PLQ):
    """Represent min(ρ, cap) = ρ − (ρ − cap)₊ of a piecewise linear ρ."""

    rho: PLQ
    cap: float

    def __init__(self, rho: PLQ, cap: float, above: PLQ) -> None:
        knots = np.union1d(rho.breakpoints, above.breakpoints)
        inner = np.concatenate([knots[:1] - 1, (knots[1:] + knots[:-1]) / 2, knots[-1:] + 1])
        table = [f.coefficients[np.searchsorted(f.breakpoints, inner)] for f in (rho, above)]
        vars(self).update(breakpoints=frozen(knots), coefficients=frozen(table[0] - table[1]), lower=-np.inf,
                          upper=np.inf, rho=rho, cap=cap)

    def minimum(self) -> float:
        return self.rho.minimum()

    def hull(self, low: float, high: float) -> PLQ:
        """Return the greatest convex function that is no greater between two ends, continued beyond them."""
        x = np.unique(np.clip([low, *self.breakpoints, high], low, high))
        points: list[tuple[float, float]] = []
        for t, value in zip(x.tolist(), np.asarray(self(x)).tolist()):
            while len(points) > 1 and (points[-1][1] - points[-2][1]) * (t - points[-2][0]) >= (
                    value - points[-2][1]) * (points[-1][0] - points[-2][0]):
                points.pop()
            points.append((t, value))
        return PLQ.from_points(*zip(*points))
