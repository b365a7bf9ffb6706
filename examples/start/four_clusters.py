"""
Four clusters whose sizes are known
===================================
"""
from sklearn.datasets import make_blobs

import margindsl as md

X, truth = make_blobs(140, n_features=5, centers=4, random_state=0)[:2]
y, f = md.Labels(len(X), clusters=4), md.Hyperplane(X)
objective = md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.hinge(md.margin(y, f, coding="simplex"))))
problem = md.Problem(objective, [md.sizes(y, at_least=20, at_most=50)])
solution = problem.solve(md.Alternating(start="kmeans"), random_state=0)
print(solution.summary(), md.metrics.clustering_accuracy(truth, solution.labels), sep="\n")
assert sum(solution.cluster_sizes) == 140 and min(solution.cluster_sizes) >= 20
