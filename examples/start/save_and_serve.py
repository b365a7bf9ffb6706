"""
Save a model, load it where the training data are not, predict
==============================================================
"""
import numpy as np
from sklearn.datasets import make_blobs

import margindsl as md

X = make_blobs(120, n_features=3, centers=3, random_state=0)[0]
y, f = md.Labels(100, clusters=3), md.Hyperplane(X[:100])
problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.odm(md.margin(y, f)))), [md.sizes(y, at_least=20)])
solution = problem.solve("alternating", random_state=0)
solution.save("model.npz")
served = md.load("model.npz").predict(X[100:])
print(served)
assert np.array_equal(served, solution.predict(X[100:]))
