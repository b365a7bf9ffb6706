"""Random models of several hyperplanes and rows without labels, judged by models written by hand.

`python tests/fuzz/blocks.py 0 500 2 norms scalars` tries seeds 0 to 499 of 2 clusters with those of `PARTS`, or with
some of each seed, `mixed`.
Judged are values at fixed labels (1e-7), the value of `exact` against enumeration (of labellings drawn at random where
there are many), that no bound exceeds it, `verify`, and that an answer comes at all.
"""

import itertools
import signal
import sys
import time
import warnings
from collections import Counter

import cvxpy as cp
import numpy as np

import margindsl as md
from margindsl.errors import GrammarError, RefusalError
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
ACCURATE = ("tol_gap_abs", "tol_gap_rel", "tol_feas")


PARTS = ("norms", "by-label", "caps", "pairs", "groups", "scalars", "bias", "door")
HANG = 60  # seconds of processor time


class Unsolved(Exception):
    """Signal a model whose form by hand the conic solver does not solve."""


def features(plane):
    """Return the features of a hyperplane, by hand, and the block of each kernel's columns."""
    n, found = plane.n, []
    for kernel in plane.kernel if isinstance(plane.kernel, list) else [plane.kernel]:
        F = np.asarray(plane.X)
        if kernel != "linear":
            H = np.eye(n) - plane.centre / n
            values, vectors = np.linalg.eigh(H @ kernel.matrix(F, F) @ H)
            F = vectors * np.sqrt(np.maximum(values, 0))
        found.append(F - F.mean(axis=0) if plane.centre else F)
    blocks = np.repeat(np.arange(len(found)), [F.shape[1] for F in found])
    return np.column_stack([*found, np.ones((n, 1))[:, :bool(plane.bias)]]), blocks


def normed(rng, planes, blocks):
    """Return the norms and squared norms of an objective, what they are by hand, and the planes of whom."""
    v, joint = int(rng.integers(len(planes))), rng.random() < 0.3 and len(planes) > 1
    chosen = range(len(planes)) if joint else [v]
    kernels, d = isinstance(planes[v].kernel, list), blocks[v].size
    groups = blocks[v] if kernels else [np.zeros(d, dtype=int), np.arange(d), np.arange(d) % 2][rng.integers(3)]
    ord_ = "kernels" if kernels else 2
    if not kernels and not joint and planes[v].kernel == "linear":
        ord_ = 2 if not groups.any() else 1 if len(set(groups)) == d else groups
    groups = groups if not (isinstance(ord_, int) and ord_ == 2) else np.zeros(d, dtype=int)
    norm = sum(md.norm(planes[u]) for u in chosen) if joint else md.norm(planes[v], ord_)
    p, c, e = [(0, 1, 0), (1, 0, 0.3), (0.5, 1, 0.2), (0, 1, 0.2), (1, 1, 0), (0, 0, 0.5)][rng.integers(6)]
    objective = c * norm**2 / 2 if c else 0
    for u in chosen:
        objective = objective + p * md.sq_norm(planes[u]) / 2 if p else objective
    objective = objective + e * norm if e else objective

    def by_hand(W):
        T = sum(cp.norm(W[u], "fro") for u in chosen) if joint else sum(
            cp.norm(W[v][np.flatnonzero(groups == b)], "fro") for b in set(groups))
        return c * cp.square(T) / 2 + e * T + sum(p * cp.sum_squares(W[u]) / 2 for u in chosen)

    return objective, by_hand, chosen


def model(seed, k=2, parts=()):
    """Return a problem, its value at labels by hand, its labellings and the generator."""
    rng, aside = np.random.default_rng(seed), np.random.default_rng([seed, k])  # models of old seeds stay
    n, V = int(rng.integers(4, 8 if k == 2 else 6)), int(rng.integers(1, 4))
    V, n = 1 if {"bias", "door"} & set(parts) else min(V, 2) if parts else V, min(n, 6) if parts else n
    y, coding = md.Labels(n, clusters=k), str(rng.choice(["simplex", "crammer-singer"]))
    coding = "simplex" if {"norms", "pairs"} & set(parts) else coding
    planes = [md.Hyperplane(rng.normal(size=(n, int(rng.integers(1, 3)))), centre=bool(rng.random() < 0.6),
                            kernel=md.RBF(1.5) if rng.random() < 0.3 else "linear",
                            bias="penalised" if rng.random() < 0.3 else False, name="abc"[v]) for v in range(V)]
    if "norms" in parts or "bias" in parts or "door" in parts:
        free = "bias" in parts or ("door" in parts and bool(aside.random() < 0.3))
        planes = [md.Hyperplane(plane.X, centre=plane.centre, name=plane.name, bias=free, kernel=[
            md.RBF(1.0), "linear"] if "norms" in parts and aside.random() < 0.3 else plane.kernel) for plane in planes]
    (phi, blocks), ridges = zip(*map(features, planes)), rng.uniform(0.3, 2, V)
    sums = [*np.eye(V), np.ones(V), rng.normal(size=V)] if V > 1 else [np.ones(1)]
    normal, norms, own = normed(aside, planes, blocks) if "norms" in parts else (0, lambda W: 0, ())
    objective = sum((float(ridges[v]) * md.sq_norm(planes[v]) / 2 for v in range(V) if v not in own), normal)
    W = [cp.Variable((F.shape[1], 1 if k == 2 else k - (coding == "simplex"))) for F in phi]
    held = [w[:-1] if plane.bias is True else w for w, plane in zip(W, planes)]  # by norms
    total = sum((float(ridges[v]) * cp.sum_squares(held[v]) / 2 for v in range(V) if v not in own), norms(held))
    codes = np.ones((1, 1)) if k == 2 else simplex_codes(k) if coding == "simplex" else np.eye(k)
    decided = [F @ w @ codes.T for F, w in zip(phi, W)]
    Z, keep = cp.Parameter((n, codes.shape[0])), cp.Parameter(3 * ("caps" in parts), nonneg=True)
    of = cp.Parameter((n, 2), nonneg=True)  # whether the label is +1, and -1
    cut, capped = cp.Parameter(keep.size), np.arange(0)
    energies = [lambda z: 0.0]

    def combined(weights):
        return sum(float(c) * plane for c, plane in zip(weights, planes) if c)

    def margins(weights):
        return y * combined(weights) if k == 2 else md.margin(y, combined(weights), coding=coding)

    def by_hand_margins(weights):
        f = sum(c * part for c, part in zip(weights, decided))
        g = cp.sum(cp.multiply(Z, f), axis=1)
        return g if k == 2 or coding == "simplex" else g - cp.max(f - 60 * Z, axis=1)

    names, limits = ["hinge", "squared hinge"] if k > 2 and coding != "simplex" else list(LOSSES), []
    for number in range(V + int(rng.integers(1, 3))):
        weights = sums[number if number < V else int(rng.integers(len(sums)))]
        (loss, by_hand), size = LOSSES[str(rng.choice(names))], float(rng.uniform(0.3, 2))
        index = rng.permutation(n)[:int(rng.integers(1, n))] if k == 2 and rng.random() < 0.3 else np.arange(n)
        objective = objective + size * md.sum(loss(margins(weights)[index]))
        total += size * cp.sum(by_hand(by_hand_margins(weights)[index]))
    for _ in range(int(rng.integers(V == 1, 3)) if k == 2 else 0):
        (loss, by_hand), size = FREE[str(rng.choice(list(FREE)))], float(rng.uniform(0.1, 1))
        weights, m, kind = sums[int(rng.integers(len(sums)))], int(rng.integers(1, 4)), rng.integers(3)
        e, (i, j) = combined(weights), rng.integers(n, size=(2, m))
        A = [rng.normal(size=(m, n)), np.eye(n)[i] - np.eye(n)[j], np.eye(n)[i]][kind]
        if parts and (aside.random() < 0.5 or {"bias", "door", "norms"} & set(parts)):
            continue
        objective = objective + size * md.sum(loss([A @ e, e[i] - e[j], e[i]][kind]))
        total += size * cp.sum(by_hand(A @ sum(c * part for c, part in zip(weights, decided))[:, 0]))
    soft, rules = float(rng.uniform(0.05, 0.3)) if rng.random() < 0.3 and (k == 2 or coding == "simplex") else 0.0, []
    if soft and not {"bias", "door"} & set(parts):
        objective = objective + md.must_link(y, [(0, 3), (1, 2)], weight=soft)
        energies.append(lambda z: soft * (int(z[0] != z[3]) + int(z[1] != z[2])))
    admitted = [lambda z: True]
    options = [
        (0.6, lambda: abs(md.sum(y)) <= 2 if k == 2 else md.sizes(y, at_least=1),
         lambda z: abs(z.sum()) <= 2 if k == 2 else len(set(z)) == k),
        (0.4, lambda: y[0] != y[1], lambda z: z[0] != z[1]), (0.3, lambda: y[2] == 1, lambda z: z[2] == 1)]
    if "groups" in parts:
        group, last = aside.permutation(n)[:3], 1 if k == 2 else k - 1
        options += [
            (0.6, lambda: md.count(y[group] == last) <= 1, lambda z: np.sum(z[group] == last) <= 1),
            (0.5, lambda: md.sizes(y[:4], at_most=2), lambda z: max(np.unique(z[:4], return_counts=True)[1]) <= 2),
            (0.5, lambda: y[3] != last, lambda z: z[3] != last),
            (0.4, lambda: md.count(y[1:4] == 1) >= 1, lambda z: np.sum(z[1:4] == 1) >= 1)]
    for chance, constraint, test in options:
        if rng.random() < chance:
            rules.append(constraint())
            admitted.append(test)
    bounded = rng.normal(size=n) if k == 2 and rng.random() < 0.25 else None
    if bounded is not None:
        rules.append(abs(md.sum(bounded * combined(np.ones(V)))) <= 0.4)
        limits.append(cp.abs(bounded @ sum(decided)[:, 0]) <= 0.4)
    if "bias" in parts and aside.random() < 0.6:
        rules.append(abs(md.sum(planes[0])) <= 0.5)
        sum_ = cp.sum(decided[0], axis=0)
        limits.append(sum_ <= 0.5 if k == 2 else cp.max(sum_) - cp.min(sum_) <= 0.5)
        limits += [sum_ >= -0.5] if k == 2 else []
    size, own_loss = float(aside.uniform(0.3, 2)), aside.choice([name for name in names if name != "odm"])
    (loss, by_hand), e = LOSSES[str(own_loss)], decided[0][:, 0]
    if "by-label" in parts:
        cost, width, index = aside.uniform(0.3, 3), aside.uniform(0.5, 1.5), np.sort(aside.permutation(n)[:3])
        low = [(0.7, 0.7), (float(cost) * md.hinge(-planes[0][index]), cost * cp.pos(1 + e[index]))][aside.integers(2)]
        objective = objective + size * md.sum(md.by_label(y[index], {1: loss(planes[0][index] / width), -1: low[0]}))
        total += size * cp.sum(cp.multiply(of[index, 0], by_hand(e[index] / width)) + cp.multiply(of[index, 1], low[1]))
    if "caps" in parts:
        capped = index = aside.permutation(n)[:3]
        cap, band = float(aside.uniform(0.3, 2)), float(aside.choice([0.0, 0.1]))
        g = margins(sums[0])[index]
        objective = objective + size * md.sum(md.minimum(md.epsilon_insensitive(g, band) if band else md.hinge(g), cap))
        apart = keep - cp.multiply(cut, decided[0][index, 0])  # cut is keep z
        total += size * (cp.sum(cp.pos(cp.abs(apart) - band * keep if band else apart)) + cap * cp.sum(1 - keep))
    if "pairs" in parts:
        pairs, costs = np.array(list(itertools.combinations(range(n), 2))), aside.normal(size=n) / 3
        pairs = pairs[aside.permutation(len(pairs))[:4]]
        must, cannot = aside.uniform(-0.1, 0.5, 4), aside.uniform(0, 0.3)
        objective = objective + md.must_link(y, pairs, weight=must) + md.cannot_link(y, pairs[:2, ::-1], weight=cannot)
        objective = objective + md.sum(costs * y) if k == 2 else objective
        energies.append(lambda z: must @ (z[pairs[:, 0]] != z[pairs[:, 1]]) + cannot * np.sum(
            z[pairs[:2, 0]] == z[pairs[:2, 1]]) + (costs @ z if k == 2 else 0))
    if "scalars" in parts:
        nonneg = bool(aside.random() < 0.5)
        s, t = md.Scalar(nonneg=nonneg), cp.Variable(nonneg=nonneg)
        g, m = margins(sums[-1]), by_hand_margins(sums[-1])
        if aside.random() < 0.6 or (coding == "crammer-singer" and k > 2):
            objective, total = objective + 0.4 * s + md.mean(md.pos(0.5 - g - s)), total + 0.4 * t + cp.sum(
                cp.pos(0.5 - m - t)) / n
        else:
            objective = objective + md.mean_variance(g, 0.5, 1.5)
            total += -0.5 * (free := cp.Variable()) + 1.5 * cp.sum_squares(m - free) / n
    if "door" in parts:
        norm = cp.norm1 if planes[0].kernel == "linear" else cp.norm2
        bias = W[0][-1, 0] if planes[0].bias else 0.0
        objective = objective + 0.2 * md.cvxpy_term(planes[0], lambda w, b: norm(w) + cp.square(b - 0.1))
        total += 0.2 * (norm(held[0][:, 0]) + cp.square(bias - 0.1))
        rules.append(md.cvxpy_constraint(planes[0], lambda w, b: cp.norm(w) <= 1.2))
        limits.append(cp.norm(held[0][:, 0]) <= 1.2)
    hand = cp.Problem(cp.Minimize(total), limits)

    def value(z):
        Z.value = z[:, None].astype(float) if k == 2 else np.eye(k)[z]
        of.value = np.column_stack([z > 0, z < 0]).astype(float)
        found = []
        for kept in itertools.product((0.0, 1.0), repeat=keep.size):
            keep.value = np.array(kept)
            cut.value = keep.value * z[capped]
            for tol in (1e-10, 1e-9, 1e-8):
                try:
                    found.append(hand.solve("CLARABEL", **dict.fromkeys(ACCURATE, tol)))
                    break
                except cp.SolverError:
                    continue
            else:
                raise Unsolved
        return min(found) + sum(energy(z) for energy in energies)

    every = map(np.array, itertools.product((-1, 1) if k == 2 else range(k), repeat=n))
    return md.Problem(md.Minimize(objective), rules), value, [z for z in every if all(t(z) for t in admitted)], rng


def faults(seed, k=2, parts=(), refused=None):
    """Yield what is wrong with the answers to a random model; count refusals, with a seed of each."""
    refused = {} if refused is None else refused
    try:
        problem, value, labellings, rng = model(seed, k, parts)
        if not labellings:
            return
        z = labellings[rng.integers(len(labellings))]
        fixed = problem.at_labels(z).solve("exact" if "caps" in parts else "supervised")
    except (GrammarError, RefusalError) as error:
        refused.setdefault(f"fixed: {str(error)[-120:]}", []).append(seed)
        return
    if abs(fixed.value - (least := value(z))) > 1e-7 * max(1, abs(least)):
        yield f"at fixed labels {fixed.value}, by hand {least}"
    chosen = labellings if not parts or len(labellings) <= 64 >> 2 * ("caps" in parts) else [
        labellings[one] for one in rng.permutation(len(labellings))[:8]]
    chosen = [labellings[one] for one in rng.permutation(len(labellings))[:5]] if not parts else chosen
    by_hand = {tuple(one): value(one) for one in chosen}
    best = min(by_hand.values())
    methods = [("sdp", "alternating"), ("minimax", "cccp"), (md.Exact(method="branching"), "weight-lifting")][seed % 3]
    for relaxation in ("exact", *methods):
        try:
            found = problem.solve(relaxation, random_state=0)
        except RefusalError as error:
            refused.setdefault(f"{relaxation}: {str(error)[-120:]}", []).append(seed)
            continue
        if "falls without end" in found.message and any(len(set(z)) == 1 for z in labellings):
            refused.setdefault("one cluster of all points falls without end", []).append(seed)
            return
        here = by_hand.get(tuple(found.labels)) or value(found.labels)
        best, close = min(best, here), 1e-6 * max(1, abs(here))
        if found.bound > best + close or not found.verify():
            yield f"{relaxation}: bound {found.bound}, by hand {best}, {found.verify()}"
        if found.value < here - close or ("caps" not in parts and found.value > here + close):
            yield f"{relaxation}: value {found.value}, by hand {here} at {found.labels}"
        if (relaxation == "exact" or not isinstance(relaxation, str)) and (
                not found.gap <= 1e-5 or found.value > best + close):
            yield f"{relaxation}: {found.status}, {found.value} above {found.bound}, best {best}, {found.message}"


def mixed(seed, k):
    """Return parts of a seed that go together."""
    rng = np.random.default_rng([seed, k, 2])
    first = str(rng.choice(["norms", "by-label", "caps", "bias", "door", ""] if k == 2 else ["norms", "bias", ""]))
    others = ["groups", "scalars", *["pairs"] * (first not in ("bias", "door"))]
    return (first, *rng.permutation(others).tolist()[:int(rng.integers(not first, len(others) + 1))])


def ring(*_):
    raise TimeoutError(f"no answer within {HANG} s of processor time")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    first, last, clusters = map(int, sys.argv[1:4])
    refused, seconds, met = {}, Counter(), Counter()
    signal.signal(signal.SIGPROF, ring)
    for case in range(first, last):
        signal.setitimer(signal.ITIMER_PROF, HANG)
        began, parts = time.process_time(), mixed(case, clusters) if sys.argv[4:] == ["mixed"] else sys.argv[4:]
        met.update(parts)
        try:
            for fault in faults(case, clusters, parts, refused):
                print(case, *parts, fault, flush=True)
        except Unsolved:
            refused.setdefault("by hand: not solved by Clarabel", []).append(case)
        except Exception as error:
            print(case, *parts, type(error).__name__, str(error)[:300], flush=True)
        signal.setitimer(signal.ITIMER_PROF, 0)
        seconds[case] = time.process_time() - began
    for words, seeds in refused.items():
        print(f"refused {len(seeds)} times, as seed {seeds[0]}: {words}")
    print(f"{len(seconds)} models of {clusters} clusters, {dict(met)}; most seconds: {seconds.most_common(3)}")
