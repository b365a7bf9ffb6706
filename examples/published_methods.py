"""
How do I run a published method?
================================

Each is a recipe: a declaration with the relaxation and solver of its paper.
"""
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import margindsl as md

images, digits = load_digits(return_X_y=True)
chosen = np.flatnonzero(np.isin(digits, (8, 9)))[:60]
X, r = images[chosen] / 16, md.recipes
problems = {"MMC": r.mmc(X), "GMMC": r.gmmc(X, labels="rounded"), "IterSVR": r.itersvr(X), "CPMMC": r.cpmmc(X),
            "LG-MMC": r.lgmmc(X, labels="rounded"), "SKMMC": r.skmmc(X, restarts=2), "ODMC": r.odmc(X, max_iter=100)}
labels = {name: problem.solve(random_state=0, time_limit=0.5).labels for name, problem in problems.items()}
errors = {name: 1 - md.metrics.clustering_accuracy(digits[chosen], found) for name, found in labels.items()}
plt.barh(list(errors), list(errors.values()))
plt.xlabel("clustering error on digits 8 and 9")

assert not any(problem.program().labels.violations(labels[name]) for name, problem in problems.items())
assert min(errors.values()) < 0.1
