"""
How do I get four clusters of given sizes?
==========================================

Labels of k clusters, margins by simplex codes, bounds on sizes, and links as for two.
"""
from sklearn.datasets import make_blobs

import margindsl as md

X, truth = make_blobs([30, 30, 40, 50], centers=[[-3, 0], [0, 3], [3, 0], [0, -3]], random_state=0)
y, f = md.Labels(len(X), clusters=4), md.Hyperplane(X)
margins = md.margin(y, f, coding="simplex")
problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.odm(margins, 0.4, 0.2))),
                     [md.sizes(y, at_least=25, at_most=55), y[0] != y[1], md.must_link(y, [(2, 7), (3, 11)])])
solution = problem.solve("alternating", random_state=0)
print(solution.summary())
solution.plot("boundary")

assert all(25 <= size <= 55 for size in solution.cluster_sizes) and solution.labels[2] == solution.labels[7]
