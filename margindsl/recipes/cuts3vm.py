"""CutS3VM: semi-supervised support vector machines by cutting planes (Zhao et al., KDD 2008)."""

from __future__ import annotations

from typing import Any

import numpy as np

import margindsl as md
from margindsl.recipes.known import read_known, read_weights, weighted
from margindsl.recipes.recipe import recipe
from margindsl.typing import ArrayLike


@recipe(method="Zhao et al. 2008, slides Eq. 20-22", declares="known labels, hinge with weights C_l and C_u")
def cuts3vm(X: Any, y: ArrayLike, *, C_l: float | md.Parameter = 10.0,
            C_u: float | md.Parameter = 10.0, epsilon: float = 0.01,
            kernel: Any = "linear",
            sample_weight: ArrayLike | None = None) -> md.Problem:
    """Declare the cutting-plane semi-supervised support vector machine.

    min over w, b of ½‖w‖² + C_l/n Σ_{i∈L} (1 − y_i f_i)₊ + C_u/n Σ_{j∈U} (1 − |f_j|)₊, f_i = ⟨w, φ(x_i)⟩ + b, and
    y_j = sign f_j at unlabelled points (Eq. 20-22). The concave-convex procedure replaces |f_j| by y_j f_j at the last
    signs, starting from the hyperplane of the known labels alone; each step is solved by one-slack cutting planes.

    Parameters
    ----------
    X : (n, d) array, sparse matrix or anything `md.Hyperplane` takes
    y : (n,) array of −1, 0, +1
        Zero is unknown.
    C_l, C_u : float or Parameter
        Weights of labelled and unlabelled points, each divided by the number n of all points.
    epsilon : float
        Relative accuracy ε of each step.
    kernel : str, kernel or callable
    sample_weight : (n,) array or None
        Weights of the points' losses, scaled to mean one over all points.

    References
    ----------
    B. Zhao, F. Wang, C. Zhang (2008). CutS3VM: a fast semi-supervised SVM algorithm. KDD.
    C. Zhang, B. Zhao (2008). Efficient maximum margin clustering (slides), Eq. 20-22.

    Examples
    --------
    >>> X = [[-2.0], [-1.9], [-0.9], [1.0], [1.9], [2.0]]
    >>> cuts3vm(X, [-1, 0, 0, 0, 0, 1]).solve(random_state=0).labels.tolist()
    [-1, -1, -1, 1, 1, 1]
    """
    f = md.Hyperplane(X, kernel=kernel, bias=True)
    labels, known = md.Labels(f.n), read_known("cuts3vm", y, f.n)
    weights = read_weights("cuts3vm", sample_weight, known, np.arange(f.n))
    loss = weighted(md.hinge(labels * f), weights)
    total = md.sq_norm(f) / 2 + C_l * md.sum(loss[known.labelled]) / f.n
    if len(known.unlabelled):
        total = total + C_u * md.sum(loss[known.unlabelled]) / f.n
    return md.Problem(md.Minimize(total), known.constraints(labels),
                      relaxation=md.CCCP(restarts=1, start="known", polish="none"),
                      solver=md.Solver("cutting-plane", tol=epsilon))
