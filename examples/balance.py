"""
Why does a problem need a balance?
==================================

With a free bias one cluster for all points costs nothing. What sizes the data have shows where the value rises.
"""
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs

import margindsl as md

X = make_blobs([18, 42], centers=[[-2, 0], [2, 0]], cluster_std=0.8, random_state=0)[0]
y, f = md.Labels(60), md.Hyperplane(X, bias=True)
objective = md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.hinge(y * f)))
shares = np.arange(6, 60, 6)
values = [md.Problem(objective, [md.sum(y) == 2 * share - 60]).solve("alternating", random_state=0).value
          for share in shares]
plt.plot(shares, values, "o-")
plt.xlabel("points of cluster +1")
plt.ylabel("objective")

assert shares[np.argmin(values[2:7]) + 2] in (18, 42)
