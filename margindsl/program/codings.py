"""What margins mean: signs of one hyperplane, or clusters by Crammer-Singer or simplex coding; one object each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from margindsl.errors import CalculusError
from margindsl.labelset import Names, names
from margindsl.labelset.codes import contrasts, simplex_codes
from margindsl.program.absorption import absorb_labels
from margindsl.program.bounded_bias import ClusterLimits
from margindsl.program.bounds import DecisionBound
from margindsl.program.clusters import ClusterForm, CodedForm
from margindsl.program.codes import runner_up
from margindsl.program.forms import DCStepForm, FixedLabelForm
from margindsl.program.losses import Losses
from margindsl.program.split import falling_losses, falling_parts, simplex_losses, stretch, whole_duals
from margindsl.typing import FloatArray, IntArray

if TYPE_CHECKING:
    from margindsl.program.program import MarginProgram

NOBODY = -2  # no value of a label


class Coding(ABC):
    """Say how decision values, labels and margins go together, and which forms that makes."""

    name: ClassVar[str]
    bounds_differences: ClassVar[bool] = False  # whether bounds on decision values hold differences of clusters
    has_room: ClassVar[bool] = False  # whether descents end so far apart that search wins much, whatever bounds say

    @abstractmethod
    def names(self, clusters: int) -> Names:
        """Return how the labels are written."""

    @abstractmethod
    def text(self, labels: str, hyperplane: str) -> str:
        """Return how margins are written."""

    @abstractmethod
    def latex(self, labels: str, hyperplane: str, entry: Callable[[str], str]) -> str:
        """Return how the margin of one point is written in LaTeX; `entry` gives the point's entry of a name."""

    @abstractmethod
    def fixed(self, program: MarginProgram, labels: IntArray, runner: IntArray | None) -> Any:
        """Return the form left when the labels are fixed; rising losses are majorised at a runner-up given."""

    @abstractmethod
    def absorbed(self, losses: Losses) -> Losses:
        """Return the losses of a majorant that no longer depends on the labels where it can."""

    @abstractmethod
    def majorant(self, program: MarginProgram, losses: Losses, labels: IntArray,
                 decision: FloatArray | None = None) -> Any:
        """Return the form of `absorbed` losses that touches the objective at labels and decision values."""

    def bounding(self, program: MarginProgram) -> MarginProgram:
        """Return a program of coded margins, whose values are no higher; this one, unless it says otherwise."""
        return program

    def own_duals(self, program: MarginProgram, u: FloatArray) -> FloatArray:
        """Return duals (…, m) of the margins of a program, or of its rows with scalars, of those of `bounding`."""
        return u

    def by_length(self, program: MarginProgram) -> Losses:
        """Return losses of the length of Vᵀφ, which no coded margin exceeds either way, that bound the best label's."""
        return falling_losses(program.bounding.losses, opposed=1.0)

    def obstacle(self, program: MarginProgram) -> str:
        """Return why the losses of a program do not go with the margins, nothing where they do."""
        return ""

    def is_convex(self, program: MarginProgram) -> bool:
        """Return whether the problem left when labels are fixed is convex."""
        return True

    @abstractmethod
    def value_codes(self, clusters: int) -> FloatArray:
        """Return the (k, q) codes of the values of labels, ascending."""

    @abstractmethod
    def table(self, decision: FloatArray) -> FloatArray:
        """Return decision values as a table (n, k)."""

    @abstractmethod
    def no_decision(self, n: int, clusters: int) -> FloatArray:
        """Return the decision values of n points at w = 0."""

    @abstractmethod
    def label_codes(self, clusters: int) -> FloatArray | None:
        """Return the (k, q) codes of labels in lifts and mixtures; None for signs, their own codes."""

    @abstractmethod
    def clusters(self, decision: FloatArray) -> int:
        """Return the number of clusters of decision values."""

    @abstractmethod
    def weights(self, w: FloatArray, clusters: int) -> FloatArray:
        """Return the weights of the decision functions: w (r,), or W (r, k) of k clusters."""

    @abstractmethod
    def margin_table(self, decision: FloatArray) -> FloatArray:
        """Return the (n, k) margins every point would have in every cluster; of signs those of −1 and +1."""

    @abstractmethod
    def margins(self, labels: IntArray, decision: FloatArray) -> FloatArray:
        """Return the (n,) margins of labels at decision values (n,) or (n, k)."""

    @abstractmethod
    def directions(self, labels: IntArray, rivals: IntArray, codes: FloatArray) -> FloatArray:
        """Return the (…, n, q) gradients in Vᵀφ of the margins of labels with some `rivals` (…, n)."""

    def rivals(self, labels: IntArray, decision: FloatArray) -> IntArray:
        """Return the (n,) clusters that margins are against; none is."""
        return np.full(len(labels), NOBODY)

    @abstractmethod
    def plane_codes(self, clusters: int) -> FloatArray:
        """Return the codes that turn V into decision values, as rows."""

    @abstractmethod
    def predicted(self, decision: FloatArray) -> IntArray:
        """Return the labels that decision values stand for."""

    @abstractmethod
    def sizes(self, labels: IntArray, clusters: int) -> tuple[int, ...]:
        """Return the number of points of every cluster."""


class Signs(Coding):
    """Two clusters, −1 and +1, by the sign of one decision value; margins y f."""

    name = "binary"

    def names(self, clusters: int) -> Names:
        return names.Signs()

    def text(self, labels: str, hyperplane: str) -> str:
        return f"{labels} * {hyperplane}"

    def latex(self, labels: str, hyperplane: str, entry: Callable[[str], str]) -> str:
        return f"{entry(labels)} {entry(hyperplane)}"

    def fixed(self, program: MarginProgram, labels: IntArray, runner: IntArray | None) -> FixedLabelForm:
        return FixedLabelForm(program.features, program.losses, labels, decision=program.decision,
                              free_bias=program.free_bias)

    def absorbed(self, losses: Losses) -> Losses:
        return absorb_labels(losses)

    def majorant(self, program: MarginProgram, losses: Losses, labels: IntArray,
                 decision: FloatArray | None = None) -> DCStepForm:
        return DCStepForm(program.features, losses, labels, decision=program.decision, free_bias=program.free_bias)

    def by_length(self, program: MarginProgram) -> Losses:
        return program.losses

    def value_codes(self, clusters: int) -> FloatArray:
        return np.array([[-1.0], [1.0]])

    def no_decision(self, n: int, clusters: int) -> FloatArray:
        return np.zeros(n)

    def table(self, decision: FloatArray) -> FloatArray:
        return np.stack([-decision, decision], axis=1)

    def label_codes(self, clusters: int) -> None:
        return None

    def clusters(self, decision: FloatArray) -> int:
        return 2

    def weights(self, w: FloatArray, clusters: int) -> FloatArray:
        return w

    def margin_table(self, decision: FloatArray) -> FloatArray:
        return self.table(decision)

    def margins(self, labels: IntArray, decision: FloatArray) -> FloatArray:
        return labels * decision

    def directions(self, labels: IntArray, rivals: IntArray, codes: FloatArray) -> FloatArray:
        return labels[:, None].astype(float)

    def plane_codes(self, clusters: int) -> FloatArray:
        return np.ones((1, 1))

    def predicted(self, decision: FloatArray) -> IntArray:
        return np.where(decision >= 0, 1, -1)

    def sizes(self, labels: IntArray, clusters: int) -> tuple[int, ...]:
        return int(np.sum(labels > 0)), int(np.sum(labels < 0))


class Clustered(Coding):
    """Clusters 0..k−1 by decision values f = Φ V codesᵀ (n, k)."""

    bounds_differences: ClassVar[bool] = True
    has_room: ClassVar[bool] = True

    def names(self, clusters: int) -> Names:
        return names.Clusters(clusters)

    def text(self, labels: str, hyperplane: str) -> str:
        return f"md.margin({labels}, {hyperplane}, coding={self.name!r})"

    def latex(self, labels: str, hyperplane: str, entry: Callable[[str], str]) -> str:
        gamma = entry(r"\gamma")
        return f"{gamma}({labels}, {hyperplane})"

    def absorbed(self, losses: Losses) -> Losses:
        return losses

    def majorant(self, program: MarginProgram, losses: Losses, labels: IntArray,
                 decision: FloatArray | None = None) -> Any:
        return program.fix_labels(labels, None if decision is None else runner_up(decision, labels))

    def value_codes(self, clusters: int) -> FloatArray:
        return simplex_codes(clusters)

    def no_decision(self, n: int, clusters: int) -> FloatArray:
        return np.zeros((n, clusters))

    def table(self, decision: FloatArray) -> FloatArray:
        return decision

    def label_codes(self, clusters: int) -> FloatArray:
        return simplex_codes(clusters)

    def clusters(self, decision: FloatArray) -> int:
        return int(decision.shape[1])

    def weights(self, w: FloatArray, clusters: int) -> FloatArray:
        return np.asarray(w.reshape(clusters - 1, -1).T @ self.plane_codes(clusters).T)

    def margins(self, labels: IntArray, decision: FloatArray) -> FloatArray:
        return np.asarray(self.margin_table(decision)[np.arange(len(decision)), labels])

    def predicted(self, decision: FloatArray) -> IntArray:
        return decision.argmax(axis=1)

    def sizes(self, labels: IntArray, clusters: int) -> tuple[int, ...]:
        return tuple(int(size) for size in np.bincount(labels, minlength=clusters))


class Simplex(Clustered):
    """Margins ⟨c_y, Vᵀφ⟩ of k unit codes with inner products −1/(k−1)."""

    name = "simplex"

    def fixed(self, program: MarginProgram, labels: IntArray, runner: IntArray | None) -> CodedForm:
        limits, held = (cast(ClusterLimits, program.bias), program.limit_terms) if program.free_bias else (None, ())
        return CodedForm.at(program.features, program.losses, labels, program.clusters, limits, held,
                            program.weight_bounds)

    def plane_codes(self, clusters: int) -> FloatArray:
        return simplex_codes(clusters)

    def directions(self, labels: IntArray, rivals: IntArray, codes: FloatArray) -> FloatArray:
        return np.asarray(codes[labels])

    def margin_table(self, decision: FloatArray) -> FloatArray:
        return decision


class CrammerSinger(Clustered):
    """Margins f_y − max over q ≠ y of f_q.

    References
    ----------
    K. Crammer, Y. Singer (2001). On the algorithmic implementation of multiclass kernel-based vector machines.

    Examples
    --------
    >>> CrammerSinger().margin_table(np.array([[3.0, 1.0, 0.0]])).tolist()
    [[2.0, -2.0, -3.0]]
    """

    name = "crammer-singer"

    def fixed(self, program: MarginProgram, labels: IntArray, runner: IntArray | None) -> ClusterForm:
        return ClusterForm(program.features, program.losses, labels, program.clusters, program.split, runner,
                           decision=program.decision, free_bias=program.free_bias)

    def bounding(self, program: MarginProgram) -> MarginProgram:
        factor = stretch(program.clusters)
        decision = tuple(DecisionBound(b.weights, factor * b.lower, factor * b.upper) for b in program.decision)
        return replace(program, losses=simplex_losses(program.losses, program.clusters), decision=decision,
                       coding="simplex")

    def own_duals(self, program: MarginProgram, u: FloatArray) -> FloatArray:
        u = np.maximum(u, 0.0)
        if not program.losses.scalars.count:
            return u / stretch(program.clusters)
        return whole_duals(falling_parts(program.losses), u.T, program.losses.rows).T

    def obstacle(self, program: MarginProgram) -> str:
        try:
            program.split  # noqa: B018  (computed once and kept)
        except CalculusError as error:
            return str(error)
        return ""

    def is_convex(self, program: MarginProgram) -> bool:
        return not program.split.rising.rows

    def plane_codes(self, clusters: int) -> FloatArray:
        """Return an orthonormal basis of the contrasts.

        At an optimum Σ_p w_p = 0, since the margins see differences only, and then ‖V‖ = ‖W‖.
        """
        return contrasts(clusters)

    def rivals(self, labels: IntArray, decision: FloatArray) -> IntArray:
        return runner_up(decision, labels)

    def directions(self, labels: IntArray, rivals: IntArray, codes: FloatArray) -> FloatArray:
        return np.asarray(codes[labels] - codes[rivals])

    def margin_table(self, decision: FloatArray) -> FloatArray:
        everyone, best, rest = np.arange(len(decision)), decision.argmax(axis=1), np.array(decision)
        rest[everyone, best] = -np.inf
        table = decision - decision[everyone, best][:, None]
        table[everyone, best] = decision[everyone, best] - rest.max(axis=1)
        return table


CODINGS: dict[str, Coding] = {coding.name: coding for coding in (Signs(), CrammerSinger(), Simplex())}

__all__ = ["CODINGS", "Clustered", "Coding", "CrammerSinger", "Signs", "Simplex"]
