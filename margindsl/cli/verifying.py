"""The command `margindsl verify`: what of a saved solution holds, from its file alone and the points if given."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from margindsl.cli.table import read_table
from margindsl.errors import DeclarationError
from margindsl.proof.data import check_data
from margindsl.proof.files import FOREIGN
from margindsl.runtime.solution import Solution
from margindsl.runtime.stored import StoredProof
from margindsl.typing import FloatArray


def run(arguments: argparse.Namespace) -> int:
    """Print what was proved, what was not and why; the code is 0 when nothing failed and nothing is open."""
    solution = Solution.load(arguments.file)
    report = solution.verify()
    if arguments.data is not None:
        report.failures += _features_differ(solution.evidence, _read_points(arguments.data))
        if not report.failures:
            report.proved.append(f"features are those of {arguments.data}")
    print(report)
    return 0 if report and not report.unverified else 1


def _features_differ(evidence: Any, X: FloatArray) -> list[str]:
    if not isinstance(evidence, StoredProof) or "phi" not in evidence.arrays:
        raise DeclarationError("verify: the file holds no features to compare with the data; load it with its problem, "
                               "Solution.load(path, problem)")
    return check_data(evidence.header, evidence.arrays, X)


def _read_points(path: str) -> FloatArray:
    if path.endswith(".npy"):
        try:
            return np.asarray(np.load(path, allow_pickle=False), dtype=float)
        except FOREIGN as error:
            raise DeclarationError(f"verify: {path} holds no array of numbers") from error
    if not Path(path).exists():
        raise DeclarationError(f"verify: there is no file {path}")
    table = read_table(path)
    return table.numbers(range(len(table.names)))


__all__ = ["run"]
