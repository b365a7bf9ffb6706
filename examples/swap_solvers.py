"""Solvers are chosen by name: the same convex problem by six of them, the same value."""

import numpy as np
from sklearn.datasets import load_breast_cancer

import margindsl as md

X, classes = load_breast_cancer(return_X_y=True)
X, truth = X[::4], np.where(classes[::4] == 1, 1, -1)
X = (X - X.mean(axis=0)) / X.std(axis=0)

n = len(X)
y, f = md.Labels(n), md.Hyperplane(X)
problem = md.Problem(
    md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.odm(y * f, 0.4, 0.2))),
    [y[np.arange(n)] == truth], relaxation="supervised")

values = {}
for name in ("newton", "lbfgs", "clarabel", "ecos", "scs", "osqp"):
    solution = problem.solve(solver=name)
    values[name] = solution.estimate
    print(f"{name:<9} {solution.estimate:.8f}  {solution.status:<9}  dual bound {solution.bound:.8f}")

# The problem is strictly convex in w, so there is one optimum; `estimate` is the objective at the point each
# solver itself returned, and no repaired dual point may exceed the value.
reference = values["newton"]
assert all(abs(value - reference) <= 1e-4 * reference for value in values.values())
assert problem.solve(solver="newton").gap <= 1e-8
