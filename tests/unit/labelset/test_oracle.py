"""The linear oracle beyond the sizes brute force reaches."""

import numpy as np
import pytest

from margindsl.labelset import presolve
from margindsl.labelset.programme import solve_signs


@pytest.mark.parametrize("seed", range(6))
def test_knapsack_equals_integer_programme(seed):
    rng = np.random.default_rng(seed)
    w, gain = rng.integers(1, 9, 150), rng.normal(size=150) + 0.7
    gain = w.astype(float) if seed == 0 else gain
    best = presolve(150, bounds=[(w, -3, 4)]).maximise(gain)
    limits = np.array([-3.0]), np.array([4.0]), np.array([1e-9])
    reference = solve_signs(gain, w[None, :].astype(float), *limits)
    assert -3 <= w @ best <= 4
    assert gain @ best == pytest.approx(gain @ reference, abs=1e-8)


def test_large_balanced_set_meets_the_lagrangian_bound():
    rng = np.random.default_rng(0)
    gain = rng.normal(size=100_000) + 0.3
    labels = presolve(100_000, bounds=[(None, -100, 100)])
    best, lam = labels.maximise(gain), np.sort(gain)[49_949:49_951].mean()
    assert labels.contains(best)
    assert gain @ best == pytest.approx(np.abs(gain - lam).sum() + 100 * lam, rel=1e-9)


def test_contract_rows_is_the_transposed_indicator():
    labels, rows = presolve(5, must=[(0, 4)], cannot=[(1, 4)]), np.arange(10.0).reshape(5, 2)
    np.testing.assert_allclose(labels.contract_rows(rows), labels.indicator.toarray().T @ rows)
    np.testing.assert_allclose(labels.contract_rows(rows[:, 1]), labels.indicator.toarray().T @ rows[:, 1])
