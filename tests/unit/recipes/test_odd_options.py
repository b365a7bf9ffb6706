"""Options of a wrong kind: every recipe declares a problem or says what it expected, never with foreign words."""

import inspect

import numpy as np
import pytest

import margindsl as md
from margindsl.errors import DeclarationError, MarginError

X = np.random.default_rng(0).normal(size=(12, 2)) + np.repeat([[0.0, 0.0], [3.0, 1.0]], 6, axis=0)
KNOWN = np.repeat([1, -1, 0], [3, 3, 6])
ODD = (None, "a", -1, float("nan"), {}, 10**400, np.ones(2), [1.0, 2.0], object(), b"x")
DECLARING = [name for name in md.recipes.names() if name != "maximum_margin_embedding"]  # that one solves


@pytest.mark.parametrize("name", DECLARING)
def test_only_named_errors(name):
    recipe = getattr(md.recipes, name)
    options = list(inspect.signature(recipe).parameters.values())[1:]
    needed = {option.name: KNOWN for option in options if option.default is option.empty}
    for option in options:
        for value in ODD:
            try:
                recipe(X, **needed | {option.name: value})
            except MarginError as error:
                assert str(error)


@pytest.mark.parametrize("weights", ["a", {}, 10**400, np.ones(3), -np.ones(12), np.full(12, np.nan)])
def test_weights_are_one_number_a_point(weights):
    with pytest.raises(DeclarationError, match=r"sample_weight.*expected \(12,\) finite weights"):
        md.recipes.tsvm(X, KNOWN, sample_weight=weights)
