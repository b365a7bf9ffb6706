"""Maps of new points in files: what a solution needs to predict, as arrays and numbers, without its training points."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import scipy.sparse as sp

from margindsl.errors import DeclarationError
from margindsl.features import RBF, Linear, Polynomial
from margindsl.features.dense import DenseFeatures
from margindsl.features.derived import AffineFeatures
from margindsl.features.maps import ColumnMap, LandmarkMap, LinearMap, Whitening
from margindsl.features.sparse import SparseFeatures
from margindsl.features.stacked import Blocks
from margindsl.host.files import FOREIGN

ENTRIES = 4_000_000  # of all arrays of a map
NAMES = ("map_mean", "map_basis", "map_landmarks", "map_root", "map_pivots", "map_matrix", "map_shift")
KERNELS = {"Linear": Linear, "RBF": RBF, "Polynomial": Polynomial}


def stored_map(features: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return header and arrays of the map of features, empty where it is of no known kind, or too great."""
    header: dict[str, Any] = {}
    arrays: dict[str, Any] = {}
    if isinstance(features, Blocks):  # of every hyperplane its own, arrays with its number
        maps = [stored_map(base) for base in features.bases]
        arrays = {f"{name}_{number}": x for number, (_, own) in enumerate(maps) for name, x in own.items()}
        whole = all(own for own, _ in maps) and sum(x.size for x in arrays.values()) <= ENTRIES
        return ({"kind": "blocks", "parts": [own for own, _ in maps], "factors": features.per_point(),
                 "ends": features.ends.tolist()}, arrays) if whole else ({}, {})
    if isinstance(features, AffineFeatures):
        header["affine"] = {"factor": features.factor, "constant": features.constant}
        arrays |= {"map_matrix": features.matrix_map, "map_shift": features.shift}
        features = features.base
    found = getattr(features, "point_map", None)
    if isinstance(features, SparseFeatures):
        parts = [part for part in (features.mean, features.shift) if part is not None]
        found = LinearMap(features.rank, np.sum(parts, axis=0) if parts else None)
    if isinstance(found, LinearMap):
        header |= {"kind": "linear", "columns": int(found.columns)}
        arrays |= {"map_mean": found.mean, "map_basis": found.basis}
    elif isinstance(found, ColumnMap):
        pivots = np.arange(found.columns)[found.pivots]
        header |= {"kind": "columns", "columns": int(found.columns)}
        arrays |= {"map_pivots": pivots}
    elif isinstance(found, LandmarkMap) and type(found.kernel).__name__ in KERNELS:
        kernel = found.kernel
        own: dict[str, Any] = {part.name: getattr(kernel, part.name) for part in fields(kernel)}  # type: ignore[arg-type]
        if any(not isinstance(value, (int, float, str, type(None), np.number)) for value in own.values()):
            return {}, {}
        own = {name: value.item() if isinstance(value, np.number) else value for name, value in own.items()}
        header |= {"kind": "landmarks", "kernel": type(kernel).__name__, "own": own}
        points = found.landmarks
        if points.shape[0] * points.shape[1] > ENTRIES:
            return {}, {}
        arrays |= {"map_landmarks": points.toarray() if sp.issparse(points) else np.asarray(points)}
    else:
        return {}, {}
    if isinstance(found, (ColumnMap, LandmarkMap)):
        header["triangular"] = found.whitening.triangular
        arrays |= {"map_root": found.whitening.root, "map_mean": found.whitening.mean}
    arrays = {name: np.asarray(x) for name, x in arrays.items() if x is not None}
    return (header, arrays) if sum(x.size for x in arrays.values()) <= ENTRIES else ({}, {})


def read_map(header: Any, arrays: dict[str, Any], rank: int, path: Any) -> Any:
    """Return features of no point with the map of a file, for weights of `rank` features; None where it holds none."""
    if not header:
        return None
    held = {name: arrays[name] for name in NAMES if name in arrays}
    try:
        if header["kind"] == "blocks":
            ends = header["ends"]
            bases = [read_map(own, {name: arrays[f"{name}_{number}"] for name in NAMES if f"{name}_{number}" in arrays},
                              ends[number + 1] - ends[number], path) for number, own in enumerate(header["parts"])]
            empty = tuple(sp.csr_array(np.full((1, 1), float(c)))[:0] for c in header["factors"])
            view = tuple(sp.csr_array([[float(c)]]) for c in header["factors"])
            return Blocks(tuple(bases), (1.0,) * len(bases), empty, view)
        if any(x.dtype.kind not in "if" or not np.all(np.isfinite(x)) for x in held.values()):
            raise ValueError("an array of the map holds something other than finite numbers")
        mean, affine = held.get("map_mean"), header.get("affine")
        whitening = None if "map_root" not in held else Whitening(held["map_root"], bool(header["triangular"]), mean)
        if header["kind"] == "linear":
            found: Any = LinearMap(header["columns"], mean, held.get("map_basis"))
        elif header["kind"] == "columns":
            found = ColumnMap(header["columns"], held["map_pivots"], whitening)  # type: ignore[arg-type]
        else:
            kernel = KERNELS[header["kernel"]](**header["own"])
            found = LandmarkMap(kernel, held["map_landmarks"], whitening)  # type: ignore[arg-type]
        width = found.rows(np.zeros((1, found.columns))).shape[1]
        features: Any = DenseFeatures(np.zeros((0, width)), found)
        if affine is not None:
            features = AffineFeatures(features, held.get("map_matrix"), factor=affine["factor"],
                                      shift=held.get("map_shift"), constant=affine["constant"])
        if features.rank != rank:
            raise ValueError(f"the map has {features.rank} features, the weights {rank}")
    except FOREIGN as error:
        raise DeclarationError(f"Solution.load: the map of new points in {path} is broken: {error}") from error
    return features
