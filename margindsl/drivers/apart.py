"""Fits of labels beside energies of pairs and caps, whose weights have a closed form: others are fitted as without."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from margindsl.calculus import PLQ
from margindsl.contract import RawSolution
from margindsl.features import AffineFeatures
from margindsl.features.stacked import Stacked
from margindsl.program.bounds import DecisionBound
from margindsl.program.forms import FixedLabelForm
from margindsl.program.losses import LossTerm
from margindsl.typing import FloatArray


class Sloped(FixedLabelForm):
    """Represent a form with slopes that labels say, of which nothing can be compiled for other labels."""

    def structure(self) -> None:
        return None


@dataclass(frozen=True, eq=False)
class Apart:
    """Represent a form [½‖w‖² + Σρ − Σ⟨t_i, z_i⟩] + [½‖V‖² − ⟨V, A'c(y)⟩]: V = A'c(y), and the form of w."""

    form: FixedLabelForm
    V: FloatArray  # (·, q)
    u: FloatArray  # of the rows of pairs
    rows: int  # of the others

    @classmethod
    def of(cls, form: Any, kept: dict[Any, Any]) -> Apart | None:
        """Return the parts of a form, features of the first one kept from form to form; None where there are none."""
        features: Any = form.features
        scaled = isinstance(features, AffineFeatures) and features.skips_zeros
        whole = features.base if scaled else features
        if not isinstance(whole, Stacked) or type(form) is not FixedLabelForm or (
                form.gauge is not None or form.outside is not None or form.free_bias):
            return None
        *terms, pairs = form.losses.terms
        n, r = whole.base.n, whole.base.rank
        if pairs.points.min() < n or any(term.rows and term.points.max() >= n for term in terms):
            return None
        base = kept.setdefault(features, AffineFeatures(whole.base, factor=features.factor)) if scaled else whole.base
        u, sums = pairs.weights * 1.0, np.zeros((form.n, form.codes.shape[1]))
        np.add.at(sums, pairs.points, (u * pairs.slopes)[:, None] * form.codes[form.labels[pairs.points]])
        decision = tuple(DecisionBound(b.weights[:n], b.lower, b.upper) for b in form.decision)
        slopes = np.sum((whole.turned.T @ sums[n:]) * form.codes[form.labels[:n]], axis=1)
        if len(held := np.flatnonzero(slopes)):
            terms.append(LossTerm(PLQ.affine(-1.0, 0.0), held, np.ones(len(held)), slopes[held], np.zeros(len(held)),
                                  np.zeros((len(held), form.losses.scalars.count))))
        first = (Sloped if len(held) else FixedLabelForm)(base, replace(
            form.losses, n=n, terms=tuple(terms)), form.labels[:n], codes=form.codes, decision=decision)
        return cls(first, features.adjoint(sums)[r:], u, form.losses.rows - pairs.rows)

    @property
    def value(self) -> float:
        """Return the least value of the second part."""
        return -0.5 * float(np.vdot(self.V, self.V))

    def start(self, raw: RawSolution | None) -> RawSolution | None:
        """Return what an answer to such a form says of the first part."""
        if raw is None or raw.get("w") is None:
            return None
        own = {"w": raw["w"].reshape(self.V.shape[1], -1)[:, :self.form.features.rank].ravel()}
        own |= {} if raw.get("u") is None else {
            "u": np.append(raw["u"][:self.rows], np.ones(self.form.losses.rows - self.rows))}
        return replace(raw, variables={**raw.variables, **own})

    def whole(self, raw: RawSolution) -> RawSolution:
        """Return the answer to the form, of one to its first part."""
        if not raw.has_answer:
            return raw
        own = {"w": np.hstack([raw["w"].reshape(self.V.shape[1], -1), self.V.T]).ravel()}
        own |= {} if raw.get("u") is None else {"u": np.append(raw["u"][:self.rows], self.u)}
        trace = tuple((t, primal + self.value, dual + self.value) for t, primal, dual in raw.trace)
        return replace(raw, variables={**raw.variables, **own}, objective=raw.objective + self.value, trace=trace)
