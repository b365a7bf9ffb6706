"""The core and the native engines do without cvxpy; what needs it says so."""

import subprocess
import sys

HIDDEN = """
import sys
import numpy as np
import margindsl as md
from margindsl.errors import NotInstalledError

md.solvers()
assert "cvxpy" not in sys.modules, "listing the solvers loads it"
sys.modules["cvxpy"] = None

X = np.concatenate([np.arange(6.0), 9 + np.arange(6.0)])[:, None]
y, f = md.Labels(12), md.Hyperplane(X)
problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 4 * md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= 2])
listed = {info.name: info for info in md.solvers()}
through = [name for name, info in listed.items() if info.kind == "through CVXPY"]
native = [name for name, info in listed.items() if info.kind == "native"]
assert sorted(through) == ["clarabel", "cvxpy", "ecos", "highs", "osqp", "scs"] and len(native) >= 9
assert not any(listed[name].installed for name in through) and all(listed[name].installed for name in native)
for relaxation in (None, "alternating", "cccp", "minimax", "sdp", "weight-lifting", "exact"):
    assert problem.solve(relaxation, random_state=0).solver in native, relaxation
for name in through:
    try:
        problem.solve("alternating", name)
    except NotInstalledError as error:
        assert "needs the package cvxpy" in str(error) and "pip install cvxpy" in str(error), error
    else:
        raise AssertionError(name)
"""


def test_everything_native_runs_without_cvxpy_and_listing_the_solvers_does_not_load_it():
    done = subprocess.run([sys.executable, "-c", HIDDEN], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
