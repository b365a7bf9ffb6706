"""
I know six labels. What do the other points add?
================================================

Known and unknown points get losses of their own weight, and the class ratio is roughly known.
"""
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import minmax_scale

import margindsl as md

X, classes = load_breast_cancer(return_X_y=True)
X, truth = minmax_scale(X[::4]), np.where(classes[::4] == 1, 1, -1)
known = np.cumsum(truth[:, None] == [1, -1], axis=0)[np.arange(len(X)), (truth < 0).astype(int)] <= 3
y, f = md.Labels(len(X)), md.Hyperplane(X)
loss = md.odm(y * f, 0.4, 0.2)
problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(loss[known]) + 20 * md.mean(loss[~known])),
                     [y[known] == truth[known], abs(md.sum(y) - truth.sum()) <= 0.1 * len(X)])
solutions = [md.recipes.odm(X, np.where(known, truth, 0)).solve(), problem.solve("cccp", random_state=0)]
right = [np.mean((solution.labels == truth)[~known]) for solution in solutions]
plt.bar(["the six alone", "with the others"], right)
plt.ylabel("share of the other labels that is right")
assert right[1] > max(right[0], 0.9)
