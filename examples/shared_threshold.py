"""
Can the problem choose its own threshold?
=========================================

A shared scalar is a variable beside the labels; the sparse kernel method SKMMC is declared with one.
"""
import numpy as np
from sklearn.datasets import make_circles

import margindsl as md

X, truth = make_circles(100, factor=0.3, noise=0.05, random_state=0)
y, f = md.Labels(len(X)), md.Hyperplane(X, kernel=md.RBF(0.5), bias=True)
rho = md.Scalar(nonneg=True, name="rho")
problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 - rho + 10 * md.mean(md.pos(rho - y * f))), [abs(md.sum(f)) <= 0])
solution = problem.solve(md.CCCP(restarts=2), md.Solver("cpsp", eta=0.01, max_basis=200), random_state=0)
threshold = solution.scalars[rho]
solution.plot("margins").axvline(threshold, color="black", label="threshold")

# With weight 10 at most a tenth of the points lies below the threshold, and at least a tenth not above it.
below, touching = (np.mean(solution.margins <= threshold + shift) for shift in (-1e-4, 1e-4))
assert below <= 0.1 <= touching and md.metrics.clustering_accuracy(truth, solution.labels) > 0.95
