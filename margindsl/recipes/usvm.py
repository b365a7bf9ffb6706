"""USVM: transductive support vector machine by the concave-convex procedure (Collobert et al. 2006)."""

from __future__ import annotations

from typing import Any

import margindsl as md
from margindsl.language.entries import read_flag
from margindsl.recipes.known import read_known, read_weights, weighted
from margindsl.recipes.recipe import recipe
from margindsl.typing import ArrayLike


@recipe(method="Collobert et al. 2006", declares="known labels, ramp loss by CCCP, mean decision")
def usvm(X: Any, y: ArrayLike, *, C: float | md.Parameter = 1.0, C_u: float | md.Parameter = 1.0,
         balance: bool = True, kernel: Any = "linear",
         sample_weight: ArrayLike | None = None) -> md.Problem:
    """Declare the transductive support vector machine as the concave-convex procedure takes it.

    min over w, b of ½‖w‖² + C Σ_{i∈L} (1−y_i f_i)₊ + C* Σ_{i∈U} (1−|f_i|)₊ subject to
    Σ_{i∈U} f_i/(m−l) = Σ_{i∈L} y_i/l (Section 4): `tsvm`'s objective with the labels of U absorbed and the class
    ratio asked of decision values. With ramp losses R_s this is s = 0, R₀(f) + R₀(−f) = 1 + (1−|f|)₊. Solved from
    the SVM of the labelled points.

    Parameters
    ----------
    X : (n, d) array, sparse matrix or anything `md.Hyperplane` takes
    y : (n,) array of −1, 0, +1
        Zero is unknown.
    C : float or Parameter
        Weight C > 0 of the loss of a labelled point.
    C_u : float or Parameter
        Weight C* > 0 of the loss of an unlabelled point.
    balance : bool
        Whether the class ratio is asked for.
    kernel : str, kernel or callable
    sample_weight : (n,) array or None
        Weights of the points' losses: two is a point twice, but for the mean decision, which counts points.

    References
    ----------
    R. Collobert, F. Sinz, J. Weston, L. Bottou (2006). Large scale transductive SVMs, Journal of Machine Learning
    Research 7. The ssODM paper compares with it under the name USVM: the objective of `tsvm`, optimised otherwise.

    Examples
    --------
    >>> X = [[-2.0, 0.0], [-1.9, 0.2], [1.9, 0.1], [2.0, -0.1]]
    >>> usvm(X, [-1, 0, 0, 1]).solve().labels.tolist()
    [-1, -1, 1, 1]
    """
    f = md.Hyperplane(X, kernel=kernel, bias=True)
    signs, known = md.Labels(f.n), read_known("usvm", y, f.n)
    loss = weighted(md.hinge(signs * f), read_weights("usvm", sample_weight, known))
    constraints = known.constraints(signs)
    total = md.sq_norm(f) / 2 + C * md.sum(loss[known.labelled])
    if len(known.unlabelled):
        total = total + C_u * md.sum(loss[known.unlabelled])
        constraints += [md.mean(f[known.unlabelled]) == known.ratio] if read_flag(balance, "usvm(balance=") else []
    return md.Problem(md.Minimize(total), constraints, relaxation=md.CCCP(start="known", restarts=1, polish="none"),
                      solver="newton")
