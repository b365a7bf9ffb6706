"""Engines: the iterative methods that solvers are option tables of.

`course` runs them all: `Course` holds limits, trace, interrupts, the best point and the words of an answer; an engine
adds `init`, `step` and `variables`. `EngineSolver` is a solver over engines: options, and a table of forms it takes.

- `rows`: fixed labels as rows of one linear map (`plane`, `clusters`), feasible pairs and what they prove, semismooth
  Newton in an augmented Lagrangian
- `saddle`: minimax masters; mirror prox and descent, adaptive or published, Newton steps, alternating masses
- `cuts`: one-slack cutting planes, in the whole space or in the span of few points
- `factors`: low-rank factors of lifts
- `nodes`: nodes of branch and bound
- `conic`: forms as cvxpy problems, the only importer of cvxpy
- `line_search`: what several of them need
"""

from margindsl_solvers.engines.course import (
    TOLERANCE,
    Bracket,
    Course,
    EngineSession,
    EngineSolver,
    Judged,
    limited,
    of_form,
)

__all__ = ["TOLERANCE", "Bracket", "Course", "EngineSession", "EngineSolver", "Judged", "limited", "of_form"]
