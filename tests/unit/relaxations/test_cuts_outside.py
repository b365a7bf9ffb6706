"""Cuts outside, labels inside: the working set against a conic solver, the end of the sequence, refusals."""


import cvxpy as cp
import numpy as np
import pytest

import margindsl as md
from margindsl.drivers.working_set import WorkingSet
from margindsl.errors import DeclarationError, RefusalError
from margindsl.relaxations import cuts_outside


def points(n=40, seed=0):
    rng = np.random.default_rng(seed)
    truth = np.where(np.arange(n) < n // 2, -1, 1)
    return rng.standard_normal((n, 3)) + truth[:, None] * [1.4, 0.5, 0.0] + 2.0, truth


def working_set(l, seed=0, count=6):
    """Return points, C and a working set whose cuts were added at random hyperplanes and labels."""
    X, _ = points(seed=seed)
    rng, C = np.random.default_rng(seed), 7.0
    program = md.recipes.cpmmc(X, C=C, l=l).compile().program
    cuts = WorkingSet(program, rng.integers(2, size=len(X)))
    for _ in range(count):
        cuts.relabel(rng.integers(2, size=len(X)))
        f = X @ rng.standard_normal(3) + rng.standard_normal()
        cuts.relabel(np.where(f >= 0, 1, 0))
        cuts.add(f[:, None] * [-1.0, 1.0])
    return X, C, cuts


@pytest.mark.parametrize("l", [0.0, 0.3, 20.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_working_set_is_equation_11(l, seed):
    X, C, cuts = working_set(l, seed)
    chosen = (cuts.slopes < 0).astype(float)
    assert cuts.slopes == pytest.approx(-C / len(X) * chosen)
    assert np.all(chosen[0] == 1)  # the cut of w = 0
    w, b, xi = cp.Variable(3), cp.Variable(), cp.Variable()
    f = X @ w + b
    rows = [cp.sum(c) / len(X) - xi <= c @ cp.multiply(2 * cuts.labels - 1, f) / len(X) for c in chosen]
    value = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + C * xi), [*rows, xi >= 0, cp.abs(cp.sum(f)) <= l]).solve(
        "CLARABEL")
    table, found = cuts.solve()
    decision = table[:, 1]
    assert found == pytest.approx(value, rel=1e-6)
    assert decision == pytest.approx(f.value, abs=1e-4)
    assert abs(decision.sum()) <= l + 1e-8


@pytest.mark.parametrize("epsilon", [0.1, 1e-3])
def test_the_sequence_ends_when_no_cut_is_violated(monkeypatch, epsilon):
    ends = []

    class Watched(WorkingSet):
        def solve(self):
            f, value = super().solve()
            ends.append((f, self.slack))
            return f, value

    monkeypatch.setattr(cuts_outside, "WorkingSet", Watched)
    X, _ = points(n=80)
    md.recipes.cpmmc(X, C=50.0, epsilon=epsilon, outer="cuts").solve(random_state=0)
    losses = [50.0 * np.maximum(1 - abs(f), 0).mean() - slack for f, slack in ends]
    assert losses[-1] <= epsilon * 50.0 < losses[0]


def test_cuts_outside_stop_at_the_time_limit():
    X, _ = points(n=60)
    assert len(md.recipes.cpmmc(X, outer="cuts").solve(random_state=0, time_limit=1e-3).labels) == 60


def test_cuts_outside_refuse_what_they_cannot_bound():
    X, _ = points()
    f, y = md.Hyperplane(X, bias=True), md.Labels(40)
    size = md.sq_norm(f) / 2
    for loose in (md.Problem(md.Minimize(size + md.mean(md.hinge(y * f))), [md.sum(f) <= 0.5]),
                  md.Problem(md.Minimize(size + md.mean_variance(y * f, 1.0, 1.0)), [abs(md.sum(f)) <= 1])):
        with pytest.raises(RefusalError, match="nothing holds shared scalars or a free bias"):
            loose.solve(md.CutsOutside())
    with pytest.raises(DeclarationError, match="expected a positive finite number"):
        md.CutsOutside(epsilon=0)
    weights = np.linspace(0.5, 2.0, 40)
    plane = md.Hyperplane(X)
    margin = md.margin(md.Labels(40, clusters=3), plane)
    for loss in (-margin, weights * -margin):
        with pytest.raises(RefusalError, match="no lower than the least"):
            md.Problem(md.Minimize(md.sq_norm(plane) / 2 + md.mean(loss))).solve(md.CutsOutside())
    rising = md.Problem(md.Minimize(md.sq_norm(plane) / 2 + md.mean(md.odm(margin, nu=0.4, theta=0.2))))
    with pytest.raises(RefusalError, match="only where ρ falls"):
        rising.solve(md.CutsOutside())


def test_cuts_outside_hold_bounds_of_many_clusters():
    X, weights = np.random.default_rng(0).standard_normal((44, 3)), np.linspace(0.5, 2.0, 44)
    plane = md.Hyperplane(X)
    many = md.margin(md.Labels(44, clusters=22), plane)
    held = md.Problem(md.Minimize(md.sq_norm(plane) / 2 + 9 * md.mean(md.hinge(many))),
                      [abs(md.sum(weights * plane)) <= 1])
    solution = held.solve(md.CutsOutside(restarts=1, polish="none"), random_state=0, time_limit=20)
    assert np.ptp(weights @ solution.decision) <= 1 + 1e-6


def several(n=30, k=3, seed=0):
    rng = np.random.default_rng(seed)
    centres = 2.0 * rng.standard_normal((k, 4))
    return centres[np.arange(n) % k] + rng.standard_normal((n, 4))


@pytest.mark.parametrize("balance", [0.0, 1.0, 50.0])
@pytest.mark.parametrize("seed", range(2))
def test_a_working_set_of_clusters_is_equation_13_over_its_cuts(balance, seed):
    X, k, beta = several(seed=seed), 3, 0.3
    n, rng = len(X), np.random.default_rng(seed)
    program = md.recipes.cpm3c(X, k, beta=beta, balance=balance).program()
    cuts = WorkingSet(program, rng.integers(0, k, n))
    for _ in range(4):
        cuts.relabel(rng.integers(0, k, n))
        cuts.add(X @ rng.standard_normal((4, k)))
    cuts.relabel(rng.integers(0, k, n))
    W, xi = cp.Variable((4, k)), cp.Variable()
    f, rows = X @ W, []
    for slopes, rivals in zip(cuts.slopes, cuts.rivals):
        chosen = np.flatnonzero((slopes < 0) & (rivals != cuts.labels))
        own = cp.sum([f[i, cuts.labels[i]] - f[i, rivals[i]] for i in chosen]) if len(chosen) else 0.0
        rows.append((len(chosen) - own) / n <= xi)
    sums = cp.sum(f, axis=0)
    rows += [cp.abs(sums[p] - sums[q]) <= balance for p in range(k) for q in range(p)]
    value = cp.Problem(cp.Minimize(beta / 2 * cp.sum_squares(W) + xi), [*rows, xi >= 0]).solve("CLARABEL")
    decision, found = cuts.solve()
    assert program.to_user(found) == pytest.approx(value, rel=1e-5, abs=1e-7)
    assert np.abs(np.subtract.outer(decision.sum(axis=0), decision.sum(axis=0))).max() <= balance + 1e-4


def test_cuts_outside_take_several_clusters_and_keep_their_constraints():
    X = several(36)
    problem = md.recipes.cpm3c(X, 3, beta=0.1, outer="cuts")
    assert problem.relaxation.name == "cuts-outside"
    solution = problem.solve(random_state=0)
    assert len(np.unique(solution.labels)) == 3
    linked = problem.with_constraints(md.cannot_link(problem.labels, [(0, 3)]), md.sizes(problem.labels, at_least=9))
    labels = linked.solve(random_state=0).labels
    assert labels[0] != labels[3] and np.bincount(labels).min() >= 9


LABELLED = np.arange(40) % 3
PLANES = {
    "a rising loss": (md.odm, {}, lambda f: []),
    "a bias within one-sided bounds": (md.hinge, {"bias": True}, lambda f: [md.sum(f) >= 1, md.sum(f) <= 9]),
    "a bound on weights": (md.odm, {"centre": False}, lambda f: [md.sum(np.linspace(0, 1, 40) * f) >= 2]),
    "two bounds": (md.hinge, {"bias": True}, lambda f: [abs(md.sum(f)) <= 3, f[0] - f[1] <= 0.1])}


@pytest.mark.parametrize(("coding", "case"), [
    *(("binary", case) for case in list(PLANES)[:2]), *(("simplex", case) for case in list(PLANES)[1:]),
    *(("crammer-singer", case) for case in list(PLANES)[1::2])])
def test_a_working_set_is_below_every_loss_and_tight_in_the_end(case, coding):
    """The cuts at fixed labels grow into the fixed-label problem itself."""
    loss, plane, bounds = PLANES[case]
    X, truth = points()
    y, f = md.Labels(40, clusters=2 if coding == "binary" else 3), md.Hyperplane(X, **plane)
    margin = y * f if coding == "binary" else md.margin(y, f, coding=coding)
    held = bounds(f) if coding == "binary" else [abs(md.sum(f)) <= 3] * (coding == "crammer-singer" or "bias" in plane)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 20 * md.mean(loss(margin))), held)
    program, known = problem.compile("alternating").program, truth if coding == "binary" else LABELLED
    best = problem.with_constraints(y[np.arange(40)] == known).solve("supervised", tol=1e-8).value
    labels = program.labels.names.read(known)
    cuts, below = WorkingSet(program, labels), -np.inf
    for _ in range(100):
        f, value = cuts.solve()
        assert below - 1e-6 * best <= value <= best * (1 + 1e-6)
        below = value
        cuts.add(f)
    assert program.to_user(below) == pytest.approx(best, rel=2e-3)
    other = np.roll(labels, 1)
    assert cuts.relabel(other)
    again = WorkingSet(program, other)
    again.slopes, again.offsets, again.rivals = cuts.slopes, cuts.offsets, cuts.rivals
    directions = program.kind.directions(other, cuts.rivals, program.codes)
    turned = np.broadcast_to(cuts.slopes[:, :, None] * directions, (*cuts.slopes.shape, directions.shape[-1]))
    again.rows = np.stack([program.features.adjoint(step).T for step in turned])
    again.tilts = turned.sum(axis=1)
    assert cuts.solve()[1] == pytest.approx(again.solve()[1], rel=1e-6)


def test_weighted_losses_fall_too():
    """Weights lower to rising functions of minus the margin; one point twice is one point of twice the weight."""
    rng = np.random.default_rng(4)
    points = np.vstack([rng.normal(-1.0, 0.5, (8, 2)), rng.normal(1.0, 0.5, (8, 2))])
    twice = np.append(np.arange(16), [3, 12])
    weights = np.bincount(twice).astype(float)

    def solve(X, loss):
        y, f = md.Labels(len(X)), md.Hyperplane(X, bias=True, centre=False)
        declared = md.Minimize(md.sq_norm(f) / 2 + loss(y * f))
        return md.Problem(declared, [abs(md.sum(f)) <= 1e3]).solve("cuts-outside", random_state=0)

    weighted = solve(points, lambda m: md.sum(weights * md.hinge(m)))
    repeated = solve(points[twice], lambda m: md.sum(md.hinge(m)))
    assert np.isclose(weighted.value, repeated.value, rtol=1e-6)
    assert abs(int(weighted.labels @ repeated.labels[:16])) == 16


@pytest.mark.parametrize("seed", range(2))
def test_cuts_that_lower_nothing_come_to_rest_at_the_best_labels(seed):
    X = np.random.default_rng(seed).standard_normal((60, 6))
    solution = md.recipes.cpmmc(X, C=100.0).solve(random_state=seed)
    values = [record.value for record in solution.history if record.stage == "cuts"]
    assert len(values) <= int(np.argmin(values)) + 1 + cuts_outside.PATIENCE
    assert solution.value <= min(values) * (1 + 1e-6)
