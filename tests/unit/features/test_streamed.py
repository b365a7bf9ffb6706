"""Points on disk and in Dask: the same operators, the same answers, no copy of the whole."""

import itertools
import mmap
import time
from collections import defaultdict
from functools import partial
from pathlib import Path

import dask
import dask.array as da
import distributed
import numpy as np
import pytest
import scipy.sparse as sp

import margindsl as md
import margindsl.features.points as points_module
from margindsl.errors import DeclarationError
from margindsl.estimators import MarginClusterer
from margindsl.features import BlockFeatures, build
from margindsl.features import factor as factor_module
from margindsl.features.dask import DaskFeatures, _balanced
from margindsl.features.derived import AffineFeatures
from margindsl.features.points import check_points, release
from margindsl.host.clock import Budget, Cancelled
from margindsl.host.frozen import frozen
from margindsl.runtime import compiled

RNG = np.random.default_rng(11)
N, D = 240, 5
X = RNG.normal(size=(N, D)) + np.where(np.arange(N) < N // 2, 2.0, 0.0)[:, None] * np.eye(D)[0]
NYSTROM = md.RBF(2.0, method="nystrom", rank=25)


def on_disk(folder, dtype=np.float64):
    disk = np.memmap(folder / "points", dtype=dtype, mode="w+", shape=X.shape)
    disk[:] = X
    disk.flush()
    return np.memmap(folder / "points", dtype=dtype, mode="r", shape=X.shape)


def operators(kind, kernel, folder, monkeypatch):
    monkeypatch.setattr(points_module, "BLOCK_ENTRIES", 300)
    monkeypatch.setattr(factor_module, "FACTOR_BYTES", 0)
    return build(on_disk(folder) if kind == "disk" else da.from_array(X, chunks=(70, 3)), kernel)


@pytest.mark.parametrize("kernel", ["linear", NYSTROM], ids=["linear", "nystrom"])
@pytest.mark.parametrize("kind", ["disk", "dask"])
def test_products_are_those_of_points_in_memory(kind, kernel, tmp_path, monkeypatch):
    plain, phi = build(X, kernel), operators(kind, kernel, tmp_path, monkeypatch)
    assert not phi.is_dense and phi.shape == plain.shape
    W, R, c = RNG.normal(size=(phi.rank, 2)), RNG.normal(size=(N, 3)), RNG.normal(size=N)
    component, index = RNG.integers(0, 9, N), RNG.permutation(N)[:40]
    for got, expected in ((phi.apply(W), plain.apply(W)), (phi.apply(W[:, 0]), plain.apply(W[:, 0])),
                          (phi.adjoint(R), plain.adjoint(R)), (phi.adjoint(c), plain.adjoint(c)),
                          (phi.gram(), plain.gram()), (phi.gram(c), plain.gram(c)),
                          (phi.row_norms(), plain.row_norms()), (phi.rows(index), plain.rows(index)),
                          (phi.rows(c > 0), plain.rows(c > 0)), (phi.rows(slice(3, 50)), plain.rows(slice(3, 50))),
                          (phi.take(index).apply(W), plain.apply(W)[index]),
                          (phi.take(c > 0).take(slice(0, 9)).row_norms(), plain.row_norms()[c > 0][:9]),
                          (phi.transform(X[:7]), plain.rows(slice(0, 7))), (phi.apply_to(X, W), plain.apply(W)),
                          (phi.component_sums(component, c, 9), plain.component_sums(component, c, 9)),
                          (phi.trace_error, plain.trace_error)):
        np.testing.assert_allclose(got, expected, atol=1e-9)


@pytest.mark.parametrize("centre", [False, True], ids=["as they are", "centred"])
def test_a_pass_leaves_the_points_as_they_are(centre):
    held = da.from_array(X, chunks=(150, D)).persist()
    derived = AffineFeatures(build(held, centre=centre), factor=0.25)
    for phi in (derived, AffineFeatures(derived, shift=np.ones(D))):
        expected = phi.rows(slice(0, N))
        for _ in range(2):
            np.testing.assert_allclose(phi.fold(np.sum), expected.sum(), atol=1e-9)
            np.testing.assert_allclose(phi.each(partial(np.sum, axis=1)), expected.sum(axis=1), atol=1e-12)
    np.testing.assert_array_equal(np.asarray(held), X)


def test_lengths_are_those_of_the_rows_of_a_product(tmp_path, monkeypatch):
    W, shift = RNG.normal(size=(D, 3)), RNG.normal(size=3)
    expected = np.linalg.norm((X - X.mean(axis=0)) @ W + shift, axis=1)
    for phi in (build(X), *(operators(kind, "linear", tmp_path, monkeypatch) for kind in ("disk", "dask"))):
        np.testing.assert_allclose(phi.lengths(W, shift), expected, atol=1e-12)
        np.testing.assert_allclose(AffineFeatures(phi, factor=0.5).lengths(2.0 * W, shift), expected, atol=1e-12)


@pytest.mark.parametrize("threads", [(1, 1), (1, 3), (2, 1, 1)])
def test_chunks_are_handed_on_until_no_move_evens_them_out(threads):
    ends = np.cumsum([0, *RNG.integers(1, 30, 20)])
    blocks = [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]
    held = defaultdict(list, {"0": list(range(20))})
    moved = dict(_balanced(held, {str(k): count for k, count in enumerate(threads)}, blocks))
    assert sorted(itertools.chain(*held.values())) == list(range(20))
    assert all(k in held[worker] for k, worker in moved.items())
    sizes = np.diff(ends)
    loads = [sizes[held[str(k)]].sum() / count for k, count in enumerate(threads)]
    assert max(loads) <= ends[-1] / sum(threads) + sizes.max()


@pytest.mark.parametrize("scheduler", ["threads", "synchronous"])
def test_a_pass_is_given_up_when_the_time_is_used_up(scheduler):
    phi, seen = build(da.from_array(X, chunks=(20, D))), []
    with dask.config.set(scheduler=scheduler, num_workers=1):
        with pytest.raises(Cancelled), Budget.within(0.0).limit(1.0):
            phi.fold(partial(slow, seen))
        assert 0 < len(seen) < N / 20
        before = len(seen)
        phi.fold(partial(slow, seen), np.ones(N))
        assert len(seen) - before == N / 20


def slow(seen, phi, *rows):
    seen.append(len(phi))
    time.sleep(0.1 if not rows else 0.0)
    return phi.sum()


def test_component_sums_are_sums_over_components():
    phi, component, c = build(X), RNG.integers(0, 12, N), RNG.normal(size=N)
    expected = np.zeros((13, D))
    for i in range(N):
        expected[component[i]] += c[i] * phi.rows(i)[0]
    np.testing.assert_allclose(phi.component_sums(component, c, 13), expected, atol=1e-12)
    np.testing.assert_allclose(phi.component_sums(np.arange(N), c, N), c[:, None] * phi.matrix, atol=1e-15)


def test_one_pass_over_a_map_holds_one_block(tmp_path, monkeypatch):
    monkeypatch.setattr(points_module, "BLOCK_ENTRIES", 100)
    phi = build(on_disk(tmp_path))
    assert isinstance(phi, BlockFeatures)
    sizes = [size for _, size in phi.parts(np.size)]
    assert max(sizes) <= 100 and sum(sizes) == N * D


def test_small_nystrom_factors_of_a_map_stay_in_memory(tmp_path):
    assert build(on_disk(tmp_path), NYSTROM).is_dense


def test_streamed_nystrom_says_what_it_is(tmp_path, monkeypatch):
    phi = operators("disk", NYSTROM, tmp_path, monkeypatch)
    assert isinstance(phi, BlockFeatures)
    assert "Nystroem in row blocks, rank 25, trace error" in phi.describe() and phi.describe().endswith(", centred")


def test_a_private_map_keeps_its_changes(tmp_path):
    on_disk(tmp_path)
    private = np.memmap(tmp_path / "points", dtype=np.float64, mode="c", shape=X.shape)
    private[0] = 7.0
    release(private)
    assert np.all(private[0] == 7.0)
    shared = np.memmap(tmp_path / "points", dtype=np.float64, mode="r+", shape=X.shape)
    shared[1] = 8.0
    release(shared[10:20])
    assert np.all(shared[1] == 8.0) and isinstance(shared.base, mmap.mmap)


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="the system does not say what is mapped")
def test_points_that_were_read_leave_memory(tmp_path):
    """A pass over a file gives its pages back, though its features hold a read-only view of it."""
    shape = (200_000, 8)
    disk = np.memmap(tmp_path / "large", dtype=np.float32, mode="w+", shape=shape)
    disk[:] = RNG.normal(size=shape)
    del disk
    phi = build(np.memmap(tmp_path / "large", dtype=np.float32, mode="r", shape=shape))
    phi.apply(np.ones(8))
    phi.take(np.arange(0, shape[0], 2)).apply(np.ones(8))
    found = Path("/proc/self/smaps").read_text().split(str(tmp_path / "large"))[1:]
    mapped = sum(int(part.split("Rss:")[1].split()[0]) for part in found)  # kB
    assert found and mapped <= 0.2 * 4 * np.prod(shape) / 1024


def test_dask_points_are_checked():
    good = da.from_array(X, chunks=(100, 2))
    assert check_points(good).chunks[1] == (D,)
    assert check_points(da.ones((4, 2), dtype=int, chunks=2)).dtype == np.float64
    bad = X.copy()
    bad[150, 2], bad[201, 0] = np.nan, np.inf
    with pytest.raises(DeclarationError, match=r"X has 2 NaN or infinite entries, the first in row 150, column 2"):
        check_points(da.from_array(bad, chunks=(70, 2)))
    with pytest.raises(DeclarationError, match=r"largest entry of X is 1\.0e\+200, expected between"):
        check_points(da.full((4, 2), -1e200, chunks=2))
    with pytest.raises(DeclarationError, match=r"Dask array of unknown length .* Call X\.compute_chunk_sizes\(\)"):
        check_points(good[good[:, 0] > 0])
    with pytest.raises(DeclarationError, match=r"reshape\(-1, 1\) makes one column"):
        check_points(good[:, 0])


@pytest.mark.parametrize("kernel, in_memory", [  # loaded, or by columns
    (md.RBF(3.0), 2**28), (md.RBF(3.0, rank=20), 0), (md.RBF(3.0, rank=20), 2**28), (md.RBF("median", rank=20), 2**28),
    (md.RBF(3.0, rank=20, method="nystrom"), 0), (md.RBF(3.0, rank=20, method="cholesky"), 0), (md.Polynomial(2), 0)])
def test_a_kernel_is_approximated_alike_in_every_container(kernel, in_memory, tmp_path, monkeypatch):
    """One declaration is one objective, whatever holds the points."""
    monkeypatch.setattr("margindsl.features.factor.FACTOR_BYTES", in_memory)
    K, new = [], np.random.default_rng(1).normal(size=(7, D))
    for points in (X, on_disk(tmp_path), da.from_array(X, chunks=(70, 2)), sp.csr_array(X), X.tolist()):
        phi = build(points, kernel)
        F = phi.apply(np.eye(phi.rank))
        K.append((F @ F.T, phi.transform(new) @ F.T))
    for gram, mixed in K[1:]:
        np.testing.assert_allclose(gram, K[0][0], atol=1e-8 * np.abs(K[0][0]).max())
        np.testing.assert_allclose(mixed, K[0][1], atol=1e-8 * np.abs(K[0][1]).max())


def solve(points, kernel="linear", weight=5.0):
    y, f = md.Labels(N), md.Hyperplane(points, kernel=kernel)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + weight * md.mean(md.odm(y * f, 0.4, 0.2))),
                         [abs(md.sum(y)) <= 0.2 * N, y[0] == y[3]])
    local = {"restarts": 1, "start": "kmeans"}
    chosen = (md.Alternating(**local, polish="none"), md.CCCP(**local, polish="none"),
              md.WeightLifting(rounding=2, polish="alternate"))
    return [problem.solve(relaxation, random_state=0, tol=1e-4) for relaxation in chosen]


def few_steps(points, name):
    y, f = md.Labels(N), md.Hyperplane(points)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.squared_hinge(y * f))), [abs(md.sum(y)) <= 0.2 * N])
    if name == "alternating":
        return problem.solve(md.Alternating(restarts=1, start="kmeans", polish="none"), random_state=0, tol=1e-4)
    solver = md.Solver("burer-monteiro", max_iter=20, width=2)
    return problem.solve(md.WeightLifting(rounding=1, polish="none"), solver, random_state=0, tol=1e-4)


def assert_same(got, expected):
    for a, b in zip(got, expected):
        assert a.value == pytest.approx(b.value, rel=1e-6)
        assert a.bound == pytest.approx(b.bound, rel=1e-6)
        np.testing.assert_array_equal(a.labels, b.labels)


@pytest.mark.parametrize("kernel", ["linear", NYSTROM], ids=["linear", "nystrom"])
def test_solves_on_disk_are_those_in_memory(kernel, tmp_path, monkeypatch):
    expected = solve(X, kernel)
    monkeypatch.setattr(points_module, "BLOCK_ENTRIES", 300)
    monkeypatch.setattr(factor_module, "FACTOR_BYTES", 0)
    got = solve(on_disk(tmp_path), kernel)
    assert_same(got, expected)
    np.testing.assert_array_equal(got[0].predict(X), expected[0].predict(X))


@pytest.mark.slow
def test_solves_in_dask_threads_and_on_two_workers_agree():
    points = da.from_array(X, chunks=(120, D))
    assert_same(solve(points, weight=0.3), solve(X, weight=0.3))
    # A task costs a scheduler tens of milliseconds: a few steps say as much as many.
    expected = [few_steps(X, name) for name in ("alternating", "weight-lifting")]
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        assert len(client.scheduler_info()["workers"]) == 2
        assert_same([few_steps(points, name) for name in ("alternating", "weight-lifting")], expected)


def _moments(phi, weights, labels):
    return weights @ phi, float(weights.sum()), phi.T @ labels


@pytest.mark.parametrize("derive", [
    lambda phi: phi, lambda phi: AffineFeatures(phi, factor=0.25),
    lambda phi: AffineFeatures(phi, shift=np.arange(phi.rank)),
    lambda phi: AffineFeatures(phi, constant=2.0), lambda phi: AffineFeatures(phi, np.ones((phi.rank, 2)))],
    ids=["plain", "scaled", "shifted", "augmented", "mapped"])
@pytest.mark.parametrize("kernel", ["linear", NYSTROM], ids=["linear", "nystrom"])
@pytest.mark.parametrize("kind", ["disk", "dask"])
def test_a_pass_gives_what_the_dense_features_give(kind, kernel, derive, tmp_path, monkeypatch):
    phi, plain = derive(operators(kind, kernel, tmp_path, monkeypatch)), derive(build(X, kernel)).toarray()
    assert phi.is_streamed
    labels, weights = frozen(RNG.integers(0, 2, (N, 4)).astype(np.int8)), np.abs(X[:, 0])
    for own in (weights, np.full(N, 0.25)):  # numbers of points, and one number for all
        for got, expected in zip(phi.fold(_moments, own, labels), _moments(plain, own, labels)):
            np.testing.assert_allclose(got, expected, atol=1e-9)
    np.testing.assert_allclose(phi.each(np.multiply, weights[:, None]), plain * weights[:, None], atol=1e-9)


def test_two_workers_hold_labels_and_answer_a_pass_in_one_round_trip(monkeypatch):
    """What comes and goes with a pass does not grow with the points: labels are sent once."""
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        phi = build(da.from_array(X, chunks=(40, D)).persist())
        with pytest.raises(Cancelled), Budget.within(0.0).limit(0.2):  # and the next passes have their answers
            phi.fold(partial(slow, []))
        labels, trips, sent = frozen(np.sign(X[:, :1])), [], []
        get, scatter = client.get, client.scatter
        monkeypatch.setattr(client, "get", lambda graph, keys, **options: trips.append(keys) or get(
            graph, keys, **options))
        monkeypatch.setattr(client, "scatter", lambda *data, **options: sent.append(data) or scatter(*data, **options))
        for _ in range(3):
            value = phi.fold(_moments, np.ones(N), labels)[2]
        np.testing.assert_allclose(value, build(X).adjoint(labels), atol=1e-9)
        assert len(trips) == 3 and max(map(len, trips)) <= 2  # one task a worker
        assert sum(part.size for data in sent for part in data[0]) == N


@pytest.mark.parametrize("kernel, clusters", [("linear", 3), (NYSTROM, 2)], ids=["linear", "nystrom"])
def test_predictions_of_a_dask_array_are_computed_when_it_is(kernel, clusters):
    new = np.random.default_rng(2).normal(size=(90, D))
    read = []

    def rows(block_info=None):
        read.append(1)
        (first, last), _ = block_info[None]["array-location"]
        return new[first:last]

    lazy = da.map_blocks(rows, chunks=((40, 50), (D,)), dtype=float, meta=np.empty((0, 0)))
    own = MarginClusterer(clusters, kernel=kernel, random_state=0).fit(X)
    held = MarginClusterer(clusters, kernel=kernel, random_state=0).fit(da.from_array(X, chunks=(70, 3)))
    np.testing.assert_array_equal(held.labels_, own.labels_)
    answers = [(ask(lazy), ask(new)) for model in (own, held) for ask in (
        model.predict, model.decision_function, model.solution_.predict, model.solution_.decision_function)]
    assert not read
    for got, expected in answers:
        assert got.shape == expected.shape and got.dtype == expected.dtype
        np.testing.assert_allclose(got.compute(), expected, atol=1e-9)
    with pytest.raises(ValueError, match="features"):
        own.predict(lazy[:, :2])


@pytest.mark.parametrize("coding", ["binary", "simplex", "crammer-singer"])
@pytest.mark.parametrize("kind", ["disk", "dask"])
def test_labels_are_chosen_where_the_points_are_unless_sizes_ask_for_others(kind, coding, tmp_path):
    points = on_disk(tmp_path) if kind == "disk" else da.from_array(X, chunks=(70, 3))
    clusters = 2 if coding == "binary" else 3
    y = md.Labels(N, clusters)
    f = md.Hyperplane(points)
    margins = y * f if clusters == 2 else md.margin(y, f, coding=coding)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.odm(margins, 0.4, 0.2))))
    program, chosen = problem.program(), []
    for loose in (True, False):
        program = problem.with_constraints(md.sizes(y, at_least=1 if loose else N // clusters)).program()
        for w in np.random.default_rng(5).normal(size=(4, program.size_of_w)):
            bias = np.zeros(program.codes.shape[1])
            outputs = program.fix_labels(program.labels.any_member()).outputs(w, bias)
            best = program.labels.maximise(program.gains(outputs))
            chosen.append(program.chosen(w, bias))
            assert chosen[-1] is None or np.array_equal(chosen[-1], best)
    assert all(labels is not None for labels in chosen[:4]) and any(labels is None for labels in chosen[4:])


def test_what_is_found_is_told_by_one_pass_since_no_time_may_be_left_for_more(monkeypatch):
    passes, inside, own, told = [], [], DaskFeatures._computed, compiled.solution_of
    monkeypatch.setattr(DaskFeatures, "_computed", lambda self, *given: passes.extend(inside) or own(self, *given))
    monkeypatch.setattr(compiled, "solution_of", lambda *given: (inside.append(1), told(*given), inside.clear())[1])
    model = MarginClusterer(kernel="linear", random_state=0).fit(da.from_array(X, chunks=(70, D)))
    assert model.solution_.status == "converged" and len(passes) == 1
