"""What of a proof holds, in words."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from margindsl.proof.check import check
from margindsl.proof.data import check_decision


@dataclass
class Report:
    """Represent what was proved, what failed and what could not be checked; true when nothing failed.

    Parameters
    ----------
    bound : float
        What the dual points prove, rounding taken off.
    """

    proved: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    unverified: list[str] = field(default_factory=list)
    bound: float = -math.inf

    def __bool__(self) -> bool:
        return not self.failures

    def __str__(self) -> str:
        parts = ("proved", self.proved), ("FAILED", self.failures), ("unverified", self.unverified)
        return "\n".join(f"{word:<11} {text}" for word, texts in parts for text in texts)


def reported(header: dict[str, Any], arrays: dict[str, Any]) -> Report:
    """Return what of a proof the stand-alone script proves, and whether its decision values are those of its weights.

    Parameters
    ----------
    header, arrays : dict
        Of a proof.
    """
    report = Report(**vars(check(header, arrays)))
    report.failures += check_decision(header, arrays) if report and {"phi", "w"} <= arrays.keys() else []
    return report


__all__ = ["Report", "reported"]
