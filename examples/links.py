"""
What do a few links change?
===========================

k-means breaks all three: must-links along both strips, a cannot-link between them. Rules of a problem are always kept.
"""
import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans

import margindsl as md

strip, noise = np.repeat([-1, 1], 50), np.random.default_rng(3).normal(scale=0.12, size=100)
X = np.column_stack([np.tile(np.linspace(-4, 4, 50), 2), 0.8 * strip + noise])
y, f = md.Labels(100), md.Hyperplane(X)
problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 30 * md.mean(md.odm(y * f))),
                     [y[0] == y[49], y[50] == y[99], y[0] != y[50], abs(md.sum(y)) <= 10])
solution, k = problem.solve(random_state=0), KMeans(2, n_init=10, random_state=0).fit_predict(X)
answers = {"k-means: 3 of 3 links broken": md.certify(problem, k, random_state=0).fitted,
           f"margindsl: 3 of 3 kept, {solution.gap:.1%} from the best": solution}
for axes, (claim, answer) in zip(plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")[1], answers.items()):
    answer.plot("boundary", ax=axes).legend(loc=(0.65, 0.54), fontsize="small")
    axes.set_title(claim, fontsize="medium")
    axes.plot(*X[[49, 0, 50, 99]].T, color="tab:green" if answer is solution else "tab:red")
assert k[0] != k[49] and k[50] != k[99] and k[0] == k[50] and solution.gap < .01 and abs(solution.labels @ strip) == 100
