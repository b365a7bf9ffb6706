"""Where answers are: declarations stay as they are when problems are solved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

ANSWERS = ("value", "status", "bound", "gap")


class Unanswered:
    """Say, of what holds answers in other modelling languages, where they are in this one."""

    if not TYPE_CHECKING:  # a checker sees attributes that are none

        def __getattr__(self, name: str) -> Any:
            message = f"{type(self).__name__!r} object has no attribute {name!r}"
            if name in ANSWERS:
                message += ("; solving leaves declarations as they are, what was found is in the solution: "
                         "solution = problem.solve(), then solution.value, .bound, .status, .labels, .decision")
            raise AttributeError(message, name=name, obj=self)


__all__ = ["Unanswered"]
