"""Several clusters: every relaxation's bound lies below an enumeration that shares nothing with it, and is proved."""

import itertools

import cvxpy as cp
import numpy as np
import pytest

import margindsl as md

LAM, N = 12.0, 5
SETS = {"sizes and links": (3, "hinge"), "known labels": (3, "squared hinge"), "free": (3, "odm"), "four": (4, "hinge")}
RELAXATIONS = {  # not polished: bounds hold whatever labels are found
    "minimax": md.Minimax(polish="none"), "exhaustive": md.Minimax(oracle="exhaustive", polish="none"),
    "exact": md.Exact(), "branching": md.Exact(method="branching", tol=1e-6),
    "weight-lifting": md.WeightLifting(polish="none")}


def constraints_of(name, y):
    if name == "sizes and links":
        return [y[0] == y[1], y[2] != y[3], md.sizes(y, at_least=1, at_most=3)]
    if name == "known labels":
        return [y[[0, 3]] == [2, 0], md.sizes(y, at_least=[1, 1, 0])]
    return [] if name == "free" else [md.sizes(y, at_least=1)]


def is_member(name, labels, clusters):
    sizes = np.bincount(labels, minlength=clusters)
    linked = labels[0] == labels[1] and labels[2] != labels[3]
    return {"sizes and links": linked and sizes.min() > 0 and sizes.max() < 4, "free": True, "four": sizes.min() > 0,
            "known labels": labels[0] == 2 and labels[3] == 0 and sizes[1] > 0}[name]


def declare(name, coding):
    clusters, loss = SETS[name]
    X = np.random.default_rng(len(name)).standard_normal((N, 2))
    y, f = md.Labels(N, clusters=clusters), md.Hyperplane(X, centre=False)
    g = md.margin(y, f, coding=coding)
    losses = {"hinge": lambda: md.hinge(g), "squared hinge": lambda: md.squared_hinge(g),
              "odm": lambda: md.odm(g, 0.4, 0.2)}[loss]()
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + LAM * md.mean(losses)), constraints_of(name, y))


def optimum(name, coding):
    """Return the least value over all labellings, each by a conic program written from the definitions."""
    clusters, loss = SETS[name]
    X = np.random.default_rng(len(name)).standard_normal((N, 2))
    corners = np.eye(clusters) - 1.0 / clusters
    codes = np.linalg.svd(corners)[0][:, :-1] * np.sqrt(clusters / (clusters - 1.0))
    W, own = cp.Variable((2, clusters - (coding == "simplex"))), cp.Parameter((N, clusters))
    F = X @ W @ codes.T if coding == "simplex" else X @ W
    gamma = cp.sum(cp.multiply(own, F), axis=1)
    if coding != "simplex":
        gamma = gamma - cp.max(F - 1e3 * own, axis=1)
    short, wide = cp.pos(1 - gamma), cp.pos(gamma - 1.2)
    total = {"hinge": lambda: cp.sum(short), "squared hinge": lambda: cp.sum_squares(short),
             "odm": lambda: (cp.sum_squares(cp.pos(0.8 - gamma)) + 0.4 * cp.sum_squares(wide)) / 0.64}[loss]()
    problem = cp.Problem(cp.Minimize(cp.sum_squares(W) / 2 + LAM / N * total))
    values = []
    for labels in itertools.product(range(clusters), repeat=N):
        labels = np.array(labels)
        first = [labels.tolist().index(q) if q in labels else N for q in range(clusters)]
        mirrored = name != "known labels" and first != sorted(first)  # the same clustering under other names
        if not mirrored and is_member(name, labels, clusters):
            own.value = np.eye(clusters)[labels]
            values.append(problem.solve(solver=cp.CLARABEL))
    return min(values)


@pytest.mark.filterwarnings("ignore::margindsl.errors.TrivialityWarning")
@pytest.mark.parametrize("name,coding", [
    (name, "simplex") for name in SETS if name != "sizes and links"] + [("sizes and links", "crammer-singer")])
def test_bounds_lie_below_an_enumeration_and_are_proved(name, coding, tmp_path):
    problem, best = declare(name, coding), optimum(name, coding)
    found = {method: problem.solve(relaxation, random_state=0) for method, relaxation in RELAXATIONS.items()}
    for method, solution in found.items():
        assert solution.bound <= best * (1 + 1e-7), method
        assert solution.value >= best * (1 - 1e-7), method
        assert problem.program().labels.contains(solution.labels), method
        assert solution.verify(), (method, solution.verify())
        solution.save(tmp_path / f"{method}.npz")
        assert md.Solution.load(tmp_path / f"{method}.npz").verify(), method
    assert found["minimax"].bound <= found["exhaustive"].bound * (1 + 1e-6)
    assert min(found["exhaustive"].bound, found["weight-lifting"].bound) >= 0.3 * best
    for method in ("exact", "branching"):
        assert found[method].status == "optimal" and found[method].value <= best * (1 + 2e-6), method
