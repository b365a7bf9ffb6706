"""cvxpy, loaded when a form is written for it: to list conic solvers, or to do without them, does not need it."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    import cvxpy

    return getattr(cvxpy, name)
