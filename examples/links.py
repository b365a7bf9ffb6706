"""
What do a few links change?
===========================

A margin across the direction of greatest spread is widest here. Six links turn the answer, and none is broken.
"""
import matplotlib.pyplot as plt
import numpy as np

import margindsl as md

rng = np.random.default_rng(1)
truth = np.repeat([-1, 1], 50)
X = np.column_stack([rng.uniform(-4, 4, 100), 0.8 * truth + rng.normal(scale=0.2, size=100)])
ends = np.array([np.flatnonzero(truth == side)[np.argsort(X[truth == side, 0])[[0, 1, -2, -1]]] for side in (-1, 1)])
y, f = md.Labels(100), md.Hyperplane(X)
free = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 3 * md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= 10])
linked = free.with_constraints(md.must_link(y, ends[:, [0, 3]]), md.cannot_link(y, ends.T))

answers = [problem.solve("weight-lifting", random_state=0) for problem in (free, linked)]
for axes, answer in zip(plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")[1], answers):
    answer.plot("boundary", ax=axes).set_title(f"value {answer.value:.3f}, bound {answer.bound:.3f}")

agreements = [md.metrics.clustering_accuracy(truth, answer.labels) for answer in answers]
assert agreements[0] < 0.7 and agreements[1] == 1.0
