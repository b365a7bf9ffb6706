"""CPM3C: multi-class maximum margin clustering by cutting planes (Zhao et al., ICML 2008)."""

from __future__ import annotations

from typing import Any

import margindsl as md
from margindsl.recipes.cpmmc import outer_loop
from margindsl.recipes.recipe import recipe


@recipe(method="Zhao et al. 2008, slides Eq. 12-19",
        declares="k clusters, hinge of Crammer-Singer margins, pairwise balance", decision_sum="balance")
def cpm3c(X: Any, clusters: int, *, beta: float | md.Parameter = 0.1, balance: float | None = None,
          epsilon: float = 0.01, outer: str = "labels", kernel: Any = "linear") -> md.Problem:
    """Declare cutting-plane multi-class maximum margin clustering.

    min over y, w_1, …, w_k of ½β Σ_p ‖w_p‖² + 1/n Σ_i ξ_i with w_{y_i}ᵀx_i + δ_{y_i,r} − w_rᵀx_i ≥ 1 − ξ_i for
    every r (Eq. 13): r = y_i reads ξ_i ≥ 0, the others that ξ_i is the hinge of the Crammer-Singer margin
    w_{y_i}ᵀx_i − max_{r≠y_i} w_rᵀx_i. Clusters are kept from vanishing by |Σ_i w_pᵀx_i − Σ_i w_qᵀx_i| ≤ l (Eq. 18). The
    concave-convex procedure fixes y_i = argmax_p w_pᵀx_i at the last weights (z_ip in Eq. 14 and 19), starting
    from the best of ten k-means runs; each step is solved by one-slack cutting planes with the most violated
    constraints of Eq. 17.

    Parameters
    ----------
    X : (n, d) array, sparse matrix or anything `md.Hyperplane` takes
        The features are not centred, for centring makes the balance hold for any clustering.
    clusters : int
        The number k of clusters; two give CPMMC without a bias, in w = w_1 − w_2 with its own norm.
    beta : float or Parameter
        Weight β > 0 of the regulariser; the slides print none.
    balance : float or None
        Bound l on the differences of the summed decision values; None takes 0.03 n.
    epsilon : float
        Relative accuracy ε of each step; with the cuts outside also that of the last cut.
    outer : {"labels", "cuts"}
        The outer loop, as for `cpmmc`: "cuts" is the order of the slides.
    kernel : str, kernel or callable

    References
    ----------
    B. Zhao, F. Wang, C. Zhang (2008). Efficient multiclass maximum margin clustering. ICML.
    C. Zhang, B. Zhao (2008). Efficient maximum margin clustering (slides), Eq. 12-19.

    Examples
    --------
    >>> X = [[2.0, 0.0], [2.1, 0.1], [-1.0, 1.8], [-1.1, 1.7], [-1.0, -1.8], [-1.1, -1.7]]
    >>> y = cpm3c(X, 3).solve(random_state=0).labels
    >>> bool(y[0] == y[1] != y[2] == y[3] != y[4] == y[5] != y[0])
    True
    """
    method = outer_loop("cpm3c", outer, epsilon)
    f = md.Hyperplane(X, kernel=kernel, centre=False)
    y = md.Labels(f.n, clusters=clusters)
    loss = md.mean(md.hinge(md.margin(y, f)))
    return md.Problem(md.Minimize(beta * md.sq_norm(f) / 2 + loss),
                      [abs(md.sum(f)) <= (0.03 * f.n if balance is None else balance)],
                      relaxation=method, solver=md.Solver("cutting-plane", tol=epsilon))
