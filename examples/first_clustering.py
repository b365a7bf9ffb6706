"""
How do I cluster points by their margins?
=========================================

Write the objective as on paper, bound the sum of the labels, and name a relaxation: the answer has labels, a value
computed from them, and a certified bound below which no labelling can get.
"""
from sklearn.datasets import make_blobs

import margindsl as md

X = make_blobs([16, 24], centers=[[-2, -1], [2, 1]], random_state=0)[0]
n = len(X)
y = md.Labels(n)  # y in {-1, +1}^n, unknown
f = md.Hyperplane(X)  # f_i = <w, x_i>, over centred points
problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= 0.3 * n])
print(problem)

solution = problem.solve(relaxation="weight-lifting", random_state=0)
print(solution.summary())
solution.plot("boundary")

assert solution.bound <= solution.value and sorted(solution.cluster_sizes) == [16, 24]
