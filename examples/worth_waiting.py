"""
Is it worth waiting longer?
===========================

Every round is in ``solution.history``: the value falls, the certified bound rises, and what lies between is open.
"""
import numpy as np

import margindsl as md

X = np.random.default_rng(0).normal(size=(40, 3))
X[:20, 0] += 2.5
y, f = md.Labels(40), md.Hyperplane(X)
problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 20 * md.mean(md.odm(y * f, 0.4, 0.2))), [abs(md.sum(y)) <= 4])
solution = problem.solve("exact", random_state=0, time_limit=1.5)
print(solution.summary())
solution.plot("convergence")

assert solution.bound <= solution.value
