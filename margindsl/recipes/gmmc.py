"""GMMC: generalised maximum margin clustering (Valizadegan and Jin, NIPS 2006)."""

from __future__ import annotations

from typing import Any

import margindsl as md
from margindsl.errors import one_of
from margindsl.recipes.recipe import recipe

TOL = 1e-4  # of the lifted program; further digits change no labels


@recipe(method="Valizadegan and Jin 2006", declares="squared hinge, free bias, decision balance", weight="C",
        decision_sum="l")
def gmmc(X: Any, *, C: float | md.Parameter = 10.0, l: float | None = None, kernel: Any = "linear",
         labels: str = "sign") -> md.Problem:
    """Declare generalised maximum margin clustering.

    min over y ∈ {−1, +1}^n, w, b of ½‖w‖² + C/n Σ_i (1 − y_i f_i)₊², f_i = ⟨w, φ(x_i)⟩ + b, |Σ_i f_i| ≤ l, relaxed to
    max ½ Σγ_i − ½ηl² over γ, η ≥ 0 with PᵀK_c⁻¹P + ησσᵀ ⪰ Diag(γ, 0), K_c = K + n/(2C) I, P = [I, −e]: one variable
    a point where maximum margin clustering has a matrix. The paper keeps Σf small by a soft term C_e(Σf)²; the hard
    bound does it here, so that the value is a bound of the problem declared. With a free bias the soft term is that of
    a penalised one: over centred features Σf = n b, and C_e(Σf)² is a norm of b. It is declared as ``C_e *
    md.sum(f)**2`` with ``md.Hyperplane(X, bias="penalised")``, whose norm adds ½b² to C_e n² b².

    Parameters
    ----------
    X : (n, d) array, sparse matrix or anything `md.Hyperplane` takes
    C : float or Parameter
        Weight C > 0 of the mean squared hinge.
    l : float or None
        Bound on |Σf|; None takes 0.03 n.
    kernel : str, kernel or callable
    labels : {"sign", "rounded"}
        "sign" is the paper's rule, the sign of the outputs in the null space of the dual's matrix; "rounded"
        samples directions and searches by the objective.

    References
    ----------
    H. Valizadegan, R. Jin (2006). Generalized maximum margin clustering and unsupervised kernel learning. NIPS 19.

    Examples
    --------
    >>> X = [[-2.0, 0.0], [-1.9, 0.2], [1.9, 0.1], [2.0, -0.1]]
    >>> solution = gmmc(X).solve()
    >>> (solution.labels * solution.labels[0]).tolist(), bool(solution.bound <= solution.value)
    ([1, 1, -1, -1], True)
    """
    one_of("rule for labels in gmmc", labels, ("sign", "rounded"))
    f = md.Hyperplane(X, kernel=kernel, bias=True)
    y = md.Labels(f.n)
    relaxation = md.GMMC(rounding="sign", polish="none", tol=TOL) if labels == "sign" else md.GMMC(tol=TOL)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + C * md.mean(md.squared_hinge(y * f))),
                      [abs(md.sum(f)) <= (0.03 * f.n if l is None else l)], relaxation=relaxation)
