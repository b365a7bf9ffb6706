"""A formulation: an objective and constraints, checked by the grammar and printed as mathematics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from margindsl.errors import DeclarationError
from margindsl.language import grammar
from margindsl.language.constraints import Constraint
from margindsl.language.expressions import as_expression
from margindsl.language.lowering import Declaration, declare
from margindsl.language.margins import Hyperplane, Labels, Margin
from margindsl.language.symbols import Parameter


class Minimize:
    """Declare that an expression is minimised.

    Parameters
    ----------
    expression : expression
        A single number: non-negative sums of convex losses of margins, a regulariser, scalars.

    Raises
    ------
    GrammarError
        If the expression has one value a point.
    """

    def __init__(self, expression: Any) -> None:
        self.expression = as_expression(expression)
        if self.expression.shape:
            raise grammar.NOT_SCALAR.broken_by(self.expression)

    def __repr__(self) -> str:
        return f"minimise {self.expression.text()}"


class Formulation:
    """Represent an objective with constraints; immutable but for the values of its parameters.

    Parameters
    ----------
    objective : Minimize
    constraints : iterable of Constraint, optional

    Raises
    ------
    GrammarError
        If a rule of disciplined margin programming is broken; reported at once, before any solve.
    DeclarationError
        If the objective is not `Minimize` or the constraints are not a list.
    """

    def __init__(self, objective: Minimize, constraints: Iterable[Constraint] | None = None) -> None:
        if not isinstance(objective, Minimize):
            raise DeclarationError(
                f"md.Problem: given {type(objective).__name__} as objective, expected md.Minimize(expression)")
        if isinstance(constraints, Constraint):
            constraints = [constraints]
        self.objective = objective
        self.constraints: tuple[Constraint, ...] = tuple(constraints or ())
        first = self.lower()
        self.labels: Labels = first.labels
        self.hyperplane: Hyperplane = first.hyperplane

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Return the parameters that occur in the objective."""
        found = {id(n): n for n in self.objective.expression.walk() if isinstance(n, Parameter)}
        return tuple(found.values())

    def lower(self) -> Declaration:
        """Check every rule at the present parameter values and return plain arrays."""
        return declare(self.objective.expression, self.constraints)

    def text(self) -> str:
        """Return the formulation as text."""
        lines = [f"minimise    {self.objective.expression.text()}"]
        rows = [c.text() for c in self.constraints] + [self._domain_text()]
        for index, row in enumerate(rows):
            lines.append(f"{'subject to' if index == 0 else '':<12}{row}")
        return "\n".join(lines)

    def latex(self) -> str:
        """Return the formulation as a LaTeX ``aligned`` environment."""
        labels = self.labels.latex()
        plane = self.hyperplane.latex()
        variables = f"{labels},\\, {plane}"
        rows = [c.latex() for c in self.constraints] + [self._domain_latex()]
        body = [rf"\min_{{{variables}}} \quad & {self.objective.expression.latex()} \\"]
        heads = [r"\text{s.t.}", *[""] * (len(rows) - 1)]
        body += [rf"{head} \quad & {row} \\" for head, row in zip(heads, rows)]
        return "\\begin{aligned}\n" + "\n".join(body) + "\n\\end{aligned}"

    def __str__(self) -> str:
        return self.text()

    def _repr_latex_(self) -> str:
        return f"$${self.latex()}$$"

    def _domain_text(self) -> str:
        margin = next(n for n in self.objective.expression.walk() if isinstance(n, Margin))
        y, n, k = margin.labels.name, margin.labels.n, margin.labels.clusters
        return f"{y} in {{-1, +1}}^{n}" if k == 2 else f"{y} in {{0, ..., {k - 1}}}^{n}"

    def _domain_latex(self) -> str:
        n, k = self.labels.n, self.labels.clusters
        values = r"\{-1, +1\}" if k == 2 else rf"\{{0, \dots, {k - 1}\}}"
        return rf"{self.labels.latex()} \in {values}^{{{n}}}"
