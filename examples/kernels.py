"""
What if no straight line parts the clusters?
============================================

Take a kernel: a Gaussian one, or any function of two sets of points. New points go through the same features.
"""
import matplotlib.pyplot as plt
from sklearn.datasets import make_circles

import margindsl as md

X, truth = make_circles(120, factor=0.3, noise=0.04, random_state=0)
accuracy = {}
for ax, (name, kernel) in zip(plt.subplots(1, 3, figsize=(10, 3.5), layout="constrained")[1], {
        "linear": "linear", "Gaussian": md.RBF(0.5), "one's own": lambda A, B: (A @ B.T) ** 2}.items()):
    y, f = md.Labels(len(X)), md.Hyperplane(X, kernel=kernel)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.odm(y * f))), [abs(md.sum(y)) <= 12])
    solution = problem.solve("alternating", random_state=0)
    accuracy[name] = md.metrics.clustering_accuracy(truth, solution.labels)
    solution.plot("boundary", ax=ax).set_title(f"{name}: {accuracy[name]:.0%} right")

assert accuracy["linear"] < 0.7 and accuracy["one's own"] > 0.95
