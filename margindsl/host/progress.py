"""How far work has come, told to whoever watches: a line on a terminal, a widget in a notebook, or lines of the log.

The line comes up once work takes more than two seconds and is gone when it ends; work inside other work shares its
line. Nothing is shown where nobody watches: in a pipe, a file, a test, a thread or process beside the main one.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import logging
import math
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from margindsl.host.clock import Progress

DELAY, EVERY = 2.0, 0.2  # seconds before the line comes up, and between two looks at what it says
ROWS = 24  # of a terminal that does not know its own
THINNED = 0.005  # part of the time so far in which a stage has one line of the log
HEAD = "   round  stage                   value        bound         best       proved      gap    seconds"


@dataclass(eq=False)
class Task:
    """Represent work under way."""

    title: str
    total: int | None = None  # steps in all, where they are counted: then the time left is shown, too
    done: int = 0  # steps that are finished
    text: str = ""  # where the work stands
    is_seen: bool = False  # whether somebody watches

    def step(self, text: str = "", done: int | None = None) -> None:
        """Note that one more step is finished, or how many are."""
        self.done, self.text = self.done + 1 if done is None else done, text

    def tell(self, progress: Progress) -> None:
        """Note a report of a solve."""
        value = progress.best if math.isfinite(progress.best) else progress.value
        bound = progress.proved if math.isfinite(progress.proved) else progress.bound
        parts = [f"{progress.stage} {progress.iteration}", f"value {value:.6g}"]
        parts += [f"bound {bound:.6g}"] if math.isfinite(bound) else []
        self.text = ", ".join(parts + ([f"gap {_percent(progress.gap)}"] if math.isfinite(progress.gap) else []))

    def shown(self) -> str:
        """Return the work in a few words."""
        counted = f" {self.done}/{self.total}" if self.total else ""
        return f"{self.title}{counted}: {self.text}" if self.text else f"{self.title}{counted}"


@dataclass(eq=False)
class Screen:
    """Hold the tasks that share one line, and draw it until the last of them ends."""

    tasks: list[Task]  # the outermost first
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def is_seen(self) -> bool:
        """Return whether the line is drawn."""
        return self.tasks[0].is_seen

    def joined(self, own: Task) -> Iterator[Task]:
        """Yield a task that shares the line while it is under way."""
        self.tasks.append(own)
        try:
            yield own
        finally:
            self.tasks.remove(own)

    def draw(self, stream: Any) -> None:
        """Draw the line every so often, in a thread of its own, for a solver may be long without a word."""
        widget = not stream.isatty() and importlib.util.find_spec("ipywidgets") is not None
        tqdm: Any = importlib.import_module("tqdm.auto" if widget else "tqdm").tqdm

        class Line(tqdm):
            monitor_interval = 0  # no further thread

        if not (widget or stream.isatty()):  # a notebook without widgets: one output, empty at the end
            shown, stream, handles = importlib.import_module("IPython.display").display, io.StringIO(), list[Any]()

            def display(line: Any, msg: str | None = None, pos: int | None = None) -> None:
                text = {"text/plain": str(line) if msg is None else msg}
                handles[0].update(text, raw=True) if handles else handles.append(
                    shown(text, raw=True, display_id=True))

            Line.display = display

        Line.set_lock(threading.RLock())
        first = self.tasks[0]
        counted = "{desc} {n_fmt}/{total_fmt} |{bar%s}| {elapsed}<{remaining}{postfix}" % (":16" * (not widget))
        with Line(total=first.total, desc=first.title, file=stream, leave=False, delay=DELAY, miniters=0,
                  smoothing=0.0, ncols=None if widget else _columns(), nrows=ROWS,
                  bar_format=counted if first.total else "{desc} {elapsed}{postfix}") as line:
            while not self.ended.wait(EVERY):
                line.n, line.ncols, inner = first.done, None if widget else _columns(), self.tasks[-1]
                line.set_description_str(first.title, refresh=False)
                line.set_postfix_str(inner.text if inner is first else inner.shown(), refresh=False)
                line.update(0)
            line.n = first.total or 0  # a widget that ends below its total stays, in red


_SCREEN: ContextVar[Screen | None] = ContextVar("screen", default=None)


@contextmanager
def task(title: str, total: int | None = None, *, shown: bool = True) -> Iterator[Task]:
    """Show work while it is under way, where somebody watches and it takes its time; yield its `Task` to be kept.

    Where `shown` is False nothing is shown of this work, nor of what is done inside.
    """
    screen = _SCREEN.get()
    if screen is not None:
        yield from screen.joined(Task(title, total, is_seen=screen.is_seen and shown))
        return
    own = Task(title, total, is_seen=shown and is_watched())
    screen = Screen([own])
    token = _SCREEN.set(screen)
    drawing = threading.Thread(target=screen.draw, args=(sys.stderr,), daemon=True)
    try:
        if own.is_seen:
            drawing.start()
        yield own
    finally:
        _SCREEN.reset(token)
        screen.ended.set()
        if own.is_seen:
            drawing.join()


def is_watched() -> bool:
    """Return whether somebody looks at what is written: a terminal or a notebook, and the main thread of it."""
    if threading.current_thread() is not threading.main_thread() or sys.stderr is None:
        return False
    processes = sys.modules.get("multiprocessing.process")  # loaded in every worker
    if processes is not None and processes.current_process().name != "MainProcess":
        return False
    shell = sys.modules.get("IPython")
    return sys.stderr.isatty() or hasattr(shell and shell.get_ipython(), "kernel")


class Rounds:
    """Write the rounds of a solve into the log ``margindsl``, a line each, as conic solvers do.

    Where nothing was configured for it the lines go to standard error.
    """

    def __init__(self) -> None:
        self._last: tuple[str, int] | None = None
        self._at = -math.inf

    def __call__(self, progress: Progress) -> None:
        position = progress.stage, progress.iteration
        repeats = self._last is not None and self._last[0] == progress.stage and (
            position == self._last or progress.seconds - self._at < THINNED * progress.seconds)
        if repeats:
            return
        if self._last is None:
            say(HEAD)
        self._last, self._at = position, progress.seconds
        numbers = "".join(f"{_number(value):>13}" for value in (
            progress.value, progress.bound, progress.best, progress.proved))
        say(f"{progress.iteration:8d}  {progress.stage:16.16}{numbers}{_percent(progress.gap):>9}"
            f"{progress.seconds:11.2f}")

    def end(self, solution: Any, seconds: float) -> None:
        """Write how the solve ended."""
        say(f"{solution.status}: value {_number(solution.value)}, bound {_number(solution.bound)}, gap "
            f"{_percent(solution.gap)}, {seconds:.2f} s, {solution.relaxation} with {solution.solver}")


def say(text: str) -> None:
    """Write one line into the log at level INFO; to standard error where no logging was configured."""
    log = logging.getLogger("margindsl")
    if log.level or (log.hasHandlers() and log.isEnabledFor(logging.INFO)):
        log.info(text)
        return
    logging.StreamHandler().handle(log.makeRecord(log.name, logging.INFO, "", 0, text, (), None))


def _columns() -> int:
    return shutil.get_terminal_size().columns - 1


def _number(value: float) -> str:
    return f"{value:.6g}" if math.isfinite(value) else "-"


def _percent(gap: float) -> str:
    return f"{100 * gap:.3g} %" if math.isfinite(gap) else "-"
