"""State of the whole process that a solver may change on its way: read before a solve, put back after it."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM", "SIGUSR1", "SIGFPE")
                if hasattr(signal, name))


@dataclass(frozen=True)
class Piece:
    """Represent one thing that belongs to the process.

    Parameters
    ----------
    read : callable
        Returns its state, comparable by ``==``.
    write : callable
        Takes a state that was read.
    is_cheap : bool
        Whether it is read in about a microsecond, so that it can be put back after every call of a solver.
    """

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], object]
    is_cheap: bool = True

    def put_back(self, state: Any) -> None:
        """Write a state that differs from the present one; what cannot be written any more is left."""
        with suppress(Exception):  # a directory that is gone, a handler of another interpreter
            if self.read() != state:
                self.write(state)


def _read_numpy_random() -> tuple[Any, ...]:
    state: Any = np.random.get_state()  # noqa: NPY002  (kept for the user, never drawn from)
    return state[0], state[1].tobytes(), *state[2:]


def _write_numpy_random(state: tuple[Any, ...]) -> None:
    np.random.set_state((state[0], np.frombuffer(state[1], dtype=np.uint32), *state[2:]))  # noqa: NPY002


def _write_filters(state: tuple[list[Any], Any]) -> None:
    warnings.filters[:], warnings.showwarning = state  # type: ignore[index]
    with warnings.catch_warnings():  # its end tells the interpreter that the filters changed
        pass


def _write_signals(state: tuple[Any, ...]) -> None:
    if threading.current_thread() is not threading.main_thread():  # where handlers cannot be set
        return
    for number, handler in zip(SIGNALS, state):
        if handler is not None and signal.getsignal(number) != handler:
            signal.signal(number, handler)


def _write_environment(state: dict[str, str]) -> None:
    for key in os.environ.keys() - state.keys():
        del os.environ[key]
    os.environ.update({key: value for key, value in state.items() if os.environ.get(key) != value})


def _read_directory() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return ""


PIECES = (
    Piece("filters of warnings", lambda: (list(warnings.filters), warnings.showwarning), _write_filters),
    Piece("numpy's error state", np.geterr, lambda state: np.seterr(**state)),
    Piece("numpy's printing", np.get_printoptions, lambda state: np.set_printoptions(**state)),
    Piece("random numbers of numpy", _read_numpy_random, _write_numpy_random, is_cheap=False),
    Piece("random numbers of Python", random.getstate, random.setstate, is_cheap=False),
    Piece("handlers of signals", lambda: tuple(map(signal.getsignal, SIGNALS)), _write_signals, is_cheap=False),
    Piece("environment", lambda: dict(os.environ), _write_environment, is_cheap=False),
    Piece("working directory", _read_directory, lambda state: os.chdir(state) if state else None),
    Piece("recursion limit", sys.getrecursionlimit, sys.setrecursionlimit),
)


class _Keeper:
    """Keep the state of the process over solves that overlap: as the first one finds it, the last one leaves it."""

    def __init__(self) -> None:
        self.lock, self.solves = threading.Lock(), 0
        self.found: dict[str, Any] = {}

    def enter(self) -> None:
        """Count a solve, and read the state before the first."""
        with self.lock:
            if not self.solves:
                self.found = read()
            self.solves += 1

    def leave(self) -> None:
        """Count a solve off, and put the state back after the last."""
        with self.lock:
            self.solves -= 1
            if self.solves:
                return
            for piece in PIECES:
                piece.put_back(self.found[piece.name])

    def adopt(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        """Take over what the user's own code changed during a solve."""
        with self.lock:
            self.found |= {name: state for name, state in after.items() if state != before[name]}


_KEEPER = _Keeper()


def read() -> dict[str, Any]:
    """Return the state of every piece by its name."""
    return {piece.name: piece.read() for piece in PIECES}


@contextmanager
def process_kept() -> Iterator[None]:
    """Put back every one of `PIECES` that is changed inside.

    Solves may overlap in threads of Python: what the first one found is put back when the last one ends.
    """
    _KEEPER.enter()
    try:
        yield
    finally:
        _KEEPER.leave()


@contextmanager
def call_kept() -> Iterator[None]:
    """Put back what is changed inside and costs next to nothing to look at, so that a solve can go on unharmed."""
    found = [(piece, piece.read()) for piece in PIECES if piece.is_cheap]
    try:
        yield
    finally:
        for piece, state in found:
            piece.put_back(state)


@contextmanager
def by_the_user() -> Iterator[None]:
    """Keep what is changed inside, in a callback of the user, beyond the `process_kept` around it."""
    if not _KEEPER.solves:
        yield
        return
    before = read()
    try:
        yield
    finally:
        _KEEPER.adopt(before, read())


__all__ = ["PIECES", "Piece", "by_the_user", "call_kept", "process_kept", "read"]
