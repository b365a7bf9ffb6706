"""Named margin objectives: nothing but expressions of the language."""

from __future__ import annotations

from typing import Any

from margindsl.errors import DeclarationError
from margindsl.language.atoms import absolute, mean, pos
from margindsl.language.expressions import Expression, as_expression
from margindsl.language.symbols import Parameter, Scalar


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
    nu : float or Parameter
        Weight ν ≥ 0 of margins above the band.
    theta : float or Parameter
        Half width θ ∈ [0, 1) of the band in which no loss is suffered.

    Raises
    ------
    DeclarationError
        If nu is negative or theta outside [0, 1).
    """
    g = as_expression(g)
    if _number(nu) < 0:
        raise DeclarationError(f"md.odm(nu={_number(nu):.6g}): expected nu >= 0")
    if not 0 <= _number(theta) < 1:
        raise DeclarationError(f"md.odm(theta={_number(theta):.6g}): expected 0 <= theta < 1")
    band = as_expression(theta)
    return (pos(1 - band - g) ** 2 + nu * pos(g - 1 - band) ** 2) / (1 - band) ** 2


def mean_variance(g: Any, eta: float | Parameter = 1.0, lam: float | Parameter = 1.0) -> Expression:
    """Return the first margin-distribution objective, −η γ̄ + λ mean (γ − γ̄)² with γ̄ a free scalar.

    (ODMC, the formulation before Eq. 1.)

    Parameters
    ----------
    g : expression
        Margins.
    eta, lam : float or Parameter
        Weights of margin mean and margin variance, lam positive.
    """
    centre = Scalar(name="margin_mean")
    return -eta * centre + lam * mean((as_expression(g) - centre) ** 2)


def epsilon_insensitive(g: Any, eps: float | Parameter = 0.1) -> Expression:
    """Return the ε-insensitive loss (|1 − γ| − ε)₊ of margins (IterSVR, Zhang et al. 2007).

    Parameters
    ----------
    g : expression
        Margins.
    eps : float or Parameter
        Half width ε ≥ 0.

    Raises
    ------
    DeclarationError
        If eps is negative.
    """
    if _number(eps) < 0:
        raise DeclarationError(f"md.epsilon_insensitive(eps={_number(eps):.6g}): expected eps >= 0")
    return pos(absolute(1 - as_expression(g)) - eps)


def _number(value: float | Parameter) -> float:
    return float(as_expression(value).numeric())
