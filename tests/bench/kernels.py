"""Kernels chosen in the model on pairs of digits, against the best one by labels and the one most others agree with.

`python tests/bench/kernels.py [PAIRS]` takes the first so many of the 45 pairs and prints the mean accuracies.
"""

import itertools
import sys
import warnings

import numpy as np
from sklearn.datasets import load_digits

import margindsl as md
from margindsl.metrics import clustering_accuracy

KERNELS = [*(md.RBF(k * md.sqrt_mean_distance) for k in (0.25, 0.5, 1.0, 2.0, 4.0)), md.Linear()]


def solved(X, kernels):
    f = md.Hyperplane(X, kernel=kernels)
    y = md.Labels(len(X))
    norm = md.norm(f, "kernels") ** 2 if isinstance(kernels, list) else md.sq_norm(f)
    problem = md.Problem(md.Minimize(norm / 2 + 10 * md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= 0.1 * len(X)])
    return problem.solve("alternating", random_state=0)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    (images, digits), found = load_digits(return_X_y=True), []
    for a, b in list(itertools.combinations(range(10), 2))[:int(sys.argv[1]) if len(sys.argv) > 1 else 45]:
        chosen = np.isin(digits, (a, b))
        X, truth = images[chosen] / 16, digits[chosen]
        alone = [solved(X, kernel).labels for kernel in KERNELS]
        right = [clustering_accuracy(truth, labels) for labels in alone]
        agreement = [sum(clustering_accuracy(one, other) for other in alone) for one in alone]
        found.append((clustering_accuracy(truth, solved(X, KERNELS).labels), max(right),
                      right[int(np.argmax(agreement))], np.mean(right)))
        print(a, b, *(f"{x:.3f}" for x in found[-1]), flush=True)
    print("mean: chosen in the model, best by labels, medoid, mean of kernels", *np.round(np.mean(found, axis=0), 4))
