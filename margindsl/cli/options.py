"""Values of options: their defaults, their ranges, and the loss or kernel they belong to."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

from margindsl.errors import DeclarationError

# Option: the choice it belongs to, that choice's value, the default.
_OWNED: dict[str, tuple[str, str, Any]] = {
    "nu": ("loss", "odm", 0.4), "theta": ("loss", "odm", 0.2), "eps": ("loss", "epsilon-insensitive", 0.1),
    "eta": ("loss", "mean-variance", 1.0), "width": ("kernel", "rbf", "median"),
    "degree": ("kernel", "polynomial", 3)}

_OF_FORMULA = {"loss": "odm", "lam": 10.0, "kernel": "linear", "bias": "none", "clusters": 2}  # with defaults
_NONNEGATIVE = (lambda v: 0 <= v < math.inf, "a number of at least 0")
_RANGES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "lam": _NONNEGATIVE, "nu": _NONNEGATIVE, "eps": _NONNEGATIVE, "eta": (math.isfinite, "a finite number"),
    "theta": (lambda v: 0 <= v < 1, "0 <= theta < 1"), "degree": (lambda v: v >= 1, "a whole number of at least 1"),
    "width": (lambda v: isinstance(v, str) or 0 < v < math.inf, "a positive number, or 'median'"),
    "balance": (lambda v: 0 <= v <= 1, "a fraction between 0 and 1"),
    "clusters": (lambda v: v >= 2, "a whole number of at least 2"),
    "tol": (lambda v: 0 < v < 1, "a number between 0 and 1"),
    "max_iter": (lambda v: v >= 1, "a whole number of at least 1"),
    "time_limit": (lambda v: v > 0, "a positive number of seconds")}


def settle(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options of the loss and the kernel, defaults filled in, after checking every number."""
    for name, default in _OF_FORMULA.items():
        if arguments.recipe is not None and getattr(arguments, name) != default:
            raise DeclarationError(f"--{name} is part of a formula of one's own, and --recipe {arguments.recipe} "
                                   "has its own: give its parameters with --set")
    if arguments.set and arguments.recipe is None:
        raise DeclarationError(f"--set {arguments.set[0][0]}=... is a parameter of a recipe: add --recipe NAME")
    settled = {}
    for name, (choice, owner, default) in _OWNED.items():
        given = getattr(arguments, name)
        if given is not None and getattr(arguments, choice) != owner:
            raise DeclarationError(
                f"--{name} belongs to --{choice} {owner}, and --{choice} is {getattr(arguments, choice)}: drop it, or "
                f"add --{choice} {owner}")
        settled[name] = default if given is None else _as_number(given)
    for name in _RANGES:
        value = settled[name] if name in settled else getattr(arguments, name, None)
        if value is not None:
            _check_range(name, value)
    return settled


def _check_range(name: str, value: Any) -> None:
    holds, expected = _RANGES[name]
    if not holds(value):
        raise DeclarationError(f"--{name.replace('_', '-')} {value:g}: expected {expected}")


def _as_number(given: Any) -> Any:
    """Return a width as a number, where it is one."""
    try:
        return float(given) if isinstance(given, str) else given
    except ValueError:
        return given
