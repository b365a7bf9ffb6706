"""Optimal margin distributions without labels, with links, and with a few labels: one recipe each."""

import numpy as np
from sklearn.datasets import load_digits

import margindsl as md
from margindsl.metrics import clustering_accuracy

images, digits = load_digits(return_X_y=True)
chosen = np.isin(digits, (3, 8))
X, truth = images[chosen] / 16, np.where(digits[chosen] == 3, 1, -1)
n, rng = len(X), np.random.default_rng(0)


def error(labels):
    return 100 * (1 - clustering_accuracy(truth, labels))


# No labels (ODMC). The published algorithm is the default; here its relaxation is solved to accuracy and rounded.
clustering = md.recipes.odmc(X, lam=1.0, balance=0.05, labels="rounded").solve(solver="mirror-prox", random_state=0)

# A hundred random pairs, as must-links and cannot-links (ODMSSC).
pairs = np.array([rng.choice(n, 2, replace=False) for _ in range(100)])
same = truth[pairs[:, 0]] == truth[pairs[:, 1]]
linked = md.recipes.odmssc(X, must_link=pairs[same], cannot_link=pairs[~same], lam=3.0, balance=0.05,
                           labels="rounded").solve(solver="mirror-prox", random_state=0)

# Five per cent of the labels, the rest with the same class ratio (ssODM), and the same points without the rest (ODM).
known = np.concatenate([rng.choice(np.flatnonzero(truth == sign), 9, replace=False) for sign in (-1, 1)])
y = np.zeros(n, dtype=int)
y[known] = truth[known]
with_rest = md.recipes.ssodm(X, y, lam1=1.0, lam2=1.0, labels="rounded").solve(solver="mirror-prox", random_state=0)
alone = md.recipes.odm(X, y).solve()

print(f"error in %: no labels {error(clustering.labels):.2f}, 100 links {error(linked.labels):.2f}, "
      f"18 labels {error(with_rest.labels):.2f}, the 18 alone {error(alone.labels):.2f}")
assert np.all(linked.labels[pairs[same, 0]] == linked.labels[pairs[same, 1]])
assert np.all(with_rest.labels[known] == truth[known])
# k-means: 5.32 % on this pair (table of the CPMMC slides, Zhao, Wang and Zhang 2008).
assert max(error(clustering.labels), error(linked.labels), error(with_rest.labels)) <= 5.32
