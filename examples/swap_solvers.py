"""
Do all solvers agree?
=====================

Values are recomputed, so they agree. Each bound is proved by the solver's own dual point, and shows how exact it was.
"""
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

import margindsl as md

X, classes = load_breast_cancer(return_X_y=True)
X, truth = scale(X)[::4], np.where(classes[::4] == 1, 1, -1)
y, f = md.Labels(len(X)), md.Hyperplane(X)
problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.odm(y * f, 0.4, 0.2))),
                     [y[np.arange(len(X))] == truth], relaxation="supervised")
answers = [problem.solve(solver=name) for name in ("newton", "lbfgs", "clarabel", "ecos", "scs", "osqp")]
plt.bar([answer.solver for answer in answers], [max(answer.gap, 1e-16) for answer in answers])
plt.yscale("log")
plt.ylabel("certified gap")

assert np.ptp([answer.value for answer in answers]) <= 1e-8 and all(answer.gap <= 1e-6 for answer in answers)
