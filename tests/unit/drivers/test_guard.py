"""What a solver sees of a start, and what the library makes of an answer that leaves out what has a default."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from margindsl.contract import Budget, RawSolution, Refusal, Session, Status
from margindsl.drivers.guard import Guarded
from margindsl.program.forms import FixedLabelForm, SaddleForm
from margindsl.testing import check_solver, zoo
from margindsl_solvers.newton import Newton


class Recording(Session):
    """Keep the starts it is given, and answer no more than it must."""

    def __init__(self, inner, starts):
        self.inner, self.starts = inner, starts

    def solve(self, form, budget, start=None):
        self.starts.append(start)
        raw = self.inner.solve(form, budget, start)
        return replace(raw, variables={name: raw[name] for name in ("w", "u")})


@dataclass(frozen=True, kw_only=True)
class Terse(Newton):
    """Leave out what has a default or is empty."""

    name: ClassVar[str] = "terse"
    starts: ClassVar[list] = []

    def accepts(self, form):
        plain = isinstance(form, FixedLabelForm) and not (
            form.free_bias or form.decision or form.losses.scalars.count)
        return super().accepts(form) if plain else Refusal("plain fixed-label forms only")

    def open(self, form):
        return Recording(super().open(form), self.starts)


@pytest.fixture
def form():
    known = zoo()[0]
    return known.problem.program().fix_labels(np.where(known.labels > 0, 1, 0))


def seen(form, variables):
    """Return the variables of a start that reach a solver."""
    Terse.starts.clear()
    raw = Guarded(Terse()).solve(form, Budget(), RawSolution(Status.OPTIMAL, variables))
    assert raw.has_answer and raw["bias"].shape == (1,) and raw["tau"].shape == (0,)
    return sorted(Terse.starts[0].variables)


def test_starts_have_the_shapes_of_the_form(form):
    w, u = np.ones(form.features.rank), np.zeros(form.losses.rows)
    assert seen(form, {"w": w, "u": u, "more": "a solver's own"}) == ["more", "u", "w"]
    for wrong in (np.ones(form.features.rank + 1), np.full_like(w, np.nan), "words", w[None, :], w * 1j):
        assert seen(form, {"w": wrong, "u": u}) == ["u"]


def test_starts_of_a_working_set_that_grew(form):
    saddle = SaddleForm(form.features, form.losses, np.stack([form.labels, 1 - form.labels, form.labels]))
    expected = saddle.variables()
    assert expected["mu"].fits(np.ones(2)) and expected["W"].fits(np.ones((form.features.rank, 2)))
    assert not expected["mu"].fits(np.ones(4)) and not expected["W"].fits(np.ones((form.features.rank + 1, 3)))


def test_an_answer_may_leave_out_what_has_a_default():
    check_solver(Terse, only=["answers_have_shapes", "residuals_vanish", "starts_do_no_harm"]).require()
