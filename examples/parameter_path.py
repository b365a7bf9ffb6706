"""Follow a parameter: the weight of the loss from small to large, each solve warm-started with the one before."""

import numpy as np
from sklearn.datasets import load_digits

import margindsl as md

images, digits = load_digits(return_X_y=True)
X = images[np.isin(digits, (2, 7))][::3] / 16

n = len(X)
y, f = md.Labels(n), md.Hyperplane(X)
lam = md.Parameter(1.0, name="lam")
problem = md.Problem(
    md.Minimize(md.sq_norm(f) / 2 + lam * md.mean(md.squared_hinge(y * f))),
    [abs(md.sum(y)) <= 0.1 * n])

weights = np.geomspace(0.1, 100, 8)
path = problem.path(lam, weights, relaxation="alternating", random_state=0)
for weight, solution in zip(weights, path):
    print(f"lam {weight:8.3f}  value {solution.value:.5f}  mean margin {solution.margin_mean:.3f}")

# The optimum is increasing in lam (a minimum of increasing affine functions), and w = 0 bounds it: the value is at
# most lam times the loss at margin zero, which is one.
values = np.array([solution.value for solution in path])
assert np.all(np.diff(values) > 0)
assert np.all(values <= weights * (1 + 1e-9))
# Larger weights push the margins outwards.
assert path[-1].margin_mean > path[0].margin_mean
assert lam.value == 1.0
