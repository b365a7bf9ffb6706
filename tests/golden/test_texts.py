"""Golden texts: the formulation, its LaTeX, the margin program and the compiled stages, as users read them.

Run with MARGINDSL_REGENERATE=1 to write the texts anew, and read the difference before committing it.
"""

import os
from pathlib import Path

import numpy as np
import pytest

import margindsl as md

HERE = Path(__file__).resolve().parent
X = np.round(np.linspace(-1.0, 1.0, 24).reshape(8, 3) ** 2 * np.array([1.0, -2.0, 0.5]), 3)


def complete():
    """The model of the first page: ODM, balance, links, known labels."""
    y, f = md.Labels(8), md.Hyperplane(X)
    lam = md.Parameter(10.0, name="lam")
    return md.Problem(
        md.Minimize(md.sq_norm(f) / 2 + lam * md.mean(md.odm(y * f, 0.4, 0.2))),
        [abs(md.sum(y)) <= 2, y[0] == y[5], y[1] != y[7], md.must_link(y, [(2, 3), (3, 4)]), y[[0, 6]] == [1, -1]],
    ), "sdp", "clarabel"


def threshold():
    """An adaptive threshold, a shared scalar, on an RBF kernel with a penalised bias."""
    y, f = md.Labels(8), md.Hyperplane(X, kernel=md.RBF(1.0), bias="penalised")
    rho = md.Scalar(nonneg=True, name="rho")
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 3 * md.mean(md.pos(rho - y * f)) - rho),
                      [md.sum(np.arange(1.0, 9.0) * y) <= 4, md.sum(y) >= -2]), "minimax", "clarabel"


def decisions():
    """A free bias under decision balance, solved by CCCP."""
    y, f = md.Labels(8, name="z"), md.Hyperplane(X, bias=True, name="h")
    objective = md.Minimize(2 * md.sq_norm(f) + md.mean(md.hinge(y * f)))
    return md.Problem(objective, [abs(md.sum(f)) <= 1.5]), "cccp", "osqp"


def partial():
    """Different weights on labelled and unlabelled points, a loss of one's own, a variance."""
    y, f = md.Labels(8), md.Hyperplane(X)
    g = y * f
    own = md.plq([(0.0, (0.0, -2.0, 1.0)), (1.0, (1.0, -2.0, 1.0)), (float("inf"), (0.0, 0.0, 0.0))], g)
    known, rest = [0, 1, 2], [3, 4, 5, 6, 7]
    objective = md.sq_norm(f) / 2 + 5 * md.mean(own[known]) + 0.5 * md.mean(own[rest]) + md.var(g)
    return md.Problem(md.Minimize(objective), [y[known] == [1, -1, 1], md.sizes(y, at_least=3)]), "exact", "newton"


def supervised():
    """All labels known."""
    y, f = md.Labels(8), md.Hyperplane(X)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.sum(md.logistic(-(y * f))) + 1.0),
                      [y == [1, -1, 1, -1, 1, -1, 1, -1]]), "supervised", "clarabel"


DECLARATIONS = {maker.__name__: maker for maker in (complete, threshold, decisions, partial, supervised)}


def render(maker):
    problem, relaxation, solver = maker()
    explained = problem.compile(relaxation, solver).explain()
    parts = {"declaration": maker.__doc__, "text": problem.text(), "latex": problem.latex(),
             "program": problem.program().dump(), "explain": explained}
    return "\n\n".join(f"=== {name} ===\n{text}" for name, text in parts.items()) + "\n"


@pytest.mark.parametrize("name", DECLARATIONS)
def test_texts(name):
    path, given = HERE / f"{name}.txt", render(DECLARATIONS[name])
    if os.environ.get("MARGINDSL_REGENERATE"):
        path.write_text(given, encoding="utf-8")
    assert given == path.read_text(encoding="utf-8"), "set MARGINDSL_REGENERATE=1 if the change is meant"


def test_texts_repeat():
    for maker in DECLARATIONS.values():
        assert render(maker) == render(maker)


def test_print_and_notebook_show_the_same_formulation():
    problem, _, _ = complete()
    assert str(problem) == problem.text()
    assert problem._repr_latex_() == f"$${problem.latex()}$$"
    assert problem.latex().count(r"\\") == 8 and r"y_2 = y_3,\ y_3 = y_4" in problem.latex()
