"""An adaptive threshold: a shared scalar that the problem chooses itself, in SKMMC and in your own words."""

import numpy as np
from sklearn.datasets import make_circles

import margindsl as md
from margindsl.metrics import clustering_accuracy

X, truth = make_circles(200, factor=0.3, noise=0.05, random_state=0)

# The published method: labels absorbed, cutting planes in the span of few points of the data.
problem = md.recipes.skmmc(X, kernel=md.RBF(0.5))
solution = problem.solve(random_state=0)
rho = solution.scalars["rho"]
print(problem)
print(f"accuracy {100 * clustering_accuracy(truth, solution.labels):.1f} %, threshold {rho:.4f}")

# The same declaration by hand.
y, f, s = md.Labels(len(X)), md.Hyperplane(X, kernel=md.RBF(0.5), bias=True), md.Scalar(nonneg=True, name="rho")
own = md.Problem(md.Minimize(md.sq_norm(f) / 2 - s + 10 * md.mean(md.pos(s - y * f))), [abs(md.sum(f)) <= 0])
again = own.solve(relaxation=md.CCCP(restarts=5), solver=md.Solver("cpsp", eta=0.01, max_basis=200), random_state=0)
assert np.isclose(solution.value, again.value)

# With C = 10 at most a tenth of the points lies below the threshold, and at least a tenth not above it.
assert rho > 0
assert np.mean(solution.margins < rho - 1e-4) <= 0.1 <= np.mean(solution.margins <= rho + 1e-4)

# Few points carry the hyperplane.
form = own.program().fix_labels(solution.labels)
answer = md.Solver("cpsp", eta=0.01).solve(form)
print(f"{len(answer['basis'])} of {len(X)} points carry the hyperplane")
assert len(answer["basis"]) < len(X) / 4
assert clustering_accuracy(truth, solution.labels) > 0.95
