"""What was declared is what is solved: inputs changed afterwards change nothing, or are named."""

import copy
import os
import pickle

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import margindsl as md
import margindsl.features.points as owned_module
from margindsl.errors import DeclarationError
from margindsl.features.points import Owned

N = 8
RNG = np.random.default_rng(4)
POINTS = np.round(RNG.normal(size=(N, 2)), 2) + np.repeat([[1.0], [-1.0]], N // 2, axis=0)


def problem_over(X, kernel="linear", constraints=lambda y, f: [], loss=md.hinge, terms=lambda f: 0.0):
    y, f = md.Labels(N), md.Hyperplane(X, kernel=kernel)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 5 * md.mean(loss(y * f)) + terms(f)),
                      [abs(md.sum(y)) <= 2, *constraints(y, f)])


def value(problem):
    return problem.solve(md.CCCP(restarts=1, polish="none"), random_state=0).value


def frame(X):
    return pd.DataFrame(X, columns=["a", "b"])


def worsen(X):
    if sp.issparse(X):
        X.data *= 10
    elif isinstance(X, pd.DataFrame):
        X.iloc[:, :] = 10 * X.to_numpy()
    elif isinstance(X, list):
        for row in X:
            row[:] = [10 * v for v in row]
    else:
        X *= 10


class Holder:
    """A container of its own that hands out its array."""

    def __init__(self, X):
        self.held = X

    def __array__(self, dtype=None, copy=None):
        return self.held

    def __imul__(self, factor):
        self.held *= factor
        return self


MAKERS = {
    "array": np.array, "Fortran order": np.asfortranarray, "float32": lambda X: X.astype(np.float32), "frame": frame,
    "csr": sp.csr_array, "csc": sp.csc_array, "csr matrix": sp.csr_matrix, "coo": sp.coo_array,
    "list": lambda X: X.tolist(),
    "view": lambda X: np.repeat(X, 2, axis=0)[::2], "big endian": lambda X: X.astype(">f8"),
    "container": lambda X: Holder(X.copy()),
    "matrix": np.matrix, "objects": lambda X: X.astype(object)}


@pytest.mark.parametrize("make, kernel", [
    pytest.param(make, [md.RBF(1.5), "linear"][i % 2], id=name) for i, (name, make) in enumerate(MAKERS.items())])
def test_points_changed_after_the_declaration_change_nothing(make, kernel):
    X = make(POINTS)
    expected = value(problem_over(make(POINTS), kernel))
    problem = problem_over(X, kernel)
    worsen(X)
    assert value(problem) == expected and value(problem_over(X, kernel)) != expected


def test_points_cannot_be_changed_through_the_declaration():
    for X in (POINTS, sp.csr_array(POINTS)):
        own = md.Hyperplane(X).X
        with pytest.raises(ValueError, match="read-only"):
            (own.data if sp.issparse(own) else own)[:1] = 7.0
    K = md.Precomputed(np.eye(N)).K
    with pytest.raises(ValueError, match="read-only"):
        K[0, 0] = 2.0


@pytest.mark.parametrize("make", [np.array, sp.csr_array, frame, lambda K: K.tolist()], ids=["array", "sparse",
    "frame", "list"])
def test_kernel_matrices_changed_after_the_declaration_change_nothing(make):
    def frame(K):
        return pd.DataFrame(K)

    make = frame if make.__name__ == "frame" else make
    gram = POINTS @ POINTS.T
    K = make(gram)
    problem = problem_over(None, md.Precomputed(K))
    worsen(K)
    assert value(problem) == pytest.approx(value(problem_over(None, md.Precomputed(gram))), rel=1e-12)


@pytest.mark.parametrize("change", ["weights", "pairs", "known", "index", "graph", "sparse graph", "bound", "sizes",
    "pieces"])
def test_arrays_within_formulas_are_copied(change):
    arrays = {
        "weights": np.arange(1.0, N + 1), "pairs": np.array([[0, 5], [2, 3]]), "known": np.array([1.0, -1.0]),
        "index": np.array([0, 6]), "graph": np.ones((N, N)), "sparse graph": sp.csr_matrix(np.ones((N, N))),
        "bound": np.arange(1.0, N + 1), "sizes": np.array([3, 3]), "pieces": [[1.0, [0.0, -1.0, 1.0]], [np.inf,
        [0.0] * 3]]}

    def declare(a):
        return problem_over(
            POINTS, loss=lambda g: a["weights"] * md.plq(a["pieces"])(g),
            constraints=lambda y, f: [md.must_link(y, a["pairs"]), y[a["index"]] == a["known"],
                                      md.sum(a["bound"] * y) <= 9, md.sizes(y, at_least=a["sizes"])],
            terms=lambda f: 0.1 * md.manifold(f, a["graph"]) + 0.1 * md.manifold(f, a["sparse graph"]))

    before = copy.deepcopy(arrays)
    expected = value(declare(arrays))
    for name, array in arrays.items():  # declaring changes no input
        difference = array != before[name]
        assert not (difference.nnz if sp.issparse(array) else np.any(difference))
    problem = declare(arrays)
    given = arrays[change]
    if change == "pieces":
        given[0][1][:] = [0.0, -7.0, 7.0]
    elif sp.issparse(given):
        given.data[:] = 0.0
    else:
        given[...] = given[::-1].copy() * (1 if change in ("pairs", "index") else 3)
    assert value(problem) == expected


def test_an_earlier_solution_is_what_it_was():
    class Earlier:
        pass

    first = problem_over(POINTS).solve("cccp", random_state=0)
    earlier = Earlier()
    for name in ("labels", "weights", "bias", "decision"):
        setattr(earlier, name, np.array(getattr(first, name)))
    expected = value(problem_over(POINTS, constraints=lambda y, f: [md.orthogonal(f, first)]))
    problem = problem_over(POINTS, constraints=lambda y, f: [md.orthogonal(f, earlier)])
    earlier.weights *= -3.0
    earlier.weights[0] = 7.0
    earlier.decision[:] = 0.0
    assert value(problem) == expected


def on_disk(tmp_path, mode="r+"):
    path = tmp_path / "points"
    POINTS.tofile(path)
    return np.memmap(path, dtype=float, mode=mode, shape=POINTS.shape)


@pytest.mark.parametrize("kernel", ["linear", md.RBF(1.5)], ids=["linear", "rbf"])
@pytest.mark.parametrize("when", ["before the first solve", "between two solves", "after compiling"])
def test_a_memory_map_that_changed_is_named(tmp_path, kernel, when):
    X = on_disk(tmp_path)
    problem = problem_over(X, kernel)
    solve = problem.solve
    if when == "between two solves":
        assert value(problem) == pytest.approx(value(problem_over(POINTS, kernel)), rel=1e-9)
    elif when == "after compiling":
        solve = problem.compile("cccp").solve
    X[3, 1] += 1e-9
    with pytest.raises(DeclarationError, match="X changed after it was declared.*declare the problem anew"):
        solve()
    value(problem_over(X, kernel))


def test_a_file_written_by_others_is_named(tmp_path):
    problem = problem_over(on_disk(tmp_path, "r"))
    value(problem)
    (10 * POINTS).tofile(tmp_path / "points")
    with pytest.raises(DeclarationError, match="X changed after it was declared"):
        value(problem)


def test_a_map_filled_before_the_declaration_has_not_changed(tmp_path):
    X = np.memmap(tmp_path / "new", dtype=float, mode="w+", shape=POINTS.shape)
    X[:] = POINTS
    problem = problem_over(X)
    expected = value(problem)
    X.flush()
    twin = pickle.loads(pickle.dumps(problem_over(POINTS)))
    assert value(problem) == expected and value(twin) == pytest.approx(expected, rel=1e-9)


def test_dask_arrays_over_arrays_that_changed_are_named():
    base = POINTS.copy()
    problem = problem_over(da.from_array(base, chunks=(3, 2), name="mine"))
    expected = problem.program().features.toarray()
    base *= 10
    try:
        np.testing.assert_array_equal(problem.program().features.toarray(), expected)  # a version of Dask that copies
    except DeclarationError as error:
        assert "X changed after it was declared" in str(error)


@pytest.mark.parametrize("make", [np.array, sp.csr_array], ids=["array", "sparse"])
def test_large_arrays_stay_where_they_are_and_are_checked(make, monkeypatch):
    monkeypatch.setattr(owned_module, "COPY_BYTES", 16)
    X = make(POINTS)
    problem = problem_over(X)
    assert np.shares_memory(problem.hyperplane.X.data, X.data) or sp.issparse(X)
    expected = value(problem)
    assert value(problem) == expected
    if not sp.issparse(X):
        X[7, 1] += 1e-12
        with pytest.raises(DeclarationError, match="X changed after it was declared"):
            value(problem)


@pytest.mark.parametrize("rows", [1, 7, 63, 64, 65, 1000, 40_000])
def test_fingerprints_see_a_change_of_everything(rows, tmp_path, monkeypatch):
    monkeypatch.setattr(owned_module, "SAMPLE_BYTES", 4096)
    X = np.memmap(tmp_path / "many", dtype=float, mode="w+", shape=(rows, 3))
    X[:] = RNG.normal(size=(rows, 3))
    owned = Owned(X, "X")
    owned.check()
    X[:] = X * (1 + 1e-15) + 1e-300
    for k in (0, rows - 1):
        X[k] += 1
    os.utime(tmp_path / "many", ns=(owned._print[1], owned._print[1]))
    with pytest.raises(DeclarationError):
        owned.check()


def test_numbers_without_dimensions_and_series_are_values_of_parameters():
    lam = md.Parameter(np.array(2.0), name="lam")
    assert type(lam.value) is float
    lam.value = np.array(3.0)
    assert type(lam.value) is float and lam.value == 3.0
    assert np.array_equal(md.Parameter(pd.Series([1.0, 2.0], index=[5, 4])).value, [1.0, 2.0])


@pytest.mark.parametrize("constants", [(0.0, -5.0), (-5.0,), (2.0, -5.0), (-1.0, md.Parameter(-3.0))])
def test_the_greatest_of_losses_and_constants_is_what_it_says(constants):
    y, f = md.Labels(len(POINTS)), md.Hyperplane(POINTS)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.max(md.maximum(1 - y * f, *constants))), [md.sizes(y, 1)])
    found = problem.solve("exact", random_state=0)
    numbers = [number.value if isinstance(number, md.Parameter) else number for number in constants]
    greatest = max(float(np.max(1 - found.labels * found.decision)), *numbers)
    assert found.value == pytest.approx(np.sum(found.weights**2) / 2 + greatest, abs=1e-6)


def test_the_greatest_loss_follows_a_parameter():
    y, f, floor = md.Labels(len(POINTS)), md.Hyperplane(POINTS), md.Parameter(1.0, name="floor")
    objective = md.sq_norm(f) / 2 + md.max(md.maximum(1 - y * f, floor))
    problem = md.Problem(md.Minimize(objective), [abs(md.sum(y)) <= len(POINTS) % 2])
    assert problem.parameters == (floor,) and "md.max(floor)" in problem.objective.expression.text()
    values = []
    for value in (1.0, 50.0):
        floor.value = value
        found = problem.solve("alternating", random_state=0)
        assert found.value >= value * (1 - 1e-6) and found.verify()
        values.append(found.value)
    assert values[1] == pytest.approx(50.0, rel=1e-6), "w = 0 costs no more than the floor"
