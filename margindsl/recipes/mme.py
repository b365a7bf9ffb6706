"""MME: maximum margin embedding (Zhao et al., ICDM 2008)."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import margindsl as md
from margindsl.errors import DeclarationError
from margindsl.recipes.recipe import recipe


@recipe(method="Zhao et al. 2008, slides Eq. 23", declares="hinge, orthogonal to earlier hyperplanes", weight="C",
        decision_sum="l")
def mme(X: Any, earlier: Sequence[md.Solution] = (), *, C: float | md.Parameter = 10.0, l: float | None = None,
        epsilon: float = 0.01, kernel: Any = "linear") -> md.Problem:
    """Declare the next direction of a maximum margin embedding.

    min over y ∈ {−1, +1}^n, w, b of ½‖w‖² + C/n Σ_i (1 − y_i f_i)₊, f_i = ⟨w, φ(x_i)⟩ + b, Aᵀw = 0 with
    A = [w¹, …, w^{r−1}] the directions found before (Eq. 23). The bound |Σ_i f_i| ≤ l of maximum margin clustering
    keeps b from putting all points on one side, which costs nothing otherwise.

    Parameters
    ----------
    X : (n, d) array, sparse matrix or anything `md.Hyperplane` takes
    earlier : sequence of Solution
        Solutions for the directions before, over the same points and kernel.
    C : float or Parameter
        Weight C > 0 of the mean loss.
    l : float or None
        Bound on |Σf|; None takes 0.03 n.
    epsilon : float
        Relative accuracy ε of each step.
    kernel : str, kernel or callable

    References
    ----------
    B. Zhao, F. Wang, C. Zhang (2008). Maximum margin embedding. ICDM.
    C. Zhang, B. Zhao (2008). Efficient maximum margin clustering (slides), Eq. 23.

    Examples
    --------
    >>> X = [[-2.0, -1.0], [-2.0, 1.0], [2.0, -1.1], [2.0, 1.1]]
    >>> first = mme(X).solve(random_state=0)
    >>> second = mme(X, [first]).solve(random_state=0)
    >>> abs(round(float(first.weights @ second.weights), 9))
    0.0
    """
    f = md.Hyperplane(X, kernel=kernel, bias=True)
    y = md.Labels(f.n)
    balance = [abs(md.sum(f)) <= (0.03 * f.n if l is None else l)]
    none = isinstance(earlier, (list, tuple)) and not earlier
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + C * md.mean(md.hinge(y * f))),
                      balance if none else [*balance, md.orthogonal(f, earlier)],
                      relaxation=md.CCCP(restarts=1, start="kmeans", polish="none"),
                      solver=md.Solver("cutting-plane", tol=epsilon))


@recipe(method="Zhao et al. 2008, slides Eq. 23", declares="hinge, orthogonal to earlier hyperplanes")
def maximum_margin_embedding(X: Any, components: int = 2, *, C: float | md.Parameter = 10.0, l: float | None = None,
                             epsilon: float = 0.01, kernel: Any = "linear", **solve_options: Any) -> list[md.Solution]:
    """Return the solutions of a maximum margin embedding, one a direction, each orthogonal to those before.

    Parameters
    ----------
    X : (n, d) array, sparse matrix or anything `md.Hyperplane` takes
    components : int
        Number of directions, at least 1 and at most the rank of the features.
    C, l, epsilon, kernel
        As for `mme`.
    **solve_options
        As for `Problem.solve`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[-2.0, -1.0], [-2.0, 1.0], [2.0, -1.1], [2.0, 1.1]])
    >>> first, second = maximum_margin_embedding(X, 2, random_state=0)
    >>> np.column_stack([first.decision, second.decision]).shape
    (4, 2)
    """
    if isinstance(components, bool) or not isinstance(components, Integral) or components < 1:
        raise DeclarationError(
            f"maximum_margin_embedding(components={components!r}): expected an integer of at least 1")
    found: list[md.Solution] = []
    for _ in range(components):
        found.append(mme(X, found, C=C, l=l, epsilon=epsilon, kernel=kernel).solve(**solve_options))
    return found
