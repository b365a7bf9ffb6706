"""Tasks shared out by joblib: among threads, processes, or the workers of Dask or Ray, whichever backend is active."""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor
from numbers import Integral
from operator import length_hint
from typing import Any

from margindsl.errors import DeclarationError, UnansweredError


def share_out(function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]], keep: Callable[[int, Any], None],
              n_jobs: int | None = None) -> None:
    """Call a function for every task, and hand each answer over as soon as it is there.

    With one job, and with None where no `joblib.parallel_config` says otherwise, tasks run in turn in this thread and
    joblib is not loaded. Answers do not depend on where tasks run, as long as each draws its own random numbers. `keep`
    is called in this thread with the number of a task and its answer, in the order in which they finish.
    """
    if count_jobs(n_jobs) == 1 or length_hint(tasks, 2) < 2:
        for number, task in enumerate(tasks):
            keep(number, function(*task))
        return
    stop = threading.Event()
    answers, interrupt = _answers(n_jobs, function, tasks, stop), None
    try:
        while True:
            try:
                if (answer := answers.get()) is None:
                    break
                number, found, error = answer
                if isinstance(error, BrokenExecutor):
                    raise UnansweredError("a process died, perhaps for want of memory; what was finished is kept",
                                          "Try again with one job") from None
                if error is not None:
                    raise error
                keep(number, found)
            except KeyboardInterrupt as again:
                if interrupt is not None:
                    raise
                interrupt = again
                stop.set()
    finally:
        stop.set()
    if interrupt is not None:
        raise interrupt


def check_jobs(n_jobs: Any) -> None:
    """Raise unless this is a number of jobs."""
    is_number = isinstance(n_jobs, Integral) and not isinstance(n_jobs, bool) and n_jobs != 0
    if n_jobs is not None and not is_number:
        raise DeclarationError(f"n_jobs={n_jobs!r}: expected None, a number of jobs, or −1 for all processors")


def count_jobs(n_jobs: int | None) -> int:
    """Return how many tasks run at a time on the active backend of joblib, which one does not load."""
    check_jobs(n_jobs)
    if n_jobs == 1 or (n_jobs is None and "joblib" not in sys.modules):
        return 1
    import joblib

    return int(joblib.effective_n_jobs(n_jobs))


def _answers(n_jobs: int | None, function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]],
             stop: threading.Event) -> queue.SimpleQueue[Any]:
    """Return a queue of (number, answer, error), then None: filled by a thread, which Ctrl-C does not reach."""
    import joblib

    found: queue.SimpleQueue[Any] = queue.SimpleQueue()
    pool, call, own = joblib.Parallel(n_jobs, return_as="generator_unordered"), joblib.delayed(_numbered), os.getpid()

    def waiting() -> Iterator[Any]:
        for number, task in enumerate(tasks):
            if stop.is_set():
                return
            yield call(number, own, function, task)

    def fill() -> None:
        try:
            for number, answer in pool(waiting()):
                found.put((number, answer, None))
        except BaseException as error:  # it is raised in the thread that asked
            found.put((-1, None, error))
        found.put(None)

    threading.Thread(target=fill, daemon=True).start()
    return found


def _numbered(number: int, owner: int, function: Callable[..., Any], task: tuple[Any, ...]) -> tuple[int, Any]:
    if os.getpid() != owner and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends Ctrl-C to all; the one who waits decides
    return number, function(*task)
