"""From arguments and a file of points to a problem in the language."""

from __future__ import annotations

import argparse
import inspect
import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

import margindsl as md
from margindsl.cli.files import (
    LABEL,
    column,
    column_words,
    columns,
    doubtful,
    filled,
    fills,
    lost,
    numbers,
    one_hot,
    read_frame,
    read_kinds,
    read_known,
    read_links,
)
from margindsl.errors import DeclarationError, UnknownNameError, one_of
from margindsl.typing import FloatArray, IntArray

# Option: the choice it belongs to, that choice's value, the default.
OWNED: dict[str, tuple[str, str, Any]] = {
    "nu": ("loss", "odm", 0.4), "theta": ("loss", "odm", 0.2), "eps": ("loss", "epsilon-insensitive", 0.1),
    "eta": ("loss", "mean-variance", 1.0), "width": ("kernel", "rbf", "median"), "degree": ("kernel", "polynomial", 3)}
OF_FORMULA = {"loss": "odm", "lam": 10.0, "kernel": "linear", "bias": "none", "clusters": 2}  # with defaults


def read_points(arguments: argparse.Namespace) -> tuple[Any, list[str] | None]:
    """Return the scaled points (n, d), and the classes where ``--truth`` names them.

    Names of the points that ``--index`` gives, and keys of ``--group``, are put into the arguments.
    """
    source = arguments.data
    frame = arguments.frame = read_frame(source)
    truth, index, group = (None if (name := getattr(arguments, word, None)) is None else column(frame, name, source)
                           for word in ("truth", "index", "group"))
    out = {*columns(frame, arguments.drop, source), truth, index, group}
    if LABEL in frame and pd.api.types.is_numeric_dtype(frame.dtypes.iloc[0]):  # classes beside an array
        out.add(column(frame, LABEL, source))
    wanted = columns(frame, arguments.columns, source) or range(frame.shape[1])
    features = frame.iloc[:, [k for k in wanted if k not in out]]
    if features.shape[1] == 0:
        raise DeclarationError(f"{source}: no column is left as a feature")
    if len(frame) < 2:
        raise DeclarationError(f"{source} has one point; at least two are needed")
    arguments.names = None if index is None else column_words(frame, index, source)
    if arguments.names is not None and len(set(arguments.names)) < len(frame):
        twice = next(name for name in arguments.names if arguments.names.count(name) > 1)
        raise DeclarationError(f"--index {arguments.index}: {twice!r} names several rows of {source}; give a column of "
                               "different names")
    keys = None if group is None else frame.iloc[:, group].astype(str).str.strip()
    arguments.keys = None if keys is None else keys.mask(lost(keys), None).to_numpy()
    for name, what, advice in [] if arguments.columns else doubtful(features):
        print(f"margindsl: warning: column {name!r} {what} and is used as a feature; {advice}", file=sys.stderr)
    X = points_of_columns(features, arguments, source, list(frame.columns))
    return X, None if truth is None else column_words(frame, truth, source)


def points_of_columns(features: pd.DataFrame, arguments: argparse.Namespace, source: str, known: Sequence[str]) -> Any:
    """Return the points of a table of features; sparse ones stay so. What was done is put into the arguments."""
    table = arguments.table = {"given": list(features.columns)}
    if all(isinstance(kind, pd.SparseDtype) for kind in features.dtypes):
        if arguments.scale != "none":
            raise DeclarationError(f"--scale {arguments.scale}: {source} is sparse, and scaling would fill it; leave "
                                   "it out")
        return features.sparse.to_coo().tocsr()
    if arguments.missing != "error":
        table["fill"] = fills(features, arguments.missing)
        features = filled(features, table["fill"])
    if arguments.one_hot:
        features = one_hot(features)
    table["columns"] = list(features.columns)
    X = numbers(features, source, known)
    table["scale"] = None if arguments.scale == "none" else [part.tolist() for part in scales(X, arguments.scale)]
    return scaled(X, table["scale"])


def points_like(frame: pd.DataFrame, table: dict[str, Any], source: str) -> Any:
    """Return the points of a new table, read as the one was that a model learned from."""
    if "columns" not in table:
        sparse = frame.reindex(columns=table["given"], fill_value=0.0).astype(pd.SparseDtype(float, 0.0))
        return sparse.sparse.to_coo().tocsr()
    features = frame.iloc[:, [column(frame, name, source) for name in table["given"]]].set_axis(table["given"], axis=1)
    features = filled(features, table.get("fill", {}))
    words = [name for name in table["given"] if name not in table["columns"]]
    for name in words:
        new = set(column_words(features, table["given"].index(name), source)) - {
            known.removeprefix(f"{name}=") for known in table["columns"]}
        if new:
            print(f"margindsl: warning: column {name!r} of {source} holds {min(new)!r}, which the model does not know; "
                  "it counts as none of its words", file=sys.stderr)
    if words:
        features = pd.get_dummies(features, columns=words, prefix_sep="=", dtype=float).reindex(
            columns=table["columns"], fill_value=0.0)
    return scaled(numbers(features, source, advice="; cluster --missing median makes models that fill what is missing"),
                  table["scale"])


def scales(X: FloatArray, how: str) -> tuple[FloatArray, FloatArray]:
    """Return what is subtracted of each column and what it is divided by, infinity for constant ones.

    "minmax" scales to [0, 1], "standard" to mean 0 and variance 1.
    """
    low, width = (X.min(axis=0), np.ptp(X, axis=0)) if how == "minmax" else (X.mean(axis=0), X.std(axis=0))
    # The spread of a constant column of large numbers is rounding, not zero.
    return low, np.where(width <= 1e-12 * np.abs(X).max(axis=0), np.inf, width)


def scaled(X: FloatArray, by: Any) -> FloatArray:
    """Return the columns less the first row of `by`, divided by the second, or as they are where it is None."""
    return X if by is None else (X - np.asarray(by[0])) / np.asarray(by[1])


def declare(arguments: argparse.Namespace, X: FloatArray) -> md.Problem:
    """Return the problem the arguments declare over the points."""
    for name, default in OF_FORMULA.items():
        if arguments.recipe is not None and getattr(arguments, name) != default:
            raise DeclarationError(f"--{name} is part of a formula of one's own, and --recipe {arguments.recipe} "
                                   "has its own: give its parameters with --set")
    if arguments.set and arguments.recipe is None:
        raise DeclarationError(f"--set {arguments.set[0][0]}=... is a parameter of a recipe: add --recipe NAME")
    own = {}
    for name, (choice, owner, default) in OWNED.items():
        given = getattr(arguments, name)
        if given is not None and getattr(arguments, choice) != owner:
            raise DeclarationError(
                f"--{name} belongs to --{choice} {owner}, and --{choice} is {getattr(arguments, choice)}: drop it, or "
                f"add --{choice} {owner}")
        own[name] = default if given is None else given
    if arguments.recipe is not None:
        problem = by_recipe(arguments.recipe, X, dict(arguments.set))
    else:
        bias: Any = {"none": False, "free": True, "penalised": "penalised"}[arguments.bias]
        kernel: Any = {"rbf": lambda: md.RBF(own["width"]), "polynomial": lambda: md.Polynomial(degree=own["degree"])
                       }.get(arguments.kernel, lambda: arguments.kernel)()
        y, f = md.Labels(X.shape[0], arguments.clusters), md.Hyperplane(X, kernel=kernel, bias=bias)
        g, lam = md.margin(y, f), md.Parameter(arguments.lam, name="lam")
        loss = {"odm": lambda: lam * md.mean(md.odm(g, own["nu"], own["theta"])),
                "hinge": lambda: lam * md.mean(md.hinge(g)),
                "squared-hinge": lambda: lam * md.mean(md.squared_hinge(g)),
                "epsilon-insensitive": lambda: lam * md.mean(md.epsilon_insensitive(g, own["eps"])),
                "logistic": lambda: lam * md.mean(md.logistic(-g)),
                "mean-variance": lambda: md.mean_variance(g, own["eta"], lam)}[arguments.loss]()
        problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + loss))
    labels = problem.labels
    constraints: list[Any] = []
    if arguments.balance is not None:
        # Sizes within a fraction of equal ones; of two clusters, |sum of labels| ≤ fraction n.
        equal, slack = labels.n / labels.clusters, 1e-9
        low = math.ceil(equal * (1 - arguments.balance) - slack)
        high = int(equal * (1 + arguments.balance) + slack)
        if low > high:
            raise DeclarationError(
                f"--balance {arguments.balance:g}: {labels.n} points cannot be split so evenly into {labels.clusters} "
                f"clusters; give at least {1 - (labels.n // labels.clusters) / equal:.3g}")
        constraints.append(md.sizes(labels, low, high))
    must, cannot = links_of(arguments, labels.n)
    constraints += [declare(labels, pairs) for declare, pairs in ((md.must_link, must), (md.cannot_link, cannot))
                    if len(pairs)]
    if arguments.known is not None:
        index, values = read_known(arguments.known, labels.n, labels.clusters, labels.clusters == 2, arguments.names)
        constraints.append(labels[index] == values)
    return problem.with_constraints(*constraints)


def links_of(arguments: argparse.Namespace, n: int) -> tuple[IntArray, IntArray]:
    """Return the must-links and cannot-links of all files that name some, as pairs of row numbers."""
    must, cannot = ([] if path is None else [read_links(path, n, arguments.names)]
                    for path in (arguments.must_link, arguments.cannot_link))
    if arguments.links is not None:
        for kept, pairs in zip((must, cannot), read_kinds(arguments.links, n, arguments.names)):
            kept.append(pairs)
    return np.concatenate([np.zeros((0, 2), int), *must]), np.concatenate([np.zeros((0, 2), int), *cannot])


def by_recipe(name: str, X: FloatArray, parameters: dict[str, Any]) -> md.Problem:
    """Return the problem that a published method declares over the points."""
    recipe = getattr(md.recipes, one_of("recipe", name, md.recipes.names()))
    known = dict(list(inspect.signature(recipe).parameters.items())[1:])
    for key in parameters:
        if key not in known:
            raise UnknownNameError(f"parameter of recipe {name!r}", key, known)
    missing = [key for key, one in known.items() if one.default is one.empty and key not in parameters
               and one.kind is not one.VAR_KEYWORD]
    if missing:
        raise DeclarationError(f"recipe {name!r} needs {', '.join(missing)}: give --set {missing[0]}=VALUE, or use it "
                               f"from Python, md.recipes.{name}")
    problem = recipe(X, **parameters)
    if not isinstance(problem, md.Problem):
        raise DeclarationError(f"recipe {name!r} returns no problem to be solved here; use it from Python, "
                               f"md.recipes.{name}")
    return problem


def solve_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options of `Problem.solve` the arguments give."""
    return {"tol": arguments.tol, "max_iter": arguments.max_iter, "time_limit": arguments.time_limit,
            "random_state": arguments.seed, "verbose": 0 if arguments.quiet else 1 if arguments.verbose else None}
