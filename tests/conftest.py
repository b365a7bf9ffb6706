"""What all tests rely on, whatever starts them."""

import signal

import pytest


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c_reaches_the_tests():
    """Undo the ignored Ctrl-C that a shell gives its background jobs, for tests that send one to themselves."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def pytest_collection_modifyitems(items):
    """Keep the tests of a file, and all tests of proofs, in one process of pytest-xdist: they share what they solve."""
    for item in items:
        if not item.get_closest_marker("xdist_group"):
            folder = item.path.parent.name
            item.add_marker(pytest.mark.xdist_group("proof" if folder == "proof" else str(item.path)))
