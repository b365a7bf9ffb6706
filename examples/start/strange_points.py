"""
Which points belong nowhere?
============================
"""
import numpy as np
from sklearn.datasets import make_blobs

from margindsl.estimators import MarginClusterer

X = make_blobs(200, n_features=12, centers=3, random_state=0)[0]
X = np.vstack([X, np.random.default_rng(0).uniform(-12, 12, size=(10, 12))])
model = MarginClusterer(3, random_state=0).fit(X)
order = np.argsort(model.score_samples(X))
print("least inside:", order[:10], "outliers:", np.flatnonzero(model.outliers_))
assert model.outliers_[200:].mean() >= 0.8 and model.outliers_[:200].mean() <= 0.03
