"""The journal of a run: one line of JSON a finished cell, appended whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from margindsl.errors import DeclarationError


class Journal:
    """Keep the records of finished cells in a file.

    A line that a kill cut short is dropped when the file is opened again. One run at a time writes to a file.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            if self.path.exists():
                self._drop_torn_line()
            self.records = self._read() if self.path.exists() else []
        except OSError as error:
            raise DeclarationError(f"cannot read {self.path}: {error.strerror}") from None

    def append(self, record: dict[str, Any]) -> None:
        """Write one record and wait until it is on disk."""
        line = json.dumps(record, ensure_ascii=False).encode() + b"\n"
        try:
            handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                written = os.write(handle, line)
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise DeclarationError(f"cannot write {self.path}: {error.strerror}") from None
        if written < len(line):
            raise DeclarationError(f"cannot write {self.path}: the disk is full")
        self.records.append(json.loads(line))

    def _drop_torn_line(self) -> None:
        with open(self.path, "rb+") as stream:
            content = stream.read()
            stream.truncate(content.rfind(b"\n") + 1)

    def _read(self) -> list[dict[str, Any]]:
        records = []
        for number, line in enumerate(self.path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                record = json.loads(line)
            except ValueError:
                record = None
            if not isinstance(record, dict) or "key" not in record:
                raise DeclarationError(f"{self.path}: line {number} is no record of a cell; remove the line, or give "
                                       "another --output")
            records.append(record)
        return records
