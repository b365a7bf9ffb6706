"""
How many clusters?
==================
"""
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from margindsl.estimators import MarginClusterer

X = StandardScaler().fit_transform(load_wine(return_X_y=True)[0])
model = MarginClusterer(n_clusters="auto", random_state=0).fit(X)
print(model.stability_)
model.stability_.plot().figure.savefig("stability.png")
assert model.n_clusters_ == 3
