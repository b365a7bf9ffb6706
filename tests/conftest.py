"""What all tests rely on, whatever starts them."""

import signal

import pytest


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
