"""Sparse kernel maximum margin clustering and the three methods it is built from (Wu and Zhang 2012).

All four absorb the labels, keep the sum of decision values within l and differ in threshold, kernel and solver.
The threshold ρ of the paper is a shared scalar. Where its labels are fixed, Eq. 10 is the ν-SVM with ν = 1/C: at
most a share 1/C of the points lies below the threshold, which is why little depends on C.
"""

from __future__ import annotations

from typing import Any

import margindsl as md
from margindsl.language.entries import read_flag
from margindsl.language.symbols import within
from margindsl.recipes.recipe import recipe

SEARCHED = 10  # random points tried for a basis vector


@recipe(method="Wu and Zhang 2012 (SKMMC), Eq. 10-32 and appendix B",
        declares="hinge of margin minus a shared threshold (fixed to one in `skmmc_v2`), decision balance, free bias",
        weight="C", decision_sum="l")
def skmmc(X: Any, *, C: float | md.Parameter = 10.0, l: float = 0.0, kernel: Any = None, eta: float | None = 0.01,
          max_basis: int | None = 200, restarts: int = 5, start: str = "mixed", first_cut: bool = True,
          skip: int = 0) -> md.Problem:
    """Declare sparse kernel maximum margin clustering.

    min over y, w, b, ρ ≥ 0 of ½‖w‖² − ρ + C mean (ρ − y f)₊ subject to |Σ f| ≤ l, f = ⟨w, φ(x)⟩ + b (Eq. 3, 10),
    by CCCP and cutting planes in the span of few basis vectors (Eq. 29, Algorithm 3).

    Parameters
    ----------
    X : array-like (n, d)
        The points.
    C : float or Parameter, above 1
        Weight of the losses.
    l : float, at least 0
        Bound on |Σ f|, in units of decision values (Eq. 3); the paper searches 0 to 20, and takes 0 for large sets,
        but sets b = −mean ⟨w, φ⟩ whatever l is (Eq. 23). With a narrow kernel Σ |f| is near 1, and l ≥ 1 excludes
        no labels, not even a single cluster.
    kernel : kernel, optional
        Default: the Gaussian of width √γ, γ the mean distance; the paper searches {1/4, 1/2, 1, 2, 4} √γ.
    eta : float or None
        Precision of the cutting planes (Eq. 13); None solves to the tolerance of `solve`.
    max_basis : int or None
        Cap on basis vectors, which the paper takes one a cut.
    restarts : int
        Starting labellings of the CCCP.
    start : {"mixed", "kmeans", "spectral", "random", "basis"}
        Where they come from, which the paper does not say. "basis" is the first cut of Algorithm 3 at random labels,
        with one basis vector a mean: nearness to a random point, see `margindsl.relaxations.first_cut.sparse_cut`.
    first_cut : bool
        Whether starts first come to rest under the first cut of Algorithm 2, which makes the result depend less on
        them: see `md.FirstCut`. Not for "basis".
    skip : int
        Starts passed over first: with `restarts=1`, calls that differ in it alone differ in their start.

    References
    ----------
    J. Wu, X.-L. Zhang (2012). Sparse kernel maximum margin clustering, Eq. 10-30.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(40, 2)) + np.repeat([[-3, 0], [3, 0]], 20, axis=0)
    >>> solution = skmmc(X).solve(random_state=0)
    >>> int(abs(solution.labels[:20].sum() - solution.labels[20:].sum())), solution.scalars["rho"] > 0
    (40, True)
    """
    y, f = _hyperplane(X, _gaussian(kernel))
    return md.Problem(_threshold("skmmc", y, f, C), [abs(md.sum(f)) <= l],
                      relaxation=_descent("skmmc", restarts, start, first_cut, skip),
                      solver=md.Solver("cpsp", eta=eta, max_basis=max_basis))


@recipe(method="Wu and Zhang 2012 (SKMMC), Eq. 10-32 and appendix B",
        declares="hinge of margin minus a shared threshold (fixed to one in `skmmc_v2`), decision balance, free bias",
        weight="C", decision_sum="l")
def skmmc_v2(X: Any, *, C: float | md.Parameter = 10.0, l: float = 0.0, kernel: Any = None, eta: float | None = 0.01,
             max_basis: int | None = 200, restarts: int = 5, start: str = "mixed",
             first_cut: bool = True, skip: int = 0) -> md.Problem:
    """Declare SKMMC with the threshold fixed to one (appendix B).

    min over y, w, b of ½‖w‖² + C mean (1 − y f)₊ subject to |Σ f| ≤ l (Eq. 3, 7, 37).

    Parameters
    ----------
    X, C, l, kernel, eta, max_basis, restarts, start, first_cut, skip
        As for `skmmc`; C is any positive number, eta that of Eq. 41.

    References
    ----------
    J. Wu, X.-L. Zhang (2012). Sparse kernel maximum margin clustering, appendix B.

    Examples
    --------
    >>> print(skmmc_v2([[0.0], [1.0], [4.0]]).objective)
    minimise md.sq_norm(f) / 2 + 10 * md.mean(md.pos(1 - y * f))
    """
    y, f = _hyperplane(X, _gaussian(kernel))
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + C * md.mean(md.pos(1 - y * f))), [abs(md.sum(f)) <= l],
                      relaxation=_descent("skmmc_v2", restarts, start, first_cut, skip),
                      solver=md.Solver("cpsp", eta=eta, max_basis=max_basis))


@recipe(method="SKMMC section 3.2, Eq. 22", declares="shared threshold, kernel, no basis vectors", weight="C",
        decision_sum="l")
def kernel_cpmmc(X: Any, *, C: float | md.Parameter = 10.0, l: float = 0.0, kernel: Any = None,
                 eta: float | None = 0.01, restarts: int = 5, start: str = "mixed", first_cut: bool = True,
                 skip: int = 0) -> md.Problem:
    """Declare kernel CPMMC: SKMMC without basis vectors (Eq. 22, Algorithm 2).

    Parameters
    ----------
    X, C, l, kernel, restarts, start, first_cut, skip
        As for `skmmc`. A kernel's own rank decides how exact its factor is: the default is exact up to
        2,000 points.
    eta : float or None
        Relative precision of the cutting planes; None solves to the tolerance of `solve`.

    References
    ----------
    J. Wu, X.-L. Zhang (2012). Sparse kernel maximum margin clustering, section 3.2.

    Examples
    --------
    >>> kernel_cpmmc([[0.0], [1.0], [4.0]]).solver.name
    'cutting-plane'
    """
    y, f = _hyperplane(X, _gaussian(kernel))
    return md.Problem(_threshold("kernel_cpmmc", y, f, C), [abs(md.sum(f)) <= l],
                      relaxation=_descent("kernel_cpmmc", restarts, start, first_cut, skip),
                      solver=md.Solver("cutting-plane", tol=eta))


@recipe(method="SKMMC Eq. 10-13", declares="shared threshold in CPMMC", weight="C", decision_sum="l")
def adaptive_cpmmc(X: Any, *, C: float | md.Parameter = 10.0, l: float = 0.0, kernel: Any = "linear",
                   eta: float | None = 0.01, restarts: int = 5, start: str = "mixed", first_cut: bool = True,
                   skip: int = 0) -> md.Problem:
    """Declare CPMMC with an adaptive threshold: linear, solved in the primal (Eq. 11, Algorithm 1).

    Parameters
    ----------
    X, C, l, restarts, start, first_cut, skip
        As for `skmmc`.
    kernel : kernel
        Linear, as in the paper.
    eta : float or None
        As for `kernel_cpmmc`.

    References
    ----------
    J. Wu, X.-L. Zhang (2012). Sparse kernel maximum margin clustering, section 3.1.

    Examples
    --------
    >>> print(adaptive_cpmmc([[0.0], [1.0], [4.0]]).objective)
    minimise md.sq_norm(f) / 2 - rho + 10 * md.mean(md.pos(rho - y * f))
    """
    y, f = _hyperplane(X, kernel)
    return md.Problem(_threshold("adaptive_cpmmc", y, f, C), [abs(md.sum(f)) <= l],
                      relaxation=_descent("adaptive_cpmmc", restarts, start, first_cut, skip),
                      solver=md.Solver("cutting-plane", tol=eta))


def _hyperplane(X: Any, kernel: Any) -> tuple[md.Labels, md.Hyperplane]:
    f = md.Hyperplane(X, kernel=kernel, bias=True)
    return md.Labels(f.n), f


def _gaussian(kernel: Any) -> Any:
    return md.RBF(md.sqrt_mean_distance) if kernel is None else kernel


def _descent(owner: str, restarts: int, start: str, first_cut: bool, skip: int) -> md.FirstCut:
    moves, sparse = 100 * read_flag(first_cut, f"{owner}(first_cut="), isinstance(start, str) and start == "basis"
    return md.FirstCut(restarts=restarts, start="random" if sparse else start, moves=moves, skip=skip,
                       basis=SEARCHED if sparse else 0, polish="none")


def _threshold(owner: str, y: md.Labels, f: md.Hyperplane, C: float | md.Parameter) -> md.Minimize:
    """Return the objective of Eq. 10."""
    weight = within(C, f"md.recipes.{owner}", "C", lower=1.0, strict=True,
                    reason="; with less the adaptive threshold grows without end. The paper takes 10")
    rho = md.Scalar(nonneg=True, name="rho")
    return md.Minimize(md.sq_norm(f) / 2 - rho + weight * md.mean(md.pos(rho - y * f)))
