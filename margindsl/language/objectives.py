"""Named margin objectives: nothing but expressions of the language."""

from __future__ import annotations

from typing import Any

from margindsl.language.atoms import absolute, mean, pos
from margindsl.language.expressions import Expression, as_expression
from margindsl.language.symbols import Parameter, Scalar, within


def hinge(g: Any) -> Expression:
    """Return the hinge loss (1 − γ)₊ of margins (SVM; ODMC's min-margin objective)."""
    return pos(1 - as_expression(g))


def squared_hinge(g: Any) -> Expression:
    """Return the squared hinge loss (1 − γ)₊² of margins."""
    return pos(1 - as_expression(g)) ** 2


def odm(g: Any, nu: float | Parameter = 0.5, theta: float | Parameter = 0.2) -> Expression:
    """Return the optimal-margin-distribution loss of margins.

    [(1 − θ − γ)₊² + ν (γ − 1 − θ)₊²] / (1 − θ)² (ODMC Eq. 1; ssODM Eq. 1).

    Parameters
    ----------
    g : expression
        Margins.
    nu : float, (m,) array or Parameter
        Weight ν ≥ 0 of margins above the band.
    theta : float, (m,) array or Parameter
        Half width θ ∈ [0, 1) of the band in which no loss is suffered.

    Raises
    ------
    DeclarationError
        If nu is negative or theta outside [0, 1), now or, of parameters, when the formula is solved.
    """
    g = as_expression(g)
    weight = within(nu, "md.odm", "nu")
    band = within(theta, "md.odm", "theta", upper=1.0)
    return (pos(1 - band - g) ** 2 + weight * pos(g - 1 - band) ** 2) / (1 - band) ** 2


def mean_variance(g: Any, eta: float | Parameter = 1.0, lam: float | Parameter = 1.0) -> Expression:
    """Return the first margin-distribution objective, −η γ̄ + λ mean (γ − γ̄)² with γ̄ a free scalar.

    (ODMC, the formulation before Eq. 1.)

    Parameters
    ----------
    g : expression
        Margins.
    eta, lam : float or Parameter
        Weights of margin mean, η ≥ 0, and margin variance, λ > 0.

    Raises
    ------
    DeclarationError
        If eta is negative or lam is not positive, now or, of parameters, when the formula is solved.
    """
    centre = Scalar(name="margin_mean")
    weight, scale = within(eta, "md.mean_variance", "eta"), within(lam, "md.mean_variance", "lam", strict=True)
    return -weight * centre + scale * mean((as_expression(g) - centre) ** 2)


def epsilon_insensitive(g: Any, eps: float | Parameter = 0.1) -> Expression:
    """Return the ε-insensitive loss (|1 − γ| − ε)₊ of margins (IterSVR, Zhang et al. 2007).

    Parameters
    ----------
    g : expression
        Margins.
    eps : float, (m,) array or Parameter
        Half width ε ≥ 0.

    Raises
    ------
    DeclarationError
        If eps is negative, now or, of a parameter, when the formula is solved.
    """
    return pos(absolute(1 - as_expression(g)) - within(eps, "md.epsilon_insensitive", "eps"))
