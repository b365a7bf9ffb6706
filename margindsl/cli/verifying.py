"""The command `margindsl verify`: what of a saved solution holds, from its file alone and the points if given."""

from __future__ import annotations

import argparse
from typing import Any

from margindsl.cli.formats import read_table
from margindsl.errors import DeclarationError
from margindsl.proof.data import check_data
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
    table = read_table(path)
    return table.numbers([k for k in range(len(table.names)) if k not in table.apart])


__all__ = ["run"]
