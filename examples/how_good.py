"""
How good are the labels that k-means found?
===========================================

``md.certify`` gives them their value, a certified bound on all labellings, and better labels where it finds some.
"""
import matplotlib.pyplot as plt
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

import margindsl as md

X = scale(load_breast_cancer().data)[::6]
y, f = md.Labels(len(X)), md.Hyperplane(X)
problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= 0.5 * len(X)])
found = md.certify(problem, KMeans(2, n_init=10, random_state=0).fit_predict(X), random_state=0)
print(found.summary())

figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
found.fitted.plot("profile", ax=axes[0]).set_title(f"k-means: {found.value:.4f}")
found.answer.plot("profile", ax=axes[1]).set_title(f"found: {found.answer.value:.4f}, no less than {found.bound:.4f}")

assert found.bound <= found.answer.value <= found.value
