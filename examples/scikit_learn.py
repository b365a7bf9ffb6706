"""
Does it fit into scikit-learn?
==============================

An estimator like others: in a pipeline, for new points, with links at ``fit`` that no label breaks.
"""
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from margindsl.estimators import MarginClusterer
from margindsl.metrics import clustering_accuracy

digits = load_digits()
chosen = np.isin(digits.target, [0, 6, 8, 9])
train, test, known, hidden = train_test_split(digits.data[chosen] / 16, digits.target[chosen], random_state=0)
pairs = np.random.default_rng(0).permutation(len(train))[:80].reshape(-1, 2)
same = known[pairs[:, 0]] == known[pairs[:, 1]]

model = MarginClusterer(n_clusters=4, random_state=0).fit(train, must_link=pairs[same], cannot_link=pairs[~same])
print(f"on new digits: {clustering_accuracy(hidden, model.predict(test)):.1%}")
model.solution_.plot("boundary")

assert np.all((model.labels_[pairs[:, 0]] == model.labels_[pairs[:, 1]]) == same)
assert clustering_accuracy(hidden, model.predict(test)) >= 0.95
