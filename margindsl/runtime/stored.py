"""Solutions in files: what a file must hold, and whether a problem is the one it was solved from."""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from margindsl.contract import Status
from margindsl.errors import DeclarationError
from margindsl.runtime.decision import first_other
from margindsl.typing import FloatArray

HEADER = ("value", "bound", "estimate", "state", "bias", "scalars", "timings", "message", "relaxation", "solver")
ARRAYS = ("labels", "weights", "decision")
_FOREIGN = (ValueError, KeyError, TypeError, AttributeError, EOFError, IndexError, RuntimeError, struct.error,
            zlib.error, zipfile.BadZipFile)


def read_stored(path: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the header and the arrays of a saved solution.

    Raises
    ------
    DeclarationError
        If the file is none that `Solution.save` wrote.
    OSError
        If it cannot be read.
    """
    with open(path, "rb") as stream:
        try:
            with np.load(stream, allow_pickle=False) as stored:
                header = json.loads(str(stored["header"]))
                arrays = {name: stored[name] for name in stored.files if name != "header"}
            missing = [name for name in HEADER if name not in header] + [n for n in ARRAYS if n not in arrays]
            whole = not missing and _is_whole(header, arrays)
        except _FOREIGN:
            whole = False
    if not whole:
        raise DeclarationError(
            f"Solution.load: {path} is no saved solution; expected a .npz file that Solution.save wrote")
    return header, arrays


def _is_whole(header: dict[str, Any], arrays: dict[str, Any]) -> bool:
    labels, weights, decision = (arrays[name] for name in ARRAYS)
    return (header["state"] in Status.__members__ and labels.ndim == 1 and decision.shape[:1] == labels.shape
            and weights.ndim == decision.ndim in (1, 2) and weights.shape[1:] == decision.shape[1:])


def features_of(problem: Any, weights: FloatArray, bias: float, decision: FloatArray) -> Any:
    """Return the features of the problem a solution was solved from.

    Parameters
    ----------
    problem : Problem
    weights : (r,) or (r, k) float array
    bias : float
    decision : (n,) or (n, k) float array
        Decision values, features · weights + bias.

    Raises
    ------
    DeclarationError
        If it is no problem, or its features do not give these decision values.
    """
    if not hasattr(problem, "prepared"):
        raise DeclarationError(
            f"Solution.load: given {type(problem).__name__} as the problem, expected the md.Problem it was solved from")
    features = problem.prepared().base
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
