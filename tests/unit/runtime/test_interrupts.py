"""Time limits, callbacks and Ctrl-C give labels in B, a finite value, a valid bound and the right status."""

import signal

import numpy as np
import pytest

import margindsl as md

pytestmark = pytest.mark.usefixtures("patience")  # what is found after a stop is not that of a quick machine
RNG = np.random.default_rng(3)
N = 14
X = RNG.normal(size=(N, 4))
X[:N // 2] += 0.7
SOLVERS = {"alternating": None, "cccp": None, "minimax": "clarabel", "sdp": None, "exact": None}


def problem_of(relaxation):
    n = 12 if relaxation == "exact" else N
    y, f = md.Labels(n), md.Hyperplane(X[:n])
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 20 * md.mean(md.odm(y * f, 0.4, 0.2))),
                      [abs(md.sum(y)) <= 2, y[0] == y[1], y[2] != y[3]])


@pytest.fixture(scope="module")
def bounds():
    return {n: problem_of(n).solve(n, SOLVERS[n], random_state=0) for n in ("exact", "sdp")}


def assert_usable(problem, solution):
    assert not problem.program().labels.violations(solution.labels)
    assert abs(solution.labels.sum()) <= 2
    assert solution.labels[0] == solution.labels[1] and solution.labels[2] != solution.labels[3]
    assert np.isfinite(solution.value) and solution.bound <= solution.value
    assert solution.state.value in " ".join(solution.summary().split())
    if solution.certificate is not None:
        assert solution.verify()


@pytest.mark.parametrize("relaxation", list(SOLVERS))
@pytest.mark.parametrize("seconds", [1e-9, 0.02])
def test_a_tiny_time_limit(relaxation, seconds):
    problem = problem_of(relaxation)
    solution = problem.solve(relaxation, SOLVERS[relaxation], time_limit=seconds, random_state=0)
    assert_usable(problem, solution)
    if seconds < 1e-6:
        assert solution.status == "time_limit"


@pytest.mark.parametrize("relaxation", SOLVERS)
def test_a_callback_sees_the_best_labels_and_what_is_proved(relaxation):
    seen = []
    solution = problem_of(relaxation).solve(relaxation, SOLVERS[relaxation], random_state=0, callback=seen.append)
    best, proved = [p.best for p in seen], [p.proved for p in seen]
    assert best == sorted(best, reverse=True) and proved == sorted(proved)
    assert solution.value <= best[-1] * (1 + 1e-9) and best[-1] < np.inf
    assert max(proved) <= solution.value + 1e-9 * abs(solution.value)
    assert proved[-1] == pytest.approx(solution.bound, rel=1e-6)
    if relaxation in ("sdp", "exact"):
        assert seen[-1].gap == pytest.approx((best[-1] - solution.bound) / best[-1], abs=1e-6)
    assert {"relax", "round", "polish"} <= {p.stage for p in seen}


@pytest.mark.parametrize("relaxation", SOLVERS)
def test_a_callback_that_asks_to_stop(relaxation):
    problem = problem_of(relaxation)
    seen = []
    solution = problem.solve(relaxation, SOLVERS[relaxation], random_state=0,
                             callback=lambda progress: seen.append(progress) or True)
    assert_usable(problem, solution)
    for progress in seen:
        assert progress.stage and progress.iteration >= 0 and progress.seconds >= 0
    if seen:
        assert solution.status in ("interrupted", "optimal")  # optimal: proved by what was found until then


@pytest.mark.parametrize("relaxation", [md.Alternating(restarts=9), md.CCCP(restarts=9),
                                        md.Alternating(polish="search"), md.Alternating(continuation=4)])
def test_a_callback_stops_all_restarts(relaxation):
    def stages(answer):
        seen = []
        solution = problem_of("cccp").solve(relaxation, random_state=0,
                                            callback=lambda progress: seen.append(progress.stage) or answer)
        return seen, solution

    stopped, solution = stages(True)
    whole, _ = stages(False)
    assert solution.status == "interrupted" and len(stopped) <= 3 < len(whole)
    assert_usable(problem_of("cccp"), solution)


@pytest.mark.parametrize("relaxation", ["cccp", "sdp", "minimax"])
def test_ctrl_c_at_once_keeps_the_warm_start(relaxation):
    problem = problem_of(relaxation)
    first = problem.solve("alternating", random_state=0)

    def interrupt(progress):
        raise KeyboardInterrupt

    solution = problem.solve(relaxation, SOLVERS[relaxation], callback=interrupt, warm_start=first, random_state=0)
    assert solution.value <= first.value * (1 + 1e-6)


def test_a_minimax_cut_short_by_time_has_not_converged():
    for recipe in (md.recipes.odmc, md.recipes.lgmmc):
        solution = recipe(X).solve(time_limit=1e-6, random_state=0)
        assert solution.status == "time_limit"
        assert np.isfinite(solution.value) and solution.bound <= solution.value


@pytest.mark.parametrize("relaxation", SOLVERS)
@pytest.mark.parametrize("after", [0, 2])
def test_ctrl_c(relaxation, after):
    problem = problem_of(relaxation)
    calls = []

    def interrupt(progress):
        calls.append(progress)
        if len(calls) == after + 1:
            raise KeyboardInterrupt

    solution = problem.solve(relaxation, SOLVERS[relaxation], callback=interrupt, random_state=0)
    assert_usable(problem, solution)
    assert solution.status == "interrupted" or len(calls) <= after


PLACES = [f"margindsl.runtime.{place}" for place in (
    "compiled.begin", "compiled.solution_of", "stages.final_status", "stages.checked", "compiled.trouble_of")]


@pytest.mark.parametrize("relaxation, place", [
    *(("alternating", place) for place in PLACES), *(("sdp", place) for place in PLACES[::2])])
def test_ctrl_c_once_compiled_is_answered(relaxation, place, monkeypatch):
    """Wherever it comes: before the first stage, between stages, while the answer is written and its proof checked."""
    problem = problem_of(relaxation)

    def interrupt(*given, **named):
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(place, interrupt)
    solution = problem.solve(relaxation, SOLVERS[relaxation], random_state=0)
    assert_usable(problem, solution)
    assert solution.status == "interrupted" or place.endswith("trouble_of")  # by then it was whole
    assert place.endswith(".begin") or np.linalg.norm(solution.weights) > 0


@pytest.mark.parametrize("relaxation", SOLVERS)
def test_an_error_in_a_callback_is_not_swallowed(relaxation):
    calls = []

    def broken(progress):
        calls.append(progress)
        raise ZeroDivisionError("of the callback")

    try:
        problem_of(relaxation).solve(relaxation, SOLVERS[relaxation], callback=broken, random_state=0)
    except ZeroDivisionError as error:
        assert "of the callback" in str(error)
    else:
        assert not calls


def test_the_bound_of_an_interrupted_minimax_is_valid(bounds):
    problem = problem_of("minimax")
    best = problem.solve("alternating", random_state=0).value
    for rounds in (1, 3):
        solution = problem.solve(md.Minimax(rounds=rounds), "clarabel", random_state=0)
        assert solution.bound <= best + 1e-9
        assert_usable(problem, solution)


def test_iteration_caps_surface(bounds):
    solution = problem_of("sdp").solve("sdp", "scs", max_iter=3, random_state=0)
    assert_usable(problem_of("sdp"), solution)
    assert solution.status in ("inaccurate", "iteration_limit", "failed")
    assert solution.bound <= bounds["sdp"].value


def test_verbose_logs_progress(caplog):
    with caplog.at_level("INFO", logger="margindsl"):
        problem_of("exact").solve("exact", verbose=True, random_state=0)
    assert any("enumeration" in message for message in caplog.messages)


@pytest.mark.parametrize("relaxation", SOLVERS)
def test_a_process_that_ignores_ctrl_c_is_stopped_by_limits_and_callbacks(relaxation):
    """As background jobs of a shell do; whether Ctrl-C is ignored stays the process's own affair."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        problem, solver = problem_of(relaxation), SOLVERS[relaxation]
        late = problem.solve(relaxation, solver, time_limit=1e-9, random_state=0)
        asked = problem.solve(relaxation, solver, callback=lambda progress: True, random_state=0)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert late.status == "time_limit" and asked.status in ("interrupted", "optimal", "converged")
    assert_usable(problem, late)
    assert_usable(problem, asked)
