"""A formulation: an objective and constraints, checked by the grammar and printed as mathematics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from margindsl.errors import Called, DeclarationError
from margindsl.language import grammar
from margindsl.language.constraints import Constraint
from margindsl.language.entries import Unanswered, fix_once
from margindsl.language.expressions import Expression, as_expression
from margindsl.language.lowering import Declaration, declare
from margindsl.language.margins import Hyperplane, Labels
from margindsl.language.printing import distinct_names
from margindsl.language.symbols import Parameter, Scalar

SHOWN = 72  # characters of an objective in one line


class Minimize(Unanswered):
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

    def _repr_latex_(self) -> str:
        with distinct_names(self.expression.walk()):
            return rf"$\min \; {self.expression.latex()}$"


class Formulation(Called, Unanswered):
    """Represent an objective with constraints; immutable but for the values of its parameters."""

    meant: ClassVar = {"subject_to": "Write constraints=."}

    def __init__(self, objective: Minimize, constraints: Iterable[Constraint] | None = None) -> None:
        if not isinstance(objective, Minimize):
            raise DeclarationError(
                f"md.Problem: given {type(objective).__name__} as objective, expected md.Minimize(expression)")
        if isinstance(constraints, Constraint):
            constraints = [constraints]
        if constraints is not None and not isinstance(constraints, Iterable):
            raise DeclarationError(
                f"md.Problem: given {type(constraints).__name__} as constraints, expected a list of constraints")
        self.objective = objective
        self.constraints: tuple[Constraint, ...] = () if constraints is None else tuple(constraints)
        self._declared: Declaration | None = None
        first = self.lower()
        self.labels: Labels = first.own_labels
        self.hyperplane: Hyperplane = first.hyperplane
        self.hyperplanes: tuple[Hyperplane, ...] = first.planes  # in the order of the objective

    def __setattr__(self, name: str, value: Any) -> None:
        fix_once(self, name, value)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Return the parameters that occur in the objective and in the constraints."""
        return tuple({id(n): n for n in self._nodes() if isinstance(n, Parameter)}.values())

    def check_unchanged(self) -> None:
        """Raise if the points of a hyperplane are no longer what was declared."""
        for plane in self.hyperplanes:
            plane.check_unchanged()

    def lower(self) -> Declaration:
        """Check every rule at the present parameter values and return plain arrays."""
        if self._declared is not None:
            return self._declared
        with distinct_names(self._nodes()):
            declared = declare(self.objective.expression, self.constraints)
        if not self.parameters:  # nothing in it can change
            self._declared = declared
        return declared

    def text(self) -> str:
        """Return the formulation as text: what is minimised, the constraints, and what f is."""
        with distinct_names(self._nodes()):
            rows = [*(c.text() for c in self.constraints),
                    f"{self.labels.text()} in {self.labels.names.domain}^{self.labels.n}",
                    *(f"{s.text()} >= 0" for s in self._scalars() if s.nonneg)]
            groups = {"minimise": [self.objective.expression.text()], "subject to": rows,
                      "where": self._definition()}
        return "\n".join(f"{head if index == 0 else '':<12}{row}" for head, lines in groups.items()
                         for index, row in enumerate(lines))

    def latex(self) -> str:
        """Return the formulation as a LaTeX ``aligned`` environment."""
        body = [rf"{head} \quad & {row} \\" for head, row in self._latex_rows()]
        return "\\begin{aligned}\n" + "\n".join(body) + "\n\\end{aligned}"

    def _latex_rows(self) -> list[tuple[str, str]]:
        """Return head and formula of every row."""
        with distinct_names(self._nodes()):
            labels, many = self.labels.letter(), len(self.hyperplanes) > 1
            planes = [plane.letter() for plane in self.hyperplanes]
            marks = [f"_{{{letter}}}" if many else "" for letter in planes]
            objective = self.objective.expression.latex()
            rows = [*(c.latex() for c in self.constraints),
                    rf"{labels} \in {self.labels.names.domain_latex}^{{{self.labels.n}}}",
                    *(plane.definition_latex(mark) for plane, mark in zip(self.hyperplanes, marks))]
            rows += [rf"{s.latex()} \ge 0" for s in self._scalars() if s.nonneg]
            rows += [rf"\|{letter}\|^2 = \|w{mark}\|^2 + \|b{mark}\|^2" for letter, mark, plane in zip(
                planes, marks, self.hyperplanes) if plane.bias == "penalised"]
        heads = [r"\text{s.t.}", *[""] * (len(rows) - 1)]
        chosen = r",\, ".join([labels, *planes])
        return [(rf"\min_{{{chosen}}}", objective), *zip(heads, rows)]

    def _definition(self) -> list[str]:
        many = len(self.hyperplanes) > 1
        return [line for plane in self.hyperplanes
                for line in plane.definition(self.labels.clusters, f"_{plane.text()}" if many else "")]

    def printed(self) -> dict[str, Any]:
        """Return what the formulation says, in text and numbers, to be kept with its answers."""
        with distinct_names(self._nodes()):
            parameters = {p.text(): p.value if not p.shape else p.value.tolist() for p in self.parameters if p.name}
        return {"text": self.text(), "parameters": parameters, "points": self.labels.n,
                "columns": int(getattr(self.hyperplane.X, "shape", (0, 0))[1]), "model": self._definition()}

    def __repr__(self) -> str:
        text = self.objective.expression.text()
        shown = text if len(text) <= SHOWN else f"{text[:SHOWN - 3]}..."
        rules = f"{len(self.constraints)} constraint{'' if len(self.constraints) == 1 else 's'}"
        return (f"{type(self).__name__}({self.labels.n} points, {self.labels.clusters} clusters, {rules}, "
                f"minimise {shown})")

    def __str__(self) -> str:
        return self.text()

    def _repr_latex_(self) -> str:
        return f"$${self.latex()}$$"

    def _nodes(self) -> Iterator[Expression]:
        """Yield the expressions of objective and constraints, and all below them."""
        yield from self.objective.expression.walk()
        for constraint in self.constraints:
            for expression in getattr(constraint, "expressions", ()):  # what is no constraint is refused by `lower`
                yield from expression.walk()

    def _scalars(self) -> list[Scalar]:
        return list({id(n): n for n in self._nodes() if isinstance(n, Scalar)}.values())
