"""Branch and bound by jobs: parts of the tree grow at once, and one proof of the whole is judged."""

from concurrent.futures import BrokenExecutor

import joblib
import numpy as np
import pytest

import margindsl as md
from margindsl.contract import Budget
from margindsl.drivers import branching
from margindsl.drivers import checkpoint as kept
from margindsl.errors import DeclarationError, UnansweredError
from margindsl.runtime.registry import make_solver

LOSSES = [md.odm, md.hinge, md.squared_hinge, lambda g: md.square(1 - g)]


@pytest.fixture(autouse=True)
def threads():
    with joblib.parallel_config(backend="threading"):
        yield


@pytest.fixture
def parts(monkeypatch):
    """Return the numbers of nodes that parts of trees solved."""
    found, whole = [], branching.grown

    def counted(*given):
        part = whole(*given)
        found.append(part[-1])
        return part

    monkeypatch.setattr(branching, "grown", counted)
    return found


def declared(k, seed):
    """Return two clusters or several, with links, known labels, balance or sizes, each in half of the problems."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(8, 11)) if k == 2 else 6
    y = md.Labels(n) if k == 2 else md.Labels(n, k)
    f = md.Hyperplane(rng.normal(size=(n, 3)), kernel=["linear", "rbf"][seed % 2])
    rules = [y[0] == y[1], y[2] != y[3], y[4] == 1, abs(md.sum(y)) <= 2 + n % 2 if k == 2 else md.sizes(y, at_least=1)]
    rules = [rule for rule in rules if rng.random() < 0.5]
    margin = y * f if k == 2 else md.margin(y, f, coding="simplex")
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 2 * md.sum(LOSSES[seed % 4](margin))), rules)


def larger(n=24):
    rng = np.random.default_rng(0)
    y, f = md.Labels(n), md.Hyperplane(rng.normal(size=(n, 3)) + 0.7 * np.where(np.arange(n) % 2, 1, -1)[:, None])
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 30 * md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= n // 5])


@pytest.fixture(scope="module")
def serial():
    """Return the answer that one job finds to the larger problem."""
    return larger().solve(md.Exact(tol=1e-5, starts=0), random_state=0)


def nodes_of(solution):
    return int(solution.message.split()[0])


@pytest.mark.parametrize(("k", "nodes", "seed"), [
    (2, "joint", 0), (2, "weights", 2), (2, "decided", 3), (3, "weights", 0), (3, "decided", 1)])
def test_the_tree_of_two_jobs_is_enumeration(k, nodes, seed, parts):
    problem = declared(k, seed)
    program, newton = problem.program(), make_solver("newton")
    best = min(program.to_user(newton.solve(program.fix_labels(labels), Budget(tol=1e-10)).objective)
               for labels in program.labels.enumerate())
    solution = problem.solve(md.Exact(method="branching", nodes=nodes, starts=0, n_jobs=2), random_state=0)
    assert sum(parts) > 0, "the tree is too small to be shared"
    report = solution.verify()
    assert solution.status == "optimal" and report and not report.unverified
    assert solution.value == pytest.approx(best, rel=2e-6) and solution.bound <= best * (1 + 1e-9)


def test_a_number_of_jobs_always_leads_to_the_same_tree(serial, parts):
    first, second = (larger().solve(md.Exact(tol=1e-5, starts=0, n_jobs=3), random_state=0) for _ in range(2))
    assert len(parts) > 4 and max(parts) <= branching.EVERY and second.verify()
    assert nodes_of(first) <= 1.5 * nodes_of(serial)  # nodes below the target are solved in any order
    assert (first.message, first.value, first.bound) == (second.message, second.value, second.bound)
    np.testing.assert_array_equal(first.certificate.arrays["paths"], second.certificate.arrays["paths"])


@pytest.mark.slow
def test_processes_grow_the_tree_of_threads():
    method = md.Exact(tol=1e-4, n_jobs=2)
    threads = larger().solve(method, random_state=0)
    with joblib.parallel_config(backend="loky"):
        processes = larger().solve(method, random_state=0)
    assert processes.status == threads.status == "optimal" and processes.verify()
    assert processes.value == pytest.approx(threads.value, rel=1e-4)


@pytest.mark.usefixtures("patience")
def test_limits_and_callbacks_leave_a_valid_gap(serial, parts):
    method = md.Exact(tol=1e-5, starts=0, n_jobs=2)
    best, seen = serial, []

    def stop(progress):
        seen.append(progress)
        return progress.stage == "branch and bound" and len(parts) > before

    for limits, status in (({"max_iter": 25}, "iteration_limit"), ({"time_limit": 1e-9}, "time_limit"),
                           ({"callback": stop}, "interrupted")):
        before = len(parts)
        solution = larger().solve(method, random_state=0, **limits)
        assert solution.status == status and solution.verify()
        assert np.isfinite(solution.bound) and solution.bound <= best.value * (1 + 1e-9)
        assert nodes_of(solution) <= 25 or status == "interrupted"
    assert seen[-1].bound <= best.value * (1 + 1e-9)
    assert seen[-1].proved <= seen[-1].best


@pytest.mark.parametrize("finished", [0, 1])
def test_ctrl_c_keeps_the_parts_that_are_finished(finished, serial, monkeypatch):
    def interrupted(function, tasks, keep, n_jobs):
        for number in reversed(range(finished)):
            keep(number, function(*tasks[number]))
        raise KeyboardInterrupt

    method = md.Exact(tol=1e-5, n_jobs=2)
    monkeypatch.setattr(branching, "share_out", interrupted)
    solution = larger().solve(method, random_state=0)
    assert solution.status == "interrupted" and solution.bound <= serial.value * (1 + 1e-9) and solution.verify()


@pytest.mark.parametrize(("error", "words"), [
    (UnansweredError("solver 'node-newton' gave up"), "gave up"), (BrokenExecutor(), "a process died")])
def test_a_part_that_fails_leaves_its_nodes_open(error, words, serial, monkeypatch):
    def failing(part, share, end):
        raise error

    monkeypatch.setattr(branching, "grown", failing)
    solution = larger().solve(md.Exact(tol=1e-5, n_jobs=2), "node-newton", random_state=0)
    assert solution.status == "failed" and words in solution.message
    assert solution.bound <= serial.value * (1 + 1e-9) and solution.verify()


def test_a_checkpoint_goes_on_with_another_number_of_jobs(tmp_path, monkeypatch, parts):
    monkeypatch.setattr(kept, "EVERY", 0.0)
    path, problem = tmp_path / "tree", larger(32)
    cut = problem.solve(md.Exact(tol=1e-4, n_jobs=2), random_state=0, checkpoint=path, max_iter=40)
    assert cut.status == "iteration_limit" and sum(parts) > 0
    again = problem.solve(md.Exact(tol=1e-4, n_jobs=1), random_state=0, checkpoint=path)
    assert again.status == "optimal" and again.verify() and nodes_of(again) > 40
    assert again.value == pytest.approx(problem.solve(md.Exact(tol=1e-4), random_state=0).value, rel=1e-4)


@pytest.mark.parametrize("n_jobs", [0, 1.5, "all", True])
@pytest.mark.parametrize("relaxation", [md.Exact, md.Parts])
def test_numbers_of_jobs_are_checked_at_once(relaxation, n_jobs):
    with pytest.raises(DeclarationError, match="expected None, a number of jobs, or −1 for all processors"):
        relaxation(n_jobs=n_jobs)
