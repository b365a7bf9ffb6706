"""Solutions in files: what a file must hold, what of it is proved, and whether a problem is the one it is of."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from margindsl.contract import Status
from margindsl.errors import DeclarationError
from margindsl.host.files import FOREIGN
from margindsl.proof.check import FORMAT, VERSION, Report, check
from margindsl.proof.export import agree, codes_of, with_ones
from margindsl.proof.files import read_proof
from margindsl.runtime.judging import declaration_of
from margindsl.runtime.presolve import first_other, mapped
from margindsl.typing import FloatArray

HEADER = ("value", "bound", "estimate", "state", "bias", "scalars", "timings", "message", "relaxation", "solver")
ROUND = {"seconds", "stage", "iteration", "value", "bound"}
ARRAYS = ("labels", "weights", "decision")
# Arrays of a solution that are no part of its proof.
OWN = ("weights", "own_labels", "own_decision", "labellings", "mixture", "label_factor")


@dataclass(frozen=True, eq=False)
class StoredProof:
    """Represent the proof a solution was loaded with.

    Parameters
    ----------
    arrays : dict of str to array
        With `phi` where the file holds the features or a problem gave them.
    """

    header: dict[str, Any]
    arrays: dict[str, Any]

    def verify(self, solution: Any) -> Report:
        """Return what of a solution the proof shows."""
        header = {**self.header, "value": solution.value, "bound": solution.bound, "state": solution.state.name,
                  "bias": np.asarray(solution.bias).tolist()}
        labels, decision = codes_of(solution.labels, solution.decision)
        n, stated, several = len(labels), self.arrays, "block0_data" in self.arrays
        if len(stated["labels"]) == n:
            stated = {**stated, "labels": labels, "decision": decision}
        report = check(header, stated)
        if np.any(stated["labels"][:n] != labels) or not (several or np.array_equal(stated["decision"][:n], decision)):
            report.failures.append("labels or decision values are not those of the value")
        if several and solution.features is None:
            report.unverified.append("decision values of points, sums over several hyperplanes")
        w, scalars = (self.arrays.get(name, np.zeros(0)) for name in ("w", "scalars"))
        if len(w) and not np.array_equal(w[: len(solution.weights)].ravel(), solution.weights.ravel()):
            if self.header.get("own_weights", True):
                report.failures.append("the weights are not those of the value")
            elif solution.features is None:
                report.unverified.append("the weights, in coordinates of other features than the proof")
        if not np.array_equal(scalars, list(solution.scalars.values())):
            report.failures.append("the scalars are not those of the value")
        return report


def read_stored(path: str | Path) -> tuple[dict[str, Any], dict[str, Any], StoredProof | None]:
    """Return the header, the arrays and the proof of a saved solution; None in files of older versions."""
    header, arrays = read_proof(path)
    if "format" in header and (header["format"], header.get("version")) != (FORMAT, VERSION):
        raise DeclarationError(
            f"Solution.load: the proof in {path} is version {header.get('version')} of {header['format']}, expected "
            f"version {VERSION} of {FORMAT}; load it with the release that wrote it, or solve and save again")
    try:
        missing = [name for name in HEADER if name not in header] + [n for n in ARRAYS if n not in arrays]
        whole = not missing and _is_whole(header, arrays)
    except FOREIGN:
        whole = False
    if not whole:
        raise DeclarationError(
            f"Solution.load: {path} is no saved solution; expected a .npz file that Solution.save wrote")
    if "format" not in header:
        return header, arrays, None
    return header, arrays, StoredProof(header, {name: x for name, x in arrays.items()
                                        if name not in OWN and not name.startswith("map_")})


def _is_whole(header: dict[str, Any], arrays: dict[str, Any]) -> bool:
    labels, weights, decision = (arrays[name] for name in ARRAYS)
    bias, rounds, origin = np.asarray(header["bias"]), header.get("history", []), header.get("origin", {})
    held = [weights, decision, bias, *(arrays[name] for name in OWN if name in arrays)]
    maps = [header["scalars"], header["timings"]]
    return bool(
        all(isinstance(header[name], (int, float)) for name in ("value", "bound", "estimate"))
        and all(isinstance(header[name], str) for name in ("message", "relaxation", "solver"))
        and all(isinstance(x, (int, float)) and np.isfinite(x) for values in maps for x in values.values())
        and all(x.dtype.kind in "if" and (np.isinf(header["value"]) or np.all(np.isfinite(x))) for x in held)
        and ("labellings" in arrays) == ("mixture" in arrays) and bias.shape in ((), weights.shape[1:])
        and isinstance(origin, dict) and all(set(record) == ROUND for record in rounds)
        and header["state"] in Status.__members__ and decision.shape[:1] == labels.shape
        and labels.dtype.kind == "i" and header["value"] == header["value"]
        and decision.shape == (*labels.shape, math.prod(weights.shape[1:])) and weights.ndim <= 2
        and all(0 <= label < max(2, decision.shape[1]) for label in (labels.min(), labels.max())))


def same_problem(path: str | Path, proof: StoredProof, problem: Any) -> StoredProof:
    """Return the proof with the features of the problem, which must be the one that was solved."""
    header, arrays, program = declaration_of(problem, proof.header["n"])
    if not (agree(header, proof.header) and agree(arrays, proof.arrays)):
        raise DeclarationError(
            f"Solution.load: {path} was solved with another objective, other parameters or other constraints; give the "
            "problem it was solved from")
    arrays["phi"] = with_ones(program.features, header)
    return StoredProof({**proof.header, **header}, {**proof.arrays, **arrays})


def judged(path: str | Path, solution: Any, replace: Callable[..., Any]) -> Any:
    """Return a loaded solution with what was not verified marked, its status no higher than what was."""
    if solution.basis is None:
        why = solution.origin.get("unproved", "it is of an older version")
        report = Report(unverified=[f"the file holds no proof: {why}"])
    else:
        report = solution.verify()
    if not report:
        raise DeclarationError(f"Solution.load: {path} does not hold what it claims: {'; '.join(report.failures)}")
    if not report.unverified:
        return solution
    state = Status.CONVERGED if solution.state is Status.OPTIMAL else solution.state
    bound = solution.bound if solution.basis is not None else -np.inf
    return replace(solution, state=state, bound=bound, unverified="; ".join(report.unverified))


def features_of(problem: Any, weights: FloatArray, bias: FloatArray | float, decision: FloatArray) -> Any:
    """Return the features of the problem a solution was solved from.

    Shapes: `weights` (r,), `bias` (k,).

    Parameters
    ----------
    decision : (n,) or (n, k) float array
        Decision values, features · weights + bias.
    """
    if not hasattr(problem, "prepared"):
        raise DeclarationError(
            f"Solution.load: given {type(problem).__name__} as the problem, expected the md.Problem it was solved from")
    features = problem.prepared().base
    if problem.lower().rows is not None:
        features = mapped(problem.program().normal.declared.features, weights)[0]
    if features.n != len(decision):
        raise DeclarationError(f"the solution has {len(decision)} labels, the problem {features.n} points")
    if features.rank != len(weights):
        raise DeclarationError(
            f"the solution has weights of {len(weights)} features, the problem {features.rank} features "
            f"({features.describe()}); give the problem it was solved from, with the same points, kernel and bias")
    point = first_other(features, weights, bias, decision)
    if point is not None:
        raise DeclarationError(
            f"the features of the problem do not give the decision values of the solution, at point {point} for one; "
            "give the problem it was solved from, with the same points in the same order, kernel and bias")
    return features
