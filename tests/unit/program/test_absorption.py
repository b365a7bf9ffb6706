"""Losses with the labels absorbed: the same sums in other pieces, and |f| in place of y f."""

import numpy as np
import pytest

from margindsl.calculus import PLQ, absolute, huber, maximum, pos, square
from margindsl.calculus.smooth import Logistic
from margindsl.errors import CalculusError
from margindsl.program.absorption import (
    MOST_SETTINGS,
    absorb_labels,
    absorbed_envelopes,
    absorbed_terms,
    prefers_agreement,
    root_envelope,
)
from margindsl.program.losses import Losses, LossTerm, SharedScalars

RNG = np.random.default_rng(0)
N = 6
HINGE, TUBE = pos().precompose(-1, 1), pos().precompose(1, -1.3) + pos().precompose(-1, 0.7)
BENT = maximum(HINGE, square().precompose(1, 1) + -4.0)  # falls, then rises as a square


def term(loss, slopes, shifts, coupling=None):
    count = len(slopes)
    return LossTerm(loss, np.arange(count) % N, RNG.uniform(0.5, 2.0, count), np.array(slopes, dtype=float),
                    np.array(shifts, dtype=float), np.zeros((count, 0)) if coupling is None else coupling)


TERMS = {
    "shifted": term(TUBE, [1, 2, -1, 2, 1, -0.5, 1], [0, 0.3, 0, 0.3, -1, 0, 0]),
    "shifts alone": term(HINGE, [1, 1, 1], [0.5, 0.0, 0.5]), "slopes alone": term(BENT, [2, 1, -3], [0, 0, 0]),
    "plain": term(BENT, [1, 1, 1], [0, 0, 0]), "negative": term(HINGE, [-1, -2], [0, 0.1]),
    "line": term(PLQ.affine(0.7, 0.2), [-1, -2, -1], [0, 0.1, 0.2]),
    "rising line": term(PLQ.affine(0.7), [1, -2], [0, 0])}


@pytest.mark.parametrize("name", TERMS)
def test_normalised_losses_are_the_losses_without_slopes_and_shifts(name):
    losses = Losses(N, (TERMS[name],))
    found = absorbed_terms(losses)
    assert np.all(found.slopes == 1.0) and np.all(found.shifts == 0.0)
    for margins in 2.0 * RNG.normal(size=(20, N)):
        assert found.value(margins) == pytest.approx(losses.value(margins), rel=1e-12)
    pairs = len({*zip(TERMS[name].slopes, TERMS[name].shifts)})
    assert len(found.terms) == pairs, "a function for every argument, and no more"


def test_labels_of_losses_with_scalars_stay():
    coupling = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, -2.0], [0.0, 0.0]])
    losses = Losses(N, (term(TUBE, [2, 2, -1, 1], [0.3, 0.3, 0, 0.5], coupling),),
                    SharedScalars(np.array([1.0, 0.5]), np.array([True, False]), ("a", "b")))
    with pytest.raises(CalculusError, match="shared scalars"):
        absorbed_terms(losses)
    assert absorb_labels(losses).terms == losses.terms


def test_as_many_arguments_as_are_taken_and_one_more():
    shifts = np.arange(MOST_SETTINGS + 1.0)
    assert len(absorbed_terms(Losses(N, (term(HINGE, np.ones(MOST_SETTINGS), shifts[1:]),))).terms) == MOST_SETTINGS
    with pytest.raises(CalculusError, match="different per-point arguments"):
        absorbed_terms(Losses(N, (term(HINGE, np.ones(MOST_SETTINGS + 1), shifts),)))


@pytest.mark.parametrize("name", TERMS)
def test_a_step_of_cccp_sees_the_rising_part_of_either_sign(name):
    losses = Losses(N, (TERMS[name],))
    found = absorb_labels(losses)
    for margins in 2.0 * RNG.normal(size=(20, N)):
        expected = 0.0
        for row in absorbed_terms(losses).terms:
            falling, rising = row.loss.split()
            own = margins[row.points]
            expected += row.weights @ (falling(own) + rising(np.abs(own)))
        assert found.value(margins) == pytest.approx(expected, rel=1e-12)
        assert found.value(np.abs(margins)) == pytest.approx(losses.value(np.abs(margins)), rel=1e-12)


def test_terms_that_only_fall_stay_as_they_are():
    falling = term(HINGE, [1, 2, 1], [0.5, 0, 0]), term(PLQ.affine(1.0), [-1, -2], [0, 1]), term(Logistic(), [1], [0])
    assert absorb_labels(Losses(N, falling)).terms == falling
    rises = term(PLQ.affine(1.0), [-1, 2], [0, 0])
    assert absorb_labels(Losses(N, (rises,))).terms != (rises,)


PREFERENCES = {
    "hinge": HINGE, "rising": pos(), "tube": TUBE, "turned tube": TUBE.precompose(-1), "absolute": absolute(),
    "square": square().precompose(1, -1), "other square": square().precompose(1, 1), "bent": BENT,
    "huber": huber(0.5).precompose(-1, 1), "falling wall": PLQ([], [[0.0, -1.0, 0.0]], -2.0, np.inf),
    "rising wall": PLQ([], [[0.0, -1.0, 0.0]], -np.inf, 2.0), "even walls": PLQ([], [[1.0, 0.0, 0.0]], -2.0, 2.0),
    "crossing once": maximum(PLQ.affine(-1.0), PLQ.affine(3.0, -6.0)),
    "crossing late": maximum(PLQ.affine(-1.0), PLQ.affine(1.01, -40.0)),
    "never crossing": maximum(PLQ.affine(-1.0), PLQ.affine(0.99, -40.0)),
    # A vertex between the knots decides.
    "between knots": maximum(square() + PLQ.affine(0.4), PLQ.affine(-10.0, -20.0)),
    "hump": PLQ([-1.5, -1.0, 1.0], [[0.0, -4.0, -5.0], [4.0, 8.0, 4.0], [0.0, 0.0, 0.0], [0.0, 1.0, -1.0]]),
    "steeper left": PLQ([0.0], [[2.0, -1.0, 0.0], [1.0, -1.0, 0.0]]),
    "dip": PLQ([0.0, 2.0], [[0.0, -2.0, 0.0], [1.0, -0.9, 0.0], [0.0, 3.1, -4.0]]),
    "dip, shallow": PLQ([0.0], [[1.0, -0.5, 0.0], [2.0, -0.5, 0.0]]),
    "dip, lasting": PLQ([-3.0, 0.0], [[0.0, -7.0, -9.0], [1.0, -1.0, 0.0], [1.3, -1.0, 0.0]]),
}


@pytest.mark.parametrize("factor", [1e-9, 1.0, 1e6, 1e9])
@pytest.mark.parametrize("name", PREFERENCES)
def test_the_preferred_sign_is_that_of_a_grid(name, factor):
    s = factor * np.concatenate([np.linspace(0.0, 10.0, 2001), np.geomspace(10.0, 1e5, 500)])
    loss = PREFERENCES[name]
    agreed, opposed = (np.asarray(loss(x / factor)) for x in (s, -s))
    with np.errstate(invalid="ignore"):
        expected = not np.any(agreed > opposed + 1e-12 * np.abs(agreed))
    assert prefers_agreement(factor * loss.precompose(1.0 / factor)) == expected


def test_sums_prefer_what_all_their_parts_prefer():
    assert prefers_agreement(Logistic() + square().precompose(1, -1))
    assert not prefers_agreement(Logistic() + square().precompose(1, 1))
    assert not prefers_agreement(Logistic().precompose(-1.0))


@pytest.mark.parametrize("weight", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("name", [name for name in PREFERENCES if "wall" not in name])
def test_envelopes_are_below_both_signs_convex_in_the_square_and_as_low_as_the_loss(name, weight):
    loss, s = weight * PREFERENCES[name], np.sqrt(np.linspace(0.0, 3000.0, 30001))
    found, best = np.asarray(root_envelope(loss)(s)), np.minimum(loss(s), loss(-s))
    size = 1e-11 * (weight + np.abs(best))
    assert np.all(found <= best + size) and np.all(np.diff(found, 2) >= -size[1:-1])
    assert found.min() == pytest.approx(loss.minimum(), abs=1e-2 * weight)
    if best[-1] > 0.5 * weight * s[-1] ** 2 and (prefers_agreement(loss) or prefers_agreement(loss.precompose(-1.0))):
        assert found[-1] > 0.4 * best[-1]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_loss_without_a_least_value_has_no_envelope():
    with pytest.raises(CalculusError, match="no least value|without end"):
        root_envelope(Logistic() + PLQ.affine(2.0))


def test_absorbed_envelopes_bound_the_best_labels_from_below():
    losses = Losses(N, (TERMS["shifted"], TERMS["slopes alone"]))
    found = absorbed_envelopes(losses)
    signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * N)).reshape(N, -1).T
    for decision in 2.0 * RNG.normal(size=(10, N)):
        assert found.value(np.abs(decision)) <= min(losses.value(y * decision) for y in signs) * (1 + 1e-12)
