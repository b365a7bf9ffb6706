"""A few known labels: weights for labelled and unlabelled points apart, as in semi-supervised ODM."""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.svm import LinearSVC

import margindsl as md

X, classes = load_breast_cancer(return_X_y=True)
X, truth = X[::2], np.where(classes[::2] == 1, 1, -1)
X = (X - X.min(axis=0)) / np.ptp(X, axis=0)

n = len(X)
known = np.concatenate([np.flatnonzero(truth == 1)[:3], np.flatnonzero(truth == -1)[:3]])
unknown = np.setdiff1d(np.arange(n), known)
y, f = md.Labels(n), md.Hyperplane(X)
loss = md.odm(y * f, 0.4, 0.2)
problem = md.Problem(
    md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(loss[known]) + 20 * md.mean(loss[unknown])),
    [y[known] == truth[known],
     abs(md.sum(y) - truth.sum()) <= 0.1 * n])   # the class ratio is roughly known, as ssODM assumes

solution = problem.solve(relaxation="alternating", random_state=0)
accuracy = np.mean(solution.labels[unknown] == truth[unknown])
supervised = np.mean(LinearSVC().fit(X[known], truth[known]).predict(X[unknown]) == truth[unknown])
print(f"six labels alone {100 * supervised:.1f} %, with the unlabelled points {100 * accuracy:.1f} %")

# With six labels the sign of a cluster is no longer free, so labels are compared without matching.
assert np.all(solution.labels[known] == truth[known])
assert accuracy > max(supervised, 0.9)
