"""Fields of a file that its proof does not need are those of the proof all the same, or the file is refused."""

import numpy as np
import pytest

import margindsl as md
from margindsl.errors import DeclarationError
from margindsl.proof.files import read_proof, write_proof


@pytest.fixture(scope="module")
def problem():
    X = np.random.default_rng(0).normal(size=(8, 2))
    y, f, s = md.Labels(8), md.Hyperplane(X), md.Scalar(name="s")
    losses = 5 * md.mean(md.hinge(y * f)) + md.mean((s - y * f) ** 2)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + losses), [abs(md.sum(y)) <= 2])


@pytest.fixture(scope="module")
def saved(problem, tmp_path_factory):
    path = tmp_path_factory.mktemp("proofs") / "true.npz"
    problem.solve("minimax", random_state=0).save(path)
    return path


HEADERS = [
    {"bias": np.inf}, {"bias": 7.0}, {"scalars": {"s": 99.0}}, {"scalars": None}, {"scalars": {"s": "a"}},
    {"scalars": {}}, {"timings": None}, {"timings": "x"}, {"timings": [1.0]}, {"timings": {"a": "b"}},
    {"message": None}, {"solver": 3}]
ARRAYS = {
    "decision": [lambda x: x * np.nan, lambda x: x.astype(str), lambda x: x + 1],
    "weights": [lambda x: x.astype(str), lambda x: x * 0 + 9, lambda x: x * np.inf],
    "label_factor": [lambda x: x * np.nan], "mixture": [lambda x: x.astype(str)]}


@pytest.mark.parametrize("known", [True, False], ids=["with its problem", "alone"])
@pytest.mark.parametrize("header", HEADERS, ids=str)
def test_forged_headers_are_refused(problem, saved, tmp_path, header, known):
    content, arrays = read_proof(saved)
    write_proof(tmp_path / "forged.npz", content | header, arrays)
    with pytest.raises(DeclarationError):
        md.Solution.load(tmp_path / "forged.npz", problem if known else None)


@pytest.mark.parametrize("known", [True, False], ids=["with its problem", "alone"])
@pytest.mark.parametrize("name,at", [(name, at) for name, changes in ARRAYS.items() for at in range(len(changes))])
def test_forged_arrays_are_refused(problem, saved, tmp_path, name, at, known):
    content, arrays = read_proof(saved)
    arrays = {"label_factor": np.zeros((8, 2))} | arrays
    arrays[name] = ARRAYS[name][at](arrays[name])
    write_proof(tmp_path / "forged.npz", content, arrays)
    with pytest.raises(DeclarationError):
        md.Solution.load(tmp_path / "forged.npz", problem if known else None)


@pytest.mark.parametrize("name", ["value", "estimate", "labellings", "mixture", "decision", "timings"])
def test_parts_that_are_left_out_are_missed(problem, saved, tmp_path, name):
    content, arrays = read_proof(saved)
    assert name in content or name in arrays
    content.pop(name, None), arrays.pop(name, None)
    write_proof(tmp_path / "forged.npz", content, arrays)
    with pytest.raises(DeclarationError, match="no saved solution"):
        md.Solution.load(tmp_path / "forged.npz", problem)


def test_a_solution_that_no_proof_knows_says_why(tmp_path):
    X = np.random.default_rng(1).normal(size=(8, 2))
    y, f = md.Labels(8), md.Hyperplane(X)
    objective = md.sq_norm(f) / 2 + 5 * md.mean(md.square(md.logistic(-y * f)))
    problem = md.Problem(md.Minimize(objective), [abs(md.sum(y)) <= 2])
    problem.solve("exact", random_state=0).save(tmp_path / "a.npz")
    loaded = md.Solution.load(tmp_path / "a.npz", problem)
    assert "has no form a proof knows" in loaded.unverified
    loaded.save(tmp_path / "b.npz")
    assert md.Solution.load(tmp_path / "b.npz").unverified == loaded.unverified


@pytest.mark.parametrize("use", ["save", "load", "checkpoint"])
def test_names_with_nul_are_no_names(problem, use):
    uses = {"save": lambda: problem.solve(random_state=0).save("a\0b"), "load": lambda: md.Solution.load("a\0b"),
            "checkpoint": lambda: problem.solve("exact", checkpoint="a\0b")}
    with pytest.raises(DeclarationError, match="name of a file"):
        uses[use]()
