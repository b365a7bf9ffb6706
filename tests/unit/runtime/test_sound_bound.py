"""A bound is never hidden behind a value that contradicts it."""

import numpy as np
import pytest

from margindsl.errors import AccuracyWarning
from margindsl.runtime.compiled import sound_bound


def test_rounding_is_forgiven_and_contradictions_are_told():
    assert sound_bound(0.9, 1.0) == 0.9
    assert sound_bound(1.0 + 1e-12, 1.0) == 1.0
    with pytest.warns(AccuracyWarning, match="above an attained value"):
        assert sound_bound(1.01, 1.0) == -np.inf
