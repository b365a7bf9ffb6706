"""Saved solutions: what is read back, and what is refused."""

import numpy as np
import pytest
import scipy.sparse as sp

import margindsl as md
from margindsl.errors import DeclarationError

rng = np.random.default_rng(3)
X = np.repeat([[2.0, 0.0, 0.0], [-2.0, 0.0, 0.0], [0.0, 3.0, 0.0]], 8, axis=0) + 0.5 * rng.normal(size=(24, 3))
N = len(X)
QUICK = md.Alternating(restarts=1, polish="none")
WIDE = sp.csr_array(sp.random(N, 90, density=0.1, random_state=rng))
KERNELS = {"linear": "linear", "rbf": md.RBF(1.5), "polynomial": md.Polynomial(2)}


def declare(points=X, kernel="linear", bias=False, coding=None, extra=None):
    n = N if points is None else points.shape[0]
    y, f = md.Labels(n, clusters=3 if coding else 2), md.Hyperplane(points, kernel=kernel, bias=bias)
    margins = md.margin(y, f, coding=coding) if coding else y * f
    objective = md.sq_norm(f) / 2 + 10 * md.mean(md.hinge(margins))
    constraints = [md.sizes(y, at_least=n // 4)]
    if extra == "manifold":
        objective = objective + md.manifold(f, sp.csr_array(np.ones((n, n))))
    if extra == "orthogonal":
        constraints.append(md.orthogonal(f, declare(points, kernel, bias).solve(QUICK, random_state=0)))
    return md.Problem(md.Minimize(objective), constraints)


def saved(tmp_path, problem):
    solution = problem.solve(QUICK, random_state=0)
    solution.save(tmp_path / "s.npz")
    return solution, tmp_path / "s.npz"


@pytest.mark.parametrize("kernel, bias, coding", [  # every pair of two of them but kernels and codings
    (kernel, bias, [None, "crammer-singer", "simplex"][(i + j) % 3])
    for i, kernel in enumerate(KERNELS) for j, bias in enumerate([False, "penalised"])])
def test_the_same_declaration_predicts_again_and_other_points_are_refused(tmp_path, kernel, bias, coding):
    chosen = KERNELS[kernel]
    solution, path = saved(tmp_path, declare(X, chosen, bias, coding))
    again = md.Solution.load(path, declare(X.copy(), chosen, bias, coding))
    assert np.array_equal(again.predict(X), solution.predict(X))
    moved = X.copy()
    moved[5] += 0.01
    for other in (moved, X[::-1], X * 1.001 if kernel == "linear" else X * 1.1):
        problem = declare(other, chosen, bias, coding)
        if problem.prepared().base.rank == len(solution.weights):
            with pytest.raises(DeclarationError, match="do not give the decision values of the solution, at point"):
                md.Solution.load(path, problem)
        else:
            with pytest.raises(DeclarationError, match="the solution has weights of"):
                md.Solution.load(path, problem)


@pytest.mark.parametrize("points, kernel, bias, extra", [
    (WIDE, "linear", False, None), (WIDE, "linear", True, None), (None, md.Precomputed(X @ X.T), False, None),
    (X, "linear", False, "manifold"), (X, "linear", False, "orthogonal"), (WIDE, "linear", False, "orthogonal"),
    (1e-3 * X, "linear", True, None), (1e-3 * X, "linear", "penalised", None), (X + 1e8, "linear", False, None),
    (10 * X, md.Polynomial(3), False, None), (1e4 * X, "linear", True, None)])
def test_other_features_and_magnitudes(tmp_path, points, kernel, bias, extra):
    solution, path = saved(tmp_path, declare(points, kernel, bias, extra=extra))
    fresh = points if points is None else points.copy()
    again = md.Solution.load(path, declare(fresh, kernel, bias, extra=extra))
    assert np.array_equal(again.decision, solution.decision)
    other = (None, md.Precomputed((X[::-1] + 1) @ (X[::-1] + 1).T)) if points is None else (points[::-1], kernel)
    with pytest.raises(DeclarationError, match="do not give the decision values|the solution has weights of"):
        md.Solution.load(path, declare(*other, bias, extra=extra))


def test_weights_of_another_rank(tmp_path):
    _, path = saved(tmp_path, declare())
    with pytest.raises(DeclarationError, match=r"weights of 3 features, the problem 2 features \(linear, 2 columns"):
        md.Solution.load(path, declare(X[:, :2]))
    with pytest.raises(DeclarationError, match="weights of 3 features, the problem 4 features"):
        md.Solution.load(path, declare(bias="penalised"))
    with pytest.raises(DeclarationError, match="given ndarray as the problem, expected the md.Problem"):
        md.Solution.load(path, X)


def foreign_files(folder, solution):
    """Yield files that no solution was saved to."""
    content = solution.read_bytes()
    for name, data in (("text.npz", b"labels,1,2\n"), ("empty.npz", b""), ("cut.npz", content[:-40]),
                       ("torn.npz", content[:80] + bytes(60) + content[140:]), ("pickle.npz", b"\x80\x04N.")):
        (folder / name).write_bytes(data)
        yield folder / name
    np.savez(folder / "arrays.npz", X=X)
    np.savez(folder / "header.npz", header=np.array("{}"), labels=X)
    np.savez(folder / "list.npz", header=np.array("[1]"), labels=X)
    np.savez(folder / "objects.npz", header=np.array([None, 1], dtype=object))
    np.save(folder / "array.npy", X)
    with np.load(solution) as stored:
        parts = dict(stored)
    np.savez(folder / "shapes.npz", **{**parts, "decision": X})
    np.savez(folder / "short.npz", **{name: parts[name] for name in ("header", "labels")})
    for name in ("arrays.npz", "header.npz", "list.npz", "objects.npz", "array.npy", "shapes.npz", "short.npz"):
        yield folder / name


def test_foreign_files(tmp_path):
    _, path = saved(tmp_path, declare())
    count = 0
    for foreign in foreign_files(tmp_path, path):
        with pytest.raises(DeclarationError, match=r"is no saved solution; expected a \.npz file that|was changed"):
            md.Solution.load(foreign)
        count += 1
    assert count == 12
    with pytest.raises(FileNotFoundError):
        md.Solution.load(tmp_path / "nothing.npz")


def test_a_solution_without_finite_values_is_refused(tmp_path):
    problem = declare()
    solution = problem.solve(QUICK, random_state=0)
    broken = md.Solution(**{**solution.__dict__, "decision": np.full(N, np.nan), "weights": np.full(3, np.nan),
                            "value": np.inf})
    broken.save(tmp_path / "s.npz")
    with pytest.raises(DeclarationError, match="decision: not such numbers"):
        md.Solution.load(tmp_path / "s.npz", problem)
