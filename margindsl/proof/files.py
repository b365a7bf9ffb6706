"""Proofs in files: written atomically, read within limits that are checked before anything is allocated."""

from __future__ import annotations

import io
import json
import math
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from margindsl.errors import DeclarationError
from margindsl.host.files import FOREIGN, check_member, written_whole

INFLATION, SPARE = 200, 1 << 24  # most bytes held for a byte of the file, and beside
LONGEST = 1 << 24  # bytes of a header


def write_proof(path: str | Path, header: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Write a header and arrays to a ``.npz`` file; the file at the path stays whole until the new one is.

    `header`: of what JSON can hold.
    """
    with written_whole(path) as stream:
        np.savez_compressed(stream, header=np.array(json.dumps(header)), **arrays)


def read_proof(path: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the header and the arrays of a file."""
    try:
        stream = io.BytesIO(Path(path).read_bytes())  # what fails from here on is the content
    except ValueError as error:  # a NUL character
        raise DeclarationError(f"Solution.load: {str(path)!r} is no name of a file: {error}") from None
    try:
        length = stream.seek(0, os.SEEK_END)
        with zipfile.ZipFile(stream) as archive:  # arrays of the sizes that the directory of the file says
            entries = archive.infolist()
            if sum(entry.file_size for entry in entries) > INFLATION * length + SPARE:
                raise DeclarationError(f"Solution.load: {path} would take {sum(e.file_size for e in entries)} bytes of "
                                       f"memory for {length} bytes of file; it is no saved solution")
            for entry in entries:
                check_member(archive, entry, LONGEST if entry.filename == "header.npy" else math.inf)
        stream.seek(0)
        with np.load(stream, allow_pickle=False) as stored:
            header = json.loads(str(stored["header"]))
            arrays = {name: stored[name] for name in stored.files if name != "header"}
    except (*FOREIGN, OSError) as error:
        if isinstance(error, DeclarationError):
            raise
        raise DeclarationError(
            f"Solution.load: {path} is no saved solution; expected a .npz file that Solution.save wrote") from error
    return header, arrays
