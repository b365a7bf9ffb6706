"""BLAS threads: one for small problems, where starting threads costs more than they bring."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits

SMALL_WORK = 20_000_000  # multiply-adds of one matrix product


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
    with threadpool_limits(limits=1, user_api="blas"):
        yield
