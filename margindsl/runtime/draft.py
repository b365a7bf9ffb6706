"""What compiles a declaration: the grammar, the label set, the features."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from margindsl.labelset import LabelSet
from margindsl.language.lowering import Declaration
from margindsl.program.program import MarginProgram
from margindsl.runtime.presolve import assemble, prepare_labels


@dataclass
class Draft:
    """Hold what is known of a problem while it is compiled: also what was known when the time was up.

    Parameters
    ----------
    declaration, labels, program : optional
        Known after the step of that name.
    seconds : dict
        Seconds by step.
    """

    problem: Any
    declaration: Declaration | None = None
    labels: LabelSet | None = None
    program: MarginProgram | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    def compiled(self) -> MarginProgram:
        """Return the margin program, every step done and its seconds booked."""
        for step in FRONT:
            began = time.perf_counter()
            step.apply(self)
            self.seconds[step.name] = time.perf_counter() - began
        assert self.program is not None
        return self.program


@dataclass(frozen=True)
class Step:
    """Represent one step of compiling.

    Parameters
    ----------
    apply : callable
        Adds to a draft what it finds.
    """

    name: str
    apply: Callable[[Draft], None]


def check_grammar(draft: Draft) -> None:
    """Lower the declaration, every rule of the grammar checked."""
    draft.declaration = draft.problem.lower()


def presolve_labels(draft: Draft) -> None:
    """Find the label set, or say why it is empty."""
    assert draft.declaration is not None
    draft.labels = prepare_labels(draft.declaration)


def build_program(draft: Draft) -> None:
    """Build the features and the margin program over them."""
    assert draft.declaration is not None and draft.labels is not None
    draft.program = assemble(draft.declaration, draft.problem.prepared(), draft.labels, draft.problem.text())


FRONT = (Step("grammar", check_grammar), Step("labels", presolve_labels), Step("features", build_program))


__all__ = ["FRONT", "Draft", "Step"]
