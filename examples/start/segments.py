"""
Four segments of 10 to 40 % of the customers, and what tells them apart
=======================================================================
"""
import pandas as pd
from sklearn.preprocessing import StandardScaler

from margindsl.estimators import MarginClusterer

customers = pd.read_csv("customers.csv", index_col="name")[["visits", "basket", "age"]]
points = StandardScaler().set_output(transform="pandas").fit_transform(customers)
model = MarginClusterer(n_clusters=4, min_size=0.1, max_size=0.4, random_state=0).fit(points)
print(customers.assign(segment=model.labels_).groupby("segment").agg(["mean", "count"]).round(1))
print(pd.Series(model.feature_importances_, model.feature_names_in_).round(2))
shares = pd.Series(model.labels_).value_counts(normalize=True)
assert shares.between(0.1, 0.4).all() and len(shares) == 4
