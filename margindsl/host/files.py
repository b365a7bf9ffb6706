"""Files of arrays with a header: written at once or not at all, read only when whole."""

from __future__ import annotations

import contextlib
import json
import math
import os
import struct
import threading
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from margindsl.errors import DeclarationError

_HEADER = "header.json"
# What parsers of damaged files raise; numpy reads headers with the tokenizer of Python.
FOREIGN = (ValueError, SyntaxError, tokenize.TokenError, KeyError, TypeError, AttributeError, EOFError, IndexError,
           RuntimeError, OverflowError, MemoryError, RecursionError, struct.error, zlib.error, zipfile.BadZipFile,
           np.linalg.LinAlgError)


class BrokenArchiveError(ValueError):
    """A file is no archive, of another kind, or damaged."""


def write_archive(path: str | Path, kind: str, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write a header, of what JSON can hold, and arrays, in the place of what was there, atomically."""
    text = json.dumps({"kind": kind, "header": dict(header)}).encode()
    with written_whole(path) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as parts:
        parts.writestr(_HEADER, text)
        for name, value in arrays.items():
            with parts.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(value, order="C"), allow_pickle=False)


@contextlib.contextmanager
def written_whole(path: str | Path) -> Iterator[BinaryIO]:
    """Yield a stream whose content takes the place of a file once it is complete and on the disk.

    `path`: a link is followed. A device or a pipe is written to, never replaced.
    """
    if "\0" in str(path):
        raise DeclarationError(f"{str(path)!r}: a name of a file holds no NUL character")
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        with open(target, "wb") as stream:
            yield stream
        return
    beside = target.with_name(f".{target.name}.{os.getpid()}.{threading.get_ident()}.part")
    try:
        with open(beside, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(beside, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        if isinstance(error, OSError):
            error.filename = str(path)  # of what was asked for, where the system names another or nothing
        raise


def read_archive(path: str | Path, kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the header and the arrays of a file that `write_archive` wrote.

    Nothing larger than the file itself is allocated, and nothing in it is run. Sums of the archive tell damage.
    """
    with open(path, "rb") as stream:
        try:
            with zipfile.ZipFile(stream) as parts:
                held = {info.filename: info for info in parts.infolist()}
                if any(info.compress_type != zipfile.ZIP_STORED for info in held.values()):
                    raise ValueError("compressed")
                whole = json.loads(parts.read(held.pop(_HEADER)))
                arrays = {}
                for name, info in held.items():
                    check_member(parts, info)
                    with parts.open(info) as member:
                        arrays[name.removesuffix(".npy")] = np.lib.format.read_array(member, allow_pickle=False)
            found, header = whole["kind"], whole["header"]
        except FOREIGN as error:
            raise BrokenArchiveError(f"{path} is damaged, or was not written here ({error})") from None
    if found != kind:
        raise BrokenArchiveError(f"{path} holds a {found}, not a {kind}")
    return header, arrays


def check_member(parts: zipfile.ZipFile, info: zipfile.ZipInfo, most: float = math.inf) -> None:
    """Raise ValueError unless an array is one of plain numbers or text, of the size the directory says, and no larger.

    `most`: bytes.
    """
    with parts.open(info) as member:
        version = np.lib.format.read_magic(member)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
        shape, _, kind = read(member)
        if kind.hasobject or math.prod(shape) * kind.itemsize > min(info.file_size, most):
            raise ValueError(f"{info.filename} claims more than it holds")
