"""Rows that say nothing but for rounding say nothing: sums that cancel, penalties of sums that are always zero."""

import numpy as np
import pytest

import margindsl as md
import margindsl.errors

pytestmark = pytest.mark.filterwarnings("ignore::margindsl.errors.TrivialityWarning")
X = np.random.default_rng(2).normal(size=(7, 2)) + 1
SHARES = np.array([0.1, 0.7, 0.3, 0.9, 0.2, 0.5, 0.4])
ROWS = {
    "a value": lambda f: 1.1 * f[0] - f[0] == 0.1 * f[0],
    "three parts": lambda f: 0.1 * f[0] + 0.2 * f[0] - 0.3 * f[0] == 0,
    "one mean in two ways": lambda f: md.sum(SHARES / SHARES.sum() * f)
    == md.sum((SHARES / 7) / (SHARES / 7).sum() * f),
    "a constant": lambda f: md.sum(f) + 0.1 + 0.2 - 0.3 == 0,
    "sums of sums": lambda f: abs(0.1 * md.sum(f) + 0.2 * md.sum(f) - 0.3 * md.sum(f)) <= 0,
}
KINDS = {
    "two": lambda f, y: md.mean(md.hinge(y * f)),
    "simplex": lambda f, y: md.mean(md.hinge(md.margin(y, f, coding="simplex"))),
    "crammer-singer": lambda f, y: md.mean(md.hinge(md.margin(y, f, coding="crammer-singer"))),
}


def solved(kind, rows=(), extra=lambda f: 0.0, relaxation="exact", points=X, **plane):
    y, f = md.Labels(len(points), clusters=2 if kind == "two" else 3), md.Hyperplane(points, **plane)
    within = [abs(md.sum(y)) <= 1] if kind == "two" else [md.sizes(y, at_least=2, at_most=3)]
    objective = md.sq_norm(f) / 2 + 100 * KINDS[kind](f, y) + extra(f)
    return md.Problem(md.Minimize(objective), [*within, *(row(f) for row in rows)]).solve(relaxation, random_state=0)


@pytest.mark.parametrize("row, kind", [*zip(ROWS, ["two", "simplex"] * 3)])
def test_a_row_of_rounding_is_none(kind, row):
    plain, held = solved(kind), solved(kind, [ROWS[row]])
    assert held.value == pytest.approx(plain.value, rel=1e-7)
    assert held.bound <= plain.value * (1 + 1e-9) and held.verify()


@pytest.mark.parametrize("relaxation", ["sdp", "minimax"])
def test_bounds_heed_no_row_of_rounding(relaxation):
    assert solved("two", [ROWS["three parts"]], relaxation=relaxation).bound <= solved("two").value * (1 + 1e-9)


def test_a_row_of_rounding_that_never_holds_is_infeasible():
    with pytest.raises(margindsl.errors.InfeasibleError, match="zero for every hyperplane"):
        solved("two", [lambda f: 0.1 * f[0] + 0.2 * f[0] - 0.3 * f[0] <= -1e-3])


def test_labels_whose_weights_cancel_are_free():
    y, f = md.Labels(7), md.Hyperplane(X)
    objective = md.sq_norm(f) / 2 + 100 * md.mean(md.hinge(y * f))
    row = 0.1 * y[0] + 0.2 * y[0] - 0.3 * y[0] == 0
    found = md.Problem(md.Minimize(objective), [abs(md.sum(y)) <= 1, row]).solve("exact")
    assert found.value == pytest.approx(solved("two").value, rel=1e-9)


PENALTIES = {
    "of what cancels": (X, lambda f: 1e3 * (1.1 * f[0] - f[0] - 0.1 * f[0]) ** 2),
    "of centred values": (X, lambda f: 1e3 * md.sum(f) ** 2),
    "of centred values far away": (X + 1e3, lambda f: 10 * md.sum(f) ** 2),
    "of points that coincide": (np.repeat(X[:4], 2, axis=0), lambda f: 1e3 * md.manifold(f, np.kron(
        np.eye(4), [[0.0, 1.0], [1.0, 0.0]]))),
}


@pytest.mark.parametrize("name, relaxation", [
    *((name, "exact") for name in PENALTIES), *((name, "sdp") for name in list(PENALTIES)[::2])])
def test_a_penalty_of_what_is_always_zero_costs_nothing(name, relaxation):
    points, penalty = PENALTIES[name]
    plain = solved("two", points=points)
    held = solved("two", extra=penalty, points=points, relaxation=relaxation)
    assert held.bound <= plain.value * (1 + 1e-7)
    assert relaxation != "exact" or held.value == pytest.approx(plain.value, rel=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_sums_that_vanish_vanish_through_a_kernel(seed):
    rng = np.random.default_rng(seed)
    A = rng.integers(-3, 4, size=(7, 2)).astype(float)
    A[:2] = [[1, 0], [0, 1]]
    weights = np.concatenate([-A[2:].T @ (shares := np.array([3.0, -2, 1, 5, -1])), shares])
    assert not np.any(weights @ A)
    y, f = md.Labels(7), md.Hyperplane(None, kernel=md.Precomputed(A @ A.T), centre=False)
    objective, within = md.sq_norm(f) / 2 + 100 * md.mean(md.hinge(y * f)), [abs(md.sum(y)) <= 1]
    plain = md.Problem(md.Minimize(objective), within).solve("exact")
    held = md.Problem(md.Minimize(objective), [*within, abs(md.sum(weights * f)) <= 0]).solve("exact")
    assert held.value == pytest.approx(plain.value, rel=1e-6) and held.bound <= plain.value * (1 + 1e-9)


def test_a_scalar_that_costs_what_cancels_costs_nothing():
    s = md.Scalar()
    held = solved("two", extra=lambda f: 0.1 * s + 0.2 * s - 0.3 * s)
    assert held.bound == pytest.approx(solved("two").value, rel=1e-7)


@pytest.mark.parametrize("n", [3, 4, 6, 7])
@pytest.mark.parametrize("relaxation", ["exact", "alternating"])
def test_a_scalar_that_costs_what_its_rows_pay_stays_where_values_have_digits(n, relaxation):
    y, f, s = md.Labels(n), md.Hyperplane(X[:n]), md.Scalar()
    losses = md.mean(md.pos(s - y * f)) - s
    found = md.Problem(md.Minimize(md.sq_norm(f) / 2 + losses), [abs(md.sum(y)) <= 2]).solve(relaxation)
    margins = found.labels * found.decision
    # At s no less than all margins the value is ½‖w‖² − mean margin, which the mean of the points y φ maximises.
    own = np.sum(found.weights**2) / 2 - margins.mean()
    assert found.value == pytest.approx(own, abs=1e-9) and found.verify()
    assert found.bound <= found.value


def test_parts_that_cancel_leave_their_rounding_to_what_is_left():
    y, f = md.Labels(6), md.Hyperplane(X[:6])
    held = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 1e3 * md.mean(-y * f)), [
        y[4] == -1, y[0] == -1, abs(md.sum(f) + 4438.212 * f[2] - 1806.514 * f[2] - 2631.698 * f[2]) <= 1e-9])
    free = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 1e3 * md.mean(-y * f)), [y[4] == -1, y[0] == -1])
    assert held.solve("exact").value == pytest.approx(free.solve("exact").value, rel=1e-9)  # Σf is zero on both sides


def test_labels_at_a_limit_stay_where_parts_of_a_weight_cancel():
    n, c = 3, 2.2786773303631823e-06
    y = md.Labels(n)
    row = c <= md.sum(c * y) + 9.460373141502883 * y[0] + 18.920746283005766 * y[0] - 28.38111942450865 * y[0]
    f = md.Hyperplane(X[:n])
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(y * f))), [md.sum(y) <= 1, row])
    plain = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(y * f))), [md.sum(y) == 1])
    assert problem.solve("exact").value == pytest.approx(plain.solve("exact").value, rel=1e-9)
