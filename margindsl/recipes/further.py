"""Formulations beyond the source papers, in the words of the language: none has a relaxation or a solver of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

import margindsl as md
from margindsl.errors import DeclarationError
from margindsl.recipes.known import check_fraction, read_known
from margindsl.recipes.recipe import recipe
from margindsl.typing import ArrayLike, Bias


@recipe(method="Zhao, Kwok and Zhang 2009", declares="hinge, squared sum of the norms of kernels, label balance",
        weight="C", label_share="balance")
def mkc(X: Any, *, C: float | md.Parameter = 10.0, kernels: Any = None, balance: float = 0.1) -> md.Problem:
    """Declare multiple kernel clustering, five Gaussians and the linear kernel unless others are given.

    min over y, w of ½(Σ_v ‖w_v‖)² + C mean (1 − y Σ_v ⟨w_v, φ_v⟩)₊, |Σ y| ≤ balance · n. The square is the least of
    Σ‖w_v‖²/d_v over weights d ≥ 0 of kernels, Σd = 1: `solution.kernel_weights`.
    """
    check_fraction("mkc", "balance", balance)
    widths = [md.RBF(k * md.sqrt_mean_distance) for k in (0.25, 0.5, 1.0, 2.0, 4.0)]
    f = md.Hyperplane(X, kernel=[*widths, md.Linear()] if kernels is None else kernels)
    y = md.Labels(f.n)
    return md.Problem(md.Minimize(md.norm(f, "kernels")**2 / 2 + C * md.mean(md.hinge(y * f))), _even(y, balance))


@recipe(method="Zeng and Cheung 2012", declares="hinge, must- and cannot-links at a price each, label balance",
        weight="C", label_share="balance")
def softlinks(X: Any, *, must_link: Any = (), cannot_link: Any = (), price: Any = 0.1, C: float | md.Parameter = 10.0,
              balance: float = 0.1, kernel: Any = "linear") -> md.Problem:
    """Declare maximum margin clustering whose links may be broken, at a price: one number, or one a pair of one kind.

    min over y, w of ½‖w‖² + C mean (1 − y f)₊ + price · #{broken links}, |Σ y| ≤ balance · n.
    """
    check_fraction("softlinks", "balance", balance)
    f = md.Hyperplane(X, kernel=kernel)
    y = md.Labels(f.n)
    total = md.sq_norm(f) / 2 + C * md.mean(md.hinge(y * f))
    for link, pairs in ((md.must_link, must_link), (md.cannot_link, cannot_link)):
        total = total + link(y, pairs, weight=price) if not isinstance(pairs, (list, tuple)) or pairs else total
    return md.Problem(md.Minimize(total), _even(y, balance))


@recipe(method="Collobert et al. 2006", declares="hinge with a cap, label balance", weight="C",
        label_share="balance")
def truncated(X: Any, *, C: float | md.Parameter = 10.0, cap: float | md.Parameter = 2.0, balance: float = 0.1,
              kernel: Any = "linear") -> md.Problem:
    """Declare maximum margin clustering that leaves outliers alone: min ½‖w‖² + C mean min((1 − y f)₊, cap).

    Points at the cap are `solution.outliers`; |Σ y| ≤ balance · n.
    """
    check_fraction("truncated", "balance", balance)
    f = md.Hyperplane(X, kernel=kernel)
    y = md.Labels(f.n)
    loss = md.minimum(md.hinge(y * f), cap)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + C * md.mean(loss)), _even(y, balance))


@recipe(method="Chierichetti et al. 2017", declares="hinge of simplex margins, shares of groups in every cluster")
def fair(X: Any, groups: ArrayLike, clusters: int = 3, *, slack: float = 0.2, C: float | md.Parameter = 10.0,
         kernel: Any = "linear") -> md.Problem:
    """Declare fair clusters: each holds a k-th of every group, up to a share `slack` of it.

    min over y, W of ½‖W‖² + C mean (1 − ⟨c_y, Wᵀφ⟩)₊, (1 − slack) |G|/k ≤ |G ∩ cluster| ≤ (1 + slack) |G|/k, rounded
    outwards. `groups` has a name a point.
    """
    check_fraction("fair", "slack", slack)
    f = md.Hyperplane(X, kernel=kernel)
    y, names = md.Labels(f.n, clusters=clusters), np.asarray(groups)
    if names.shape != (f.n,):
        raise DeclarationError(f"fair: groups of shape {names.shape} for {f.n} points; expected one name a point")
    rules = []
    for name in sorted(set(names.astype(str))):
        own = np.flatnonzero(names.astype(str) == name)
        even, part = len(own) / clusters, min(slack, clusters)
        rules.append(md.sizes(y[own], int(even * max(1 - part, 0)), min(int(np.ceil(even * (1 + part))), len(own))))
    margins = y * f if clusters == 2 else md.margin(y, f, coding="simplex")
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + C * md.mean(md.hinge(margins))), rules)


@recipe(method="Zhang and Jin 2020", declares="ODM loss of a witness a positive bag, of all points in the others")
def miodm(X: Any, y: ArrayLike, bags: ArrayLike, *, lam: float | md.Parameter = 10.0, nu: float = 0.4,
          theta: float = 0.2, kernel: Any = "linear", bias: Bias = "penalised") -> md.Problem:
    """Declare multi-instance learning by optimal margin distribution: a positive bag has one point that makes it so.

    min over witnesses, w of ½‖w‖² + λ/n [Σ of witnesses ρ(f_i) + Σ of points in negative bags ρ(−f_i)], ρ the ODM
    loss. `y` is the label of a point's bag, −1 or +1, and `bags` the bag's name; labels +1 are the witnesses.
    """
    f = md.Hyperplane(X, kernel=kernel, bias=bias)
    signs, known, names = md.Labels(f.n), read_known("miodm", y, f.n), np.asarray(bags)
    if names.shape != (f.n,) or len(known.unlabelled):
        raise DeclarationError(f"miodm: y and bags have one entry for each of {f.n} points, y of -1 or +1")
    inside, outside = (np.flatnonzero(known.values == sign) for sign in (1, -1))
    loss = md.sum(md.by_label(signs[inside], {+1: md.odm(f[inside], nu, theta), -1: 0})) + md.sum(
        md.odm(signs * f, nu, theta)[outside])
    own = [inside[names[inside].astype(str) == name] for name in sorted(set(names[inside].astype(str)))]
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + lam / f.n * loss), [
        signs[outside] == -1, *(md.count(signs[bag] == 1) == 1 for bag in own)])


@recipe(method="Li, Kwok and Zhou 2010", declares="known labels, hinge with a cost for each class, class ratio")
def cs4vm(X: Any, y: ArrayLike, *, cost: float | md.Parameter = 3.0, C: float | md.Parameter = 10.0,
          balance: float | None = 0.0, kernel: Any = "linear", bias: Bias = "penalised") -> md.Problem:
    """Declare the cost-sensitive semi-supervised SVM: an error on +1 costs `cost` times one on −1.

    min over ŷ, w of ½‖w‖² + C mean c(ŷ_i)(1 − ŷ_i f_i)₊, c(+1) = cost, c(−1) = 1, ŷ = y where it is known (not 0),
    and the class ratio of the known ones, up to `balance`; None asks for none.
    """
    check_fraction("cs4vm", "balance", balance, optional=True)
    f = md.Hyperplane(X, kernel=kernel, bias=bias)
    signs, known = md.Labels(f.n), read_known("cs4vm", y, f.n)
    loss = md.by_label(signs, {+1: cost * md.hinge(f), -1: md.hinge(-f)})
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + C * md.mean(loss)), known.constraints(signs, balance))


def _even(y: md.Labels, balance: float) -> list[Any]:
    return [abs(md.sum(y)) <= max(balance * y.n, y.n % 2)]
