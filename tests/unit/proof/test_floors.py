"""What the losses and the norm prove by themselves is never lost: a sum of what is not negative has a bound of zero."""

import numpy as np
import pytest

import margindsl as md

X = np.random.default_rng(0).normal(size=(5, 3))
RELAXATIONS = ["exact", "minimax", "sdp", "weight-lifting"]
ROW = np.array([1.0, -1.0, 0.0, 0.0, 0.0])


def solved(loss, relaxation="exact", constraints=lambda y, f: [], weight=1.0, points=X):
    y, f = md.Labels(5), md.Hyperplane(points)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + weight * md.mean(loss(y * f))),
                      [abs(md.sum(y)) <= 3, *constraints(y, f)]).solve(relaxation, random_state=0)


@pytest.mark.parametrize("relaxation, first", [*zip(RELAXATIONS, [True, False, True, False])])
def test_a_bound_on_nothing_beside_another_leaves_the_proof(relaxation, first):
    def rows(y, f):
        nothing = abs(0.25 * f[2] + 0.5 * f[2] - 0.75 * f[2]) <= 0
        bound = abs(md.sum(ROW * f)) <= 1
        return [nothing, bound] if first else [bound, nothing]

    solution = solved(md.hinge, relaxation, rows)
    alone = solved(md.hinge, relaxation, lambda y, f: rows(y, f)[int(first):][:1])
    assert solution.verify() and solution.bound == pytest.approx(alone.bound, rel=1e-5) and solution.bound > 0


LOSSES = [
    lambda g: md.maximum(-g / 3, g / 30 - 0.2, 0),
    lambda g: 0.3 * md.hinge(1.03 * g + 2) + 0.7 * md.hinge(0.1 * g + 1.3),
    lambda g: md.pos(0.1 - g) + md.squared_hinge(3 * g + 0.7),
    lambda g: (0.1 - 1.03 * g) ** 2,
    lambda g: md.odm(g / 3, 0.2, 0.3),
    lambda g: abs(0.7 * g) + 0.1 * abs(0.3 * g)]
UNITS = [(1.0, 1.0), (1e-4, 1e-2), (1e-4, 1e2), (1e4, 1e-2), (1e4, 1e2)]  # weights of losses, sizes of points


@pytest.mark.parametrize("relaxation, loss, weight, size", [  # every pair of two of them
    (RELAXATIONS[(i + j) % 4], loss, *unit) for i, loss in enumerate(LOSSES) for j, unit in enumerate(UNITS)])
def test_what_is_nowhere_negative_has_a_bound_of_at_least_zero(relaxation, loss, weight, size):
    solution = solved(loss, relaxation, weight=weight, points=size * X)
    assert 0 <= solution.bound <= solution.value and solution.verify()


def test_a_proof_that_fails_leaves_what_the_losses_prove():
    points = np.array([[1.05], [1.05], [2.2], [1.86]])
    y, f = md.Labels(4, clusters=3), md.Hyperplane(points, bias=True, centre=False)
    g = md.margin(y, f, coding="simplex")
    total = md.sq_norm(f) / 2 + 2.9 * md.sum((1 - g) ** 2) + 2.89 * md.mean(md.logistic(-g) + md.pos(0.46 - g))
    solution = md.Problem(md.Minimize(total)).solve("exact", random_state=0)
    assert 0 <= solution.bound <= solution.value
