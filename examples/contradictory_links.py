"""
Which of my links contradict each other?
========================================

The error names the points on the contradictory cycle, before anything is solved.
"""
import matplotlib.pyplot as plt
import numpy as np

import margindsl as md
from margindsl.errors import ContradictionError

X = np.random.default_rng(0).normal(size=(8, 2))
y, f = md.Labels(8), md.Hyperplane(X)
links = [md.must_link(y, [(0, 1), (2, 3), (5, 6)]), md.cannot_link(y, [(1, 2), (3, 0), (0, 4), (4, 2)])]
for i, point in enumerate(X):
    plt.text(*point + 0.05, str(i))
plt.gca().set(xlabel="x0", ylabel="x1")
try:
    md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(y * f))), links).solve()
except ContradictionError as error:
    print(error)
    for i, j, kind in error.cycle:
        plt.plot(*X[[i, j]].T, "o-" if kind == "must-link" else "o--", color="tab:red")
    assert sum(kind == "cannot-link" for _, _, kind in error.cycle) % 2 == 1
