"""Known facts about piecewise linear-quadratic functions, hostile inputs and error messages."""

from __future__ import annotations

import pickle

import cvxpy as cp
import numpy as np
import pytest

from margindsl.calculus import PLQ, Logistic, absolute, huber, pos, square
from margindsl.calculus.polyline import CACHED
from margindsl.errors import CalculusError

inf = np.inf
hinge = pos().precompose(-1, 1)


def odm(theta: float, nu: float) -> PLQ:
    low, high = pos().square().precompose(-1, 1 - theta), pos().square().precompose(1, -1 - theta)
    return (low + nu * high) * (1 / (1 - theta) ** 2)


def test_conjugates_known_in_closed_form():
    assert hinge.conjugate() == PLQ([], [[0, 1, 0]], -1, 0)
    assert absolute().conjugate() == PLQ.indicator(-1, 1)
    assert square().conjugate() == square() * 0.25
    assert PLQ.affine(2, 3).conjugate() == PLQ([], [[0, 0, -3]], 2, 2)
    assert PLQ.indicator(1, 1).conjugate() == PLQ.affine(1)
    assert huber(1.0).conjugate() == PLQ([], [[0.25, 0, 0]], -2, 2)
    assert (0.5 * absolute()).envelope(1.0).isclose(0.5 * huber(0.5))


def test_soft_threshold_and_projection_are_proxes():
    x = np.linspace(-3, 3, 25)
    assert np.allclose(absolute().prox(x, 0.5), np.sign(x) * np.maximum(np.abs(x) - 0.5, 0))
    assert np.allclose(PLQ.indicator(-1, 2).prox(x, 9.0), np.clip(x, -1, 2))
    assert np.allclose(square().prox(x[:, None], np.array([0.5, 2.0])), x[:, None] / np.array([2.0, 5.0]))
    assert PLQ.indicator(1, 1).prox(7.0) == 1.0 and PLQ.indicator(1, 1).prox_derivative(7.0) == 0.0


@pytest.mark.parametrize("loss", [hinge, hinge.square(), odm(0.1, 0.5), odm(0.0, 0.0), square(),
                                  square().precompose(1, -1), Logistic(), Logistic() + hinge])
def test_losses_that_are_root_convex(loss):
    assert loss.is_root_convex
    q = np.linspace(0, 40, 4001)
    values = loss(np.sqrt(q))
    assert np.all(values[2:] - 2 * values[1:-1] + values[:-2] >= -1e-10)


@pytest.mark.parametrize("loss", [pos(), absolute(), huber(2.0), square().precompose(1, 1), PLQ.affine(1)])
def test_losses_that_are_not_root_convex(loss):
    assert not loss.is_root_convex


def test_values_derivatives_and_scalars():
    f = PLQ([0.0], [[0, -1, 0], [1, 0, 0]], -2, 3)
    assert isinstance(f(1), float) and f(-3) == inf and f(3.0) == 9.0 and np.isnan(f(np.nan))
    assert f.derivative(0.0) == 0.0 and f.derivative(3.0) == 6.0
    assert f.derivative(-5.0) == -inf and f.derivative(5.0) == inf
    assert f.subdifferential(0.0) == (-1.0, 0.0) and f.subdifferential(-2.0) == (-inf, -1.0)
    assert f.subdifferential(3.0) == (6.0, inf) and f.subdifferential(4.0) == (inf, -inf)
    assert f(np.zeros((2, 3))).shape == (2, 3) and f.curvature([1.0]).tolist() == [2.0]
    assert hinge(inf) == 0.0 and hinge(-inf) == inf and hinge.derivative(-inf) == -1.0
    assert PLQ.affine(1)(-inf) == -inf and square()(-inf) == inf


def test_long_arrays_are_evaluated_as_short_ones_and_not_written_to():
    x = np.linspace(-2.0, 2.0, 3 * CACHED + 1)
    x.flags.writeable = False
    loss = PLQ.affine(-1, 1).positive_part().square()
    for found in (loss(x), loss.derivative(x), *loss.subdifferential(x)):
        assert len(found) == len(x)
    assert np.array_equal(loss(x), [loss(part) for part in x])
    assert np.array_equal(loss.derivative(x), [loss.derivative(part) for part in x])


def test_smooth_breakpoints_keep_a_subgradient_under_rounding():
    f = (0.3 * huber(0.5)).precompose(2, -2)
    lo, hi = f.subdifferential(f.breakpoints)
    assert np.all(lo <= hi) and np.allclose(lo, hi)


def test_minima_of_functions_without_minimiser():
    assert PLQ.affine(-1).argmin() == (inf, inf) and PLQ.affine(-1).minimum() == -inf
    assert PLQ.constant(2).argmin() == (-inf, inf) and PLQ.constant(2).minimum() == 2
    assert hinge.argmin() == (1, inf) and huber().argmin() == (0, 0)
    assert (0.1 * hinge + 0.2 * hinge + PLQ.affine(0.3)).minimum() == pytest.approx(0.3)


@pytest.mark.parametrize("seed", range(20))
def test_rounding_of_ends_is_not_in_the_least_value_of_a_flat_piece(seed):
    a, b = np.random.default_rng(seed).normal(size=2)
    flat = PLQ([-0.5, 0.5], [[1.0, 1.0, 0.25], [0.0, 0.0, 0.0], [0.4, -0.4, 0.1]]).precompose(a, b)
    assert flat.minimum() == 0.0 and all(part.minimum() == 0.0 for part in flat.split())


def test_minimum_with_quadratic_by_hand():
    # min over s >= 0 of (1-s)_+ - s^2/2 is -inf; with an end at 2 it is -2
    assert hinge.minimum_with_quadratic(1.0, -1.0, 0.0) == -inf
    assert (hinge + PLQ.indicator(-inf, 2)).minimum_with_quadratic(1.0, -1.0, 0.0) == -2.0
    # squared hinge plus s^2/2: at s = 2/3, value 1/9 + 2/9
    assert hinge.square().minimum_with_quadratic(1.0, 1.0) == pytest.approx(1 / 3)
    values = hinge.minimum_with_quadratic(np.array([1.0, 0.0]), np.array([0.0, 1.0]), 3.0)
    assert values.tolist() == [0.0, 4.5]
    assert square().minimum_with_quadratic(1.0, -2.0, 1.0) == 0.0
    assert PLQ.indicator(0, 1).minimum_with_quadratic(1.0, 1.0, 2.0) == inf


@pytest.mark.parametrize(("loss", "variables"), [
    (hinge, 1), (hinge.square(), 1), (odm(0.1, 0.5), 2), (absolute(), 1), (square(), 0),
    (PLQ.affine(2, 1), 0)])
def test_conic_form_is_small(loss, variables):
    x = cp.Variable(4)
    expression, constraints = loss.conic(cp, x)
    new = {v.id for part in [expression, *constraints] for v in part.variables()} - {x.id}
    assert len(new) == variables
    target = np.array([-2.0, 0.0, 0.95, 3.0])
    problem = cp.Problem(cp.Minimize(cp.sum(expression)), [*constraints, x == target])
    assert problem.is_qp()
    problem.solve(solver=cp.OSQP, eps_abs=1e-9, eps_rel=1e-9, max_iter=100000)
    assert problem.value == pytest.approx(loss(target).sum(), abs=1e-5)


@pytest.mark.parametrize("loss", [PLQ.constant(3), PLQ.indicator(1, 1) + 2.0, PLQ.indicator(0, 2)])
def test_conic_form_of_degenerate_functions(loss):
    x = cp.Variable(3)
    expression, constraints = loss.conic(cp, x)
    problem = cp.Problem(cp.Minimize(cp.sum(expression)), [*constraints, x == 1])
    assert problem.solve(solver=cp.CLARABEL) == pytest.approx(3 * loss(1.0), abs=1e-6)


def test_equal_neighbours_merge_and_equality_hashes():
    f = PLQ([0, 1, 2], [[0, -1, 1], [0, -1, 1], [0, 0, 0], [0, 0, 0]])
    assert f == hinge and hash(f) == hash(hinge) and len(f.pieces) == 2
    assert pickle.loads(pickle.dumps(f)) == f and f != square() and not f.isclose(square())
    assert f.isclose(hinge + 1e-14) and not f.isclose(hinge + 1e-3)
    assert not PLQ.indicator(0, 1).isclose(PLQ.indicator(0, 2))
    with pytest.raises(ValueError):
        f.coefficients[0] = 1.0
    with pytest.raises(AttributeError):
        f.lower = 0.0


def test_from_points_interpolates():
    x = np.linspace(-2, 2, 9)
    f = PLQ.from_points(x, x**2)
    assert np.allclose(f(x), x**2) and f(3.0) == pytest.approx(4 + 3.5)


def test_positive_part_absolute_and_square():
    f = PLQ.affine(1, -1)
    assert f.absolute().isclose(absolute().precompose(1, -1))
    assert f.square().isclose(square().precompose(1, -1))
    assert hinge.absolute() is hinge
    tube = (f.absolute() + (-0.5)).positive_part()
    assert tube(np.array([1.0, 2.0, 0.4])).tolist() == pytest.approx([0.0, 0.5, 0.1])
    assert tube.square()(2.0) == 0.25


def test_splits_of_restricted_functions():
    for f in (PLQ.indicator(0, 1), PLQ.indicator(2, 2) + 1.0, PLQ.affine(1, 2), PLQ.affine(-1, 2),
              PLQ.affine(1) + PLQ.indicator(0, inf), PLQ.affine(-1) + PLQ.indicator(0, 3), PLQ.constant(4)):
        d, i = f.split()
        assert d.is_nonincreasing and i.is_nondecreasing and (d + i).isclose(f)


def test_many_pieces_stay_exact():
    rng = np.random.default_rng(0)
    knots = np.sort(rng.normal(size=200))
    f = PLQ.from_points(knots, knots**2) + 0.1 * huber(0.3)
    x = rng.normal(size=1000) * 2
    assert f.conjugate().conjugate().isclose(f)
    v = f.prox(x, 0.3)
    lo, hi = f.subdifferential(v)
    near_lo, near_hi = f.subdifferential(v - 1e-9)[0], f.subdifferential(v + 1e-9)[1]
    g = (x - v) / 0.3
    assert np.all((np.minimum(lo, near_lo) - 1e-7 <= g) & (g <= np.maximum(hi, near_hi) + 1e-7))


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_far_scales(scale):
    for f in (hinge.square(), huber(0.5), absolute() + hinge, odm(0.2, 0.3)):
        g = f.precompose(1 / scale) * scale
        x = np.linspace(-3, 3, 31)
        assert np.allclose(g(x * scale), scale * f(x), rtol=1e-9)
        assert g.conjugate().conjugate().isclose(g)
        assert np.allclose(g.prox(x * scale, scale), scale * f.prox(x, 1.0))


@pytest.mark.parametrize(("build", "words"), [
    (lambda: PLQ([0.0], [[0, 1, 0], [0, -1, 0]]), "slope falls at breakpoint 0, from 1 on the left to -1"),
    (lambda: PLQ([1.0], [[0, 0, 0], [0, 1, 0]]), "breakpoint 1: the value is 0 on the left and 1"),
    (lambda: PLQ([], [[-1, 0, 0]]), "quadratic coefficient -1 < 0: not convex"),
    (lambda: PLQ([1, 0], [[0, 0, 0]] * 3), "must increase strictly"),
    (lambda: PLQ([0.0], [[0, 0, 0]]), r"expected \(2, 3\)"),
    (lambda: PLQ(0.0, [[0, 0, 0]]), "expected a one-dimensional list"),
    (lambda: PLQ([], [[0, np.nan, 0]]), "must be finite numbers"),
    (lambda: PLQ.indicator(1, 0), "is empty; give lower <= upper"),
    (lambda: PLQ.from_points([0, 0], [1, 2]), "strictly increasing x"),
    (lambda: PLQ.from_points([0, 1, 2], [0, 1, 1]), "slope falls at breakpoint 1"),
    (lambda: hinge * -1, "would be concave; give a non-negative factor"),
    (lambda: Logistic() * -1.0, "would be concave; give a non-negative factor"),
    (lambda: hinge + inf, "summand inf is not a finite number"),
    (lambda: hinge.precompose(np.nan), "slope nan is not a finite number"),
    (lambda: (hinge + -1.0).absolute(), "not convex: it is not affine and falls to -1 < 0"),
    (lambda: (hinge + -1.0).square(), "not convex: it is not affine and falls to -1 < 0"),
    (lambda: square().square(), "not piecewise quadratic: it has quadratic pieces"),
    (lambda: hinge.prox(1.0, 0.0), "step must be positive and finite"),
    (lambda: hinge.envelope(-1.0), "step must be positive and finite"),
    (lambda: huber(0.0), "must be positive; given 0"),
    (lambda: hinge.minimum_with_quadratic(-1.0, 0.0), "weight -1 of a convex function"),
])
def test_refusals_say_what_is_wrong(build, words):
    with pytest.raises(CalculusError, match=words):
        build()


def test_numbers_of_numpy_are_numbers():
    assert np.float64(2) * hinge == 2 * hinge == hinge * np.int64(2)
    assert np.float64(2) + hinge == hinge + 2


def test_operators_refuse_other_types():
    with pytest.raises(TypeError):
        hinge * np.zeros(3)
    with pytest.raises(TypeError):
        hinge + "one"
    with pytest.raises(TypeError):
        Logistic() * "one"


@pytest.mark.parametrize("bend", [1e-3, 1e-8, 1e-11, 1e-14])
def test_the_conjugate_of_a_function_that_hardly_bends_is_accurate(bend):
    within, slope, constant = 2e3, -1.0, 0.25
    tangent = [0.0, 2 * bend * within + slope, constant - bend * within**2]
    rho = PLQ([within], [[bend, slope, constant], tangent])
    x = np.array([-3e3, -1e3, -1.0, 0.0, 1.0, 1e3])
    assert rho.conjugate()(2 * bend * x + slope) == pytest.approx(bend * x**2 - constant, rel=1e-9, abs=4e-16 * 1e3)


def test_a_loss_that_reaches_zero_proves_exactly_zero():
    bend, knot = 2.1988885241397726**2, 1.1489129 / 2.1988885241397726
    rho = (pos().square()).precompose(-2.1988885241397726, 1.14891287160285524)
    assert rho.conjugate()(0.0) == 0.0
    assert rho.conjugate()(-1e-3) == pytest.approx(1e-6 / (4 * bend) - 1e-3 * knot, rel=1e-6)


def test_the_conjugate_is_accurate_about_the_slope_zero():
    rho = PLQ([0.5], [[2.1, -3.6, 1.65], [1.5, -3.0, 1.5]])
    for u in (-1e-9, -1e-5, 0.0, 1e-9):
        assert rho.conjugate()(u) == pytest.approx(u + u**2 / 6, rel=1e-12)  # the vertex lies at one


def test_the_least_value_beside_no_square_is_that_of_the_function_itself():
    """(1e-6 − x)² is zero at its vertex, however its coefficients round."""
    square = PLQ([], [(10 / 3, -2e-5 / 3, 1e-11 / 3)])
    least = square.minimum_with_quadratic(40850.89, np.array([0.0, 1.0, -1.0]), lower=0.0)
    assert least[0] == 40850.89 * square.minimum() == 0.0
    assert np.all(least[1:] == square.minimum_with_quadratic(40850.89, [1.0, -1.0], lower=0.0))
    assert square.minimum_with_quadratic(1.0, 0.0, lower=1.0) == pytest.approx(square(1.0))


def test_values_beyond_the_range_of_numbers_are_infinite_without_a_warning():
    """A sum that grows at ever smaller slopes is searched for its least point that far out."""
    loss = Logistic() + PLQ([], [(1e-300, -1e-290, 0.0)])
    assert square()(1e300) == np.inf
    assert np.isfinite(loss.minimum())
