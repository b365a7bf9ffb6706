"""
Do all solvers agree?
=====================

With known labels the problem is convex. Every solver gives its own estimate; value and bound are recomputed for all.
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
away = [abs(answer.estimate - answers[0].value) / answers[0].value for answer in answers]
plt.bar([answer.solver for answer in answers], np.maximum(away, 1e-16))
plt.yscale("log")
plt.ylabel("relative distance from the value")

assert max(away) <= 1e-4 and answers[0].gap <= 1e-8
