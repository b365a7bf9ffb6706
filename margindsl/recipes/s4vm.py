"""S4VM: safe semi-supervised support vector machine (Li and Zhou 2011)."""

from __future__ import annotations

from typing import Any

import margindsl as md
from margindsl.recipes.recipe import recipe
from margindsl.recipes.tsvm import transductive
from margindsl.typing import ArrayLike, Bias


@recipe(method="Li and Zhou 2011", declares="the declaration of `tsvm`")
def s4vm(X: Any, y: ArrayLike, *, C: float | md.Parameter = 1.0, C_u: float | md.Parameter = 0.1,
         balance: float | None = 0.1, samples: int = 100, separators: int = 10, caution: float = 3.0,
         kernel: Any = "linear", bias: Bias = True,
         sample_weight: ArrayLike | None = None) -> md.Problem:
    """Declare the safe semi-supervised support vector machine.

    The objective of `tsvm`, with |eᵀŷ_U/(m−l) − eᵀy_L/l| ≤ β. It is not minimised once: of many local minima, the
    best of each of T groups is kept, and the labels maximise min_t earn(y, ŷ_t, y⁰) − c · lose(y, ŷ_t, y⁰) over
    these separators, y⁰ the labels of the SVM of the labelled points.

    Parameters
    ----------
    X : (n, d) array, sparse matrix or anything `md.Hyperplane` takes
    y : (n,) array of −1, 0, +1
        Zero is unknown.
    C, C_u : float or Parameter
        Weights of the loss of a labelled and of an unlabelled point.
    balance : float or None
        β, from the nearest attainable sum on. None: no ratio is asked for.
    samples : int
        Random labellings to descend from.
    separators : int
        Groups T of separators.
    caution : float
        Cost c of a label lost against one earned.
    kernel : str, kernel or callable
    bias : bool or "penalised"
    sample_weight : (n,) array or None
        As of `tsvm`.

    References
    ----------
    Y.-F. Li, Z.-H. Zhou (2011). Towards making unlabeled data never hurt, Section 4.

    Examples
    --------
    >>> X = [[-2.0, 0.0], [-1.9, 0.2], [1.9, 0.1], [2.0, -0.1]]
    >>> s4vm(X, [-1, 0, 0, 1]).solve(random_state=0).labels.tolist()
    [-1, -1, 1, 1]
    """
    problem = transductive("s4vm", X, y, C, C_u, balance, kernel, bias, sample_weight)
    return md.Problem(problem.objective, problem.constraints, solver="newton",
                      relaxation=md.Safe(samples=samples, separators=separators, caution=caution))
