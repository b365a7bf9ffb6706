"""Norms of an objective that are not squared, or are of blocks: what of them goes together."""

from __future__ import annotations

from typing import Any

from margindsl.language import grammar
from margindsl.language.atoms import Norm
from margindsl.language.constraints import Conditions
from margindsl.language.expressions import Expression, Sum
from margindsl.language.margins import Hyperplane


def terms_of(e: Expression) -> list[Any]:
    """Return the terms of a sum."""
    return [term for child in e.children for term in terms_of(child)] if type(e) is Sum else [e]


def norms_of(parts: Any, coding: str, conditions: Conditions
             ) -> tuple[tuple[Norm, ...], float, float, float] | None:
    """Return the norms T of an objective, one a hyperplane, with p, c, e; p + c is made the weight of ½‖w‖².

    Where both are zero the norms alone determine the hyperplanes, and e is the unit of the problem.
    """
    squares = [(norms, c) for norms, c, _ in parts.norms if c and not (len(norms) == 1 and norms[0].ord() == "")]
    for norms, c, _ in parts.norms:
        if len(norms) == 1 and norms[0].ord() == "":  # ‖w‖², written as the square of a norm
            plane = norms[0].hyperplane
            parts.ridges[plane] = parts.ridges.get(plane, 0.0) + c
    linear: dict[Hyperplane, float] = {}
    for norms, _, e in parts.norms:
        linear[norms[0].hyperplane] = linear.get(norms[0].hyperplane, 0.0) + e
    linear = {plane: e for plane, e in linear.items() if e}
    own = {norm.hyperplane: norm for norms, _, _ in parts.norms for norm in norms}
    planes = [norm.hyperplane for norm in squares[0][0]] if squares else list(linear)
    if not planes:
        return None
    first, ridges = own[planes[0]], [parts.ridges.get(plane, 0.0) for plane in planes]
    alike = [*(norm for norms, _ in squares for norm in norms), *(n[0] for n, _, e in parts.norms if e)]
    p, c, e = ridges[0], sum(c for _, c in squares), next(iter(linear.values()), 0.0)
    for what, met in (
            ("a norm of another kind", any(not own[norm.hyperplane].is_like(norm) for norm in alike)),
            ("other norms or other weights of hyperplanes", len(set(planes)) < len(planes) or any(
                {norm.hyperplane for norm in norms} != set(planes) for norms, _ in squares) or bool(
                linear and (set(linear) != set(planes) or len(set(linear.values())) > 1)) or len(set(ridges)) > 1),
            ("a penalised bias", any(plane.bias == "penalised" for plane in planes)),
            ("a graph, or squares of decision values", bool(parts.manifolds)),
            ("Crammer-Singer margins", coding == "crammer-singer"),
            ("earlier solutions", bool(conditions.orthogonal)),
            ("what a squared one stands beside", not p + c and bool(
                parts.pairs or parts.label_costs or parts.ramps or set(parts.ridges) - set(planes)))):
        if met:
            raise grammar.NORM.broken_by(first, what=what)
    for plane in planes:
        parts.ridges[plane] = p + c or e
    return tuple(own[plane] for plane in planes), p, c, e
