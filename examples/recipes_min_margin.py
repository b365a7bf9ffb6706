"""Minimum-margin recipes on digits: published methods by name, each a declaration that may be departed from."""

import numpy as np
from sklearn.datasets import load_digits

import margindsl as md
from margindsl.metrics import clustering_accuracy

images, digits = load_digits(return_X_y=True)

# The printed errors of CPMMC (Zhang and Zhao 2008, slides); neither C nor l is printed there.
printed = {(3, 8): 3.08, (1, 7): 0.0, (2, 7): 0.0, (8, 9): 2.26}
error = {}
for pair in printed:
    chosen = np.isin(digits, pair)
    solution = md.recipes.cpmmc(images[chosen] / 16).solve(random_state=0)
    error[pair] = 100 * (1 - clustering_accuracy(digits[chosen], solution.labels))
    print(f"cpmmc {pair}: error {error[pair]:.2f} %, printed {printed[pair]:.2f} %")

# Three pairs are reproduced to a point and a half. On 8-9 the error stays near 4.2 %: the labelling found has a
# lower objective than the true one, so that it is the model that differs, not the search.
assert all(error[pair] <= printed[pair] + 1.5 for pair in ((3, 8), (1, 7), (2, 7)))
chosen = np.isin(digits, (8, 9))
problem = md.recipes.cpmmc(images[chosen] / 16)
truth = np.where(digits[chosen] == 8, 1, -1)
told = problem.with_constraints(problem.labels[np.arange(len(truth))] == truth).solve("supervised", "newton")
assert problem.solve(random_state=0).value < told.value

# Convex recipes certify a bound. Without bias and balance, generalised maximum margin clustering (one variable a
# point) has the value of the label matrix with the squared hinge.
X = images[np.isin(digits, (3, 8))][:40] / 16
y, f = md.Labels(40), md.Hyperplane(X)
plain = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.squared_hinge(y * f))), [abs(md.sum(f)) <= 40])
outputs = plain.solve(md.recipes.gmmc(X).relaxation, random_state=0)
matrix = plain.solve("sdp", "clarabel", random_state=0)
print(f"gmmc {outputs.bound:.6f}, label matrix {matrix.bound:.6f}, labels found {matrix.value:.6f}")
assert np.isclose(outputs.bound, matrix.bound, rtol=1e-4)
