"""Maximum margin embedding as a scikit-learn transformer."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

import margindsl as md
from margindsl.errors import DeclarationError
from margindsl.estimators.base import MarginEstimator, generator, warn_early
from margindsl.estimators.models import check_parameters
from margindsl.typing import FloatArray


class MaximumMarginEmbedding(ClassNamePrefixFeaturesOutMixin, TransformerMixin, MarginEstimator):
    """Embed by successive orthogonal hyperplanes of maximum margin (MME, slides Eq. 23).

    Parameters
    ----------
    n_components : int
        Number of directions, at most the rank of the features.
    C : float
        Weight of the hinge losses.
    kernel : str or kernel
    parameters : dict or None
        Further keyword arguments of the recipe `md.recipes.mme`.
    relaxation, solver : str, object or None
        None takes the recipe's.
    tol : float
    time_limit : float or None
        Seconds a direction.
    verbose : int, bool or None
        As of `Problem.solve`: None shows a line on a terminal, 0 nothing, 1 writes a line a round.
    random_state : int, RandomState or None

    Attributes
    ----------
    solutions_ : list of Solution
        One a direction; their weights are orthogonal.
    embedding_ : (n, n_components) float array
    n_features_in_ : int

    References
    ----------
    B. Zhao, F. Wang, C. Zhang (2008). Maximum margin embedding.
    """

    solutions_: list[Any]

    def __init__(self, n_components: int = 2, *, C: float = 1.0, kernel: Any = "linear",
                 parameters: dict[str, Any] | None = None, relaxation: Any = None, solver: Any = None,
                 tol: float = 1e-6, time_limit: float | None = None, verbose: Any = None,
                 random_state: Any = None) -> None:
        self.n_components, self.C, self.kernel, self.parameters = n_components, C, kernel, parameters
        self.relaxation, self.solver, self.tol = relaxation, solver, tol
        self.time_limit, self.verbose, self.random_state = time_limit, verbose, random_state

    def fit(self, X: Any, y: Any = None) -> MaximumMarginEmbedding:
        """Find the directions of points (n, d); y is ignored.

        Raises
        ------
        DeclarationError
            If n_components is not a positive integer, or exceeds what the features span, or parameters are no dict.
        UnknownNameError
            If the recipe has no such parameter.
        """
        count = self.n_components
        if isinstance(count, bool) or not isinstance(count, Integral) or count < 1:
            raise DeclarationError(f"n_components={count!r}: expected a positive integer")
        X = self._read(X, ensure_min_samples=2)
        further = check_parameters(md.recipes.mme, self.parameters, ("earlier", "C", "kernel"))
        rng, kernel = generator(self.random_state), self._kernel(X)
        solutions: list[Any] = []
        for _ in range(int(count)):
            problem = md.recipes.mme(X, earlier=tuple(solutions), C=self.C, kernel=kernel, **further)
            solutions.append(problem.solve(relaxation=self.relaxation, solver=self.solver, tol=self.tol,
                                           time_limit=self.time_limit, verbose=self.verbose,
                                           random_state=rng))
            warn_early(solutions[-1])
        self.solutions_ = solutions
        self.embedding_ = self._embed(X)
        self._n_features_out = int(count)
        return self

    def transform(self, X: Any) -> FloatArray:
        """Return decision values (m, n_components) of points (m, d)."""
        return self._embed(self._read(X, reset=False))

    def _embed(self, X: Any) -> FloatArray:
        return np.column_stack([solution.decision_function(X) for solution in self.solutions_])
