"""The declarations behind the estimators: maximum margin clustering into k clusters, and recipes by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

import margindsl as md
from margindsl.errors import DeclarationError, UnknownNameError, one_of
from margindsl.features import Precomputed, build, mean_distance
from margindsl.features.points import is_lazy, map_chunks
from margindsl.labelset import Names
from margindsl.recipes.recipe import Traits, traits_of
from margindsl.relaxations.relaxation import Relaxation
from margindsl.runtime.problem import choose_relaxation
from margindsl.typing import FloatArray, IntArray

AUTO = "auto"
DEFAULTS = {"lam": AUTO, "balance": AUTO, "kernel": AUTO, "sample_weight": None}
FUNCTION = Traits(weight="lam", label_share="balance", label_free=True)
MEASURED = 1000  # points whose features are measured
LINEAR = 10  # columns from which hyperplanes part several clusters; tuned on blobs of 1 to 8 columns and 60 data sets
LANDMARKS = 50  # features that stand for an RBF kernel in few dimensions


def margin_distribution(X: Any, clusters: int = 2, *, lam: float | md.Parameter = 30.0, balance: float | None = 0.6,
                        kernel: Any = AUTO, sample_weight: FloatArray | None = None) -> md.Problem:
    """Declare clustering by the margin distribution into k clusters, with a weight that knows no units.

    minimise ½‖w‖² + λ (n / tr K) mean ρ(γ), ρ the loss of `md.odm` with ν = .4 and θ = .2, K the centred kernel
    matrix: multiples of the points or of the kernel leave the problem as it is. Cluster sizes lie between
    (1 − balance) n/k and n/k / (1 − balance); margins of more than two clusters are Crammer-Singer's: over 22 sets of
    three to ten classes their mean adjusted Rand index was .79, simplex-coded ones' .76, in half the time.

    Parameters
    ----------
    lam : float or Parameter
        λ > 0. From 10 to 100 the mean agreement with classes is the same to .01, over 60 data sets.
    balance : float or None
        In [0, 1]: clusters are smaller or greater than n/k by the factor 1 − balance at most; None leaves sizes free.
    kernel : str or kernel
        "auto": linear from 10 columns on. In fewer dimensions k hyperplanes through one point part few clusters, and
        an RBF kernel of about half the scatter of the points does.
    sample_weight : (n,) array or None
        Weights of the losses, of mean one.

    Returns
    -------
    Problem
        Default relaxation "alternating" from the consensus of several clusterings.

    References
    ----------
    T. Zhang, Z.-H. Zhou (2018). Optimal margin distribution clustering, Eq. 2: two clusters.
    """
    if isinstance(kernel, str) and kernel == AUTO:
        kernel = "linear" if X.shape[1] >= LINEAR else md.RBF(0.35 * mean_distance, rank=LANDMARKS)
    y = md.Labels(X.shape[0], clusters=clusters)
    f = md.Hyperplane(X, kernel=kernel)
    loss = md.odm(md.margin(y, f), 0.4, 0.2)
    mean = md.mean(loss if sample_weight is None else sample_weight * loss)
    objective = md.Minimize(md.sq_norm(f) / 2 + lam / mean_length(X, kernel) * mean)
    method = md.Alternating(restarts=1, start="consensus", polish="none")
    return md.Problem(objective, size_bounds(y, balance), relaxation=method)


def mean_length(X: Any, kernel: Any = "linear") -> float:
    """Return tr(K)/n of a centred kernel, of a sample of the points where there are many; one where all are alike."""
    n = X.shape[0]
    drawn = np.sort(np.random.default_rng(0).choice(n, min(n, MEASURED), replace=False))
    given = isinstance(kernel, Precomputed)
    part = Precomputed(np.asarray(kernel.K)[np.ix_(drawn, drawn)], repair=kernel.repair) if given else kernel
    points = None if given else X[drawn].compute() if is_lazy(X) else X[drawn]
    return build(points, part).trace / len(drawn) or 1.0


def bounding(problem: md.Problem) -> Relaxation:
    """Return the relaxation that finds the lowest objective of a problem and bounds it."""
    chosen = choose_relaxation(problem.program())
    return md.WeightLifting() if chosen.bound == "none" else chosen


def size_bounds(labels: Any, balance: float | None) -> list[Any]:
    """Return the constraint that sizes lie within a factor 1 − balance of n/k, rounded so that it can be met."""
    check_balance(balance)
    if balance is None:
        return []
    share = labels.n / labels.clusters
    least = max(1, int((1 - balance) * share))
    most = labels.n if balance == 1 else min(labels.n, int(np.ceil(share / (1 - balance))))
    return [md.sizes(labels, at_least=least, at_most=most)]


def check_balance(balance: Any) -> None:
    """Raise unless a balance is None or a number in [0, 1]."""
    is_number = isinstance(balance, (int, float, np.number)) and not isinstance(balance, bool)
    if balance is not None and not (is_number and 0 <= balance <= 1):
        raise DeclarationError(f"balance={balance!r}: expected None or a number between 0 and 1")


def make_problem(model: str | Callable[..., md.Problem] | None, X: Any, clusters: int,
                 parameters: Mapping[str, Any] | None, shared: Mapping[str, Any]) -> md.Problem:
    """Return the problem of a model over points X (n, d): a recipe by name, a function, or `margin_distribution`.

    `shared` is the estimator's own `lam`, `balance`, `kernel` and `sample_weight`. Recipes take them as their `Traits`
    say, other functions under these names; what a model has no argument for is an error, never dropped.
    """
    if model is not None and not isinstance(model, str) and not callable(model):
        raise DeclarationError(f"model={model!r}: expected the name of a recipe, a function of X, or None")
    function: Any = margin_distribution if model is None else model
    if isinstance(model, str):
        function = getattr(md.recipes, one_of("recipe", model, md.recipes.names()))
    name, known = _name(function), inspect.signature(function).parameters
    further = check_parameters(function, parameters)
    traits = traits_of(function, FUNCTION)
    under = {"lam": traits.weight, "balance": traits.label_share or traits.decision_sum}
    lam, balance = shared["lam"], shared["balance"]
    is_number = isinstance(lam, (int, float, np.number)) and not isinstance(lam, bool)
    if not (isinstance(lam, md.Parameter) or _is(lam, AUTO) or (is_number and 0 < lam < float("inf"))):
        raise DeclarationError(f"lam={lam!r}: expected 'auto' or a positive number")
    arguments: dict[str, Any] = {}
    for key, value in shared.items():
        argument = under.get(key, key)
        if _is(value, DEFAULTS[key]):
            continue
        if argument and _takes(function, argument) and argument not in further:
            arguments[argument] = value
        elif not _is(value, DEFAULTS[key]):
            shown = key if np.ndim(value) else f"{key}={value!r}"
            reason = (f"parameters give {argument!r} too" if argument in further else
                      f"model {name!r} has no such argument; its own go through parameters")
            raise DeclarationError(f"{shown}: {reason}; leave {key}={DEFAULTS[key]!r}")
    if traits is not FUNCTION and under["balance"] in arguments:
        if balance is None and not traits.label_free:
            raise DeclarationError(f"balance=None: model {name!r} does not go without; leave balance='auto', or give "
                                   "a number between 0 and 1")
        check_balance(balance)
        arguments[under["balance"]] = balance if traits.label_share else balance * X.shape[0]
    arguments |= further
    if "clusters" in known:
        arguments.setdefault("clusters", clusters)
    if "y" in known and known["y"].default is inspect.Parameter.empty and "y" not in arguments:
        raise DeclarationError(f"model {name!r} needs labels y: give parameters={{'y': ...}}, +1, -1 and 0 where "
                               "unknown, or use ODMClassifier or SemiSupervisedODM")
    problem = function(X, **arguments)
    if not isinstance(problem, md.Problem):
        raise DeclarationError(f"model {name!r} returned {type(problem).__name__}, expected md.Problem")
    if problem.labels.n != X.shape[0]:
        raise DeclarationError(f"model {name!r} returned a problem of {problem.labels.n} points, X has {X.shape[0]}")
    if problem.labels.clusters != clusters:
        raise DeclarationError(f"model {name!r} returned a problem of {problem.labels.clusters} clusters, "
                               f"n_clusters={clusters} asks for another number; give both the same, or model=None")
    return problem


def check_parameters(function: Callable[..., Any], parameters: Any, own: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the further keyword arguments of a model, None being none; `own` are those the estimator gives."""
    if parameters is None:
        return {}
    if not isinstance(parameters, Mapping):
        raise DeclarationError(f"parameters={parameters!r}: expected None or a dict of keyword arguments of the model")
    for key in parameters:
        if key in own:
            raise DeclarationError(f"parameters={{{key!r}: ...}}: {key} is an argument of the estimator; give it there")
        if not _takes(function, key):
            raise UnknownNameError(f"parameter of model {_name(function)!r}", key,
                                   [k for k in inspect.signature(function).parameters if k not in ("X", *own)])
    return dict(parameters)


def _takes(function: Callable[..., Any], name: str) -> bool:
    known = inspect.signature(function).parameters
    return name in known or any(p.kind is inspect.Parameter.VAR_KEYWORD for p in known.values())


def _is(value: Any, default: Any) -> bool:
    return value is None if default is None else isinstance(value, str) and value == default


def _name(function: Any) -> str:
    return getattr(function, "__name__", type(function).__name__)


def known_labels(labels: Any, codes: IntArray) -> list[Any]:
    """Return the constraint that points lie in the clusters 0..k−1 of their codes (n,), −1 where unknown."""
    index = np.flatnonzero(codes >= 0)
    if not len(index):
        return []
    return [labels[index] == labels.names.written(codes[index])]


def cluster_codes(labels: IntArray, clusters: int) -> IntArray:
    """Return clusters 0..k−1 of labels in the library's coding: signs for two clusters."""
    if is_lazy(labels):
        return map_chunks(partial(cluster_codes, clusters=clusters), labels, (), int)
    return Names(clusters).read(labels)
