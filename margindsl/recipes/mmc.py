"""MMC: maximum margin clustering by a semidefinite relaxation (Xu et al., NIPS 2004)."""

from __future__ import annotations

import math
from typing import Any

import margindsl as md
from margindsl.recipes.known import check_fraction
from margindsl.recipes.recipe import recipe


@recipe(method="Xu et al. 2005", declares="hinge, label balance, k clusters", weight="C", label_share="balance")
def mmc(X: Any, clusters: int = 2, *, C: float | md.Parameter = 10.0, balance: float = 0.03,
        kernel: Any = "linear") -> md.Problem:
    """Declare maximum margin clustering over the label matrix.

    min over y ∈ {−1, +1}^n, w of ½‖w‖² + C/n Σ_i (1 − y_i f_i)₊, |eᵀy| ≤ β, f_i = ⟨w, φ(x_i)⟩ (Eq. 2 of the slides
    without a bias), with yyᵀ relaxed to M ⪰ 0, diag M = e, and eᵀMe ≤ β², which implies the paper's |Me| ≤ βe.
    A free bias would make the relaxation trivial, so that features are centred, as in the paper. Of k clusters margins
    are simplex-coded, ⟨c(y_i), Vᵀφ_i⟩, and sizes lie within balance · n/k of n/k; M holds the products of the codes.

    Parameters
    ----------
    X : (n, d) array, sparse matrix or anything `md.Hyperplane` takes
    clusters : int
        The number k of clusters.
    C : float or Parameter
        Weight C > 0 of the mean loss.
    balance : float
        β = balance · n, but never below what whole sizes allow.
    kernel : str, kernel or callable

    References
    ----------
    L. Xu, J. Neufeld, B. Larson, D. Schuurmans (2005). Maximum margin clustering. NIPS 17.
    L. Xu, D. Schuurmans (2005). Unsupervised and semi-supervised multi-class support vector machines. AAAI: k clusters,
    with Crammer-Singer margins.
    C. Zhang, B. Zhao (2008). Efficient maximum margin clustering (slides), Eq. 2.

    Examples
    --------
    >>> X = [[-2.0, 0.0], [-1.9, 0.2], [1.9, 0.1], [2.0, -0.1]]
    >>> solution = mmc(X).solve(random_state=0)
    >>> (solution.labels * solution.labels[0]).tolist(), bool(solution.bound <= solution.value)
    ([1, 1, -1, -1], True)
    """
    check_fraction("mmc", "balance", balance)
    f = md.Hyperplane(X, kernel=kernel)
    y = md.Labels(f.n, clusters=clusters)
    share = f.n / min(y.clusters, f.n)  # more clusters than points are refused by what follows
    slack = share * min(balance, f.n)
    least = min(math.ceil(round(share - slack, 9)), math.floor(share))
    most = max(math.floor(round(share + slack, 9)), math.ceil(share))
    margins = md.margin(y, f, coding="simplex")
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + C * md.mean(md.hinge(margins))),
                      [md.sizes(y, at_least=least, at_most=most)], relaxation="sdp")
