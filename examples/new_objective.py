"""
Can I invent an objective?
==========================

A loss made of atoms is a piecewise quadratic, found by the calculus; no relaxation was told of it.
"""
import matplotlib.pyplot as plt
from sklearn.datasets import load_iris

import margindsl as md

X, species = load_iris(return_X_y=True)
X, species = X[50::9], species[50::9]
y, f = md.Labels(len(X)), md.Hyperplane(X)
g = y * f
loss = md.maximum(1 - g, 0.1 * (g - 2), 0) + md.pos(0.5 - g) ** 2
problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(loss)), [abs(md.sum(y)) <= 0.2 * len(X)])

table = md.compare(problem, [md.Exact(max_components=20), "minimax", "sdp", "cccp"], truth=species, random_state=0)
print(table)
table.plot(ax=plt.subplots(figsize=(8, 3.5), layout="constrained")[1])

exact = table.rows[0].solution  # enumerated: the least of all values, above every bound
assert all(row.solution.bound <= exact.value * (1 + 1e-6) <= row.solution.value * (1 + 2e-6) for row in table.rows)
