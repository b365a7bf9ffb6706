"""Energies of pairs of labels: against enumeration, between no links and hard links, from every kind of container."""

from itertools import product

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import margindsl as md
from margindsl.errors import DeclarationError, GrammarError

N = 5
PAIRS = np.array([[0, 1], [1, 2], [3, 4], [0, 4], [2, 4]])


def model(seed, k=2, bias=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 2))
    y, f = md.Labels(N, clusters=k), md.Hyperplane(X, bias=bias)
    g = y * f if k == 2 else md.margin(y, f, coding="simplex")
    loss = [md.hinge, md.squared_hinge, md.odm][seed % 3](g)
    return y, f, md.sq_norm(f) * [0.5, 0.1, 2.0][seed % 3] + 1.5 * md.mean(loss), rng


def optimum(objective, energy, k, admitted):
    """Return the least value over labellings: that at fixed labels without energies, and the energy by hand."""
    plain = md.Problem(md.Minimize(objective))
    labels = (np.array(z) for z in product((-1, 1) if k == 2 else range(k), repeat=N)
              if k == 2 or all(z[i] <= max(z[:i], default=-1) + 1 for i in range(N)))  # of names, the first ones
    return min(plain.at_labels(z).solve("supervised").value + energy(z) for z in labels if admitted(z))


@pytest.mark.parametrize("seed,k,bias", [(0, 2, False), (1, 2, "penalised"), (3, 3, False)])
def test_every_relaxation_bounds_them(seed, k, bias):
    y, f, objective, rng = model(seed, k, bias)
    must, cannot = rng.uniform(-0.1, 0.5, len(PAIRS)), md.Parameter(0.2)
    costs = rng.normal(size=N) / 5 if k == 2 else np.zeros(N)
    terms = md.must_link(y, PAIRS, weight=must) + 2 * md.cannot_link(y, [(0, 2), (1, 3)], weight=cannot)
    terms = terms + md.sum(costs * y) + 0.5 if k == 2 else terms + 0.5
    held = [abs(md.sum(y)) <= 2, y[0] == y[3]] if k == 2 else [md.sizes(y, at_least=1), y[0] == y[3]]

    def energy(z):
        i, j = PAIRS.T
        return must @ (z[i] != z[j]) + 0.4 * ((z[0] == z[2]) + (z[1] == z[3])) + costs @ z + 0.5

    least = optimum(objective, energy, k, lambda z: z[0] == z[3] and (
        abs(z.sum()) <= 2 if k == 2 else len(set(z)) == k))
    problem = md.Problem(md.Minimize(objective + terms), held)
    methods = ("exact", md.Exact(method="branching"), md.SDP(polish="none"), md.Minimax(polish="none"),
               md.WeightLifting(polish="none"), "alternating", "cccp")  # bounds hold whatever labels are found
    methods = [method for i, method in enumerate(methods) if k == 3 or not i or (i + seed) % 2 == 0]
    for relaxation in methods:
        found = problem.solve(relaxation, random_state=0)
        assert found.bound <= least + 1e-6 and found.value >= least - 1e-6 and found.verify(), relaxation
        assert len(found.labels) == len(found.decision) == N and np.allclose(
            found.decision, found.decision_function(f.X))
        if relaxation == "exact" or isinstance(relaxation, md.Exact):
            assert found.value == pytest.approx(least, abs=1e-6) and found.status == "optimal"
        violated = {(i, j): cost for i, j, cost in found.violated_links}
        assert all(cost == pytest.approx(must[PAIRS.tolist().index([*pair])]) for pair, cost in violated.items()
                   if [*pair] in PAIRS.tolist())
    again = problem.solve("alternating", warm_start=found, random_state=0)
    assert again.value <= found.value + 1e-9 and md.certify(problem, found.labels).value == pytest.approx(found.value)
    cannot.value = 0.0
    assert problem.solve("exact").value <= least + 1e-9


def test_weights_lead_from_no_links_to_links():
    y, _, objective, _ = model(0)
    weight, held = md.Parameter(0.0, name="s"), [abs(md.sum(y)) <= 2]
    problem = md.Problem(md.Minimize(objective + md.must_link(y, PAIRS[:3], weight=weight)), held)
    found = problem.path(weight, [0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 100.0], relaxation="exact")
    values = [solution.value for solution in found]
    free = md.Problem(md.Minimize(objective), held).solve("exact")
    hard = md.Problem(md.Minimize(objective), [*held, md.must_link(y, PAIRS[:3])]).solve("exact")
    assert np.all(np.diff(values) >= -1e-9) and values[0] == pytest.approx(free.value, abs=1e-9)
    assert values[-1] == pytest.approx(hard.value, abs=1e-8) and found[-1].violated_links == []


def test_weights_come_from_graphs_and_matrices():
    y, _, objective, rng = model(1)
    s = rng.uniform(0.1, 0.4, len(PAIRS))
    graph = nx.Graph()
    graph.add_weighted_edges_from((i, j, w) for (i, j), w in zip(PAIRS.tolist(), s))
    matrix = sp.coo_array((s, PAIRS.T), shape=(N, N))
    values = [md.Problem(md.Minimize(objective + term)).solve("exact").value for term in (
        md.must_link(y, PAIRS, weight=s), md.must_link(y, graph, weight="weight"),
        md.sum(s * (y[PAIRS[:, 0]] != y[PAIRS[:, 1]])), s.sum() - md.sum((y[PAIRS[:, 0]] == y[PAIRS[:, 1]]) * s),
        md.must_link(y, matrix, weight="entries"), md.must_link(y, matrix + matrix.T, weight="entries"),
        sum(md.must_link(y, [pair], weight=w) for pair, w in zip(PAIRS.tolist(), s)))]
    assert values == pytest.approx([values[0]] * 7, abs=1e-9)
    with pytest.raises(DeclarationError, match="has no such attribute"):
        md.must_link(y, graph, weight="strength")
    with pytest.raises(DeclarationError, match="give numbers for pairs"):
        md.must_link(y, PAIRS, weight="weight")


def test_many_pairs_of_few_points_and_sparse_rows_of_many(monkeypatch):
    y, _, objective, rng = model(2)
    every = np.array([(i, j) for i in range(N) for j in range(i)])
    s = rng.uniform(0, 0.2, len(every))
    problem = md.Problem(md.Minimize(objective + md.cannot_link(y, every, weight=s)))
    least = optimum(objective, lambda z: s @ (z[every[:, 0]] == z[every[:, 1]]), 2, lambda z: True)
    assert problem.solve("exact").value == pytest.approx(least, abs=1e-6)
    monkeypatch.setattr("margindsl.features.stacked.DENSE", 0)
    sparse = md.Problem(problem.objective).solve("exact")
    assert sparse.value == pytest.approx(least, abs=1e-6) and sparse.verify()


def test_what_has_no_pairs_is_refused(tmp_path):
    y, f, objective, _ = model(0)
    soft = md.must_link(y, PAIRS, weight=1.0)
    with pytest.raises(GrammarError, match="has 2 weights for 5 pairs"):
        md.must_link(y, PAIRS, weight=[1.0, 2.0])
    with pytest.raises(GrammarError, match="free bias.*bias='penalised'"):
        plane = md.Hyperplane(f.X, bias=True)
        md.Problem(md.Minimize(md.sq_norm(plane) + md.mean(md.hinge(y * plane)) + soft))
    y3 = md.Labels(N, clusters=3)
    three = md.sq_norm(f) + md.mean(md.hinge(md.margin(y3, f)))
    with pytest.raises(GrammarError, match="coding='simplex'"):
        md.Problem(md.Minimize(three + md.must_link(y3, PAIRS, weight=1.0)))
    with pytest.raises(GrammarError, match="3 clusters, which are names"):
        md.Problem(md.Minimize(three + md.sum(y3)))
    problem = md.Problem(md.Minimize(objective + soft))
    assert "md.must_link(y, 5 pairs, weight=1)" in str(problem) and r"[y_i \ne y_j]" in problem.latex()
    solution = problem.solve("exact")
    solution.save(tmp_path / "soft.npz")
    loaded = md.Solution.load(tmp_path / "soft.npz")
    assert loaded.status == "optimal" and not loaded.unverified and loaded.verify()
    assert np.array_equal(loaded.labels, solution.labels)
