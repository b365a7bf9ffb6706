"""What type checkers must refuse, each on a line that says so, and what they must let pass.

Checked by ``mypy --strict`` and pyright, for which a line that is not refused is an error, too.
"""

from typing import assert_type

import numpy as np

import margindsl as md
from margindsl.contract import Solver
from margindsl.estimators import MarginClusterer
from margindsl.language.expressions import Constraint
from margindsl.relaxations import Relaxation, RelaxationInfo
from margindsl.typing import IntArray, RelaxationName
from margindsl.views.notebook import Listing

y, f = md.Labels(4), md.Hyperplane(np.eye(4), kernel="rbf")
problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 4 * md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= 0])

assert_type(problem.solve("sdp", "scs", tol=1e-4, time_limit=10), md.Solution)
assert_type(md.compare(problem, ["sdp", md.SDP(rounding=50)], [None, "scs"]), md.Comparison)
assert_type(md.certify(problem, [0, 0, 1, 1]), md.Assessment)
assert_type(md.Solver("mirror-prox", tol=1e-5, sampling="labels"), Solver)
assert_type(md.recipes.odmc(np.eye(4), lam=3.0), md.Problem)
assert_type(md.relaxations(), Listing[RelaxationInfo])
assert_type([y == y, y[0] != y[1], abs(md.sum(y)) <= 2], list[Constraint])
assert_type(MarginClusterer(2).fit(np.eye(4)), MarginClusterer)
labels: IntArray = MarginClusterer(2).fit_predict(np.eye(4))

problem.solve("sdp").plot("boundry")  # type: ignore[arg-type]
problem.solve("spd")  # type: ignore[arg-type]
problem.solve("sdp", "sccs")  # type: ignore[arg-type]
problem.solve("sdp", tolerance=1e-4)  # type: ignore[call-arg]
problem.solve("sdp", time_limit="long")  # type: ignore[arg-type]
md.compare(problem, ["sdp", "spd"])  # type: ignore[list-item]
md.certify(problem, [0, 0, 1, 1], "spd")  # type: ignore[arg-type]
md.Solver("mirror-pox")  # type: ignore[arg-type]
md.SDP(roundings=50)  # type: ignore[call-arg]
md.Hyperplane(np.eye(4), kernel="gauss")  # type: ignore[arg-type]
md.recipes.odmc(np.eye(4), lambda_=3.0)  # type: ignore[call-arg]
md.recipes.odcm(np.eye(4))  # type: ignore[attr-defined]
md.higne(y * f)  # type: ignore[attr-defined]


def elsewhere(relaxation: Relaxation, solver: Solver, name: RelaxationName) -> list[md.Solution]:
    """Solve by objects, which is how classes of other packages are given, and by a name that is a variable."""
    return [problem.solve(relaxation, solver), problem.solve(name)]
