"""Progress: a line where somebody watches, lines of the log where they are asked for, silence elsewhere."""

import contextlib
import io
import itertools
import logging
import sys
import threading
import types

import numpy as np
import pytest

import margindsl as md
from margindsl.errors import DeclarationError
from margindsl.host import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def on_terminal(work):
    with contextlib.redirect_stderr(Terminal()) as stream:
        answer = work()
    return stream.getvalue(), answer


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "EVERY", 0.005)


def problem_of(n=12):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4)) + np.repeat([[1.0], [-1.0]], n // 2, axis=0)
    y, f = md.Labels(n), md.Hyperplane(X)
    weight = md.Parameter(5.0, name="weight")
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + weight * md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= 2]), weight


def test_a_terminal_gets_one_line_that_is_cleared(at_once):
    text, _ = on_terminal(lambda: problem_of(18)[0].solve("exact", random_state=0))
    assert "\n" not in text and "exact with" in text and "value" in text
    assert text.endswith("\r") and text.rstrip("\r").split("\r")[-1].strip() == ""


def test_nothing_is_shown_of_what_is_quick():
    assert on_terminal(lambda: problem_of(8)[0].solve("alternating", random_state=0))[0] == ""


def test_work_inside_other_work_shares_its_line_and_is_counted(at_once):
    problem, weight = problem_of()
    text, _ = on_terminal(lambda: problem.path(weight, [1.0, 5.0, 9.0], relaxation="exact", random_state=0))
    lines = text.split("\r")
    assert {f"path {k}/3" for k in range(3)} <= {line[:8] for line in lines}
    assert all(line.startswith("path") for line in lines if line.strip())
    assert any("exact with" in line for line in lines)


@pytest.mark.parametrize("options", [{"verbose": 0}, {"verbose": False}])
def test_silence_can_be_asked_for(at_once, options):
    assert on_terminal(lambda: problem_of()[0].solve("exact", random_state=0, **options))[0] == ""


def test_nobody_watches_pipes_threads_and_workers(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert not progress.is_watched()
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: types.SimpleNamespace()))
    assert not progress.is_watched()  # an IPython shell whose errors go elsewhere
    notebook = types.SimpleNamespace(get_ipython=lambda: types.SimpleNamespace(kernel=object()))
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    assert progress.is_watched()
    monkeypatch.setattr(sys, "stderr", Terminal())
    seen = []
    thread = threading.Thread(target=lambda: seen.append(progress.is_watched()))
    thread.start()
    thread.join()
    assert seen == [False]
    worker = types.SimpleNamespace(current_process=lambda: types.SimpleNamespace(name="LokyProcess-1"))
    monkeypatch.setitem(sys.modules, "multiprocessing.process", worker)
    assert not progress.is_watched()


def test_what_is_shown_changes_no_answer(at_once):
    problem, _ = problem_of()
    _, shown = on_terminal(lambda: problem.solve("minimax", random_state=0))
    silent = problem.solve("minimax", random_state=0)
    assert np.array_equal(shown.labels, silent.labels) and shown.value == silent.value and shown.bound == silent.bound


def test_rounds_are_written_without_any_configuration(capsys, monkeypatch):
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    solution = problem_of()[0].solve("exact", random_state=0, verbose=1)
    out, err = capsys.readouterr()
    head, *rounds, end = err.splitlines()
    assert out == "" and head == progress.HEAD and end.startswith(f"{solution.status}: value {solution.value:.6g}")
    last = rounds[-1].split()
    assert float(last[-5]) == pytest.approx(solution.value, rel=1e-4)  # best
    assert all(a != b for a, b in itertools.pairwise(rounds))
    assert np.all(np.diff([float(line.split()[-1]) for line in rounds]) >= 0)
    assert not logging.getLogger("margindsl").handlers and logging.getLogger("margindsl").level == logging.NOTSET


def test_rounds_go_where_logging_was_configured_to(capsys, caplog):
    with caplog.at_level("INFO", logger="margindsl"):
        solution = problem_of()[0].solve("exact", random_state=0, verbose=1)
    assert capsys.readouterr().err == "" and caplog.messages[0] == progress.HEAD
    assert caplog.messages[-1].startswith(solution.status)
    log = logging.getLogger("margindsl")
    log.setLevel(logging.ERROR)
    try:
        caplog.clear()
        problem_of()[0].solve("exact", random_state=0, verbose=1)
    finally:
        log.setLevel(logging.NOTSET)
    assert capsys.readouterr().err == "" and not caplog.messages


@pytest.mark.parametrize("verbose", [-1, "loud", 0.5])
def test_other_values_are_refused(verbose):
    with pytest.raises(DeclarationError, match=r"verbose=.*expected None, 0"):
        problem_of()[0].solve("exact", verbose=verbose)


def test_a_notebook_has_one_widget_that_is_hidden_at_the_end(at_once, monkeypatch):
    seen = []

    class Widget(contextlib.nullcontext):  # of tqdm.auto in a kernel with ipywidgets
        set_lock = staticmethod(lambda lock: None)
        set_description_str = set_postfix_str = lambda self, text, refresh: None
        update = lambda self, steps: None  # noqa: E731

        def __init__(self, total, ncols, bar_format, **_):
            super().__init__(self)
            self.total, self.n = total, 0
            seen.append((self, ncols, bar_format))

    monkeypatch.setattr(progress.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(progress.importlib, "import_module", lambda name: types.SimpleNamespace(
        tqdm={"tqdm.auto": Widget}[name]))
    monkeypatch.setattr(progress, "is_watched", lambda: True)
    with progress.task("path", 3) as work:
        work.step()
        while not seen:
            threading.Event().wait(0.01)
    (widget, columns, shown), = seen
    assert widget.n == widget.total == 3 and columns is None and "|{bar}|" in shown


def test_a_notebook_without_widgets_has_one_output_that_is_empty_at_the_end(at_once, monkeypatch):
    outputs = []

    class Handle:
        def update(self, data, raw):
            outputs[-1].append(data["text/plain"])

    def display(data, raw, display_id):
        outputs.append([data["text/plain"]])
        return Handle()

    stream = io.StringIO()
    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(display=display))
    monkeypatch.setattr(progress.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(progress, "is_watched", lambda: True)
    monkeypatch.setattr(sys, "stderr", stream)
    with progress.task("path", 3) as work:
        work.step()
        while not any("path 1/3" in text for own in outputs for text in own):
            threading.Event().wait(0.01)
    assert len(outputs) == 1 and outputs[0][-1] == "" and stream.getvalue() == ""


def test_what_a_notebook_shows_of_lists_and_proofs_is_short():
    problem, _ = problem_of()
    proof = problem.solve("sdp", random_state=0).certificate
    for shown in (md.solvers(), md.relaxations(), proof):
        assert "\n" not in repr(shown) and len(repr(shown)) < 250 and shown._repr_html_().count("<tr>") < 30
    assert str(md.relaxations()).count("\n") == len(md.relaxations()) + 1 and "interior" in str(md.solvers())
