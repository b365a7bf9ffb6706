"""
Five relaxations of one problem, side by side
=============================================
"""
from sklearn.datasets import make_moons

import margindsl as md

X, truth = make_moons(60, noise=0.1, random_state=0)
y, f = md.Labels(len(X)), md.Hyperplane(X, kernel=md.RBF(0.5))
problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= 6])
relaxations = md.compare(
    problem, ["alternating", "cccp", "minimax", "sdp", "weight-lifting"], truth=truth, random_state=0)
print(relaxations)
relaxations.plot().figure.savefig("relaxations.png")
assert relaxations.bound <= relaxations.best().value
