"""IterSVR: maximum margin clustering by alternating support vector regression (Zhang et al., ICML 2007)."""

from __future__ import annotations

from typing import Any

import margindsl as md
from margindsl.recipes.known import check_fraction
from margindsl.recipes.recipe import recipe


@recipe(method="Zhang et al. 2007", declares="epsilon-insensitive loss, label balance, free bias", weight="C",
        label_share="balance")
def itersvr(X: Any, *, C: float | md.Parameter = 10.0, epsilon: float = 0.1, balance: float = 0.03,
            kernel: Any = "linear") -> md.Problem:
    """Declare iterative support vector regression.

    min over y ∈ {−1, +1}^n, w, b of ½‖w‖² + C/n Σ_i (|y_i − f_i| − ε)₊, f_i = ⟨w, φ(x_i)⟩ + b, |eᵀy| ≤ βn. As
    |y − f| = |1 − yf|, the loss is one of the margin, and unlike the hinge it lets labels change sides: it also
    charges margins above one. From a k-means start, regression at fixed labels and the best labels at fixed f
    follow in turn. The paper shifts b until the labels are balanced; the best balanced labels are taken here, exactly.

    Parameters
    ----------
    X : (n, d) array, sparse matrix or anything `md.Hyperplane` takes
    C : float or Parameter
        Weight C > 0 of the mean loss.
    epsilon : float
        Half width ε ≥ 0 of the tube; 0 is the paper's Laplacian loss.
    balance : float
        β, but never below what parity allows; the papers take 0.03 for balanced and 0.3 for imbalanced data.
    kernel : str, kernel or callable

    References
    ----------
    K. Zhang, I. Tsang, J. Kwok (2007). Maximum margin clustering made practical. ICML.

    Examples
    --------
    >>> X = [[-2.0, 0.0], [-1.9, 0.2], [1.9, 0.1], [2.0, -0.1]]
    >>> y = itersvr(X).solve(random_state=0).labels
    >>> (y * y[0]).tolist()
    [1, 1, -1, -1]
    """
    check_fraction("itersvr", "balance", balance)
    f = md.Hyperplane(X, kernel=kernel, bias=True)
    y = md.Labels(f.n)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + C * md.mean(md.epsilon_insensitive(y * f, epsilon))),
                      [abs(md.sum(y)) <= max(balance * f.n, f.n % 2)],
                      relaxation=md.Alternating(restarts=1, start="kmeans", polish="none"))
