"""The declarations behind the estimators: optimal margin distribution for k clusters, and recipes by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import margindsl as md
from margindsl.errors import DeclarationError, UnknownNameError
from margindsl.typing import IntArray


def optimal_margin(X: Any, clusters: int = 2, *, lam: float = 10.0, nu: float = 0.4, theta: float = 0.2,
                   balance: float | None = 0.5, kernel: Any = "linear") -> md.Problem:
    """Declare optimal-margin-distribution clustering into k clusters.

    minimise ½‖w‖² + λ mean ρ(γ), ρ the loss of `md.odm`, cluster sizes within (1 ± balance) n/k; simplex-coded
    margins for more than two clusters, which are convex in the weights for every loss.

    Parameters
    ----------
    X : (n, d) array or sparse matrix
    clusters : int
    lam : float
        Weight λ > 0 of the losses.
    nu, theta : float
        Weight ν of margins above the band and its half width θ.
    balance : float or None
        Relative deviation of cluster sizes from n/k, in [0, 1]; None leaves sizes free.
    kernel : str or kernel

    Returns
    -------
    Problem
    """
    n = X.shape[0]
    y = md.Labels(n, clusters=clusters)
    f = md.Hyperplane(X, kernel=kernel)
    objective = md.Minimize(md.sq_norm(f) / 2 + lam * md.mean(md.odm(md.margin(y, f, coding="simplex"), nu, theta)))
    # many clusters have many poor local minima; growing the loss weight avoids most of them
    relaxation = md.Alternating(restarts=6, continuation=3, continuation_start=0.03) if clusters > 2 else None
    return md.Problem(objective, size_bounds(y, balance), relaxation=relaxation)


def size_bounds(labels: Any, balance: float | None) -> list[Any]:
    """Return the constraint that cluster sizes lie within (1 ± balance) n/k, rounded so that it can be met.

    Raises
    ------
    DeclarationError
        If balance is neither None nor a number in [0, 1].
    """
    if balance is None:
        return []
    if isinstance(balance, bool) or not isinstance(balance, (int, float, np.number)) or not 0 <= balance <= 1:
        raise DeclarationError(f"balance={balance!r}: expected None or a number between 0 and 1")
    share = labels.n / labels.clusters
    least, most = int(np.floor((1 - balance) * share)), int(np.ceil((1 + balance) * share))
    return [md.sizes(labels, at_least=max(1, least), at_most=min(labels.n, most))]


def make_problem(model: str | Callable[..., md.Problem] | None, X: Any, clusters: int, parameters: Mapping[str, Any],
                 shared: Mapping[str, Any]) -> md.Problem:
    """Return the problem of a model over points X.

    Parameters
    ----------
    model : str, callable or None
        A recipe by name, a function ``model(X, **parameters) -> Problem``, or None for `optimal_margin`.
    X : (n, d) array or sparse matrix
    clusters : int
        Passed on as ``clusters`` where the model takes it.
    parameters : mapping
        Keyword arguments of the model.
    shared : mapping
        Further keyword arguments, passed on where the model takes them.

    Raises
    ------
    UnknownNameError
        If there is no such recipe, or the model has no such parameter.
    DeclarationError
        If the model is for two clusters and more are asked for, needs labels that are not given, or returns something
        else than a problem.
    """
    function = _function(model)
    known = inspect.signature(function).parameters
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in known.values())
    for key in parameters:
        if key not in known and not takes_any:
            raise UnknownNameError(f"parameter of model {_name(function)!r}", key, [k for k in known if k != "X"])
    arguments = {k: v for k, v in shared.items() if k in known} | dict(parameters)
    if "clusters" in known:
        arguments.setdefault("clusters", clusters)
    elif clusters != 2 and isinstance(model, str):
        raise DeclarationError(
            f"n_clusters={clusters}: recipe {model!r} makes two clusters; use model=None or model='cpm3c'")
    if known.get("y") is not None and known["y"].default is inspect.Parameter.empty and "y" not in arguments:
        raise DeclarationError(
            f"model {_name(function)!r} needs labels y: give parameters={{'y': ...}}, +1, -1 and 0 where unknown, or "
            "use ODMClassifier or SemiSupervisedODM")
    problem = function(X, **arguments)
    if not isinstance(problem, md.Problem):
        raise DeclarationError(f"model {_name(function)!r} returned {type(problem).__name__}, expected md.Problem")
    return problem


def _function(model: Any) -> Callable[..., md.Problem]:
    if model is None:
        return optimal_margin
    if isinstance(model, str):
        if model not in md.recipes.__all__:
            raise UnknownNameError("recipe", model, md.recipes.__all__)
        return getattr(md.recipes, model)
    if not callable(model):
        raise DeclarationError(f"model={model!r}: expected the name of a recipe, a function of X, or None")
    return model


def _name(function: Any) -> str:
    return getattr(function, "__name__", type(function).__name__)


def known_labels(labels: Any, codes: IntArray) -> list[Any]:
    """Return the constraint that points with a code of at least 0 lie in that cluster.

    Parameters
    ----------
    labels : Labels
    codes : (n,) int array
        Clusters 0..k−1, −1 where unknown.
    """
    index = np.flatnonzero(codes >= 0)
    if not len(index):
        return []
    values = 2 * codes[index] - 1 if labels.clusters == 2 else codes[index]
    return [labels[index] == values]


def cluster_codes(labels: IntArray, clusters: int) -> IntArray:
    """Return clusters 0..k−1 of labels in the library's coding: signs for two clusters."""
    return (labels + 1) // 2 if clusters == 2 else np.asarray(labels)
