"""One line of progress on a terminal; nothing where there is none."""

from __future__ import annotations

import math
import sys
import time
from typing import Any, TextIO

from margindsl.contract import Progress

_SECONDS_BETWEEN = 0.1
_WIDTH = 78


class ProgressLine:
    """Show the course of a solve on one line that rewrites itself.

    Parameters
    ----------
    title : str
        What is running.
    stream : text stream, optional
        Default standard error. Where it is no terminal nothing is written.
    quiet : bool
        Write nothing.
    """

    def __init__(self, title: str, stream: TextIO | None = None, quiet: bool = False) -> None:
        self.title = title
        self.stream = sys.stderr if stream is None else stream
        self.shown = not quiet and self.stream.isatty()
        self._last = -_SECONDS_BETWEEN

    def __enter__(self) -> ProgressLine:
        self._write(self.title)
        return self

    def __exit__(self, *exception: Any) -> None:
        self._write("")

    def __call__(self, progress: Progress) -> bool:
        """Show a report; returns False, which lets the solve go on."""
        now = time.monotonic()
        if self.shown and now - self._last >= _SECONDS_BETWEEN:
            self._last = now
            gap = f", gap {progress.gap:.2g}" if math.isfinite(progress.gap) else ""
            value = progress.best if math.isfinite(progress.best) else progress.value
            self._write(f"{self.title}: {progress.stage} {progress.iteration}, value {value:.6g}{gap}, "
                        f"{progress.seconds:.1f} s")
        return False

    def _write(self, text: str) -> None:
        if self.shown:
            self.stream.write("\r" + text[:_WIDTH].ljust(_WIDTH) + ("\r" if not text else ""))
            self.stream.flush()
