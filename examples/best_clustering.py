"""
Is this the best clustering?
============================

k-means gives an answer; a bound says how far it may be from the best, and ``exact`` closes what is left.
"""
import matplotlib.pyplot as plt
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris
from sklearn.preprocessing import scale

import margindsl as md

X = scale(load_iris().data[50::2])
y, f = md.Labels(len(X)), md.Hyperplane(X)
problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 3 * md.mean(md.odm(y * f, 0.4, 0.2))), [abs(md.sum(y)) <= 30])
theirs = md.certify(problem, KMeans(2, n_init=10, random_state=0).fit_predict(X), random_state=0)
best = problem.solve("exact", random_state=0)
print(theirs.summary(), best.summary(), sep="\n\n")

figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
theirs.fitted.plot("boundary", ax=axes[0]).set_title(f"k-means: {theirs.value:.3f}")
best.plot("boundary", ax=axes[1]).set_title(f"{best.status}: {best.value:.3f}")
assert best.status == "optimal" and best.verify() and best.value <= theirs.value
