"""How labels are written: two clusters as signs, which links turn over, or k clusters by number."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from margindsl.labelset.declaration import read_clusters
from margindsl.labelset.oracle import maximise_clusters, maximise_signs
from margindsl.labelset.orientation import ClusterNames, GlobalSign, by_first_point
from margindsl.typing import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from margindsl.labelset.labelset import LabelSet

Limits: TypeAlias = tuple[IntArray, IntArray]  # at_least and at_most
Sum: TypeAlias = tuple[FloatArray, float, float]  # weights of points, limits


class Names(ABC):
    """Say how the labels of k clusters are written.

    Everything else of a label set goes by places 0, ..., k-1 among the `values`.

    Attributes
    ----------
    values : ndarray of int, shape (k,)
        The labels, ascending.
    open : int
        The value of a component that is not decided.
    order : ndarray of int, shape (k,)
        Places by which clusters that may exchange names are called after their first points.
    expected : str
        What a label is, for messages.
    unbalanced : str
        What is said where all points may lie in one cluster.
    """

    codings: ClassVar[tuple[str, ...]]  # of margins that such labels have
    open: ClassVar[int]
    unbalanced: ClassVar[str]
    values: IntArray
    order: IntArray
    expected: str

    @property
    def clusters(self) -> int:
        """Return the number of clusters k."""
        return len(self.values)

    @abstractmethod
    def divided(self, cannot: IntArray) -> tuple[IntArray, IntArray]:
        """Return the cannot-links (m, 2) that decide one label by the other, and those that only part two."""

    @abstractmethod
    def stated(self, n: int, sizes: Limits) -> tuple[Limits, list[Sum]]:
        """Return limits of the sizes of n points as they are stated: as limits (k,), or as bounds on sums of labels."""

    @abstractmethod
    def refusal_of_numbers(self) -> str:
        """Return why labels cannot be added or multiplied, nothing where they are numbers."""

    @abstractmethod
    def best(self, labels: LabelSet, gain: FloatArray) -> IntArray:
        """Return the component values of a label set that are best for gains of components."""

    @abstractmethod
    def renaming(self, y: IntArray, groups: IntArray) -> Any:
        """Return the names under which clusters of equal group (k,) are called after their first points in y."""

    @abstractmethod
    def step(self, point: int, n: int, label: int) -> int:
        """Return the number by which a proof says that one of n points has a label."""

    @abstractmethod
    def shown(self, label: int) -> str:
        """Return a label as text."""

    @property
    @abstractmethod
    def domain(self) -> str:
        """Return the set of labels as text."""

    @property
    @abstractmethod
    def domain_latex(self) -> str:
        """Return the set of labels in LaTeX."""

    def is_label(self, values: Any) -> BoolArray:
        """Return which numbers are labels, elementwise."""
        return np.isin(values, self.values)


class Signs(Names):
    """Two clusters, -1 and +1: a cannot-link turns the sign over, so that it makes one component of its ends."""

    codings = ("binary",)
    open = 0
    unbalanced = ("neither a balance constraint, known labels nor cannot-links exclude the all-equal labelling, and "
                  "decision values may all have one sign; add abs(md.sum(y)) <= b")

    def __init__(self) -> None:
        self.values, self.order = np.array([-1, 1]), np.array([1, 0])
        self.expected = "+1 or -1"

    def divided(self, cannot: IntArray) -> tuple[IntArray, IntArray]:
        return cannot, cannot[:0]

    def stated(self, n: int, sizes: Limits) -> tuple[Limits, list[Sum]]:
        at_least, at_most = sizes
        low, high = max(2 * at_least[1], 2 * (n - at_most[0])) - n, min(2 * at_most[1], 2 * (n - at_least[0])) - n
        sums: list[Sum] = [(np.ones(n), float(low), float(high))] if low > -n or high < n else []
        return (np.zeros_like(at_least), np.full_like(at_most, n)), sums

    def refusal_of_numbers(self) -> str:
        return ""

    def best(self, labels: LabelSet, gain: FloatArray) -> IntArray:
        return maximise_signs(labels, gain[:, 1] - gain[:, 0])

    def renaming(self, y: IntArray, groups: IntArray) -> GlobalSign:
        return GlobalSign(int(y[0])) if groups[0] == groups[1] else GlobalSign()

    def step(self, point: int, n: int, label: int) -> int:
        return label * (point + 1)

    def shown(self, label: int) -> str:
        return f"{label:+d}"

    @property
    def domain(self) -> str:
        return "{-1, +1}"

    @property
    def domain_latex(self) -> str:
        return r"\{-1, +1\}"


class Clusters(Names):
    """Clusters 0, ..., k-1: a cannot-link leaves k - 1 of them, so that it stands between two components.

    Parameters
    ----------
    clusters : int
        Number k, at least 2.
    """

    codings = ("crammer-singer", "simplex")
    open = -1
    unbalanced = ("neither cluster sizes, known labels nor cannot-links exclude a single cluster, and one may win "
                  "everywhere; add md.sizes(y, at_least=m)")

    def __init__(self, clusters: int) -> None:
        self.values = self.order = np.arange(read_clusters(clusters))
        self.expected = f"a whole number from 0 to {clusters - 1}"

    def divided(self, cannot: IntArray) -> tuple[IntArray, IntArray]:
        return cannot[:0], cannot

    def stated(self, n: int, sizes: Limits) -> tuple[Limits, list[Sum]]:
        return sizes, []

    def refusal_of_numbers(self) -> str:
        return f"labels of {self.clusters} clusters are names, not numbers"

    def best(self, labels: LabelSet, gain: FloatArray) -> IntArray:
        return maximise_clusters(labels, gain)

    def renaming(self, y: IntArray, groups: IntArray) -> ClusterNames:
        return by_first_point(np.asarray(y), groups)

    def step(self, point: int, n: int, label: int) -> int:
        return point + 1 + n * label

    def shown(self, label: int) -> str:
        return str(label)

    @property
    def domain(self) -> str:
        return f"{{0, ..., {self.clusters - 1}}}"

    @property
    def domain_latex(self) -> str:
        return rf"\{{0, \dots, {self.clusters - 1}\}}"


def names_of(clusters: int) -> Names:
    """Return how labels of so many clusters are written: two as signs."""
    return Signs() if clusters == 2 else Clusters(clusters)


__all__ = ["Clusters", "Names", "Signs", "names_of"]
