"""A solve that was stopped and goes on from its file reaches the answer of one that was not."""

from functools import cache

import numpy as np
import pytest

import margindsl as md
from margindsl.drivers import checkpoint as kept
from margindsl.errors import AccuracyWarning, DeclarationError

RNG = np.random.default_rng(1)
X = RNG.normal(size=(24, 3))
X[:12] += 0.8
RELAXATIONS = [md.Exact(method="branching", tol=1e-3, starts=1), md.Minimax(tol=1e-3), md.SDP(rounding=5),
               md.SDP(cuts="all", cut_rounds=2, rounding=5), md.WeightLifting(rounding=5),
               md.Alternating(restarts=6, polish="none"), md.CCCP(restarts=6, polish="none")]
NAMES = ["exact", "minimax", "sdp", "cuts", "weight-lifting", "alternating", "cccp"]


def problem_of(n=14, weight=5.0, points=X):
    y, f = md.Labels(n), md.Hyperplane(points[:n])
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + weight * md.mean(md.hinge(y * f))),
                      [abs(md.sum(y)) <= 4, y[0] == y[1]])


def stop_after(reports):
    seen = []
    return lambda progress: seen.append(progress) or len(seen) > reports


@cache
def whole_of(relaxation):
    return problem_of().solve(relaxation, random_state=0)


@pytest.mark.parametrize("relaxation, reports", [(r, 5 * (i % 2)) for i, r in enumerate(RELAXATIONS)], ids=NAMES)
def test_a_stopped_solve_goes_on_to_the_same_answer(relaxation, reports, tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "EVERY", 0.0)
    problem, path, whole = problem_of(), tmp_path / "run", whole_of(relaxation)
    cut = problem.solve(relaxation, random_state=0, checkpoint=path, callback=stop_after(reports))
    assert not problem.program().labels.violations(cut.labels) and path.exists()
    resumed = problem.solve(relaxation, random_state=0, checkpoint=path)
    assert resumed.status == whole.status
    assert resumed.value <= whole.value * (1 + 1e-3)
    if np.isfinite(whole.bound):
        assert abs(resumed.bound - whole.bound) <= 2e-3 * whole.value
        assert resumed.verify()


def test_a_resumed_tree_solves_only_the_nodes_that_are_left(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "EVERY", 0.0)
    problem, path = problem_of(18, 20.0), tmp_path / "run"
    relaxation = md.Exact(method="branching", tol=1e-3, starts=1)
    nodes = lambda solution: int(solution.message.split()[0])  # noqa: E731
    whole = problem.solve(relaxation, random_state=0)
    assert nodes(whole) > 10, "the problem is too easy to be stopped half-way"
    cut = problem.solve(relaxation, random_state=0, checkpoint=path, max_iter=nodes(whole) // 2)
    assert cut.status == "iteration_limit" and cut.bound <= whole.value
    further = problem.solve(relaxation, random_state=0, checkpoint=path, max_iter=2)  # more of them
    assert further.status == "iteration_limit" and nodes(further) > nodes(cut)
    seen = []
    resumed = problem.solve(relaxation, random_state=0, checkpoint=path, callback=seen.append)
    assert resumed.status == "optimal" and resumed.value == pytest.approx(whole.value, rel=1e-3)
    assert nodes(whole) // 2 < nodes(resumed) <= 2 * nodes(whole)  # counted from the beginning
    ends = {"relax", "round", "polish"}  # every stage reports at its end
    assert {progress.stage for progress in seen} <= {"branch and bound"} | ends  # no second search for an incumbent


@pytest.mark.parametrize("other", [
    problem_of(weight=6.0), problem_of(points=X * 1.001), problem_of(13),
    problem_of(points=X[::-1])])
def test_another_problem_is_refused(other, tmp_path):
    path = tmp_path / "run"
    problem_of().solve("alternating", random_state=0, checkpoint=path)
    before = path.read_bytes()
    with pytest.raises(DeclarationError, match="another problem, or for another relaxation or other options"):
        other.solve("alternating", checkpoint=path)
    assert path.read_bytes() == before


def test_another_relaxation_and_files_of_another_kind_are_refused(tmp_path):
    path = tmp_path / "run"
    problem_of().solve("alternating", random_state=0, checkpoint=path)
    with pytest.raises(DeclarationError, match="another problem, or for another relaxation or other options"):
        problem_of().solve(md.Alternating(restarts=2), checkpoint=path)
    problem_of().solve("alternating", random_state=0).save(tmp_path / "solution.npz")
    for content in (b"", b"no archive", path.read_bytes()[:-40], (tmp_path / "solution.npz").read_bytes()):
        path.write_bytes(content)
        with pytest.raises(DeclarationError, match=r"solve\(checkpoint=\.\.\.\): .*remove it, or give another path"):
            problem_of().solve("alternating", checkpoint=path)
        assert path.read_bytes() == content


def test_a_path_is_expected():
    with pytest.raises(DeclarationError, match="expected the path of a file"):
        problem_of().solve("alternating", checkpoint=3)


def test_a_file_that_cannot_be_written_is_an_error_before_the_solve(tmp_path):
    with pytest.raises(DeclarationError, match="No such file"):
        problem_of().solve("alternating", checkpoint=tmp_path / "missing" / "run")


def test_a_disk_that_fills_up_later_costs_no_labels(tmp_path, monkeypatch):
    written = []

    def write(path, kind, header, arrays):
        written.append(path)
        if len(written) > 1:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(kept, "write_archive", write)
    with pytest.warns(AccuracyWarning, match="could not be written: .*No space"):
        solution = problem_of().solve("alternating", random_state=0, checkpoint=tmp_path / "run")
    assert not problem_of().program().labels.violations(solution.labels)
