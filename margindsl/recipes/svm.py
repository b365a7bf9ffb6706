"""SVM: the support vector machine, supervised."""

from __future__ import annotations

from typing import Any

import margindsl as md
from margindsl.recipes.known import read_known
from margindsl.recipes.recipe import recipe
from margindsl.typing import ArrayLike


@recipe(method="support vector machine", declares="known labels, hinge, free bias")
def svm(X: Any, y: ArrayLike, *, C: float | md.Parameter = 1.0, kernel: Any = "linear") -> md.Problem:
    """Declare the support vector machine on the points whose label is known.

    min over w, b of ½‖w‖² + C/l Σ_{i∈L} (1 − y_i f_i)₊, f_i = ⟨w, φ(x_i)⟩ + b with b free (Eq. 1; l known labels).
    Points of unknown label have no loss; `solution.labels` gives them the sign of f.

    Parameters
    ----------
    X : (n, d) array, sparse matrix or anything `md.Hyperplane` takes
    y : (n,) array of −1, 0, +1
        Zero is unknown.
    C : float or Parameter
        Weight C > 0 of the mean loss.
    kernel : str, kernel or callable

    References
    ----------
    C. Zhang, B. Zhao (2008). Efficient maximum margin clustering (slides), Eq. 1.

    Examples
    --------
    >>> X = [[-1.0], [0.2], [1.8], [3.0]]
    >>> solution = svm(X, [-1, 0, 0, 1], C=10).solve()
    >>> solution.labels.tolist(), round(solution.value, 6)
    ([-1, -1, 1, 1], 0.125)
    """
    f = md.Hyperplane(X, kernel=kernel, bias=True)
    labels, known = md.Labels(f.n), read_known("svm", y, f.n)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + C * md.mean(md.hinge(labels * f)[known.labelled])),
                      known.constraints(labels), relaxation="supervised")
