"""TSVM: transductive support vector machine (Joachims 1999)."""

from __future__ import annotations

from typing import Any

import margindsl as md
from margindsl.recipes.known import check_fraction, read_known, read_weights, weighted
from margindsl.recipes.recipe import recipe
from margindsl.typing import ArrayLike, Bias


@recipe(method="Joachims 1999", declares="known labels, hinge, class ratio")
def tsvm(X: Any, y: ArrayLike, *, C: float | md.Parameter = 1.0, C_u: float | md.Parameter = 1.0,
         balance: float | None = 0.0, kernel: Any = "linear", bias: Bias = True,
         sample_weight: ArrayLike | None = None) -> md.Problem:
    """Declare the transductive support vector machine.

    min over ŷ_U, w, b of ½‖w‖² + C Σ_{i∈L} (1−y_i f_i)₊ + C* Σ_{i∈U} (1−ŷ_i f_i)₊, with the share of positives among
    the unlabelled points that the labelled ones have (OP 2). Solved by the local search of the paper: labels from
    the SVM of the labelled points, then switches while C* doubles from a small value (Figure 3), all that pay at
    once instead of pair by pair.

    Parameters
    ----------
    X : (n, d) array, sparse matrix or anything `md.Hyperplane` takes
    y : (n,) array of −1, 0, +1
        Zero is unknown.
    C : float or Parameter
        Weight C > 0 of the loss of a labelled point.
    C_u : float or Parameter
        Weight C* > 0 of the loss of an unlabelled point.
    balance : float or None
        How far the sum of the unlabelled labels may lie from the ratio's, as a fraction of their number; the
        paper has 0. None: no ratio is asked for.
    kernel : str, kernel or callable
    bias : bool or "penalised"
    sample_weight : (n,) array or None
        Weights of the points' losses: two is a point twice, but for the class ratio, which counts points.

    References
    ----------
    T. Joachims (1999). Transductive inference for text classification using support vector machines, OP 2, Figure 3.

    Examples
    --------
    >>> X = [[-2.0, 0.0], [-1.9, 0.2], [1.9, 0.1], [2.0, -0.1]]
    >>> tsvm(X, [-1, 0, 0, 1]).solve().labels.tolist()
    [-1, -1, 1, 1]
    """
    return transductive("tsvm", X, y, C, C_u, balance, kernel, bias, sample_weight)


def transductive(name: str, X: Any, y: ArrayLike, C: float | md.Parameter, C_u: float | md.Parameter,
                 balance: float | None, kernel: Any, bias: Bias,
                 sample_weight: ArrayLike | None) -> md.Problem:
    """Return the problem of `tsvm`, with errors that begin with the name of another recipe."""
    check_fraction(name, "balance", balance, optional=True)
    f = md.Hyperplane(X, kernel=kernel, bias=bias)
    signs, known = md.Labels(f.n), read_known(name, y, f.n)
    loss = weighted(md.hinge(signs * f), read_weights(name, sample_weight, known))
    total = md.sq_norm(f) / 2 + C * md.sum(loss[known.labelled])
    if len(known.unlabelled):
        total = total + C_u * md.sum(loss[known.unlabelled])
    return md.Problem(md.Minimize(total), known.constraints(signs, balance), relaxation=md.Transductive(),
                      solver="newton")
