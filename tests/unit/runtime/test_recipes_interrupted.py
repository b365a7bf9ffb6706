"""A recipe that is stopped early, however it is, answers with the best labels so far, and with its start at worst."""

import os
import signal
import threading
import time
from contextlib import closing

import numpy as np
import pytest

import margindsl as md
from margindsl.drivers.run import Run
from margindsl.errors import DeclarationError

pytestmark = pytest.mark.usefixtures("patience")  # what is found after a stop is not that of a quick machine
RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 4))
X[:20] += 1.5
THREE = RNG.normal(size=(45, 4)) + 3 * np.eye(3, 4)[np.arange(45) % 3]
KNOWN = np.zeros(40, dtype=int)
KNOWN[:3], KNOWN[-3:] = 1, -1
R = md.recipes


def again(problem, relaxation):
    return md.Problem(problem.objective, problem.constraints, relaxation=relaxation)


LOCAL = {
    "cpmmc": lambda: R.cpmmc(X), "cpmmc, labels outside": lambda: R.cpmmc(X, outer="labels"),
    "skmmc": lambda: R.skmmc(X), "skmmc_v2": lambda: R.skmmc_v2(X), "kernel_cpmmc": lambda: R.kernel_cpmmc(X),
    "adaptive_cpmmc": lambda: R.adaptive_cpmmc(X), "mme": lambda: R.mme(X), "cpm3c": lambda: R.cpm3c(THREE, 3),
    "itersvr": lambda: R.itersvr(X), "tsvm": lambda: R.tsvm(X, KNOWN), "usvm": lambda: R.usvm(X, KNOWN),
    "cuts3vm": lambda: R.cuts3vm(X, KNOWN), "s4vm": lambda: R.s4vm(X, KNOWN, samples=10, separators=3)}
CONVEX = {
    "gmmc": lambda: R.gmmc(X), "odmssc": lambda: R.odmssc(X, must_link=[(0, 1)]), "lgmmc": lambda: R.lgmmc(X),
    "mmc": lambda: R.mmc(X), "odmc": lambda: R.odmc(X),
    "weight lifting": lambda: again(R.gmmc(X), "weight-lifting")}
EVERY = LOCAL | CONVEX


class Interrupt:
    """Have a thread, which runs already, send Ctrl-C at one of the reports.

    A byte in a pipe tells it when: no lock of Python's is held in the main thread when the signal comes.
    """

    def __init__(self, after):
        self.left = after
        self.heard, self.told = os.pipe()
        self.thread = threading.Thread(target=self.send)
        self.thread.start()

    def send(self):
        if os.read(self.heard, 1) == b"1":
            os.kill(os.getpid(), signal.SIGINT)

    def __call__(self, progress):
        self.left -= 1
        if self.left == 0:
            os.write(self.told, b"1")
            time.sleep(60)
            raise AssertionError("the signal did not come")

    def close(self):
        os.close(self.told)
        self.thread.join()
        os.close(self.heard)


def one_cluster(problem):
    """Return the value of one cluster, or of the labels 1 wherever constraints allow them."""
    program = problem.program()
    labels = program.labels.names.written(program.labels.any_member())
    fixed = problem.with_constraints(problem.labels[np.arange(program.n)] == labels)
    return fixed.solve("supervised", "newton").value


def assert_in_hand(problem, solution, status):
    assert solution.status == status
    assert not problem.program().labels.violations(solution.labels)
    assert min(solution.cluster_sizes) >= 5
    program = problem.program()
    if not (program.clusters == 2 and not program.labels.free.all()):  # a start of known labels minimises nothing
        assert solution.value < one_cluster(problem)
    assert solution.bound <= solution.value


@pytest.mark.parametrize("name", LOCAL)
def test_a_callback_keeps_the_start(name):
    problem = LOCAL[name]()
    assert_in_hand(problem, problem.solve(callback=lambda progress: True, random_state=0), "interrupted")


@pytest.mark.filterwarnings("ignore::margindsl.errors.TrivialityWarning")
@pytest.mark.parametrize("name", EVERY)
def test_a_time_limit_keeps_the_label_set(name):
    """The clock starts with the call: nothing but labels in B is promised of a limit that ends before any start."""
    problem = EVERY[name]()
    solution = problem.solve(time_limit=1e-6, random_state=0)
    assert solution.status == "time_limit" and not problem.program().labels.violations(solution.labels)
    assert np.isfinite(solution.value) and solution.bound <= solution.value


@pytest.mark.filterwarnings("ignore::margindsl.errors.TrivialityWarning")
@pytest.mark.parametrize("name", EVERY)
def test_a_signal_in_the_first_solve_keeps_the_start(name, monkeypatch):
    problem = EVERY[name]()

    def interrupted(*_, **__):
        monkeypatch.undo()
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)
        raise AssertionError("the signal did not come")

    if name == "s4vm":  # it fits separators in runs of their own
        monkeypatch.setattr("margindsl.relaxations.safe.alternate", interrupted)
    elif name == "tsvm":
        monkeypatch.setattr("margindsl.relaxations.transductive.alternate", interrupted)
    else:
        monkeypatch.setattr(Run, "solve", interrupted)
    assert_in_hand(problem, problem.solve(random_state=0), "interrupted")


@pytest.mark.parametrize("name", ["cpmmc", "cpmmc, labels outside", "itersvr", "cpm3c", "tsvm"])
def test_a_signal_from_a_thread_keeps_what_was_found(name):
    problem, values = LOCAL[name](), []
    whole = problem.solve(random_state=0)
    for after in (1, 3):
        interrupt = Interrupt(after)
        with closing(interrupt):
            solution = problem.solve(callback=interrupt, random_state=0)
        assert_in_hand(problem, solution, "interrupted" if interrupt.left <= 0 else whole.status)
        values.append(solution.value)
    assert all(value >= whole.value - 1e-2 * abs(whole.value) for value in values)


@pytest.mark.parametrize("relaxation, solver", [("alternating", "osqp"), ("cccp", "clarabel")])
def test_a_solver_that_never_began_keeps_the_start(relaxation, solver, monkeypatch):
    solve, problem = Run.solve, R.cpmmc(X)

    def too_late(run, *given, **options):
        run.budget = run.budget.replace(deadline=time.monotonic())
        return solve(run, *given, **options)

    monkeypatch.setattr(Run, "solve", too_late)
    solution = problem.solve(relaxation, solver, time_limit=600, random_state=0)
    assert_in_hand(problem, solution, "time_limit")


def test_a_known_start_takes_the_time_it_needs():
    limited = R.usvm(X, KNOWN, balance=False).solve(time_limit=1e-6)
    alone = R.svm(X, KNOWN, C=6.0).solve()  # a mean over six labelled points
    assert np.array_equal(limited.labels, alone.labels)


def test_ctrl_c_while_the_problem_is_compiled_is_passed_on(monkeypatch):
    problem = R.cpmmc(X)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("margindsl.runtime.presolve.assemble", interrupted)
    with pytest.raises(KeyboardInterrupt):
        problem.solve()


@pytest.mark.parametrize("option", [{"time_limit": "a"}, {"time_limit": True}, {"callback": 3}])
def test_limits_and_callbacks_of_the_wrong_kind(option):
    with pytest.raises(DeclarationError, match="expected a"):
        R.cpmmc(X).solve(**option)


def test_a_signal_in_the_last_evaluation_keeps_the_fit(monkeypatch):
    problem, fit = R.itersvr(X), Run.fit
    whole = problem.solve(random_state=0)

    def interrupted(run, labels, start=None, tol=1e-7):
        if tol < 1e-9:
            monkeypatch.undo()
            raise KeyboardInterrupt
        return fit(run, labels, start, tol)

    monkeypatch.setattr(Run, "fit", interrupted)
    solution = problem.solve(random_state=0)
    assert solution.status == "interrupted" and np.array_equal(solution.labels, whole.labels)
