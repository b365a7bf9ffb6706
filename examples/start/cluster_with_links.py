"""
Cluster the rows of a CSV file, with links that must hold
=========================================================
"""
import pandas as pd
from sklearn.preprocessing import StandardScaler

from margindsl.estimators import MarginClusterer

customers = pd.read_csv("customers.csv", index_col="name").drop(columns="member")
points = StandardScaler().set_output(transform="pandas").fit_transform(customers)
model = MarginClusterer(n_clusters=2, random_state=0)
model.fit(points, must_link=[("Ada", "Ben")], cannot_link=[("Cleo", "Dan"), ("Eva", "Finn")])
customers["cluster"] = model.labels_
print(customers.groupby("cluster").mean())
assert customers.cluster["Ada"] == customers.cluster["Ben"] and customers.cluster["Cleo"] != customers.cluster["Dan"]
