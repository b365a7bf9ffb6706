"""What local methods share: starts, rounds, no bound."""

from __future__ import annotations

from dataclasses import dataclass

from margindsl.relaxations.relaxation import Relaxation, check_choice, check_count

STARTS = ("mixed", "kmeans", "spectral", "random")


@dataclass(frozen=True, kw_only=True)
class LocalRelaxation(Relaxation):
    """Descend from several starting labellings; no bound is certified.

    Parameters
    ----------
    restarts : int
        Number of starting labellings.
    start : {"mixed", "kmeans", "spectral", "random"}
        Where they come from.
    rounds : int
        Most rounds a start.
    polish : {"none", "alternate", "search"} or bool
        "none" by default: the plain method; "search" adds flips and swaps.
    """

    restarts: int = 5
    start: str = "mixed"
    rounds: int = 100
    polish: str | bool = "none"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self, "start", STARTS)
        check_count(self, "restarts", 1)
        check_count(self, "rounds", 1)

    def default_solver(self, form: object) -> str:
        """Return "newton"."""
        return "newton"
