"""Two rings: a linear kernel cannot part them, a Gaussian one and one of your own do."""

import numpy as np
from sklearn.datasets import make_circles

import margindsl as md
from margindsl.metrics import clustering_accuracy

X, truth = make_circles(120, factor=0.3, noise=0.04, random_state=0)
n = len(X)


def cluster(kernel):
    y, f = md.Labels(n), md.Hyperplane(X, kernel=kernel)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.odm(y * f))),
                         [abs(md.sum(y)) <= 0.1 * n])
    return problem.solve(relaxation="alternating", random_state=0)


accuracy = {}
for name, kernel in {"linear": "linear", "gaussian": md.RBF(0.5), "own": lambda A, B: (A @ B.T) ** 2}.items():
    solution = cluster(kernel)
    accuracy[name] = clustering_accuracy(truth, solution.labels)
    print(f"{name:<9} accuracy {100 * accuracy[name]:.1f} %, value {solution.value:.4f}")

# A line through the common centre of two rings cuts both in halves: about half the points are right. The squared
# distance from the centre is a linear function of quadratic features, where a hyperplane parts the rings.
assert accuracy["linear"] < 0.7
assert accuracy["own"] > 0.95

# New points are mapped through the same features.
ring = np.array([[0.3, 0.0], [0.0, -0.3], [1.0, 0.0], [0.0, -1.0]])
inner = cluster(lambda A, B: (A @ B.T) ** 2).predict(ring)
assert inner[0] == inner[1] != inner[2] == inner[3]
