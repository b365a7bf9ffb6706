"""How names and arguments are given up: for one minor version the old one works and says what to use instead."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def deprecated(instead: str, *, since: str, until: str) -> Callable[[F], F]:
    """Mark a function as given up: calling it warns.

    Parameters
    ----------
    instead : str
        What to use instead, as the user would write it.
    since, until : str
        The version that first warns, and the one in which the name is gone.

    Examples
    --------
    >>> import warnings
    >>> @deprecated("md.new()", since="0.3", until="0.4")
    ... def old():
    ...     return 1
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     print(old(), caught[0].message)
    1 old is deprecated since 0.3 and gone in 0.4; use md.new()
    """
    def mark(function: F) -> F:
        @functools.wraps(function)
        def warned(*args: Any, **kwargs: Any) -> Any:
            _warn(function.__name__, instead, since, until)
            return function(*args, **kwargs)

        return warned  # type: ignore[return-value]

    return mark


def renamed(old: str, new: str, *, since: str, until: str) -> Callable[[F], F]:
    """Let a function take a keyword argument under its old name, too, with a warning.

    Parameters
    ----------
    old, new : str
    since, until : str
        The version that first warns, and the one in which the old name is gone.

    Raises
    ------
    TypeError
        When called with both names.
    """
    def mark(function: F) -> F:
        @functools.wraps(function)
        def warned(*args: Any, **kwargs: Any) -> Any:
            if old in kwargs:
                if new in kwargs:
                    raise TypeError(f"{function.__name__}: {old} is the old name of {new}; give {new} alone")
                _warn(f"argument {old} of {function.__name__}", f"{new}=", since, until)
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return warned  # type: ignore[return-value]

    return mark


def _warn(what: str, instead: str, since: str, until: str) -> None:
    said = f"{what} is deprecated since {since} and gone in {until}; use {instead}"
    warnings.warn(said, DeprecationWarning, stacklevel=3)


__all__ = ["deprecated", "renamed"]
