"""
Does it work for many points?
=============================

Weight lifting has a matrix of the features' order, whatever the number of points; the bound is certified all the same.
"""
import numpy as np

import margindsl as md

rng = np.random.default_rng(0)
truth = rng.choice([-1, 1], 30_000)
X = rng.normal(size=(len(truth), 8)) + np.outer(truth, np.full(8, 1.0))
y, f = md.Labels(len(X)), md.Hyperplane(X)
problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.odm(y * f))), [abs(md.sum(y)) <= 0.1 * len(X)])
solution = problem.solve(md.WeightLifting(polish="none"), random_state=0)
print(f"{solution.timings['total']:.1f} s, certified gap {solution.gap:.2%}")
solution.plot("margins")

assert solution.gap < 0.1 and md.metrics.clustering_accuracy(truth, solution.labels) > 0.9
