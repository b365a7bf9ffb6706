"""ssODM: semi-supervised optimal margin distribution machine (Zhang and Zhou, IJCAI 2018)."""

from __future__ import annotations

from typing import Any

import margindsl as md
from margindsl.errors import one_of
from margindsl.recipes.known import KnownLabels, check_fraction, read_known, read_weights, weighted
from margindsl.recipes.recipe import STOCHASTIC_TOL, dual_box, minimax, recipe, stochastic
from margindsl.typing import ArrayLike, Bias


@recipe(method="Zhang and Zhou 2018 (IJCAI)",
        declares="ODM loss with weights of labelled and unlabelled points, class ratio")
def ssodm(X: Any, y: ArrayLike, *, lam1: float | md.Parameter = 10.0, lam2: float | md.Parameter = 10.0,
          nu: float = 0.4, theta: float = 0.2, balance: float | None = 0.0, kernel: Any = "linear",
          bias: Bias = False, centre: bool = True, labels: str = "polished",
          sampling: str = "variance-reduced", max_iter: int | None = None, tau: float | None = None,
          step_factor: float | None = None,
          sample_weight: ArrayLike | None = None) -> md.Problem:
    """Declare the semi-supervised optimal margin distribution machine.

    min over ŷ ∈ B, w of ½‖w‖² + λ₁/l Σ_{i∈L} ρ(ŷ_i f_i) + λ₂/(m−l) Σ_{i∈U} ρ(ŷ_i f_i), ρ the ODM loss (Eq. 2), with
    ŷ_L = y_L and the class ratio of the labelled points, eᵀŷ_U/(m−l) = eᵀy_L/l. That sum is attained only when
    parity allows; the nearest attainable one is meant. (The paper prints ŷ_U ∈ {0, 1}; signs are meant.)
    Relaxed to min over μ of max over α (Eq. 7), solved to a relative gap of .01 by stochastic mirror prox with
    variance reduction; Algorithm 1 as printed is ``sampling="labels"``. Labels that follow the published rule are
    often no minimum of the objective, not even over labels at their own hyperplane; alternation from there makes them
    one.

    Parameters
    ----------
    X : (n, d) array, sparse matrix or anything `md.Hyperplane` takes
    y : (n,) array of −1, 0, +1
        Zero is unknown.
    lam1, lam2 : float or Parameter
        Weights λ₁, λ₂ > 0 of the mean loss of labelled and of unlabelled points; the paper tries 1, 10, 100, 1000.
    nu : float
        Weight ν ≥ 0 of margins above the band; the paper tries 0.2, 0.4, 0.6, 0.8.
    theta : float
        Half width θ ∈ [0, 1) of the band without loss; tried as ν.
    balance : float or None
        How far the sum of the unlabelled may lie from the ratio's, as a fraction of m − l; the paper has 0.
        None: no ratio is asked for.
    kernel : str, kernel or callable
        The paper tries "linear" and ``md.RBF(k * md.sqrt_mean_distance)``, k = 0.25, 0.5, 1, 2, 4.
    bias : bool or "penalised"
        The paper has none. A free bias makes the relaxation trivial.
    centre : bool
        Whether features are centred. The paper centres nothing: in classes of unequal size a constant direction, which
        a wide Gaussian kernel or positive features hold, then acts as a bias.
    labels : {"polished", "sign", "rounded"}
        "sign" is the published rule sign Σ_k μ_k y_k; "polished" alternates from there between hyperplane and labels;
        "rounded" samples directions and searches by the objective.
    sampling : {"variance-reduced", "labels"}
        "variance-reduced" is mirror prox with sampled labellings and full gradients now and then, which converges;
        "labels" are the steps as printed in Algorithm 1, which end far from it.
    max_iter : int or None
        The number T of iterations on each set of labellings; None takes 20,000, or 2,000 as printed.
    tau : float or None
        Of the steps as printed, the bound τ on the duals; None takes the dual of a margin of −1, or what can be proved
        for a `Parameter`.
    step_factor : float or None
        Of the steps as printed, a factor on an η that is proved to converge, 1000 where none is given; the paper states
        none.
    sample_weight : (n,) array or None
        Weights of the points' losses, in the mean of the labelled and in that of the unlabelled points.

    References
    ----------
    T. Zhang, Z.-H. Zhou (2018). Semi-supervised optimal margin distribution machines, Eq. 2-7, Algorithm 1.

    Examples
    --------
    >>> X = [[-2.0, 0.0], [-1.9, 0.2], [1.9, 0.1], [2.0, -0.1]]
    >>> solution = ssodm(X, [-1, 0, 0, 1]).solve(random_state=0)
    >>> solution.labels.tolist(), solution.predict([[3.0, 0.0]]).tolist()
    ([-1, -1, 1, 1], [1])
    """
    check_fraction("ssodm", "balance", balance, optional=True)
    f = md.Hyperplane(X, kernel=kernel, bias=bias, centre=centre)
    signs, known = md.Labels(f.n), read_known("ssodm", y, f.n)
    weights = read_weights("ssodm", sample_weight, known, known.labelled, known.unlabelled)
    loss = weighted(md.odm(signs * f, nu, theta), weights)
    total = md.sq_norm(f) / 2 + lam1 * md.mean(loss[known.labelled])
    if len(known.unlabelled):
        total = total + lam2 * md.mean(loss[known.unlabelled])
    engine = stochastic("ssodm", sampling, "mirror-prox", max_iter, tau, step_factor, 1000.0,
                        box(known, lam1, lam2, theta, weights.max()))
    return md.Problem(md.Minimize(total), known.constraints(signs, balance), solver=engine,
                      relaxation=rule(labels))


def rule(labels: str) -> md.Minimax:
    """Return the minimax relaxation with the rule for labels "polished", "sign" or "rounded"."""
    if one_of("rule for labels in ssodm", labels, ("polished", "sign", "rounded")) == "polished":
        return md.Minimax(rounding="sign", polish="alternate", tol=STOCHASTIC_TOL)
    return minimax("ssodm", labels, tol=STOCHASTIC_TOL)


def box(known: KnownLabels, lam1: float | md.Parameter, lam2: float | md.Parameter, theta: float,
        heaviest: float = 1.0) -> float | None:
    """Return the larger box of the labelled and of the unlabelled points, of that weight, None if one has none."""
    sizes = [dual_box(lam1, len(known.labelled), theta), dual_box(lam2, max(len(known.unlabelled), 1), theta)]
    return None if None in sizes else heaviest * max(size for size in sizes if size is not None)
