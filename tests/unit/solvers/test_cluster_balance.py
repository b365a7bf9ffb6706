"""The pairwise balance of many clusters: nearest points, masters over the rows that matter."""

import time

import numpy as np
import pytest

import margindsl as md
from margindsl.contract import Budget
from margindsl.program.clusters import ClusterForm
from margindsl_solvers.cutting_plane import CuttingPlane
from margindsl_solvers.engines.rows.clusters import ClusterRows
from margindsl_solvers.newton import Newton


def balanced_form(clusters: int, limit: float) -> ClusterForm:
    X = np.random.default_rng(clusters).normal(size=(4 * clusters, 3)) + 1.0
    f = md.Hyperplane(X, centre=False)
    y = md.Labels(f.n, clusters=clusters)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.hinge(md.margin(y, f)))),
                         [abs(md.sum(f)) <= limit])
    program = problem.program()
    return program.fix_labels(np.random.default_rng(1).integers(0, clusters, f.n))


@pytest.mark.parametrize("limit", [0.0, 0.5, 1e3])
def test_weights_move_into_the_balance_by_the_shortest_way(limit):
    form = balanced_form(4, limit)
    G, radii = form.bound_rows[0], form.bound_ends[1]
    w = np.random.default_rng(2).normal(size=form.size_of_w)
    found = ClusterRows(form, w).inside(w)
    assert np.all(np.abs(G @ found) <= radii + 1e-10)
    active = np.abs(np.abs(G @ found) - radii) <= 1e-9  # the step is a combination of rows that hold with equality
    step, rows = found - w, G[active]
    assert np.linalg.norm(step - rows.T @ np.linalg.lstsq(rows.T, step, rcond=None)[0]) <= 1e-8


@pytest.mark.parametrize("limit", [0.0, 0.3])
def test_cutting_planes_over_many_clusters_agree_with_newton(limit):
    form = balanced_form(9, limit)
    exact = Newton(tol=1e-9).open(form).solve(form, Budget(tol=1e-9))
    cuts = CuttingPlane(tol=1e-6).open(form).solve(form, Budget(tol=1e-6))
    assert form.objective(cuts["w"]) == pytest.approx(form.objective(exact["w"]), rel=1e-5)
    G, radii = form.bound_rows[0], form.bound_ends[1]
    assert np.all(np.abs(G @ cuts["w"]) <= radii + 1e-9) and len(cuts["tau"]) == len(radii)
    assert form.dual_objective(cuts["u"], cuts["tau"], cuts["t"]) <= form.objective(exact["w"]) * (1 + 1e-6)


def test_many_clusters_return_near_their_time_limit():
    X = np.random.default_rng(0).normal(size=(50, 4))
    begin = time.process_time()
    found = md.recipes.cpm3c(X, 40).solve(time_limit=1, random_state=0)
    assert time.process_time() - begin < 15 and np.isfinite(found.value)


def test_losses_that_differ_by_a_shift_are_solved_as_one() -> None:
    rng = np.random.default_rng(5)
    X, clusters = rng.normal(size=(12, 3)), np.arange(12) % 3
    y, f = md.Labels(12, clusters=3), md.Hyperplane(X)
    objective = md.sq_norm(f) / 2 + 3.0 * md.sum(md.logistic(rng.normal(size=12) - md.margin(y, f)))
    form = md.Problem(md.Minimize(objective)).program().fix_labels(clusters)
    newton, cuts, conic = (md.Solver(name).solve(form, Budget(tol=1e-7))
                           for name in ("newton", "cutting-plane", "clarabel"))
    value = form.objective(conic["w"], conic["bias"])
    for raw in (newton, cuts):
        assert np.isclose(form.objective(raw["w"], raw["bias"]), value, rtol=1e-5)
        lower, upper = form.bracket(raw.variables)
        assert upper - 1e-5 * abs(upper) <= lower <= upper * (1 + 1e-9)
