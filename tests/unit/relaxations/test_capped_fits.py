"""Fits that ended at their cap lead to labels that are no fixed point, and the status says so."""

import numpy as np
import pytest

import margindsl as md


@pytest.mark.parametrize("relaxation", [md.Alternating, md.CCCP])
@pytest.mark.parametrize("solver,most", [("newton", 1), ("newton", 2), ("cutting-plane", 1)])
def test_the_cap_of_the_fits_is_the_status(relaxation, solver, most):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 3)) + 0.8 * (np.arange(60) < 30)[:, None]
    y, f = md.Labels(60), md.Hyperplane(X)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 20 * md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= 20])
    once = relaxation(restarts=1, polish="none")
    assert problem.solve(once, md.Solver(solver, max_iter=most), random_state=0).status == "iteration_limit"
    assert problem.solve(relaxation(), solver, max_iter=most, random_state=0).status == "iteration_limit"
    assert problem.solve(once, solver, random_state=0).status == "converged"
