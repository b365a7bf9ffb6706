"""Answers that break bounds on decision values are moved within them, no further than they must be."""

from dataclasses import replace

import numpy as np
import pytest

import margindsl as md
from margindsl.contract import Budget
from margindsl.drivers.run import Run
from margindsl.program.nearest import nearest

X = np.random.default_rng(0).normal(size=(12, 3))


def declared(coding, bias, clusters):
    y, f = md.Labels(12, clusters=clusters), md.Hyperplane(X, bias=bias)
    margin = y * f if clusters == 2 else md.margin(y, f, coding=coding)
    bounds = [abs(md.sum(np.arange(12) * f)) <= 0.5, abs(md.sum(np.sin(np.arange(12)) * f)) <= 1e-9]
    if bias:
        bounds.append(abs(md.sum(f)) <= 0.1)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(margin))), bounds).program()


@pytest.mark.parametrize(("coding", "bias", "clusters"), [("simplex", False, 2), ("simplex", True, 2),
                                                          ("simplex", False, 3), ("crammer-singer", True, 3)])
def test_moved_answers_keep_bounds(coding, bias, clusters):
    program, rng = declared(coding, bias, clusters), np.random.default_rng(clusters)
    form = program.fix_labels(program.labels.sample(rng, 1)[0])
    w = rng.normal(size=form.size_of_w)
    b = 0.0 if not bias else np.array([0.3, -0.2])[:form.width]
    normals = form.bound_normals

    def within_bounds(w, b):
        return form.split(nearest(form.join(w, b)[: normals.shape[1]], normals, *form.bound_ends))[:2]

    assert form.primal_residual(w, b) > 1e-3
    moved = within_bounds(w, b)
    assert form.primal_residual(*moved) < 1e-10
    again = within_bounds(*moved)
    assert np.allclose(again[0], moved[0], rtol=0, atol=1e-8)
    if not bias:  # zero keeps the bounds, and is no nearer
        assert np.linalg.norm(moved[0] - w) <= np.linalg.norm(w)


def test_fits_that_are_not_accurate_keep_bounds():
    y, f = md.Labels(12), md.Hyperplane(X, kernel=md.RBF(1.5), bias="penalised")
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.logistic(y * f))), [md.sum(f) == 0.5])
    newton = md.Solver("newton")
    run = Run(problem.program(), newton, newton, Budget(), np.random.default_rng(0))
    fit = run.fit(run.program.labels.sample(run.rng, 1)[0])
    loose = replace(fit.raw, variables=fit.raw.variables | {"w": 1.01 * fit.w})
    assert abs(run.adopt(run.program.fix_labels(fit.labels), loose).decision[:, 1].sum() - 0.5) <= 1e-9
