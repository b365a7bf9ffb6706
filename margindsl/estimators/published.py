"""The main published clusterings as estimators of their own: each is a recipe, its arguments are parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import margindsl as md
from margindsl.estimators.clusterer import Clusterer

FURTHER = """    kernel : str or kernel
        With "precomputed" X is the kernel matrix (n, n), and new points are rows (m, n) of it.
    relaxation, solver : str, object or None
        None takes the paper's.
    tol : float
    time_limit : float or None
        Seconds; the best labelling so far is returned.
    warm_start : bool or (n,) array
        Labels to begin with, of any names; True takes those of the last fit, if it had as many points.
    verbose : int, bool or None
        As of `Problem.solve`: None shows a line on a terminal, 0 nothing, 1 writes a line a round.
    random_state : int, RandomState or None

    Attributes
    ----------
    labels_, bound_, value_, gap_, margins_, solution_, problem_, coef_, intercept_
        As of `MarginClusterer`.
"""


class Published(Clusterer):
    """Represent a recipe as an estimator: what its constructor takes beside `solving` are arguments of the recipe."""

    recipe: ClassVar[str]
    solving: ClassVar[frozenset[str]] = frozenset(
        {"n_clusters", "kernel", "relaxation", "solver", "tol", "time_limit", "warm_start", "verbose", "random_state"})

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        cls.__doc__ = (cls.__doc__ or "").rstrip() + "\n" + FURTHER

    def _declare(self, X: Any, clusters: int, shared: Mapping[str, Any]) -> md.Problem:
        own = {name: getattr(self, name) for name in self._get_param_names() if name not in self.solving}
        if "n_clusters" in self._get_param_names():
            own["clusters"] = clusters
        problem: md.Problem = getattr(md.recipes, self.recipe)(X, kernel=shared["kernel"], **own)
        return problem

    def _solved_by(self, relaxation: Any, solver: Any, tol: float, time_limit: float | None, warm_start: Any,
                   verbose: Any, random_state: Any) -> None:
        self.relaxation, self.solver, self.tol, self.time_limit = relaxation, solver, tol, time_limit
        self.warm_start, self.verbose, self.random_state = warm_start, verbose, random_state


class ODMC(Published):
    """Cluster by the optimal margin distribution (Zhang and Zhou 2018), ½‖w‖² + λ mean ρ(γ); see `md.recipes.odmc`.

    Parameters
    ----------
    lam : float
        Weight λ > 0 of the mean loss.
    nu, theta : float
        Weight ν of margins above the band and its half width θ.
    balance : float or None
        |Σy| ≤ balance · n.
"""

    recipe = "odmc"

    def __init__(self, *, lam: float = 10.0, nu: float = 0.4, theta: float = 0.2, balance: float | None = 0.03,
                 kernel: Any = "linear", relaxation: Any = None, solver: Any = None, tol: float = 1e-6,
                 time_limit: float | None = None, warm_start: Any = False, verbose: Any = None,
                 random_state: Any = None) -> None:
        self.lam, self.nu, self.theta, self.balance, self.kernel = lam, nu, theta, balance, kernel
        self._solved_by(relaxation, solver, tol, time_limit, warm_start, verbose, random_state)


class CPMMC(Published):
    """Cluster by cutting planes (Zhao, Wang and Zhang 2008), ½‖w‖² + C mean (1 − |f|)₊; see `md.recipes.cpmmc`.

    Parameters
    ----------
    C : float
        Weight C > 0 of the mean loss.
    l : float or None
        |Σf| ≤ l; None takes 0.03 n.
    epsilon : float
        Relative accuracy of each step.
    outer : {"cuts", "labels"}
        The outer loop.
"""

    recipe = "cpmmc"

    def __init__(self, *, C: float = 100.0, l: float | None = None, epsilon: float = 0.01, outer: str = "cuts",
                 kernel: Any = "linear", relaxation: Any = None, solver: Any = None, tol: float = 1e-6,
                 time_limit: float | None = None, warm_start: Any = False, verbose: Any = None,
                 random_state: Any = None) -> None:
        self.C, self.l, self.epsilon, self.outer, self.kernel = C, l, epsilon, outer, kernel
        self._solved_by(relaxation, solver, tol, time_limit, warm_start, verbose, random_state)


class CPM3C(Published):
    """Cluster into k clusters by cutting planes (Zhao, Wang and Zhang 2008), ½β‖w‖² + mean (1 − γ)₊ of Crammer-Singer
    margins γ; see `md.recipes.cpm3c`.

    Parameters
    ----------
    n_clusters : int
    beta : float
        Weight β > 0 of the regulariser.
    balance : float or None
        Bound on the differences of the summed decision values; None takes 0.03 n.
    epsilon : float
        Relative accuracy of each step.
    outer : {"labels", "cuts"}
        The outer loop.
"""

    recipe = "cpm3c"

    def __init__(self, n_clusters: int = 2, *, beta: float = 0.1, balance: float | None = None, epsilon: float = 0.01,
                 outer: str = "labels", kernel: Any = "linear", relaxation: Any = None, solver: Any = None,
                 tol: float = 1e-6, time_limit: float | None = None, warm_start: Any = False, verbose: Any = None,
                 random_state: Any = None) -> None:
        self.n_clusters, self.beta, self.balance, self.epsilon = n_clusters, beta, balance, epsilon
        self.outer, self.kernel = outer, kernel
        self._solved_by(relaxation, solver, tol, time_limit, warm_start, verbose, random_state)


class LGMMC(Published):
    """Cluster by label generation (Li, Tsang, Kwok and Zhou 2009); see `md.recipes.lgmmc`.

    Parameters
    ----------
    C : float
        Weight C > 0 of the mean loss.
    balance : float
        |Σy| ≤ balance · n.
"""

    recipe = "lgmmc"

    def __init__(self, *, C: float = 10.0, balance: float = 0.03, kernel: Any = "linear", relaxation: Any = None,
                 solver: Any = None, tol: float = 1e-6, time_limit: float | None = None, warm_start: Any = False,
                 verbose: Any = None, random_state: Any = None) -> None:
        self.C, self.balance, self.kernel = C, balance, kernel
        self._solved_by(relaxation, solver, tol, time_limit, warm_start, verbose, random_state)


__all__ = ["CPM3C", "CPMMC", "LGMMC", "ODMC"]
