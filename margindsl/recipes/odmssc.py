"""ODMSSC: optimal margin distribution machine for semi-supervised clustering (Zhang, Li and Jin 2022)."""

from __future__ import annotations

from typing import Any

import margindsl as md
from margindsl.recipes.known import check_fraction
from margindsl.recipes.recipe import minimax, recipe

ALTERNATIONS = 200  # changes of the masses: the closed form's last digits come slowly, for the same labels


@recipe(method="ODM for semi-supervised clustering, 2022",
        declares="ODM loss in its own scale, must- and cannot-links", weight="lam", label_share="balance",
        label_free=True)
def odmssc(X: Any, *, must_link: Any = (), cannot_link: Any = (), lam: float | md.Parameter = 30.0, nu: float = 0.4,
           theta: float = 0.2, balance: float | None = None, kernel: Any = "linear",
           centre: bool = True, labels: str = "rounded") -> md.Problem:
    """Declare optimal margin distribution clustering with must-links and cannot-links.

    min over y ∈ B, w of ½‖w‖² + λ/(2m) Σ_i [(1−θ−y_i f_i)₊² + ν (y_i f_i−1−θ)₊²], B = {y_i = y_j for must-links,
    y_i ≠ y_j for cannot-links} (Eq. 2). Relaxed to Eq. 7 over a growing set of labellings, solved by alternating
    with the closed-form masses μ_k = ‖w_k‖/Σ‖w_k‖ (Eq. 10, Algorithm 1). Every labelling met keeps all links: the
    paper's repair (Eq. 13-16) is not needed.

    Parameters
    ----------
    X : (n, d) array, sparse matrix or anything `md.Hyperplane` takes
        The paper scales features to [0, 1].
    must_link, cannot_link : (m, 2) array, list of pairs, networkx graph or (n, n) sparse matrix
    lam : float or Parameter
        Weight λ > 0, in the paper's scale: ODMC's λ is λ(1−θ)²/2.
    nu : float
        Weight ν ≥ 0 of margins above the band.
    theta : float
        Half width θ ∈ [0, 1) of the band without loss.
    balance : float or None
        |eᵀy| ≤ balance · m, but never below what parity of single points allows; the paper has none.
    kernel : str, kernel or callable
    centre : bool
        Whether features are centred; the paper has neither centring nor a bias.
    labels : {"rounded", "violated"}
        "rounded" samples directions and searches by the objective; "violated" is the output of Algorithm 1, sgn(Hȳ) at
        the most violated labelling ȳ, often far from any minimum of the objective.

    References
    ----------
    T. Zhang, M. Li, H. Jin (2022). Optimal margin distribution machine for semi-supervised clustering (in
    Chinese), Scientia Sinica Informationis 52, Eq. 2-16, Algorithm 1.

    Examples
    --------
    >>> X = [[-2.0, 0.0], [-1.9, 0.2], [1.9, 0.1], [2.0, -0.1]]
    >>> y = odmssc(X, must_link=[(0, 1)], cannot_link=[(1, 2)]).solve(random_state=0).labels
    >>> (y * y[0]).tolist()
    [1, 1, -1, -1]
    """
    check_fraction("odmssc", "balance", balance, optional=True)
    f = md.Hyperplane(X, kernel=kernel, centre=centre)
    y = md.Labels(f.n)
    g = y * f
    loss = md.odm(g, nu, theta) * (1 - theta) ** 2  # max(1 - theta - g, 0)^2 + nu max(g - 1 - theta, 0)^2
    links = [md.must_link(y, must_link), md.cannot_link(y, cannot_link)]
    bound = [] if balance is None else [abs(md.sum(y)) <= max(balance * f.n, f.n % 2)]
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + lam * md.mean(loss) / 2), [*links, *bound],
                      relaxation=minimax("odmssc", labels, "violated"),
                      solver=md.Solver("alternating-mu", max_iter=ALTERNATIONS))
