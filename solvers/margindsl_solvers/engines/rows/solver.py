"""Solvers of fixed labels: what they refuse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from margindsl.contract import Refusal
from margindsl.program.clusters import ClusterForm
from margindsl.program.forms import Form
from margindsl_solvers.engines.solver import EngineSolver, of_form

INSTEAD: Mapping[type[Form], tuple[str, str]] = {ClusterForm: (
    "not the Crammer-Singer margins of {form.clusters} clusters",
    "Use solver='newton', 'cutting-plane' or 'clarabel', or md.margin(y, f, coding='simplex')")}


@dataclass(frozen=True, kw_only=True)
class RowsSolver(EngineSolver):
    """Solve fixed labels of one hyperplane, and perhaps of several clusters.

    Parameters
    ----------
    tol : float or None
        Relative gap to reach; None takes the budget's.
    """

    solves: ClassVar[str] = "fixed labels"

    def refuse(self, form: Form) -> Refusal:
        instead = of_form(INSTEAD, form)
        if instead is None:
            return super().refuse(form)
        return Refusal(f"{self.name} solves fixed labels of one hyperplane, {instead[0].format(form=form)}", instead[1])
