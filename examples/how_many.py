"""
How many clusters are there?
============================

Halves of the points are clustered apart; clusters that are there come again. "auto" takes their number.
"""
import matplotlib.pyplot as plt
from sklearn.datasets import make_blobs

from margindsl.estimators import MarginClusterer

X, truth = make_blobs([120, 80, 60, 60, 40], n_features=2, cluster_std=0.8, random_state=11)
model = MarginClusterer(n_clusters="auto", random_state=0).fit(X)
print(model.stability_)

figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
model.stability_.plot(ax=axes[0])
model.solution_.plot("boundary", ax=axes[1], X=model.view_.transform(X)).set_title(f"{model.n_clusters_} clusters")
assert model.n_clusters_ == 5
