"""True answers of every kind of certificate are proved, alone by the script too; what is altered is caught."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from kinds import KINDS, declare, points, problem, solved

import margindsl as md
from margindsl.contract import Status
from margindsl.proof import check as script
from margindsl.proof.files import read_proof, write_proof

replace = dataclasses.replace


@pytest.mark.parametrize("kind", KINDS)
def test_true_answers_are_proved(kind):
    solution = solved(kind)
    report = solution.verify()
    assert report and not report.unverified and len(report.proved) == 3, str(report)
    assert np.isfinite(solution.bound)


def altered(solution, change):
    """Return a solution one array of whose dual point was altered."""
    proof = solution.certificate
    return replace(solution, certificate=replace(proof, arrays={**proof.arrays, **change(proof.arrays)}))


def weakened(arrays):
    """Return the dual point three times as far: its bound falls, or it leaves the domain of the losses."""
    return {name: 3.0 * np.asarray(arrays[name]) for name in ("u", "q", "tau") if name in arrays}


def mirrored(arrays):
    return {name: -np.asarray(arrays[name]) for name in ("u", "q") if name in arrays}


def dropped(arrays):
    return {name: np.zeros_like(arrays[name]) for name in ("u", "q") if name in arrays}


def turned(solution):
    """Return labels of the solution with one changed."""
    labels = np.array(solution.labels)
    labels[1] = -labels[1] if solution.coding == "binary" else (labels[1] + 1) % 3
    return labels


def other_declaration(solution, kind, **changes):
    basis = problem(kind, **changes).program().source
    return replace(solution, basis=replace(solution.basis, declaration=basis))


CORRUPTIONS = {
    "bound raised by 1e-6": lambda s, _: replace(s, bound=s.bound + 1e-6 * abs(s.bound)),
    "bound above the value": lambda s, _: replace(s, bound=s.value + 1e-3 * abs(s.value)),
    "value lowered": lambda s, _: replace(s, value=s.value * (1 - 1e-7)),
    "value raised": lambda s, _: replace(s, value=s.value * (1 + 1e-7)),
    "a label changed": lambda s, _: replace(s, labels=turned(s)),
    "labels of another range": lambda s, _: replace(s, labels=np.full(len(s.labels), 7)),
    "decision values moved": lambda s, _: replace(s, decision=s.decision * (1 + 1e-6)),
    "weights moved": lambda s, _: replace(s, weights=s.weights * (1 + 1e-3)),
    "dual farther": lambda s, _: altered(s, weakened),
    "dual mirrored": lambda s, _: altered(s, mirrored),
    "dual dropped": lambda s, _: altered(s, dropped),
    "no certificate": lambda s, _: replace(s, certificate=None),
    "another weight": lambda s, kind: other_declaration(s, kind, weight=3.3),
    "other points": lambda s, kind: other_declaration(s, kind, seed=1),
    "optimal with a gap": lambda s, _: replace(s, state=Status.OPTIMAL, bound=s.bound - 0.1 * abs(s.bound)),
}


EVERY = 5  # corruptions are dealt out over the kinds: each meets a fifth of them, 225 in all


@pytest.mark.parametrize(("kind", "corruption"), [
    (kind, name) for kind in KINDS for at, name in enumerate(CORRUPTIONS) if (at + kind) % EVERY == 0])
def test_corruptions_are_caught(kind, corruption):
    report = CORRUPTIONS[corruption](solved(kind), kind).verify()
    assert not report and report.failures, corruption


def test_the_certificate_of_another_weight_does_not_pass():
    small, large = (declare(points(9), weight=w).solve("sdp", random_state=0) for w in (0.5, 50.0))
    borrowed = replace(small, certificate=large.certificate, bound=large.bound)
    assert not borrowed.verify()


@pytest.fixture(scope="module")
def proofs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("proofs")
    for kind in KINDS:
        for seed in (0, 1 + kind % 2)[:1 + (kind % 9 == 0)]:  # as declared, and some of them far larger or smaller
            solved(kind, seed).save(folder / f"{kind}-{seed}.npz")
            np.save(folder / f"{kind}-{seed}.npy", np.asarray(problem(kind, seed).hyperplane.X))
    return folder


def test_the_script_agrees_on_exported_proofs(proofs):
    files = sorted(proofs.glob("*.npz"))
    assert len(files) == len(KINDS) + len(KINDS[::9])
    kinds = set()
    for file in files:
        header, arrays = read_proof(file)
        report = script.check(header, arrays)
        assert report and len(report.proved) == 3 and not report.unverified, f"{file.name}: {report}"
        assert not script.compare_features(header, arrays, np.load(file.with_suffix(".npy")))
        kinds.add((header["kind"], header["clusters"] > 2))
        header["bound"] = report.bound + 1e-6 * max(abs(header["bound"]), abs(header["value"]))
        assert not script.check(header, arrays)
    assert kinds == {("lift", False), ("cases", False), ("lift", True), ("cases", True)}


def test_the_script_runs_alone(proofs, tmp_path):
    copy = tmp_path / "alone.py"
    copy.write_text(Path(script.__file__).read_text(encoding="utf-8"), encoding="utf-8")

    def run(*arguments):
        return subprocess.run([sys.executable, "-I", str(copy), *map(str, arguments)], capture_output=True, text=True,
                              check=False, timeout=60)

    done = run(proofs / "0-0.npz")
    assert done.returncode == 0 and done.stdout.count("proved") == 3 and not done.stderr
    header, arrays = read_proof(proofs / "0-0.npz")
    write_proof(tmp_path / "forged.npz", {**header, "bound": header["value"]}, arrays)
    forged = run(tmp_path / "forged.npz")
    assert forged.returncode == 1 and "is not proved" in forged.stdout


def test_limits_of_one_sum_may_be_declared_apart():
    X = np.random.default_rng(0).normal(size=(7, 2)) + np.array([3.0, 0.0])
    y, f = md.Labels(7), md.Hyperplane(X, centre=False)
    objective = md.Minimize(md.sq_norm(f) / 2 + 4 * md.mean(md.hinge(y * f)))
    together, apart = (md.Problem(objective, constraints).solve("sdp", random_state=0) for constraints in (
        [abs(md.sum(y)) <= 2], [md.sum(y) <= 2, md.sum(y) >= -2]))
    assert together.bound > 0.1 and apart.bound == pytest.approx(together.bound, rel=1e-5) and apart.verify()


@pytest.mark.parametrize("name", ["component", "cut_positions"])
def test_certificates_that_name_what_is_not_there_are_failures(name):
    X = np.random.default_rng(0).normal(size=(12, 2))
    y, f = md.Labels(12), md.Hyperplane(X)
    solution = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 5 * md.mean(md.odm(y * f))), [abs(md.sum(y)) <= 2]).solve(
        "sdp", random_state=0)
    arrays = solution.certificate.arrays
    assert arrays[name].size
    report = replace(solution, certificate=replace(
        solution.certificate, arrays={**arrays, name: arrays[name] + 50})).verify()
    assert not report and report.failures
