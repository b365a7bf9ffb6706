"""A first answer before a relaxation: seen at once, never undercut, and without a trace in what is drawn later."""

import time
from types import SimpleNamespace

import numpy as np
import pytest

import margindsl as md
from margindsl.host import clock
from margindsl.runtime import stages


def clouds(n=30, k=2, scale=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = scale * (rng.normal(size=(n, 5)) + 1.5 * np.eye(k, 5)[np.arange(n) % k])
    y, f = md.Labels(n, clusters=k), md.Hyperplane(X)
    loss = md.mean(md.hinge(md.margin(y, f, coding="simplex")))
    constraints = [md.must_link(y, [(0, k)]), md.cannot_link(y, [(0, 1)]), md.sizes(y, at_least=n // (2 * k))]
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 / scale**2 * loss), constraints)


@pytest.mark.parametrize("k, scale", [(2, 1e6), (3, 1e-6)])
def test_a_callback_sees_an_answer_before_the_relaxation_that_no_later_one_exceeds(k, scale):
    seen, problem = [], clouds(n=12, k=k, scale=scale)
    solution = problem.solve("weight-lifting", random_state=0, callback=seen.append)
    first = next(report for report in seen if report.stage == "begin")
    assert np.isfinite(first.best) and not np.isfinite(first.proved)
    assert solution.value <= first.best * (1 + 1e-6)
    assert solution.bound <= solution.value * (1 + 1e-9) and solution.verify()


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("relaxation", ["sdp", "minimax", "weight-lifting"])
def test_a_solve_stopped_in_its_relaxation_answers_no_worse(relaxation):
    seen = []

    def stop(report):
        seen.append(report)
        return np.isfinite(report.best)

    solution = clouds(n=40).solve(relaxation, random_state=0, callback=stop)
    assert solution.status == "interrupted"
    assert solution.value <= seen[-1].best * (1 + 1e-6) and solution.verify()


@pytest.mark.parametrize("relaxation", ["sdp", "minimax", "weight-lifting"])
def test_a_machine_that_stalls_after_a_stop_loses_no_labels(relaxation, monkeypatch):
    """Between a stop and the answer other processes may take more seconds than the solve is allowed."""
    seen, asked = [], []

    def stop(report):
        seen.append(report)
        return np.isfinite(report.best)

    def monotonic():
        if seen and np.isfinite(seen[-1].best):
            asked.append(1)
        return time.monotonic() + 100.0 * (len(asked) > 1)  # the first one asked is when the stop was

    monkeypatch.setattr(clock, "time", SimpleNamespace(monotonic=monotonic, perf_counter=time.perf_counter))
    solution = clouds(n=40).solve(relaxation, random_state=0, callback=stop)
    assert solution.status == "interrupted"
    assert solution.value <= seen[-1].best * (1 + 1e-6) and solution.verify()


def test_later_random_choices_are_those_without_it(monkeypatch):
    method = md.WeightLifting(polish="auto", rounding=5)
    with_it = clouds(n=12).solve(method, random_state=3)
    monkeypatch.setattr(stages, "begin", lambda run, relaxation, found: found)
    without = clouds(n=12).solve(method, random_state=3)
    assert with_it.bound == without.bound and with_it.value <= without.value * (1 + 1e-9)


@pytest.mark.parametrize("polish", ["none", "alternate"])
def test_labels_of_a_relaxations_own_rule_are_left_alone(polish):
    explained = clouds().compile(md.Minimax(rounding="sign", polish=polish)).explain()
    assert "begin" not in explained and "begin" in clouds().compile(md.Minimax()).explain()


@pytest.mark.parametrize("relaxation", [md.Alternating, md.CCCP])
def test_local_methods_polish_for_as_long_as_it_pays_unless_told_otherwise(relaxation):
    problem = clouds(n=40)
    plain = problem.solve(relaxation(polish="none", restarts=2), random_state=0)
    assert problem.solve(relaxation(restarts=2), random_state=0).value <= plain.value * (1 + 1e-9)


@pytest.mark.parametrize("local, k, seed", [
    (md.Alternating, 2, 0), (md.CCCP, 3, 0), (md.CCCP, 2, 1), (md.Alternating, 3, 1), (md.Alternating, 3, 2)])
def test_known_labels_are_among_the_mixed_starts(k, seed, local):
    rng = np.random.default_rng(seed)
    truth = rng.integers(k, size=40)
    truth[:k] = np.arange(k)
    X = rng.normal(size=(40, 4)) * [1, 1, 1, 4] + 2.0 * np.eye(3, 4)[truth]  # what k-means sees are no clusters
    y, f = md.Labels(40, clusters=k), md.Hyperplane(X, centre=True)
    known = np.arange(8)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.squared_hinge(md.margin(y, f)))),
                         [y[known] == (2 * truth - 1 if k == 2 else truth)[known]])
    mixed, alone = (problem.solve(local(start=start, restarts=2, polish="none"), random_state=0)
                    for start in ("mixed", "known"))
    assert mixed.value <= alone.value * (1 + 1e-6)
