"""From arguments and a CSV file to a problem in the language."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import margindsl as md
from margindsl.cli.table import NotNumericError, read_pairs, read_table
from margindsl.errors import DeclarationError
from margindsl.typing import FloatArray


def read_points(arguments: argparse.Namespace) -> tuple[FloatArray, list[str] | None]:
    """Return the scaled points (n, d), and the classes where ``--truth`` names them.

    Raises
    ------
    DeclarationError
        If a column is unknown or not numeric, or none is left.
    """
    table = read_table(arguments.data)
    truth = None if arguments.truth is None else table.column(arguments.truth)
    out = {table.column(name) for name in arguments.drop} | ({truth} if truth is not None else set())
    columns = [k for k in range(len(table.names)) if k not in out]
    if not columns:
        raise DeclarationError(f"{table.source}: no column is left as a feature")
    try:
        X = scale_columns(table.numbers(columns), arguments.scale)
    except NotNumericError as error:
        raise DeclarationError(f"{error}; leave it out with --drop {error.column}, or name it with --truth if it "
                               "holds the classes") from None
    return X, None if truth is None else table.text(truth)


def scale_columns(X: FloatArray, how: str) -> FloatArray:
    """Return the columns scaled to [0, 1] ("minmax"), to mean 0 and variance 1 ("standard"), or as given.

    Constant columns become zero.

    Examples
    --------
    >>> scale_columns(np.array([[1.0, 5.0], [3.0, 5.0]]), "minmax").tolist()
    [[0.0, 0.0], [1.0, 0.0]]
    """
    if how == "none":
        return X
    low, width = (X.min(axis=0), np.ptp(X, axis=0)) if how == "minmax" else (X.mean(axis=0), X.std(axis=0))
    # The spread of a constant column of large numbers is rounding, not zero.
    constant = width <= 1e-12 * np.maximum(1.0, np.abs(X).max(axis=0))
    return np.where(constant, 0.0, (X - low) / np.where(constant, 1.0, width))


def declare(arguments: argparse.Namespace, X: FloatArray) -> md.Problem:
    """Return the problem the arguments declare over the points.

    Raises
    ------
    MarginError
        As the language raises it.
    """
    bias: Any = {"none": False, "free": True, "penalised": "penalised"}[arguments.bias]
    labels = md.Labels(len(X))
    plane = md.Hyperplane(X, kernel=_kernel(arguments), bias=bias)
    objective = md.sq_norm(plane) / 2 + _loss(arguments, labels * plane)
    return md.Problem(md.Minimize(objective), _constraints(arguments, labels))


def _kernel(arguments: argparse.Namespace) -> Any:
    if arguments.kernel == "polynomial":
        return md.Polynomial(degree=arguments.degree)
    return md.RBF(_width(arguments.width)) if arguments.kernel == "rbf" else "linear"


def _width(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def _loss(arguments: argparse.Namespace, margins: Any) -> Any:
    lam = md.Parameter(arguments.lam, name="lam")
    if arguments.loss == "mean-variance":
        return md.mean_variance(margins, arguments.eta, lam)
    losses = {
        "odm": lambda: md.odm(margins, arguments.nu, arguments.theta),
        "hinge": lambda: md.hinge(margins),
        "squared-hinge": lambda: md.squared_hinge(margins),
        "epsilon-insensitive": lambda: md.epsilon_insensitive(margins, arguments.eps),
        "logistic": lambda: md.logistic(-margins)}
    return lam * md.mean(losses[arguments.loss]())


def _constraints(arguments: argparse.Namespace, labels: md.Labels) -> list[Any]:
    constraints: list[Any] = []
    if arguments.balance is not None:
        if not 0 <= arguments.balance <= 1:
            raise DeclarationError(f"--balance {arguments.balance:g}: expected a fraction between 0 and 1")
        constraints.append(abs(md.sum(labels)) <= arguments.balance * labels.n)
    if arguments.must_link:
        constraints.append(md.must_link(labels, read_pairs(arguments.must_link)))
    if arguments.cannot_link:
        constraints.append(md.cannot_link(labels, read_pairs(arguments.cannot_link)))
    if arguments.known:
        known = read_pairs(arguments.known)
        constraints.append(labels[known[:, 0]] == known[:, 1])
    return constraints


def solve_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options of `Problem.solve` the arguments give."""
    return {"tol": arguments.tol, "max_iter": arguments.max_iter, "time_limit": arguments.time_limit,
            "random_state": arguments.seed}
