"""
Classify with few labels, in a pipeline, with a search over its settings
========================================================================
"""
import pandas as pd
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from margindsl.estimators import SemiSupervisedODM

customers = pd.read_csv("customers.csv", index_col="name")
known = customers.pop("member").fillna(-1).astype(int)  # -1: not known
pipeline = make_pipeline(StandardScaler(), SemiSupervisedODM())
search = GridSearchCV(pipeline, {"semisupervisedodm__lam1": [0.3, 1.0, 3.0]}, cv=4).fit(customers, known)
print(search.best_params_, search.best_score_)
assert set(search.predict(customers)) == {0, 1}
