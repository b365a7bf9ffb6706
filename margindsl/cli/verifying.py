"""The command `margindsl verify`: what of a saved solution holds, from its file alone and the points if given."""

from __future__ import annotations

import argparse

from margindsl.cli.declaration import read_points
from margindsl.errors import DeclarationError
from margindsl.proof.data import check_data
from margindsl.runtime.solution import Solution
from margindsl.runtime.stored import StoredProof


def run(arguments: argparse.Namespace) -> int:
    """Print what was proved, what was not and why; the code is 0 when nothing failed and nothing is open."""
    solution = Solution.load(arguments.file)
    report = solution.verify()
    if arguments.data is not None:
        proof = solution.evidence
        if not isinstance(proof, StoredProof) or "phi" not in proof.arrays:
            raise DeclarationError("verify: the file holds no features to compare with the data; load it with its "
                                   "problem, Solution.load(path, problem)")
        failures = check_data(proof.header, proof.arrays, read_points(arguments)[0])
        found = report.failures if proof.header["linear"] else report.unverified
        found += failures
        if not failures:
            report.proved.append(f"features are those of {arguments.data}")
    print(report)
    return 0 if report and not report.unverified else 1


__all__ = ["run"]
