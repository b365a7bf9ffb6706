"""Random models of several hyperplanes and rows without labels, judged by models written by hand.

`python tests/fuzz/blocks.py 0 500 2` tries seeds 0 to 499 of 2 clusters. Judged are values at fixed labels (1e-7), the
value of `exact` against labellings drawn at random, that no bound exceeds it, and `verify`.
"""

import itertools
import sys
import warnings

import cvxpy as cp
import numpy as np

import margindsl as md
from margindsl.labelset.codes import simplex_codes

LOSSES = {
    "hinge": (md.hinge, lambda m: cp.pos(1 - m)),
    "squared hinge": (md.squared_hinge, lambda m: cp.square(cp.pos(1 - m))),
    "odm": (md.odm, lambda m: (cp.square(cp.pos(0.8 - m)) + 0.5 * cp.square(cp.pos(m - 1.2))) / 0.64),
    "square": (lambda g: (1 - g) ** 2, lambda m: cp.square(1 - m)),
    "insensitive": (lambda g: md.epsilon_insensitive(g, 0.1), lambda m: cp.pos(cp.abs(1 - m) - 0.1))}
FREE = {
    "square": (md.square, cp.square), "abs": (abs, cp.abs), "hinge": (md.hinge, lambda r: cp.pos(1 - r)),
    "universum": (lambda r: md.pos(abs(r) - 0.1), lambda r: cp.pos(cp.abs(r) - 0.1)),
    "shifted": (lambda r: (r - 0.3) ** 2, lambda r: cp.square(r - 0.3)),
    "huber": (lambda r: md.huber(r, 0.5), lambda r: cp.huber(r, 0.5))}
ACCURATE = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}


def features(plane):
    """Return the features of a hyperplane, by hand."""
    F = plane.X
    if plane.kernel != "linear":
        K, n = plane.kernel.matrix(plane.X, plane.X), plane.n
        H = np.eye(n) - plane.centre / n
        values, vectors = np.linalg.eigh(H @ K @ H)
        F = vectors * np.sqrt(np.maximum(values, 0))
    F = F - F.mean(axis=0) if plane.centre else F
    return np.column_stack([F, np.ones(plane.n)]) if plane.bias else F


def model(seed, k=2):
    """Return a problem, its value at labels by hand, its labellings and the generator."""
    rng = np.random.default_rng(seed)
    n, V = int(rng.integers(4, 8 if k == 2 else 6)), int(rng.integers(1, 4))
    y, coding = md.Labels(n, clusters=k), str(rng.choice(["simplex", "crammer-singer"]))
    planes = [md.Hyperplane(rng.normal(size=(n, int(rng.integers(1, 3)))), centre=bool(rng.random() < 0.6),
                            kernel=md.RBF(1.5) if rng.random() < 0.3 else "linear",
                            bias="penalised" if rng.random() < 0.3 else False, name="abc"[v]) for v in range(V)]
    phi, ridges = [features(plane) for plane in planes], rng.uniform(0.3, 2, V)
    objective = sum(float(c) * md.sq_norm(plane) / 2 for c, plane in zip(ridges, planes))
    sums = [*np.eye(V), np.ones(V), rng.normal(size=V)] if V > 1 else [np.ones(1)]

    def combined(weights):
        return sum(float(c) * plane for c, plane in zip(weights, planes) if c)

    def margins(weights):
        return y * combined(weights) if k == 2 else md.margin(y, combined(weights), coding=coding)

    names, terms = ["hinge", "squared hinge"] if k > 2 and coding != "simplex" else list(LOSSES), []
    for number in range(V + int(rng.integers(1, 3))):
        weights = sums[number if number < V else int(rng.integers(len(sums)))]
        (loss, by_hand), size = LOSSES[str(rng.choice(names))], float(rng.uniform(0.3, 2))
        index = rng.permutation(n)[:int(rng.integers(1, n))] if k == 2 and rng.random() < 0.3 else np.arange(n)
        objective = objective + size * md.sum(loss(margins(weights)[index]))
        terms.append((weights, by_hand, size, index, None))
    for _ in range(int(rng.integers(V == 1, 3)) if k == 2 else 0):
        (loss, by_hand), size = FREE[str(rng.choice(list(FREE)))], float(rng.uniform(0.1, 1))
        weights, m, kind = sums[int(rng.integers(len(sums)))], int(rng.integers(1, 4)), rng.integers(3)
        e, (i, j) = combined(weights), rng.integers(n, size=(2, m))
        A = [rng.normal(size=(m, n)), np.eye(n)[i] - np.eye(n)[j], np.eye(n)[i]][kind]
        objective = objective + size * md.sum(loss([A @ e, e[i] - e[j], e[i]][kind]))
        terms.append((weights, by_hand, size, None, A))
    soft, held = float(rng.uniform(0.05, 0.3)) if rng.random() < 0.3 and (k == 2 or coding == "simplex") else 0.0, []
    if soft:
        objective = objective + md.must_link(y, [(0, 3), (1, 2)], weight=soft)
    admitted = [lambda z: True]
    for chance, constraint, test in [
            (0.6, lambda: abs(md.sum(y)) <= 2 if k == 2 else md.sizes(y, at_least=1),
             lambda z: abs(z.sum()) <= 2 if k == 2 else len(set(z)) == k),
            (0.4, lambda: y[0] != y[1], lambda z: z[0] != z[1]), (0.3, lambda: y[2] == 1, lambda z: z[2] == 1)]:
        if rng.random() < chance:
            held.append(constraint())
            admitted.append(test)
    bounded = rng.normal(size=n) if k == 2 and rng.random() < 0.25 else None
    if bounded is not None:
        held.append(abs(md.sum(bounded * combined(np.ones(V)))) <= 0.4)
    codes = np.eye(k) if coding != "simplex" else simplex_codes(k)
    codes = np.ones((1, 1)) if k == 2 else codes

    def value(z):
        W = [cp.Variable((F.shape[1], codes.shape[1])) for F in phi]
        total = sum(c * cp.sum_squares(w) / 2 for c, w in zip(ridges, W))
        decided = [F @ w @ codes.T for F, w in zip(phi, W)]
        for weights, by_hand, size, index, A in terms:
            f = sum(c * part for c, part in zip(weights, decided))
            if A is not None:
                total += size * cp.sum(by_hand(A @ f[:, 0]))
                continue
            g = cp.multiply(z, f[:, 0]) if k == 2 else cp.hstack([
                f[i, z[i]] - (0 if coding == "simplex" else cp.max(cp.hstack([f[i, c] for c in range(k) if c != z[i]])))
                for i in range(n)])
            total += size * cp.sum(by_hand(g[index]))
        limits = [] if bounded is None else [cp.abs(bounded @ sum(decided)[:, 0]) <= 0.4]
        energy = soft * (int(z[0] != z[3]) + int(z[1] != z[2]))
        return cp.Problem(cp.Minimize(total), limits).solve("CLARABEL", **ACCURATE) + energy

    every = map(np.array, itertools.product((-1, 1) if k == 2 else range(k), repeat=n))
    return md.Problem(md.Minimize(objective), held), value, [z for z in every if all(t(z) for t in admitted)], rng


def faults(seed, k=2):
    """Yield what is wrong with the answers to a random model."""
    problem, value, labellings, rng = model(seed, k)
    if not labellings:
        return
    z = labellings[rng.integers(len(labellings))]
    if abs((found := problem.at_labels(z).solve("supervised").value) - (least := value(z))) > 1e-7 * max(1, abs(least)):
        yield f"at fixed labels {found}, by hand {least}"
    exact = problem.solve("exact", random_state=0)
    close = 1e-6 * max(1, abs(exact.value))
    if exact.status != "optimal" or not exact.verify() or abs(exact.value - value(exact.labels)) > close:
        yield f"exact: {exact.status}, {exact.value} above {exact.bound}, {exact.message}"
    for one in rng.permutation(len(labellings))[:5]:
        if value(labellings[one]) < exact.value - close:
            yield f"exact: {exact.value} is above that of {labellings[one]}"
    for relaxation in (("sdp", "alternating"), ("minimax", "cccp"), (md.Exact(method="branching"),))[seed % 3]:
        found = problem.solve(relaxation, random_state=0)
        if found.bound > exact.value + close or found.value < exact.value - close or not found.verify():
            yield f"{relaxation}: {found.bound} to {found.value}, exact {exact.value}"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    first, last, clusters = map(int, sys.argv[1:4])
    for case in range(first, last):
        for fault in faults(case, clusters):
            print(case, fault, flush=True)
