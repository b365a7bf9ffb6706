"""
An objective of one's own, and four solvers for it
==================================================
"""
from sklearn.datasets import load_iris

import margindsl as md

X, _ = load_iris(return_X_y=True)
y, f = md.Labels(100), md.Hyperplane(X[50:])
margin = y * f
loss = md.pos(1 - margin) + 0.3 * md.square(md.pos(margin - 2))
problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 5 * md.mean(loss)), [abs(md.sum(y)) <= 10])
solvers = md.compare(problem, "alternating", ["newton", "cutting-plane", "clarabel", "scs"], random_state=0)
print(solvers)
assert solvers.best().status == "converged"
