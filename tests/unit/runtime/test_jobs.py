"""Comparisons, paths and choices shared out: the same answers for every number of jobs and every backend."""

import subprocess
import sys

import distributed
import joblib
import numpy as np
import pytest

import margindsl as md
from margindsl.errors import DeclarationError

RNG = np.random.default_rng(0)
N = 24
X = RNG.normal(size=(N, 2)) + np.where(np.arange(N) < N // 2, 1.2, -1.2)[:, None]
WEIGHT = md.Parameter(4.0, name="weight")
Y, F = md.Labels(N), md.Hyperplane(X)
PROBLEM = md.Problem(md.Minimize(md.sq_norm(F) / 2 + WEIGHT * md.mean(md.odm(Y * F, 0.4, 0.2))),
                     [abs(md.sum(Y)) <= 4])
# Polished, other random choices would end at the same labels.
RANDOM = md.Alternating(restarts=2, start="random", polish="none")
METHODS = [RANDOM, md.CCCP(polish="none"), md.WeightLifting(polish="none"), "safe"]


def compared(**options):
    table = md.compare(PROBLEM, METHODS, random_state=np.random.default_rng(5), **options)
    assert table.rows[-1].refusal  # what is refused keeps its row
    return [row.solution for row in table.rows[:-1]]


def walked(**options):
    return PROBLEM.path(WEIGHT, [1.0, 2.0, 4.0, 8.0, 16.0], RANDOM, chain=2,
                        random_state=np.random.default_rng(6), **options)


def chosen(**options):
    labellings = [np.where(X[:, 0] > 0, 1, -1), np.where(X[:, 1] > 1, 1, -1), np.where(np.arange(N) % 2, 1, -1)]
    return [md.select([PROBLEM], labellings, folds, **options) for folds in (None, 4)]


ASKS = (compared, walked, chosen)


@pytest.fixture(scope="module")
def expected():
    return [ask(n_jobs=1) for ask in ASKS]


def check(expected, **options):
    for got, one in zip(compared(**options) + walked(**options), expected[0] + expected[1], strict=True):
        assert got.value == pytest.approx(one.value, rel=1e-9) and got.relaxation == one.relaxation
        np.testing.assert_array_equal(got.labels, one.labels)
    assert chosen(**options) == expected[2]


@pytest.mark.parametrize("n_jobs", [3, -1])
def test_threads_find_what_one_job_finds(n_jobs, expected):
    with joblib.parallel_config(backend="threading"):
        check(expected, n_jobs=n_jobs)
    assert WEIGHT.value == 4.0


def test_threads_share_no_compiled_problem():
    points = RNG.normal(size=(200, 5))
    y, f = md.Labels(200), md.Hyperplane(points)
    tables = []
    for n_jobs in (1, 4):
        problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.hinge(y * f))))
        with joblib.parallel_config(backend="threading"):
            tables.append(md.compare(problem, [RANDOM], ["clarabel"], seeds=np.int64(6), n_jobs=n_jobs, random_state=0))
    for one, other in zip(*(table.rows for table in tables), strict=True):
        assert other.solution.value == pytest.approx(one.solution.value, rel=1e-9)
        np.testing.assert_array_equal(other.solution.labels, one.solution.labels)


def test_the_configuration_of_joblib_is_heeded(expected):
    begun = []

    class Counting(joblib.parallel.ThreadingBackend):
        def configure(self, *given, **options):
            begun.append(1)
            return super().configure(*given, **options)

    joblib.register_parallel_backend("counting", Counting)
    with joblib.parallel_config(backend="counting", n_jobs=2):
        check(expected)
        assert len(begun) == 3  # a comparison, a path, a choice by leaving one out (by folds a problem is one task)
        check(expected, n_jobs=1)
        assert len(begun) == 3


@pytest.mark.slow
def test_processes_find_what_one_job_finds(expected):
    check(expected, n_jobs=2)


@pytest.mark.slow
def test_workers_of_dask_find_what_one_job_finds(expected):
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster), \
            joblib.parallel_config(backend="dask"):
        check(expected, n_jobs=2)


def test_rows_that_were_not_begun_say_so():
    def progress(row):
        raise KeyboardInterrupt

    methods = [md.Alternating(rounds=k) for k in range(1, 9)]
    with joblib.parallel_config(backend="threading"):
        table = md.compare(PROBLEM, methods, n_jobs=2, progress=progress, random_state=0)
    begun = [row for row in table.rows if row.solution is not None]
    assert 1 <= len(begun) < 8 and len(table.rows) == 8
    assert {row.refusal for row in table.rows if row.solution is None} == {"not begun: the comparison was interrupted"}


def test_an_error_of_a_task_is_raised_where_it_was_asked():
    with joblib.parallel_config(backend="threading"), pytest.raises(ZeroDivisionError):
        md.compare(PROBLEM, METHODS, n_jobs=2, callback=lambda progress: 1 // 0)


@pytest.mark.parametrize("n_jobs", [0, 1.5, "all", True])
def test_numbers_of_jobs_are_checked(n_jobs):
    for ask in ASKS:
        with pytest.raises(DeclarationError, match="expected None, a number of jobs, or −1 for all processors"):
            ask(n_jobs=n_jobs)
    with pytest.raises(DeclarationError, match=r"problem.path\(chain=0\): expected None or a positive number"):
        PROBLEM.path(WEIGHT, [1.0], chain=0)


def test_one_job_needs_no_joblib():
    code = ("import sys; sys.modules['joblib'] = None\n"
            "from margindsl.host.parallel import share_out\n"
            "found = []; share_out(pow, [(2, 3), (3, 2)], lambda k, x: found.append((k, x)), 1); print(found)")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == (
        "[(0, 8), (1, 9)]\n")
