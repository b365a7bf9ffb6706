"""Every published method for two clusters on one small set: value, bound, error and seconds of each."""

import numpy as np
from sklearn.datasets import load_digits

import margindsl as md
from margindsl.metrics import clustering_accuracy

images, digits = load_digits(return_X_y=True)
chosen = np.flatnonzero(np.isin(digits, (8, 9)))[:80]
X, truth = images[chosen] / 16, digits[chosen]

recipes = md.recipes
problems = {
    "mmc": recipes.mmc(X),
    "gmmc": recipes.gmmc(X, labels="rounded"),
    "itersvr": recipes.itersvr(X),
    "cpmmc": recipes.cpmmc(X),
    "mme, one direction": recipes.mme(X),
    "lgmmc": recipes.lgmmc(X, labels="rounded"),
    "kernel_cpmmc": recipes.kernel_cpmmc(X, restarts=2),
    "adaptive_cpmmc": recipes.adaptive_cpmmc(X, restarts=2),
    "skmmc": recipes.skmmc(X, restarts=2),
    "skmmc_v2": recipes.skmmc_v2(X, restarts=2),
    "odmc": recipes.odmc(X, max_iter=100),
    "odmssc, two links": recipes.odmssc(X, must_link=[(0, 2)], cannot_link=[(0, 1)], balance=0.1, labels="rounded")}

# Values are comparable only within one objective: the losses, their weights and the kernels differ.
print(f"{'method':20s} {'value':>10s} {'bound':>10s} {'error %':>8s} {'seconds':>8s}  status")
error = {}
for name, problem in problems.items():
    solution = problem.solve(random_state=0, time_limit=2)
    error[name] = 100 * (1 - clustering_accuracy(truth, solution.labels))
    bound = f"{solution.bound:10.4g}" if np.isfinite(solution.bound) else f"{'none':>10s}"
    print(f"{name:20s} {solution.value:10.4g} {bound} {error[name]:8.1f} {solution.timings['total']:8.2f}"
          f"  {solution.status}")
    assert problem.program().labels.contains(solution.labels) and solution.bound <= solution.value

assert min(error.values()) < 10
