"""
Which points is the relaxation unsure of?
=========================================

The semidefinite relaxation has a matrix in place of the labels. Plain blocks are decided, pale rows are not.
"""
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

import margindsl as md

X = make_moons(80, noise=0.1, random_state=0)[0]
y, f = md.Labels(len(X)), md.Hyperplane(X, kernel=md.RBF(0.5))
problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 3 * md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= 8])
solution = problem.solve("sdp", random_state=0)
axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")[1]
solution.plot("label_matrix", ax=axes[0])
solution.plot("boundary", ax=axes[1])

assert np.allclose(np.diag(solution.label_matrix), 1.0) and solution.verify()
