"""Blocks shared among threads: as many as BLAS may use, BLAS itself confined to one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from threadpoolctl import threadpool_info, threadpool_limits

from margindsl.host.threads import SMALL_WORK

Gather = Callable[..., Iterator[Any]]  # a map


@contextmanager
def threads(work: int) -> Iterator[Gather]:
    """Give a map over blocks that uses as many threads as BLAS may, BLAS itself confined to one.

    BLAS splits every thin product and waits for the slower half; whole blocks need no waiting, and the losses
    are evaluated in parallel too.

    Parameters
    ----------
    work : int
        Multiply-adds of a matrix product inside; small ones stay on one thread.
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
