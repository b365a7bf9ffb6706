"""What runs each method of a table: recipes by name, and plain baselines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import margindsl as md
from margindsl.errors import one_of
from margindsl.experiments import baselines
from margindsl.recipes.rules import STOCHASTIC_TOL
from margindsl.typing import FloatArray, IntArray

ITERATIONS = 100  # of Algorithm 1 on each set of labellings; after alternation no worse than 2000 within five seconds


@dataclass(frozen=True, eq=False)
class Task:
    """Represent what a method is given; never the true classes.

    Parameters
    ----------
    setting : mapping of str to value
        Parameters without the kernel.
    balance : float
        Bound on |Σy| as a fraction of n.
    known : (n,) int array or None
        ±1, 0 where unknown.
    """

    X: FloatArray  # (n, d)
    kernel: Any
    setting: Mapping[str, Any]
    clusters: int = 2
    seed: int = 0
    balance: float = 1.0
    known: IntArray | None = None
    must: IntArray | tuple[()] = ()  # (m, 2)
    cannot: IntArray | tuple[()] = ()  # (m, 2)

    @property
    def rng(self) -> np.random.Generator:
        """Return a fresh generator of the task's seed."""
        return np.random.default_rng(self.seed)


@dataclass(frozen=True)
class Call:
    """Represent how a method is run.

    Parameters
    ----------
    run : callable
        From a `Task` to a `Problem`, or to labels for a baseline.
    options : mapping
        Further options of `Problem.solve`.
    factored : bool
        Whether it may be given the rows of a kernel's factor as points with a linear kernel: the same inner
        products, factored once for all settings of the kernel.
    """

    run: Callable[[Task], Any]
    factored: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)


def _plain(name: str, *, balance: bool = False) -> Call:
    """Return the call of a clustering recipe whose parameters have the names of the grid."""
    def run(task: Task) -> md.Problem:
        bound = {"balance": task.balance} if balance else {}
        problem: md.Problem = getattr(md.recipes, name)(task.X, kernel=task.kernel, **bound, **task.setting)
        return problem

    return Call(run)


def _known(name: str) -> Call:
    """Return the call of a recipe that is given labels."""
    def run(task: Task) -> md.Problem:
        problem: md.Problem = getattr(md.recipes, name)(task.X, task.known, kernel=task.kernel, **task.setting)
        return problem

    return Call(run)


def _odmc(task: Task) -> md.Problem:
    problem: md.Problem = md.recipes.odmc(task.X, kernel=task.kernel, balance=task.balance, max_iter=ITERATIONS,
                                          **task.setting)
    return problem


def _ssodm(relaxation: Any) -> Call:
    """Return the call of ssODM under a relaxation."""
    def run(task: Task) -> md.Problem:
        assert task.known is not None
        problem: md.Problem = md.recipes.ssodm(task.X, task.known, kernel=task.kernel, max_iter=ITERATIONS,
                                               **task.setting)
        return problem

    return Call(run, options={"relaxation": relaxation})


def _bounded(name: str) -> Call:
    """Return the call of a recipe that bounds the sum of decision values, by the balance unless the grid says."""
    def run(task: Task) -> md.Problem:
        setting = {"l": task.balance * len(task.X), **task.setting}
        problem: md.Problem = getattr(md.recipes, name)(task.X, kernel=task.kernel, **setting)
        return problem

    return Call(run)


def _cpm3c(task: Task) -> md.Problem:
    setting = dict(task.setting)
    bound = setting.pop("l")
    problem: md.Problem = md.recipes.cpm3c(task.X, task.clusters, balance=bound, kernel=task.kernel, **setting)
    return problem


def _lapsvm(task: Task) -> md.Problem:
    """Return LapSVM with the weight of the norm that makes it an SVM of parameter C, γ_A = 1/(2 C l)."""
    assert task.known is not None
    weight = 1.0 / (2.0 * task.setting["C"] * np.count_nonzero(task.known))
    problem: md.Problem = md.recipes.lapsvm(task.X, task.known, gamma_A=weight, kernel=task.kernel)
    return problem


def _odmssc(task: Task) -> md.Problem:
    problem: md.Problem = md.recipes.odmssc(task.X, must_link=task.must, cannot_link=task.cannot, kernel=task.kernel,
                                            labels="violated", **task.setting)
    return problem


# Algorithm 1 with what hundreds of settings can afford: alternation after rounding, and no bound beyond the master's.
ROUNDED = md.Minimax(tol=STOCHASTIC_TOL, rounding=10, polish="alternate", tighten=False)

CALLS: dict[str, Call] = {
    "kmeans": Call(lambda t: baselines.kmeans(t.X, t.clusters, t.rng)),
    "spectral": Call(lambda t: baselines.spectral(t.X, t.clusters, t.setting["width"], t.rng)),
    "cop_kmeans": Call(lambda t: baselines.cop_kmeans(t.X, t.clusters, t.must, t.cannot, t.rng)),
    "pc_kmeans": Call(lambda t: baselines.pc_kmeans(t.X, t.clusters, t.must, t.cannot, t.setting["weight"], t.rng)),
    "gmmc": _bounded("gmmc"), "mmc": _plain("mmc", balance=True), "itersvr": _plain("itersvr", balance=True),
    "lgmmc": _plain("lgmmc", balance=True),
    "odmc": Call(_odmc, options={"relaxation": ROUNDED}),
    "odmc_lifted": Call(_plain("odmc", balance=True).run,
                        options={"relaxation": md.WeightLifting(rounding=10, polish="alternate")}),
    "cpmmc": _bounded("cpmmc"),
    "cpm3c": Call(_cpm3c), "skmmc": Call(_plain("skmmc").run, factored=False),
    "skmmc_v2": Call(_plain("skmmc_v2").run, factored=False), "svm": _known("svm"), "tsvm": _known("tsvm"),
    "lapsvm": Call(_lapsvm, factored=False), "usvm": _known("usvm"), "s4vm": _known("s4vm"),
    "ssodm": _ssodm(md.Minimax(rounding="sign", polish="alternate", tol=STOCHASTIC_TOL, tighten=False)),
    "ssodm_lifted": _ssodm(md.WeightLifting(rounding=10, polish="alternate")),
    "odmssc": Call(_odmssc)}


def get_call(name: str) -> Call:
    """Return the call of a name."""
    return CALLS[one_of("method", name, CALLS)]
