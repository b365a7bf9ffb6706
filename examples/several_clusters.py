"""Several clusters: CPM3C, a declaration with sizes and links, and directions of maximum margin."""

import numpy as np
from sklearn.datasets import load_digits

import margindsl as md
from margindsl.metrics import clustering_accuracy

images, digits = load_digits(return_X_y=True)
chosen = np.flatnonzero(np.isin(digits, (2, 4, 7)))[:120]
X, truth = images[chosen] / 16, digits[chosen]

# The published method: Crammer-Singer margins, balance of the summed decision values.
published = md.recipes.cpm3c(X, 3).solve(random_state=0)
error = 100 * (1 - clustering_accuracy(truth, published.labels))
print(f"cpm3c: sizes {published.cluster_sizes}, error {error:.1f} %, {published.timings['total']:.2f} s")

# The same question in the language: optimal margins, sizes and links of one's own.
y, f = md.Labels(len(X), clusters=3), md.Hyperplane(X)
pairs = [(int(a), int(b)) for c in np.unique(truth) for a, b in [np.flatnonzero(truth == c)[:2]]]
problem = md.Problem(
    md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.odm(md.margin(y, f, coding="simplex"), 0.4, 0.2))),
    [md.sizes(y, at_least=30, at_most=50), md.must_link(y, pairs)])
declared = problem.solve(md.Alternating(restarts=4, continuation=3), random_state=0)
error = 100 * (1 - clustering_accuracy(truth, declared.labels))
print(f"declared: sizes {declared.cluster_sizes}, error {error:.1f} %")
assert error < 5
assert all(declared.labels[a] == declared.labels[b] for a, b in pairs)

# Directions one after another, each orthogonal to those before: an embedding that margins chose.
first, second = md.recipes.maximum_margin_embedding(X, 2, random_state=0)
assert abs(first.weights @ second.weights) <= 1e-8 * np.linalg.norm(first.weights) * np.linalg.norm(second.weights)
