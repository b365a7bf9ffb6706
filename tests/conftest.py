"""What all tests rely on, whatever starts them."""

import itertools
import signal
import zlib

import numpy as np
import pytest

from margindsl.drivers import run


@pytest.fixture(autouse=True)
def _draws_without_a_seed_are_alike_in_every_run(request, monkeypatch):
    """Give a test that says no seed its own ones, so that what fails once fails again."""
    own, plain, calls = zlib.crc32(request.node.nodeid.encode()), np.random.default_rng, itertools.count()

    def default_rng(seed=None):
        return plain([own, next(calls)] if seed is None else seed)

    monkeypatch.setattr(np.random, "default_rng", default_rng)
    np.random.seed(own)  # noqa: NPY002 - estimators draw from it, as those of scikit-learn do


# What these assert holds of whatever labels are found: bounds, proofs, statuses, answers that agree.
OF_ANY_LABELS = {"conformance", "fuzz", "matrix", "proof", "property", "relaxations", "runtime",
                 "test_branching", "test_branching_jobs", "test_checkpoint", "test_faults"}
SEARCH = {f"margindsl.drivers.run.{name}": getattr(run, name) for name in ("FREE", "ROOM", "HOPE")}


@pytest.fixture(scope="module", autouse=True)
def _searches_are_short(request):
    """Improve labels for a thirtieth of the work that users have it take, where no test asks what that wins."""
    with pytest.MonkeyPatch.context() as patch:
        for name, work in SEARCH.items() if {request.path.stem, request.path.parent.name} & OF_ANY_LABELS else ():
            patch.setattr(name, work / 30)
        yield


@pytest.fixture
def whole_searches(monkeypatch):
    """Improve labels as users have it, for a test beside others that need not."""
    for name, work in SEARCH.items():
        monkeypatch.setattr(name, work)


@pytest.fixture
def patience():
    """Give what comes after a stop the time it needs, for tests of what is found then: a busy machine changes none."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("margindsl.host.clock.LEAST_ALLOWANCE", 600.0)
        yield


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c_reaches_the_tests():
    """Undo the ignored Ctrl-C that a shell gives its background jobs, for tests that send one to themselves."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, signal.SIG_IGN)
