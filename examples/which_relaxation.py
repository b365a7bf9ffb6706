"""
Which relaxation should I use?
==============================

Ask several: dots are values of labellings, dashes certified bounds; triangles close this gap.
"""
import matplotlib.pyplot as plt
from sklearn.datasets import load_iris

import margindsl as md

X, species = load_iris(return_X_y=True)
X, species = X[50::5], species[50::5]  # versicolor and virginica
y, f = md.Labels(len(X)), md.Hyperplane(X)
problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.odm(y * f, 0.4, 0.2))), [abs(md.sum(y)) <= 5])

relaxations = ["alternating", "cccp", "minimax", "sdp", md.SDP(cuts="all"), "weight-lifting"]
table = md.compare(problem, relaxations, truth=species, random_state=0)
print(table)
table.plot(ax=plt.subplots(figsize=(9, 3.5), layout="constrained")[1])

assert table.bound <= table.best().value
