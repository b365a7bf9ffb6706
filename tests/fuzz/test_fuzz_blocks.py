"""Some random models of several hyperplanes a run; `python tests/fuzz/blocks.py 0 500 2` tries many more."""

import blocks
import pytest


@pytest.mark.parametrize("seed,k", [(0, 2), (683, 2), (2, 3)])
def test_a_random_model(seed, k):
    assert list(blocks.faults(seed, k)) == []
