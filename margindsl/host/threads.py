"""Threads: BLAS has one for small problems; blocks of large ones are shared among as many as BLAS may use."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

SMALL_WORK = 20_000_000  # multiply-adds of one matrix product


@lru_cache(maxsize=1)
def _libraries(modules: int) -> tuple[Any, ...]:
    return tuple(ThreadpoolController().select(user_api="blas").lib_controllers)


class _Counts:
    """Keep the numbers of BLAS threads over solves that overlap: they belong to the process, not to a solve.

    The numbers found when the first solve begins hold until the last one ends; they are put back whenever no small one
    is left.
    """

    def __init__(self) -> None:
        self.lock, self.solves, self.small = threading.Lock(), 0, 0
        self.found: list[tuple[Any, int]] = []

    def enter(self, small: bool) -> None:
        """Count a solve, and give one thread to a small one."""
        libraries = _libraries(len(sys.modules))
        with self.lock:
            if not self.solves:
                self.found = [(library, library.get_num_threads()) for library in libraries]
            self.solves += 1
            self.small += small
            if small:
                for library in libraries:
                    library.set_num_threads(1)

    def leave(self, small: bool) -> None:
        """Count a solve off, and put the numbers back where no small one is left."""
        with self.lock:
            self.solves -= 1
            self.small -= small
            if not self.small:
                for library, count in self.found:
                    library.set_num_threads(count)


_COUNTS = _Counts()


@contextmanager
def small_work_threads(work: int) -> Iterator[None]:
    """Limit BLAS to one thread while the products inside, of so many multiply-adds, are small; then undo it.

    On two cores a solve of a few hundred points took up to ten times longer with two threads than with one. Solves may
    overlap in threads of Python: the numbers of before the first are back once no small one runs.
    """
    small = work <= SMALL_WORK
    _COUNTS.enter(small)
    try:
        yield
    finally:
        _COUNTS.leave(small)


Workers = Callable[..., Iterator[Any]]  # a map


@contextmanager
def threads(work: int) -> Iterator[Workers]:
    """Give a map over blocks that uses as many threads as BLAS may, BLAS itself confined to one.

    BLAS splits every thin product and waits for the slower half; whole blocks need no waiting, and the losses
    are evaluated in parallel too.

    `work`: multiply-adds of a matrix product inside; small ones stay on one thread.
    """
    if work <= SMALL_WORK:  # the session has confined BLAS already
        yield map
        return
    count = max([pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"], default=1)
    with threadpool_limits(limits=1, user_api="blas"):
        if count == 1:
            yield map
            return
        with ThreadPoolExecutor(count) as pool:
            yield pool.map
