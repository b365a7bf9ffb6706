"""Long runs kept in a file: loops give their state as a dict of arrays, and are given it back."""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from margindsl.contract import RawSolution, Status
from margindsl.errors import AccuracyWarning, DeclarationError
from margindsl.host.files import BrokenArchiveError, read_archive, write_archive
from margindsl.program.program import MarginProgram
from margindsl.typing import FloatArray, IntArray

KIND = "checkpoint of a solve"
SHARE = 0.02  # of the time, spent on writing at most
EVERY = 1.0  # seconds between two writings at least
SAME = 1e-9  # relative difference of two computations of one program

State = Mapping[str, Any]


class Checkpoint:
    """Keep the state of one run in a file that only the same program and relaxation go on from.

    `path`: read where it exists, written anew every so often and at the end; `program`: as it is solved; `method`: the
    relaxation with its options.
    """

    def __init__(self, path: str | Path, program: MarginProgram, method: str) -> None:
        self.path, self.digest, self.numbers = Path(path), digest_of(program, method), numbers_of(program)
        self._found: tuple[dict[str, Any], dict[str, Any]] | None = None
        self._latest: tuple[dict[str, Any], Callable[[], State]] | None = None
        self._next = time.monotonic() + EVERY
        try:
            if self.path.exists():
                self._found = self._read()
            else:
                self._write({"stage": "", "random": None}, {})
        except OSError as error:
            raise DeclarationError(f"solve(checkpoint=...): cannot use {self.path}: {error.strerror}") from None

    def resume(self, stage: str) -> tuple[dict[str, Any], Any] | None:
        """Return the arrays a stage kept and the state of the random numbers then, None when it kept none."""
        if self._found is None or self._found[0]["stage"] != stage:
            return None
        header, arrays = self._found
        return {name: value for name, value in arrays.items() if name != "numbers"}, header["random"]

    def keep(self, stage: str, state: Callable[[], State], random: np.random.Generator) -> None:
        """Remember where a stage stands, and write it where that is due.

        `state`: gives the arrays; asked for only when they are written.
        """
        self._latest = {"stage": stage, "random": random.bit_generator.state}, state
        if time.monotonic() >= self._next:
            self.write()

    def write(self) -> None:
        """Write where the last stage stands, if it was not written before; a full disk ends no solve."""
        if self._latest is None:
            return
        began, (header, state), self._latest = time.monotonic(), self._latest, None
        try:
            self._write(header, state())
        except OSError as error:
            warnings.warn(f"the checkpoint {self.path} could not be written: {error}", AccuracyWarning, stacklevel=2)
        now = time.monotonic()
        self._next = now + max(EVERY, (now - began) / SHARE)

    def _write(self, header: dict[str, Any], arrays: State) -> None:
        write_archive(self.path, KIND, {**header, "digest": self.digest}, {**arrays, "numbers": self.numbers})

    def _read(self) -> tuple[dict[str, Any], dict[str, Any]]:
        try:
            header, arrays = read_archive(self.path, KIND)
        except BrokenArchiveError as error:
            raise DeclarationError(f"solve(checkpoint=...): {error}; remove it, or give another path") from None
        same = header["digest"] == self.digest and np.shape(arrays["numbers"]) == self.numbers.shape
        if not (same and np.allclose(arrays["numbers"], self.numbers, rtol=SAME, atol=0.0)):
            raise DeclarationError(
                f"solve(checkpoint=...): {self.path} was written for another problem, or for another "
                "relaxation or other options of it; give another path, or solve what it was written for")
        return header, arrays


def digest_of(program: MarginProgram, method: str) -> str:
    """Return a digest of what in a program is exact: the declaration's text, the label set, where losses lie."""
    losses, labels = program.losses, program.labels
    parts = [program.text, method, program.coding, program.features.describe(), repr(program.features.rank),
             *(repr(term.loss) for term in losses.terms), repr(losses.scalars.names)]
    exact: list[Any] = [labels.component, labels.pinned, labels.sign, labels.apart, labels.at_least,
                        labels.at_most, [] if labels.barred is None else labels.barred,
                        *(np.append(part.omega, [part.lower, part.upper, *part.code]) for part in labels.parts),
                        *(term.points for term in losses.terms)]
    total = hashlib.sha256("\n".join(parts).encode())
    for array in exact:
        total.update(np.ascontiguousarray(array, dtype=np.int64).tobytes())
    return total.hexdigest()


def numbers_of(program: MarginProgram) -> FloatArray:
    """Return numbers by which two programs differ, each computed with rounding errors."""
    losses, features = program.losses, program.features
    direction = np.random.default_rng(0).uniform(1.0, 2.0, features.rank)
    lengths = np.sqrt(features.row_norms())
    pieces = [[program.scale, program.constant, float(program.free_bias)], lengths,
              features.apply(direction) + 4.0 * np.sqrt(features.rank) * lengths]  # away from zero
    pieces += [np.ravel(x) for term in losses.terms for x in (term.weights, term.slopes, term.shifts, term.coupling)]
    for bound in program.labels.bounds:
        pieces += [bound.omega, [bound.lower, bound.upper]]
    for limit in program.decision:
        pieces += [limit.weights, [limit.lower, limit.upper]]
    return np.nan_to_num(np.concatenate([np.asarray(piece, dtype=float) for piece in pieces]))


def raw_state(raw: RawSolution | None) -> dict[str, Any]:
    """Return the variables of a solver's answer as a part of a state."""
    return {} if raw is None else {
        f"raw {name}": value for name, value in raw.variables.items() if isinstance(value, np.ndarray)}


def raw_of(state: State) -> RawSolution | None:
    """Return a solver's answer that `raw_state` made part of a state, as a warm start."""
    variables = {name.removeprefix("raw "): value for name, value in state.items() if name.startswith("raw ")}
    return RawSolution(Status.CONVERGED, variables) if variables else None


def pack(labellings: list[IntArray]) -> IntArray:
    """Return labellings as one array (T, n) of small integers."""
    return np.stack(labellings).astype(np.int32 if np.max(labellings) > 127 else np.int8)
