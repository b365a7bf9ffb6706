"""
People of one household stay together
=====================================
"""
import numpy as np
import pandas as pd

from margindsl.estimators import MarginClusterer

rng = np.random.default_rng(0)
people = pd.DataFrame(rng.normal(size=(90, 4)), columns=["income", "age", "rooms", "cars"])
people["household"] = rng.integers(40, size=90)
model = MarginClusterer(3, min_size=20, random_state=0)
people["cluster"] = model.fit_predict(people.drop(columns="household"), groups=people["household"])
print(people.groupby("cluster")["household"].agg(["size", "nunique"]))
assert np.all(people.groupby("household")["cluster"].nunique() == 1)
