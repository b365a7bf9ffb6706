"""
Which columns matter, and which points belong nowhere?
======================================================

A column counts for as much as decision values move without it; points of low margin lie between the
clusters, and far points belong to none.
"""
import matplotlib.pyplot as plt
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from margindsl.estimators import MarginClusterer

wine = StandardScaler().set_output(transform="pandas").fit_transform(load_wine(as_frame=True).data)
model = MarginClusterer(n_clusters=3, random_state=0).fit(wine)
print("outliers:", wine.index[model.outliers_].tolist())

figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
model.plot("features", ax=axes[0], most=8)
model.plot("profile", ax=axes[1])
assert model.feature_names_in_[model.feature_importances_.argmax()] in ("proline", "alcohol", "flavanoids")
