"""Contradictory links are explained by the actual cycle of points."""

import numpy as np

import margindsl as md
from margindsl.errors import ContradictionError

X = np.random.default_rng(0).normal(size=(8, 2))
y, f = md.Labels(8), md.Hyperplane(X)
objective = md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.hinge(y * f)))
links = [md.must_link(y, [(0, 1), (2, 3), (5, 6)]), md.cannot_link(y, [(1, 2), (3, 0), (0, 4), (4, 2)])]

# Going round 0 - 4 - 2 changes sides twice, 0 - 1 - 2 once: no labelling does both.
try:
    md.Problem(objective, links).solve()
except ContradictionError as error:
    print(error)
    cycle = error.cycle
else:
    raise AssertionError("the contradiction was not found")

# A cycle is contradictory exactly when it crosses an odd number of cannot-links.
assert sum(kind == "cannot-link" for _, _, kind in cycle) % 2 == 1
assert {5, 6}.isdisjoint(point for i, j, _ in cycle for point in (i, j))

# Known labels take part: points linked together cannot be known to be different.
try:
    md.Problem(objective, [md.must_link(y, [(0, 1), (1, 2)]), y[[0, 2]] == [1, -1]]).solve()
except ContradictionError as error:
    print(error)
    assert "known label" in {kind for _, _, kind in error.cycle}
else:
    raise AssertionError("the contradiction was not found")
