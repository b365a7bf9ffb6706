"""What runs each method of a table: recipes by name, and plain baselines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import baselines
import numpy as np

import margindsl as md
from margindsl.recipes.recipe import STOCHASTIC_TOL

ITERATIONS = 100  # of Algorithm 1 on each set of labellings; after alternation no worse than 2000 within five seconds
# Algorithm 1 with what hundreds of settings can afford: alternation after rounding, and no bound beyond the master's.
ROUNDED = md.Minimax(tol=STOCHASTIC_TOL, rounding=10, polish="alternate", tighten=False)
SIGNED = md.Minimax(tol=STOCHASTIC_TOL, rounding="sign", polish="alternate", tighten=False)
PLAIN = md.SDP(cuts="none")  # cuts close the bound; of 700 points they leave no time for labels
LIFTED = md.WeightLifting(rounding=10, polish="alternate")


@dataclass(frozen=True, eq=False)
class Task:
    """Represent what a method is given; never the true classes."""

    X: np.ndarray  # (n, d)
    kernel: Any
    setting: Mapping[str, Any]  # without the kernel
    clusters: int = 2
    seed: int = 0
    balance: float = 1.0  # bound on |Σy| as a fraction of n
    known: np.ndarray | None = None  # (n,) ±1, 0 where unknown
    must: Any = ()
    cannot: Any = ()

    @property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)


def _recipe(name: str, **more: Callable[[Task], Any]) -> Callable[[Task], md.Problem]:
    """Return what declares a recipe with the grid's parameters and what else it takes from the task."""
    def run(task: Task) -> md.Problem:
        given = {key: read(task) for key, read in more.items()}
        return getattr(md.recipes, name)(task.X, kernel=task.kernel, **{**given, **task.setting})

    return run


BALANCE: dict[str, Callable[[Task], Any]] = {"balance": lambda t: t.balance}  # of labels
BOUND: dict[str, Callable[[Task], Any]] = {"l": lambda t: t.balance * len(t.X)}  # of decision values
KNOWN: dict[str, Callable[[Task], Any]] = {"y": lambda t: t.known}
STEPS: dict[str, Callable[[Task], Any]] = {"sampling": lambda t: "labels", "max_iter": lambda t: ITERATIONS}


def _cpm3c(task: Task) -> md.Problem:
    setting = dict(task.setting)
    return md.recipes.cpm3c(task.X, task.clusters, balance=setting.pop("l"), kernel=task.kernel, **setting)


def _mmc(task: Task) -> md.Problem:
    return md.recipes.mmc(task.X, task.clusters, balance=0.3, kernel=task.kernel, **task.setting)


def _lapsvm(task: Task) -> md.Problem:
    """Return LapSVM with the weight of the norm that makes it an SVM of parameter C, γ_A = 1/(2 C l)."""
    weight = 1.0 / (2.0 * task.setting["C"] * np.count_nonzero(task.known))
    return md.recipes.lapsvm(task.X, task.known, gamma_A=weight, kernel=task.kernel)


def _weighted(function: Callable[..., Any], **more: bool) -> Callable[[Task], Any]:
    """Return what clusters under links of a weight that the grid gives."""
    return lambda t: function(t.X, t.clusters, t.must, t.cannot, t.setting["weight"], t.rng, **more)


# From a task to a problem, or to the labels of a baseline; the relaxation, where it is not the recipe's.
CALLS: dict[str, tuple[Callable[[Task], Any], Any]] = {
    "kmeans": (lambda t: baselines.kmeans(t.X, t.clusters, t.rng), None),
    "spectral": (lambda t: baselines.spectral(t.X, t.clusters, t.setting["width"], t.rng), None),
    "cop_kmeans": (lambda t: baselines.cop_kmeans(t.X, t.clusters, t.must, t.cannot, t.rng), None),
    "lcvqe": (lambda t: baselines.lcvqe(t.X, t.clusters, t.must, t.cannot, t.rng), None),
    **{name: (_weighted(function, **more), None) for name, function, more in (
        ("pc_kmeans", baselines.pc_kmeans, {}), ("mpc_kmeans", baselines.mpc_kmeans, {}), ("dcc", baselines.dcc, {}),
        ("mk_means", baselines.mpc_kmeans, {"full": True, "penalties": False}))},
    **{name: (_recipe(name, **BALANCE), None) for name in ("mmc", "itersvr", "lgmmc")},
    **{name: (_recipe(name, **BOUND), None) for name in ("gmmc", "cpmmc")},
    **{name: (_recipe(name), None) for name in ("skmmc", "skmmc_v2")},
    **{name: (_recipe(name, **KNOWN), None) for name in ("svm", "tsvm", "usvm", "s4vm")},
    "cpm3c": (_cpm3c, None), "mmc_of_clusters": (_mmc, PLAIN), "lapsvm": (_lapsvm, None),
    "odmc": (_recipe("odmc", **BALANCE, **STEPS), ROUNDED), "odmc_lifted": (_recipe("odmc", **BALANCE), LIFTED),
    "ssodm": (_recipe("ssodm", **KNOWN, **STEPS), SIGNED), "ssodm_lifted": (_recipe("ssodm", **KNOWN, **STEPS), LIFTED),
    "odmssc": (_recipe("odmssc", must_link=lambda t: t.must, cannot_link=lambda t: t.cannot,
                       labels=lambda t: "violated"), None)}
# These need the points themselves; others take the rows of a kernel's factor, made once for all settings of the kernel.
OF_POINTS = ("skmmc", "skmmc_v2", "lapsvm")
