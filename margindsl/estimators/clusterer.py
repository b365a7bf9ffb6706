"""Clustering by a declared margin objective, as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

import margindsl as md
from margindsl.errors import ContradictionError, DeclarationError, InfeasibleError
from margindsl.estimators.base import LinearWeights, MarginEstimator, generator, mean_one, warn_early, weights_of
from margindsl.estimators.fences import Fences, margins_of
from margindsl.estimators.links import PointNames, declared_links, group_links
from margindsl.estimators.models import AUTO, bounding, cluster_codes, known_labels, make_problem
from margindsl.estimators.spatial_sign import SpatialSign
from margindsl.features.points import is_lazy
from margindsl.labelset import Names
from margindsl.runtime.options import SolveOptions
from margindsl.selection.stability import MOST
from margindsl.typing import ArrayLike, BoolArray, FloatArray, IntArray, PictureName

LINKED = 4.0  # weight of a point with a link or a known label: from 3 to 10 points without have the same mean index


class MarginClusterer(LinearWeights, ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin,
                      MarginEstimator):
    """Cluster by a margin objective: the margin distribution over a robust view, a recipe, or a declaration.

    Parameters
    ----------
    n_clusters : int or "auto"
        Number of clusters; with one every point is in cluster 0, and nothing is solved. "auto" takes the one of one to
        twelve whose clusters come again in other points: `md.select_clusters`.
    model : str, callable or None
        The name of a recipe (``"odmc"``, ``"cpmmc"``, ``"cpm3c"``, …), a function ``model(X, **parameters)`` that
        returns a `Problem`, or None: optimal margin distribution clustering, ½‖w‖² + λ (n / tr K) mean ρ(γ) with
        cluster sizes within a factor 1 − balance of n/k, by descent from the consensus of several clusterings.
    view : "auto", transformer or None
        What the model sees of the points: a transformer of scikit-learn, fitted to them; None for the points
        themselves. "auto" is `SpatialSign` for ``model=None`` unless the kernel is precomputed, None of others.
    lam : float or "auto"
        Weight λ > 0 of the mean loss: ``lam`` or ``C`` of a recipe that has such a weight, ``lam`` of a function.
        "auto" is the model's own. For ``model=None`` it is 30, measured against the trace of the centred kernel
        matrix K (`lam` = 1 where features have mean squared length one), so that units of the points do not matter.
    balance : float, None or "auto"
        In [0, 1]. Of ``model=None``: clusters are smaller or greater than n/k by the factor 1 − balance at most, for
        two clusters |Σy| ≤ balance · n, which is what recipes that bound the labels take as ``balance``. Functions get
        it under that name. Recipes that bound the decision values (``"cpmmc"``, ``"cpm3c"``, …) get
        |Σf| ≤ balance · n. "auto" is the model's own, 0.6 for ``model=None``, None where `min_size` or `max_size` is
        given; None leaves sizes free.
    min_size, max_size : int, float, sequence of k of them, or None
        Least and most points of a cluster, or of each: whole numbers from 1 count points, fractions below 1 are parts
        of n, and 1.0 alone is n. Kept exactly, beside what the model declares.
    kernel : str or kernel
        Passed to models that take ``kernel``; with "precomputed" X is the kernel matrix (n, n), and new points are
        rows (m, n) of it. "auto" is the model's own; of ``model=None`` linear from 10 columns on, RBF below.
    parameters : dict or None
        Further keyword arguments of the model. What `lam`, `balance` and `kernel` say is never dropped: a model without
        a place for it, or `parameters` that give it too, are an error.
    optimise : bool
        False: the model's own method, for ``model=None`` one descent. True: the lowest objective that can be found,
        with a certified bound; slower by orders of magnitude, and clusters of a lower objective need not be better.
    relaxation, solver : str, object or None
        As for `Problem.solve`; None takes the model's, or what `optimise` says.
    tol : float
        Relative accuracy of the fits; over 60 data sets labels of 1e-3 and of 1e-4 had the same mean index.
    time_limit : float or None
        Seconds of the fit, the view among them; the best labelling so far is returned.
    warm_start : bool or (n,) array
        Labels to begin with, of any names; True takes those of the last fit, if it had as many points.
    verbose : int, bool or None
        As of `Problem.solve`: None shows a line on a terminal, 0 nothing, 1 writes a line a round.
    random_state : int, RandomState or None

    Attributes
    ----------
    labels_ : (n,) int array
        Clusters 0..k−1, of two 0 for y = −1 and 1 for +1. Without known labels the first point is in cluster 1 of two,
        and more clusters are numbered by first appearance.
    bound_, value_, gap_ : float
        Certified lower bound (−inf when the relaxation gives none), objective, relative gap.
    margins_ : (n,) float array
    held_ : (n,) bool array
        Points whose label is not that of their decision value: sizes, links or known labels keep them. At all others
        ``predict(X)`` is `labels_`.
    outliers_ : (n,) bool array
        Points whose loss is at its cap, where the model's losses have one; otherwise those of a negative
        `score_samples`.
    left_out_ : int
        Number of links to points that were not there.
    view_ : transformer or None
    n_clusters_ : int
    stability_ : Stability or None
        Of ``n_clusters="auto"`` the table of the choice.
    solution_ : Solution
    problem_ : Problem
    n_iter_ : int
        Number of entries of the history.
    coef_, intercept_ : (1, d) or (k, d), (1,) or (k,) float arrays
        Of linear kernels: decision values are X @ coef_.T + intercept_, X the points in their view.
    feature_importances_ : (d,) float array
        Parts, of sum one, that columns have in the decision values (`margindsl.views.plots.influences`).
    n_features_in_, feature_names_in_ : int, (d,) array
        The names where X is a data frame.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[-2.0, 0], [-1.9, 1], [2.0, 0], [2.1, 1]])
    >>> labels = MarginClusterer(balance=0.0, random_state=0).fit_predict(X)
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
    True
    """

    labels_: IntArray
    margins_: FloatArray
    held_: BoolArray
    outliers_: BoolArray
    left_out_: int
    view_: Any
    n_clusters_: int
    stability_: Any
    value_: float
    bound_: float
    gap_: float

    def __init__(self, n_clusters: Any = 2, *, model: Any = None, view: Any = "auto", lam: Any = "auto",
                 balance: Any = "auto", min_size: Any = None, max_size: Any = None, kernel: Any = "auto",
                 parameters: dict[str, Any] | None = None, optimise: bool = False, relaxation: Any = None,
                 solver: Any = None, tol: float = 1e-3, time_limit: float | None = None, warm_start: Any = False,
                 verbose: Any = None, random_state: Any = None) -> None:
        self.n_clusters, self.model, self.view = n_clusters, model, view
        self.lam, self.balance, self.kernel, self.parameters = lam, balance, kernel, parameters
        self.min_size, self.max_size = min_size, max_size
        self.optimise, self.relaxation, self.solver = optimise, relaxation, solver
        self.tol, self.time_limit, self.random_state = tol, time_limit, random_state
        self.warm_start, self.verbose = warm_start, verbose

    def fit(self, X: Any, y: Any = None, *, must_link: Any = None, cannot_link: Any = None,
            labels: ArrayLike | None = None, groups: ArrayLike | None = None, names: ArrayLike | None = None,
            sample_weight: ArrayLike | None = None) -> MarginClusterer:
        """Cluster points.

        Parameters
        ----------
        X : (n, d) array, sparse matrix or DataFrame
        y : ignored
            Classes at most: of links that are given here by mistake there is an error.
        must_link, cannot_link : (m, 2) array, networkx graph or (n, n) sparse matrix, optional
            Pairs of points by name, kept exactly: labels of the index of a data frame, or `names`, or of arrays
            without them positions. A link to a point that is not here is left out with a warning, and positions are
            refused where a cross-validation has cut rows or a pipeline has lost an index.
        labels : (n,) array of whole numbers, or series, optional
            Known clusters 0..k−1, −1 or missing where unknown; kept exactly. A series is read by its index.
        groups : (n,) array or series, optional
            Keys of groups that stay together, such as a column of households; a missing key is no group.
        names : (n,) array, optional
            Names of the points, for links. Metadata routing cuts them with the rows.
        sample_weight : (n,) array, optional
            Weights of the points' losses; sizes of clusters count points. For ``model=None``, where points with a link
            or a known label count four times, and functions that take ``sample_weight``.

        Raises
        ------
        DeclarationError, ContradictionError, InfeasibleError, RefusalError
            All are `ValueError`.
        """
        if y is not None and not is_lazy(y) and np.asarray(y).ndim > 1:
            raise DeclarationError(f"fit(X, y): y is ignored, and given with shape {np.asarray(y).shape}; links go to "
                                   "must_link= and cannot_link=")
        clock = SolveOptions(time_limit=self.time_limit).budget()
        given, X = X, self._read(X, ensure_min_samples=2)
        points = PointNames(given, X.shape[0], names)
        must_link, cannot_link = points.links(must_link, "must_link"), points.links(cannot_link, "cannot_link")
        labels, groups = points.values(labels, "labels"), points.values(groups, "groups")
        self.left_out_ = points.left_out
        n, k, auto = X.shape[0], self.n_clusters, isinstance(self.n_clusters, str) and self.n_clusters == AUTO
        if not auto and (isinstance(k, bool) or not isinstance(k, Integral) or k <= 0):
            raise DeclarationError(f"n_clusters={k!r}: expected a positive integer, or 'auto'")
        if not auto and k > n:
            raise DeclarationError(f"n_samples={n} should be >= n_clusters={k}")
        weights = mean_one(weights_of(points.values(sample_weight, "sample_weight"), n))
        codes = _codes(labels, n, n if auto else int(k))
        together = [] if groups is None else [group_links(groups, n)]

        def known(y: md.Labels) -> list[Any]:
            return [*declared_links(y, must_link, cannot_link), *(md.must_link(y, pairs) for pairs in together),
                    *known_labels(y, codes)]

        self.stability_ = self._stability(X, max(1, int(codes.max(initial=-1)) + 1), known) if auto else None
        k = k if self.stability_ is None else self.stability_.clusters
        self.n_clusters_ = int(k)
        links = declared_links(md.Labels(n, clusters=max(2, int(k))), must_link, cannot_link)
        linked = np.concatenate([*(link.pairs.ravel() for link in links), *(pairs.ravel() for pairs in together),
                                 np.flatnonzero(codes >= 0)])
        if self.model is None and len(linked):
            counted = np.where(np.isin(np.arange(n), linked), LINKED, 1.0)
            weights = mean_one(counted if weights is None else counted * weights)
        low, high = (_counts(size, n, word) for size, word in (
            (self.min_size, "min_size"), (self.max_size, "max_size")))
        if not isinstance(self.optimise, (bool, np.bool_)):
            raise DeclarationError(f"optimise={self.optimise!r}: expected True or False")
        self.view_ = self._new_view()
        fewest, most = (int(np.sum(size) if np.ndim(size) else k * size) for size in (
            0 if low is None else low, n if high is None else high))
        if not fewest <= n <= most:
            raise DeclarationError(f"min_size={self.min_size}, max_size={self.max_size}: n_clusters={k} of such sizes "
                                   f"have {fewest} to {most} points, and there are {n}")
        if k == 1:
            if cannot_link is not None and len(links[-1].pairs):
                raise DeclarationError(f"n_clusters=1: given {len(links[-1].pairs)} cannot-links, which need two "
                                       "clusters; drop them, or ask for more clusters")
            self.problem_ = self.solution_ = self.view_ = None
            self.labels_, self.margins_ = np.zeros(n, dtype=int), np.zeros(n)
            self.held_ = self.outliers_ = np.zeros(n, dtype=bool)
            self.value_, self.bound_, self.gap_, self.n_iter_, self._n_features_out = 0.0, 0.0, 0.0, 1, 1
            return self
        held = is_lazy(X) and all(hasattr(chunk, "add_done_callback") for chunk in X.__dask_graph__().values())
        seen, X = X, X if self.view_ is None else _plain(self.view_.fit_transform(X))
        if X.shape[0] != n:
            raise DeclarationError(f"view={self.view!r}: gives {X.shape[0]} rows of {n} points; a view keeps them")
        X = X.persist() if held and self.view_ is not None else X  # workers that hold the points hold their view
        sized = self.min_size is not None or self.max_size is not None
        free = sized and self.model is None and isinstance(self.balance, str)
        problem = make_problem(self.model, X, int(k), self.parameters, {
            "lam": self.lam, "balance": None if free else self.balance, "kernel": self._kernel(X),
            "sample_weight": weights})
        try:
            if sized:
                problem = problem.with_constraints(md.sizes(problem.labels, at_least=low, at_most=high))
            problem = problem.with_constraints(*known(problem.labels))
            method = bounding(problem) if self.optimise and self.relaxation is None else self.relaxation
            solution = problem.solve(
                relaxation=method, solver=self.solver, tol=self.tol, warm_start=self._start(n),
                time_limit=None if self.time_limit is None else max(clock.remaining, 1e-3),
                verbose=self.verbose, random_state=generator(self.random_state))
        except InfeasibleError as error:
            if self.balance is None or free:
                raise
            raise InfeasibleError(f"{error} Sizes are limited by balance={self.balance!r} beside links and labels: "
                                  "give a greater one, or None to leave them free.") from error
        self.problem_, self.solution_ = problem, solution
        self.labels_, self.margins_ = cluster_codes(solution.labels, problem.labels.clusters), solution.margins
        self.held_ = solution.labels != Names(problem.labels.clusters).predicted(solution.decision)
        self._fences = Fences(seen, problem.labels.clusters, solution.decision, self._is_pairwise)
        scores = self._fences.placed(seen, solution.decision)
        self.outliers_ = np.isin(np.arange(n), solution.outliers) if len(solution.outliers) else scores < 0
        self.value_, self.bound_, self.gap_ = solution.value, solution.bound, solution.gap
        self.n_iter_ = max(1, len(solution.history))
        empty = np.flatnonzero(np.bincount(self.labels_, minlength=int(k)) == 0)
        if len(empty):
            warnings.warn(f"{len(empty)} of {k} clusters are empty; give min_size=1, or fewer clusters",
                          ConvergenceWarning, stacklevel=2)
        warn_early(solution)
        self._n_features_out = np.atleast_2d(solution.decision.T).shape[0]
        return self

    if TYPE_CHECKING:
        def fit_predict(self, X: Any, y: Any = None, **links: Any) -> IntArray: ...

    def predict(self, X: Any) -> IntArray:
        """Return the clusters 0..k−1 of points (m, d); constraints of the training set are not applied."""
        X = self._read(X, reset=False)
        if self.solution_ is None:
            return np.zeros(X.shape[0], dtype=int)
        return cluster_codes(self.solution_.predict(self._seen(X)), self.problem_.labels.clusters)

    def decision_function(self, X: Any) -> FloatArray:
        """Return decision values (m,) for two clusters, positive for cluster 1, or (m, k)."""
        X = self._read(X, reset=False)
        return np.zeros(X.shape[0]) if self.solution_ is None else self.solution_.decision_function(self._seen(X))

    def _new_view(self) -> Any:
        if isinstance(self.view, str) and self.view == AUTO:
            given = self._is_pairwise or isinstance(self.kernel, md.Precomputed)
            return SpatialSign() if self.model is None and not given else None
        if self.view is not None and not (hasattr(self.view, "fit_transform") and hasattr(self.view, "transform")):
            raise DeclarationError(f"view={self.view!r}: expected 'auto', None, or a transformer such as SpatialSign() "
                                   "with fit_transform and, for points to come, transform")
        return None if self.view is None else clone(self.view)

    def _stability(self, X: Any, least: int, known: Callable[[md.Labels], list[Any]]) -> md.Stability:
        """Return how stable the numbers of clusters are that known labels, links and sizes allow."""
        if self._is_pairwise or isinstance(self.kernel, md.Precomputed):
            raise DeclarationError("n_clusters='auto' looks at points, and kernel='precomputed' gives none; give a "
                                   "number")
        n = X.shape[0]
        low, high = _counts(self.min_size, n, "min_size"), _counts(self.max_size, n, "max_size")
        if np.ndim(low) or np.ndim(high):
            raise DeclarationError("n_clusters='auto': sizes are one a cluster, so that their number is known; give it")
        most = max(least, min(MOST, n // 4))
        allowed = [k for k in range(least, most + 1) if k * (low or 0) <= n <= k * (high or n) and _goes(n, k, known)]
        if not allowed:
            raise DeclarationError(f"n_clusters='auto': no number of clusters from {least} to {most} goes with "
                                   f"min_size={self.min_size!r}, max_size={self.max_size!r} and the links; give a "
                                   "number")
        return md.select_clusters(X, allowed, random_state=generator(self.random_state))

    def _seen(self, X: Any) -> Any:
        return X if self.view_ is None else _plain(self.view_.transform(X))

    def transform(self, X: Any) -> FloatArray:
        """Return decision values of points (m, d), one column for two clusters: (m, 1), or (m, k)."""
        values = self.decision_function(X)
        return values.reshape(len(values), -1)

    def score_samples(self, X: Any) -> FloatArray:
        """Return how far points (m, d) lie inside two fences of the cluster they are predicted in, negative outside.

        One is two interquartile ranges below the lower quartile of the margins in the cluster: beyond it lie points
        between clusters. The other is three above the upper quartile of distances from the cluster's mean, in units of
        the scatter within clusters: margins do not see points that are far from all. The score is the lesser of the
        two, in interquartile ranges; of Dask arrays and precomputed kernels that of margins alone.
        """
        X = self._read(X, reset=False)
        return np.zeros(X.shape[0]) if self.solution_ is None else self._fences.inside(X, self.decision_function(X))

    @property
    def feature_importances_(self) -> FloatArray:
        """Return the parts (d,) that columns of the view have in the decision values."""
        check_is_fitted(self)
        if self.solution_ is None:
            raise AttributeError("feature_importances_: with one cluster there are no decision values")
        try:
            found = md.plots.influences(self.solution_)
        except DeclarationError as error:
            raise AttributeError(f"feature_importances_: {error}") from None
        return found / (found.sum() or 1.0)

    def plot(self, kind: PictureName = "margins", ax: Any = None, **options: Any) -> Any:
        """Draw a picture of the solution, as `Solution.plot`, with the names of the columns; returns the axes."""
        check_is_fitted(self)
        if self.solution_ is None:
            raise DeclarationError(f"plot({kind!r}): with one cluster there is nothing to draw")
        if kind == "features" and self.n_features_in_ == self.problem_.hyperplane.X.shape[1]:
            options = {"names": getattr(self, "feature_names_in_", None), **options}
        return self.solution_.plot(kind, ax, **options)

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Return the opposite of the mean hinge loss (1 − γ)₊ of points in the clusters they are predicted in.

        It is at most 0, and 0 where all points lie beyond the margin: fit for comparing models of one weight, not for
        choosing the weight, since a greater one makes it greater.

        Shapes: `X` (m, d), `sample_weight` (m,).
        """
        losses = np.maximum(0.0, 1.0 - margins_of(self.decision_function(X)))
        return -float(np.average(losses, weights=mean_one(weights_of(sample_weight, len(losses)))))


def _plain(seen: Any) -> Any:
    """Return what a view gives, without the frame that `set_output` puts around it."""
    return seen.to_numpy() if hasattr(seen, "to_numpy") else seen


def _goes(n: int, k: int, known: Callable[[md.Labels], list[Any]]) -> bool:
    """Return whether k clusters can keep links and known labels."""
    if not known(y := md.Labels(n, clusters=max(2, k))):
        return True
    f = md.Hyperplane(np.zeros((n, 1)))
    objective = md.Minimize(md.sq_norm(f) / 2 + md.mean(md.odm(md.margin(y, f), 0.4, 0.2)))
    try:
        allowed = md.Problem(objective, known(y)).program().labels
        return allowed.contains(np.zeros(n)) if k == 1 else len(allowed.any_member()) == n
    except (ContradictionError, InfeasibleError):
        return False


def _counts(size: Any, n: int, word: str) -> Any:
    """Return a size in points: fractions below 1 are parts of n, rounded inwards."""
    if size is None:
        return None
    given = np.asarray(size)
    if given.dtype.kind not in "iuf" or given.ndim > 1 or not np.all(given > 0):
        raise DeclarationError(f"{word}={size!r}: expected positive numbers, whole ones in points or fractions of n")
    share = (np.ceil if word == "min_size" else np.floor)(np.round(given * n, 6))
    whole = n if given.ndim == 0 and given.dtype.kind == "f" and given == 1 else given
    return np.where(given < 1, share, whole).tolist()


def _codes(labels: ArrayLike | None, n: int, clusters: int) -> IntArray:
    if labels is None:
        return np.broadcast_to(-1, n)
    expected = f"expected ({n},) integers from -1 (unknown) to {clusters - 1}"
    codes = np.asarray(labels, dtype=object)
    codes = np.where(pd.isna(codes), -1, codes)
    if codes.shape != (n,):
        raise DeclarationError(f"fit(labels=...): given shape {codes.shape}, {expected}")
    numbers = [isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
               and -1 <= value < clusters and value == int(value) for value in codes.tolist()]
    if not all(numbers):
        row = numbers.index(False)
        raise DeclarationError(f"fit(labels=...): labels[{row}] is {codes.tolist()[row]!r}, {expected}")
    return codes.astype(int)
