"""An objective nobody has published, in ten lines, compared over relaxations.

A margin below one pays the hinge, below one half a square on top of it, and a margin above two pays a little as
well, so that no point lies far out.
"""

import numpy as np
from sklearn.datasets import load_iris

import margindsl as md

X, species = load_iris(return_X_y=True)
X, truth = X[50:][::6], species[50:][::6]

n = len(X)
y, f = md.Labels(n), md.Hyperplane(X)
g = y * f
loss = md.maximum(1 - g, 0.1 * (g - 2), 0) + md.pos(0.5 - g) ** 2
problem = md.Problem(
    md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(loss)),
    [abs(md.sum(y)) <= 0.2 * n])

relaxations = [md.Exact(max_components=n), "minimax", "sdp", "cccp", "alternating"]
table = md.compare(problem, relaxations, truth=truth, random_state=0)
print(problem, table, sep="\n\n")

# The loss is a piecewise quadratic: the calculus finds its pieces, no relaxation was told of it. Every certified
# bound lies below every value, and enumeration (the first row) is the least of all values.
values = np.array([row.solution.value for row in table.rows])
bounds = np.array([row.solution.bound for row in table.rows])
exact = values[0]
assert np.all(values >= exact * (1 - 1e-6))
assert np.all(bounds <= exact * (1 + 1e-6))
assert np.isclose(bounds[0], exact, rtol=1e-4)
