"""ODM: the optimal margin distribution machine, supervised."""

from __future__ import annotations

from typing import Any

import margindsl as md
from margindsl.recipes.known import read_known
from margindsl.recipes.recipe import recipe
from margindsl.typing import ArrayLike, Bias


@recipe(method="optimal margin distribution machine", declares="known labels, ODM loss", weight="lam")
def odm(X: Any, y: ArrayLike, *, lam: float | md.Parameter = 10.0, nu: float = 0.4, theta: float = 0.2,
        kernel: Any = "linear", bias: Bias = False) -> md.Problem:
    """Declare the optimal margin distribution machine on the points whose label is known.

    min over w of ½‖w‖² + λ/l Σ_{i∈L} [(1−θ−y_i f_i)₊² + ν (y_i f_i−1−θ)₊²]/(1−θ)², f_i = ⟨w, φ(x_i)⟩. Points of
    unknown label have no loss; `solution.labels` gives them the sign of f.

    Parameters
    ----------
    X : (n, d) array, sparse matrix or anything `md.Hyperplane` takes
    y : (n,) array of −1, 0, +1
        Zero is unknown.
    lam : float or Parameter
        Weight λ > 0 of the mean loss; the papers try 1, 10, 100, 1000.
    nu : float
        Weight ν ≥ 0 of margins above the band; the papers try 0.2, 0.4, 0.6, 0.8.
    theta : float
        Half width θ ∈ [0, 1) of the band without loss; tried as ν.
    kernel : str, kernel or callable
    bias : bool or "penalised"
        The paper has none; features are centred.

    References
    ----------
    T. Zhang, Z.-H. Zhou (2018). Optimal margin distribution clustering, Eq. 1.
    T. Zhang, Z.-H. Zhou (2016). Optimal margin distribution machine, arXiv:1604.03348.

    Examples
    --------
    >>> X = [[-2.0], [-1.0], [1.0], [2.0]]
    >>> solution = odm(X, [-1, 0, 0, 1]).solve()
    >>> solution.labels.tolist(), solution.predict([[3.0]]).tolist()
    ([-1, -1, 1, 1], [1])
    """
    f = md.Hyperplane(X, kernel=kernel, bias=bias)
    labels, known = md.Labels(f.n), read_known("odm", y, f.n)
    loss = md.odm(labels * f, nu, theta)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + lam * md.mean(loss[known.labelled])),
                      known.constraints(labels), relaxation="supervised", solver="newton")
