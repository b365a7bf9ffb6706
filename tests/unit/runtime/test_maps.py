"""Solutions that predict from their file alone."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import margindsl as md
from margindsl.errors import DeclarationError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 4)) + 3 * (np.arange(30)[:, None] % 2) + 1e3
NEW = RNG.normal(size=(7, 4)) + 1e3
WIDE = RNG.normal(size=(12, 40))


def solved(points, clusters=2, **given):
    y, f = md.Labels(points.shape[0], clusters=clusters), md.Hyperplane(points, **given)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 5 * md.mean(md.hinge(md.margin(y, f)))), [md.sizes(y, 2)])
    return problem.solve("alternating", random_state=0, verbose=0)


CASES = {
    "linear": (X, NEW, {}), "free bias": (X, NEW, {"bias": True}), "penalised bias": (X, NEW, {"bias": "penalised"}),
    "not centred": (X, NEW, {"centre": False}), "wide": (WIDE, WIDE[:3] + 1, {}), "three": (X, NEW, {"clusters": 3}),
    "sparse": (csr_array(X * (X > 1001)), csr_array(NEW), {}), "rbf": (X, NEW, {"kernel": md.RBF()}),
    "few landmarks": (X, NEW, {"kernel": md.RBF(rank=5), "clusters": 3}),
    "polynomial": (X - 1e3, NEW - 1e3, {"kernel": md.Polynomial(2)}),
    "precomputed": (X[:, 0], X[:4] @ X.T, {"kernel": md.Precomputed(X @ X.T)})}


@pytest.mark.parametrize("name", CASES)
def test_a_file_predicts_as_the_solution_did(tmp_path, name):
    points, new, given = CASES[name]
    if name == "precomputed":
        points = X
    solution = solved(points, **given)
    solution.save(tmp_path / "found.npz")
    found = md.load(tmp_path / "found.npz")
    found.save(tmp_path / "again.npz")
    for loaded in (found, md.load(tmp_path / "again.npz")):
        assert np.allclose(loaded.decision_function(new), solution.decision_function(new), rtol=1e-9, atol=1e-9)
        assert np.array_equal(loaded.predict(new), solution.predict(new))


def test_another_process_predicts_by_columns(tmp_path):
    frame = pd.DataFrame(X, columns=list("abcd"))
    solution = solved(frame)
    solution.save(tmp_path / "found.npz")
    frame[:3].to_csv(tmp_path / "new.csv", index=False)
    code = (f"import margindsl as md, pandas as pd; found = md.load({str(tmp_path / 'found.npz')!r}); "
            f"print(found.predict(pd.read_csv({str(tmp_path / 'new.csv')!r})).tolist())")
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == str(solution.predict(frame[:3]).tolist())
    with pytest.raises(DeclarationError, match="column"):
        md.load(tmp_path / "found.npz").predict(frame[list("dcba")])


def test_what_cannot_be_kept_is_said(tmp_path):
    def own(A, B):
        return np.asarray(A) @ np.asarray(B).T

    solved(X, kernel=own).save(tmp_path / "found.npz")
    with pytest.raises(DeclarationError, match="holds no map of new points"):
        md.load(tmp_path / "found.npz").predict(NEW)


@pytest.mark.parametrize("spoil", [
    lambda held: held["map_mean"].__setitem__(0, np.nan), lambda held: held.update(map_mean=np.zeros(7)),
    lambda held: held.update(map_mean=np.array(["a"]))])
def test_a_broken_map_is_refused(tmp_path, spoil):
    solved(X).save(tmp_path / "found.npz")
    with np.load(tmp_path / "found.npz") as stored:
        held = {name: stored[name].copy() for name in stored.files}
    spoil(held)
    np.savez(tmp_path / "spoilt.npz", **held)
    with pytest.raises(DeclarationError, match="broken"):
        md.load(tmp_path / "spoilt.npz")
