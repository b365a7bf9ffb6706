"""Some random models of several hyperplanes a run; `python tests/fuzz/blocks.py 0 500 2` tries many more."""

import blocks
import pytest


@pytest.mark.parametrize("seed,k,parts", [
    (0, 2, ()), (2, 3, ()), (1, 2, ("door",)), (1, 2, ("norms", "scalars")), (1, 2, ("caps", "pairs")),
    (3, 2, ("by-label", "groups"))])
def test_a_random_model(seed, k, parts):
    assert list(blocks.faults(seed, k, parts)) == []
