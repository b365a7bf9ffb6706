"""
What does an optimal margin distribution look like?
===================================================

The hinge asks the least margins to be large; ODM pays for margins above a band, too, so that they gather around one.
"""
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import margindsl as md

images, digits = load_digits(return_X_y=True)
X = images[np.isin(digits, (3, 8))][::2] / 16
y, f = md.Labels(len(X)), md.Hyperplane(X)
axes = plt.subplots(1, 2, figsize=(9, 3.5), sharex=True, layout="constrained")[1]
spread = {}
for ax, (name, loss) in zip(axes, {"hinge": md.hinge(y * f), "ODM": md.odm(y * f, 0.4, 0.2)}.items()):
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 30 * md.mean(loss)), [abs(md.sum(y)) <= 0.1 * len(X)])
    solution = problem.solve("alternating", random_state=0)
    spread[name] = np.sqrt(solution.margin_variance) / solution.margin_mean
    solution.plot("margins", ax=ax).set_title(f"{name}: deviation {spread[name]:.0%} of the mean")

assert spread["ODM"] < spread["hinge"]
