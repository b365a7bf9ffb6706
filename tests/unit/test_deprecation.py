"""Old names warn where they are used, and work."""

import pytest

from margindsl.deprecation import deprecated, renamed


@deprecated("new(x)", since="0.3", until="0.4")
def old(x):
    """Return twice x."""
    return 2 * x


@renamed("lambda_", "lam", since="0.3", until="0.4")
def solve(X, *, lam=1.0):
    return X * lam


def test_an_old_name_works_and_says_what_to_use():
    with pytest.warns(DeprecationWarning, match=r"since 0\.3 and gone in 0\.4; use new\(x\)") as caught:
        assert old(2) == 4
    assert caught[0].filename == __file__ and old.__doc__ == "Return twice x."


def test_an_old_argument_is_the_new_one():
    with pytest.warns(DeprecationWarning, match=r"argument lambda_ of solve .* use lam="):
        assert solve(2, lambda_=3) == 6
    assert solve(2, lam=3) == 6
    with pytest.raises(TypeError, match="give lam alone"):
        solve(2, lam=3, lambda_=3)
