"""Saved solutions keep their proof; what is damaged, inflated, edited or another problem's is refused."""

import json
import os
import zipfile

import numpy as np
import pytest

import margindsl as md
from margindsl.errors import DeclarationError
from margindsl.proof import files
from margindsl.proof.check import check
from margindsl.runtime.judging import written

RNG = np.random.default_rng(5)
X = np.vstack([RNG.normal(-1.0, 0.9, (5, 2)), RNG.normal(1.0, 0.9, (5, 2))])


def declare(weight=4.0, points=X, bound=2, loss=md.hinge, kernel="linear"):
    y, f = md.Labels(len(X)), md.Hyperplane(points, kernel=kernel)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + weight * md.mean(loss(y * f))), [abs(md.sum(y)) <= bound])


@pytest.fixture(scope="module")
def solution():
    return declare().solve("weight-lifting", random_state=0)


@pytest.fixture
def path(solution, tmp_path):
    solution.save(tmp_path / "s.npz")
    return tmp_path / "s.npz"


def rewrite(path, header=None, **arrays):
    """Write the file again with some of it replaced."""
    with np.load(path) as stored:
        parts = {name: stored[name] for name in stored.files}
    head = json.loads(str(parts.pop("header"))) | (header or {})
    parts |= arrays
    np.savez_compressed(path, header=np.array(json.dumps(head)), **parts)


def test_what_is_saved_is_proved_again(path, solution):
    for loaded in (md.Solution.load(path), md.Solution.load(path, declare())):
        assert loaded.verify() and not loaded.unverified and loaded.bound == solution.bound
        assert repr(loaded) == repr(solution)
        loaded.save(path)


FORGERIES = {
    "labels all 7": lambda s: {"labels": np.full(len(X), 7)},
    "labels flipped": lambda s: {"labels": s.labels * np.where(np.arange(len(X)) < 2, -1, 1)},
    "labels outside B": lambda s: {"labels": np.ones(len(X), dtype=int)},
    "value halved": lambda s: {"header": {"value": s.value / 2}},
    "bound of 1e9": lambda s: {"header": {"bound": 1e9}},
    "bound up by 1e-6": lambda s: {"header": {"bound": s.bound * (1 + 1e-6)}},
    "value not a number": lambda s: {"header": {"value": float("nan")}},
    "optimal": lambda s: {"header": {"state": "OPTIMAL", "bound": s.bound * 0.8}},
    "no such state": lambda s: {"header": {"state": "BEST"}},
    "kind unknown": lambda s: {"header": {"kind": "oracle"}},
    "fewer points": lambda s: {"header": {"n": 3}},
    "many clusters": lambda s: {"header": {"clusters": 10**9}},
    "another ridge": lambda s: {"header": {"ridge": 2.0}},
    "duals short": lambda s: {"u": np.zeros(3)},
    "squares altered": lambda s: {"q": np.full(len(X), 9.0)},
    "weights altered": lambda s: {"w": 2 * s.weights},
    "decision altered": lambda s: {"decision": 2 * s.decision},
    "features altered": lambda s: {"phi": 1.1 * X},
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_forged_files(path, solution, forgery):
    change = FORGERIES[forgery](solution)
    rewrite(path, change.pop("header", None), **change)
    with pytest.raises(DeclarationError, match="does not hold|is no saved solution"):
        md.Solution.load(path)


@pytest.mark.parametrize("problem", [
    declare(weight=40.0), declare(bound=4), declare(loss=md.squared_hinge), declare(points=X[::-1].copy())])
def test_another_problem(path, problem):
    with pytest.raises(DeclarationError, match="another objective|other points|do not give the decision values"):
        md.Solution.load(path, problem)


def test_every_byte_counts(path):
    content = path.read_bytes()
    for at in range(40, len(content), max(1, len(content) // 60)):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1:])
        try:
            loaded = md.Solution.load(path)
        except DeclarationError:
            continue
        assert loaded.verify()  # a byte of the zip directory that says nothing
    for length in range(0, len(content), max(1, len(content) // 20)):
        path.write_bytes(content[:length])
        with pytest.raises(DeclarationError):
            md.Solution.load(path)


def test_inflated_files_are_refused_before_they_are_read(path, tmp_path):
    bomb = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            if name != "labels.npy":
                new.writestr(name, old.read(name))
        with new.open("labels.npy", "w") as part:
            np.lib.format.write_array_header_1_0(
                part, {"descr": "<i8", "fortran_order": False, "shape": (8_000_000,)})
            for _ in range(64):
                part.write(bytes(1_000_000))
    assert bomb.stat().st_size < 300_000
    with pytest.raises(DeclarationError, match="would take"):
        md.Solution.load(bomb)
    liar = tmp_path / "liar.npz"
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(liar, "w") as new:
        for name in old.namelist():
            if name != "labels.npy":
                new.writestr(name, old.read(name))
        with new.open("labels.npy", "w") as part:
            np.lib.format.write_array_header_1_0(part, {"descr": "<i8", "fortran_order": False, "shape": (1 << 50,)})
    with pytest.raises(DeclarationError, match="is no saved solution"):
        md.Solution.load(liar)


def test_a_failed_write_leaves_the_old_file(path, solution, monkeypatch):
    before = path.read_bytes()
    for name, error in (("fsync", OSError(28, "No space left on device")), ("replace", KeyboardInterrupt())):
        with monkeypatch.context() as patch:
            def fail(*_, error=error):
                raise error
            patch.setattr(files.os, name, fail)
            with pytest.raises(type(error)):
                solution.save(path)
        assert path.read_bytes() == before and os.listdir(path.parent) == [path.name]


def test_files_without_a_proof_are_unverified(path, solution):
    with np.load(path) as stored:
        header = json.loads(str(stored["header"]))
        old = {name: stored[name] for name in ("labels", "weights", "decision")}
    kept = {name: header[name] for name in ("value", "bound", "estimate", "bias", "scalars", "timings", "message",
                                            "relaxation", "solver", "coding")}
    np.savez(path, header=np.array(json.dumps(kept | {"state": "OPTIMAL"})), **old)
    loaded = md.Solution.load(path)
    assert loaded.status == "converged" and loaded.bound == -np.inf and "unverified" in repr(loaded)
    assert "unverified" in loaded.summary() and loaded.verify().unverified


def test_features_that_are_not_in_the_file(path, solution):
    with np.load(path) as stored:
        parts = {name: stored[name] for name in stored.files if name not in ("phi", "header")}
        header = json.loads(str(stored["header"]))
    files.write_proof(path, header, parts)
    alone = md.Solution.load(path)
    assert alone.unverified and "unverified" in repr(alone)
    assert not md.Solution.load(path, declare()).unverified
    rewrite(path, None, labels=np.ones(len(X), dtype=int))
    with pytest.raises(DeclarationError, match="labels are not in B"):
        md.Solution.load(path)


def test_command(path, tmp_path, capsys):
    from margindsl.cli.main import main

    np.save(tmp_path / "x.npy", X)
    np.savetxt(tmp_path / "x.csv", X, delimiter=",", fmt="%.17g")
    np.save(tmp_path / "other.npy", X + np.arange(len(X))[:, None])
    assert main(["verify", str(path)]) == 0
    assert capsys.readouterr().out.count("proved") == 3
    for name in ("x.npy", "x.csv"):
        assert main(["verify", str(path), str(tmp_path / name)]) == 0
    assert main(["verify", str(path), str(tmp_path / "other.npy")]) == 1
    assert "FAILED" in capsys.readouterr().out
    rewrite(path, {"bound": 1e9})
    assert main(["verify", str(path)]) == 1
    assert "does not hold what it claims" in capsys.readouterr().err


def test_a_proof_of_another_version(path):
    rewrite(path, {"version": 1})
    with pytest.raises(DeclarationError, match="version 1 of margindsl-proof"):
        md.Solution.load(path)


def test_multipliers_of_a_points_own_cluster_count_for_nothing():
    y, f = md.Labels(6, clusters=3), md.Hyperplane(X[:6])
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 6 * md.mean(md.hinge(md.margin(y, f)))), [
        y[i] == i % 3 for i in range(6)])
    header, arrays = written(problem.solve("supervised", random_state=0))
    own = np.eye(3)[arrays["labels"]][None]
    forged = {**arrays, "u": arrays["u"] * 1e-3 + 0.9 * own}
    assert not check(header, arrays).failures
    assert not check(header, forged).bound > header["value"] and check(header, forged).failures
