"""The time limit covers the whole of a solve, and a stop at any moment leaves labels in B and a sound problem."""

import time
from functools import cache

import numpy as np
import pytest

import margindsl as md
from margindsl.drivers.run import Run
from margindsl.errors import TimeLimitError
from margindsl.features.dense import HeldMatrix
from margindsl.host import clock
from margindsl.host.clock import Cancelled
from margindsl.runtime import stages
from margindsl.runtime.compiled import Compiled

CASES = {"alternating": 2, "cccp": 2, "minimax": 2, "sdp": 2, "weight-lifting": 2, "exact": 2, "alternating 3": 3,
         "sdp 3": 3}
SMALL = 10
STOPPED = ["alternating", "minimax", "sdp", "exact", "alternating 3"]


def problem_of(name, n, **plane):
    clusters = CASES[name]
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    X[: n // 2] += 0.8
    f = md.Hyperplane(X, **plane)
    if clusters == 2:
        y = md.Labels(n)
        return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.hinge(y * f))),
                          [abs(md.sum(y)) <= 2, y[0] == y[1]])
    y = md.Labels(n, clusters=clusters)
    coding = "simplex" if name == "sdp 3" else "crammer-singer"
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.hinge(md.margin(y, f, coding=coding)))),
                      [md.sizes(y, at_least=n // 6, at_most=n // 2), y[0] == y[1]])


def assert_usable(problem, solution):
    assert not problem.program().labels.violations(solution.labels)
    assert np.isfinite(solution.value) and solution.bound <= solution.value
    assert solution.certificate is None or solution.verify()


@cache
def whole(name):
    """Return a solve that nothing stops, how often it asked for time, and its products with the points."""
    asked, products, apply = [], [], HeldMatrix.apply
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "fits_in", lambda work: asked.append(work) or True)
        patch.setattr(HeldMatrix, "apply", lambda self, W: products.append(None) or apply(self, W))
        solution = problem_of(name, SMALL).solve(name.split()[0], random_state=0)
    return solution, len(asked), len(products)


@pytest.mark.parametrize("name,plane", [
    ("alternating", {}), ("alternating", {"kernel": md.RBF(2.0)}), ("cccp", {}), ("minimax", {}), ("sdp", {}),
    ("sdp", {"kernel": md.RBF(2.0)}), ("weight-lifting", {}), ("alternating 3", {}), ("sdp 3", {})])
def test_a_solve_ends_soon_after_its_limit(name, plane):
    """Past the limit by twice the allowance at most, of the time this process had, so that others do not count."""
    whole(name)  # imports do not count either
    problem, limit = problem_of(name, 3000, **plane), 0.1
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        solution = problem.solve(name.split()[0], time_limit=limit, random_state=0)
    except TimeLimitError:  # other processes had the time in which the label set is prepared
        assert time.process_time() - cpu < limit + clock.LEAST_ALLOWANCE
        return
    past = min(time.perf_counter() - wall, time.process_time() - cpu) - limit
    assert past <= 2 * clock.LEAST_ALLOWANCE
    assert not problem.program().labels.violations(solution.labels) and solution.bound <= solution.value


@pytest.mark.parametrize("name, share", [(name, (0.3, 0.9)[i % 2]) for i, name in enumerate(STOPPED)])
def test_time_that_is_up_at_any_question(name, share, monkeypatch):
    """Every place that asks for time may be told that it is up; the same problem is then solved as before."""
    problem, method, asked = problem_of(name, SMALL), name.split()[0], []
    free, questions, _ = whole(name)
    last = 1 + int(share * questions)

    def fits_in(work):
        asked.append(work)
        return len(asked) != last

    monkeypatch.setattr(clock, "fits_in", fits_in)
    try:
        solution = problem.solve(method, random_state=0, time_limit=1e6)
    except TimeLimitError:
        assert last <= 5  # while the label set was presolved
        return
    assert len(asked) >= last
    assert_usable(problem, solution)
    assert solution.bound <= free.value * (1 + 1e-6)
    monkeypatch.undo()
    again = problem.solve(method, random_state=0)
    assert again.value == pytest.approx(free.value, rel=1e-6) and again.status == free.status


@pytest.mark.parametrize("name", STOPPED)
@pytest.mark.parametrize("share", [0.6])
def test_ctrl_c_at_any_product(name, share, monkeypatch):
    """Ctrl-C is an answer, or `KeyboardInterrupt` while compiling; a second solve knows nothing of it."""
    problem, method, products = problem_of(name, SMALL), name.split()[0], []
    free, _, every = whole(name)
    last, apply = max(1, int(share * every)), HeldMatrix.apply

    def count(self, W):
        products.append(None)
        if len(products) == last:
            raise KeyboardInterrupt
        return apply(self, W)

    monkeypatch.setattr(HeldMatrix, "apply", count)
    try:
        solution = problem.solve(method, random_state=0)
    except KeyboardInterrupt:
        products.clear()
        with pytest.raises(KeyboardInterrupt):
            problem_of(name, SMALL).compile(method)
        return
    assert len(products) >= last
    assert_usable(problem, solution)
    assert solution.bound <= free.value * (1 + 1e-6)
    monkeypatch.undo()
    again = problem.solve(method, random_state=0)
    assert again.value == pytest.approx(free.value, rel=1e-6)


def test_the_limit_of_a_search_without_end():
    """A number of restarts that nobody waits for."""
    for relaxation in (md.CCCP(restarts=10**9), md.Alternating(restarts=10**9)):
        cpu = time.process_time()
        solution = problem_of("cccp", 40).solve(relaxation, time_limit=0.2, random_state=0)
        assert time.process_time() - cpu <= 0.2 + 2 * clock.LEAST_ALLOWANCE
        assert solution.status == "time_limit"


def test_labels_with_nothing_fitted_have_the_value_of_the_origin():
    problem = problem_of("alternating", 20_000, kernel=md.RBF(2.0))
    solution = problem.solve("alternating", time_limit=1e-9)
    assert solution.status == "time_limit" and "no time to fit" in solution.message
    assert solution.value == pytest.approx(10.0)  # the hinge at zero, its mean weighted by ten
    assert abs(solution.labels.sum()) <= 2 and solution.labels[0] == solution.labels[1]
    assert np.all(solution.weights == 0) and solution.bound == 0  # no hinge is negative


@pytest.mark.parametrize("name", ["minimax", "sdp", "exact", "sdp 3"])
def test_an_answer_at_the_origin_says_so(name, monkeypatch):
    problem = problem_of(name, SMALL)

    def fit(*arguments, **options):
        raise Cancelled

    monkeypatch.setattr(Run, "fit", fit)
    solution = problem.solve(name.split()[0], time_limit=60.0, random_state=0)
    assert_usable(problem, solution)
    assert solution.value == pytest.approx(10.0) and not np.any(solution.weights)
    assert "no time to fit it, w = 0" in solution.message


def test_label_sets_that_are_not_known_to_have_members(monkeypatch):
    monkeypatch.setattr(clock, "fits_in", lambda work: False)
    with pytest.raises(TimeLimitError, match="the time limit of 1 seconds was up before"):
        problem_of("alternating 3", 30).solve("alternating", time_limit=1.0)


def test_labels_in_hand_are_the_answer_where_the_time_ends_while_it_is_written(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 2)) + np.where(np.arange(20) % 2, 1.5, -1.5)[:, None]
    y, f = md.Labels(20), md.Hyperplane(X)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 5 * md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= 4])
    whole, written = problem.solve("sdp", random_state=0), Compiled.answered

    def late(compiled, run, found):
        if found.certificate is not None:
            raise Cancelled
        return written(compiled, run, found)

    monkeypatch.setattr(Compiled, "answered", late)
    solution = problem.solve("sdp", random_state=0, time_limit=60.0)
    assert np.array_equal(solution.labels, whole.labels) and np.isclose(solution.value, whole.value)
    assert solution.status in ("time_limit", "interrupted") and solution.verify()


def test_losses_with_caps_have_converged_only_where_the_lift_of_their_hulls_had_its_time(monkeypatch):
    X = np.random.default_rng(0).standard_normal((20, 2)) + np.where(np.arange(20) % 2, 1.5, -1.5)[:, None]
    y, f = md.Labels(20), md.Hyperplane(X)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 5 * md.mean(md.minimum(md.hinge(y * f), 1))),
                         [abs(md.sum(y)) <= 4])
    whole = problem.solve("sdp", random_state=0, time_limit=600.0)
    monkeypatch.setattr(stages, "LIFTED", 0.0)
    cut = problem.solve("sdp", random_state=0, time_limit=600.0)
    assert whole.bound > cut.bound and whole.status != "time_limit"
    assert cut.status == "time_limit" and cut.verify()
