"""
How good is a clustering that was found elsewhere?
==================================================
"""
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris

import margindsl as md

X = load_iris(return_X_y=True)[0][50:]
y, f = md.Labels(len(X)), md.Hyperplane((X - X.mean(axis=0)) / X.std(axis=0))
problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= 30])
found = md.certify(problem, KMeans(2, random_state=0).fit_predict(f.X), random_state=0)
print(found.summary())
assert found.bound <= found.value
