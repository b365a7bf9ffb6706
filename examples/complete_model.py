"""A complete model: digits 3 and 8 with balance, links and a few known labels."""

import numpy as np
from sklearn.datasets import load_digits

import margindsl as md
from margindsl.metrics import clustering_accuracy

images, digits = load_digits(return_X_y=True)
chosen = np.isin(digits, (3, 8))
X, truth = images[chosen] / 16, np.where(digits[chosen] == 3, 1, -1)
threes, eights = np.flatnonzero(truth == 1), np.flatnonzero(truth == -1)
pairs = np.column_stack([threes[:10], threes[10:20]])
other_pairs = np.column_stack([threes[20:30], eights[20:30]])
known = [threes[40], eights[40]]
known_labels = truth[known]

n = len(X)
y = md.Labels(n)
f = md.Hyperplane(X, kernel=md.RBF("median"))
g = y * f
lam, nu, theta = md.Parameter(10.0, name="lam"), 0.4, 0.2

odm = (md.pos(1 - theta - g) ** 2 + nu * md.pos(g - 1 - theta) ** 2) / (1 - theta) ** 2
problem = md.Problem(
    md.Minimize(md.sq_norm(f) / 2 + lam * md.mean(odm)),
    [abs(md.sum(y)) <= 0.03 * n,
     md.must_link(y, pairs), md.cannot_link(y, other_pairs),
     y[known] == known_labels])
print(problem)

solution = problem.solve(relaxation="cccp", solver="newton", random_state=0)
print(solution.summary())

# The declaration holds for the labels returned, whatever the solver did.
labels = solution.labels
assert abs(labels.sum()) <= 0.03 * n
assert np.all(labels[pairs[:, 0]] == labels[pairs[:, 1]])
assert np.all(labels[other_pairs[:, 0]] != labels[other_pairs[:, 1]])
assert np.all(labels[known] == known_labels)

# k-means reaches 94.7 % on these digits.
accuracy = clustering_accuracy(truth, labels)
print(f"accuracy {100 * accuracy:.1f} %")
assert accuracy > 0.947
