"""
How does the answer depend on the weight of the loss?
=====================================================

``problem.path`` follows a parameter, each solve warm-started with the one before. The gap grows with the weight.
"""
import numpy as np
from sklearn.datasets import load_wine
from sklearn.preprocessing import scale

import margindsl as md

X = scale(load_wine().data)[:130]
y, f = md.Labels(len(X)), md.Hyperplane(X)
lam = md.Parameter(1.0, name="lam")
problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + lam * md.mean(md.squared_hinge(y * f))), [abs(md.sum(y)) <= 13])
weights = np.geomspace(0.1, 100, 6)
path = problem.path(lam, weights, relaxation=md.WeightLifting(polish="alternate"), random_state=0)
md.plots.path(weights, path, name="lam").set_yscale("log")

# A minimum of functions that rise in lam rises; w = 0 has the loss one at every point.
assert np.all(np.diff([answer.value for answer in path]) > 0) and path[-1].value <= weights[-1]
