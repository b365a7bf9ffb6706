"""BLAS threads: one for small problems, where starting threads costs more than they bring."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from threadpoolctl import ThreadpoolController

SMALL_WORK = 20_000_000  # multiply-adds of one matrix product


@lru_cache(maxsize=1)
def _controller(modules: int) -> ThreadpoolController:
    """Return a controller of the libraries loaded so far; looking for them costs as much as a small solve."""
    return ThreadpoolController()


@contextmanager
def small_work_threads(work: int) -> Iterator[None]:
    """Limit BLAS to one thread while the products inside are small; leave it alone otherwise.

    Parameters
    ----------
    work : int
        Multiply-adds of a typical matrix product inside.

    Notes
    -----
    On two cores a solve of a few hundred points took up to ten times longer with two threads than with one.
    """
    if work > SMALL_WORK:
        yield
        return
    with _controller(len(sys.modules)).limit(limits=1, user_api="blas"):
        yield
