"""Forge proofs of every kind and count what passes: python tests/unit/proof/forger.py

A forged claim is caught when the check names a failure; a forged witness proves no bound above the least value over B.
"""

import argparse
import functools
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from kinds import KINDS, SCALES, first, least, solved  # a module beside this one

import margindsl as md
from margindsl.errors import DeclarationError
from margindsl.proof import check as script
from margindsl.proof.files import read_proof, write_proof
from margindsl.proof.report import reported
from margindsl.runtime.evidence import written

CLOSE = 1e-7  # relative accuracy of the least value over B
WITNESSES = ("u", "q", "tau", "tangents", "d", "kappa", "theta", "eta", "cuts", "middles", "units", "tree")


def scaled(name, factor):
    return lambda h, a, rng: (h, {**a, name: a[name] * factor})


def claim(**changes):
    return lambda h, a, rng: ({**h, **{name: change(h) for name, change in changes.items()}}, a)


def put(name, change):
    """Replace an array by a change of it, of all arrays and a generator."""
    return lambda h, a, rng: (h, {**a, name: change(a[name], a, rng)})


def appended(name, rows):
    return put(name, lambda x, a, rng: np.concatenate([x, np.asarray(rows(a), dtype=x.dtype)]))


def flipped(y, a, rng):
    """Return labels one of which is another, and no longer known."""
    y = np.array(y)
    at = rng.integers(len(y))
    y[at] = -y[at] if y.min() < 0 else (y[at] + 1) % len(a["at_least"])
    return y


def somewhere(value):
    def change(h, a, rng):
        name = rng.choice([n for n, x in a.items() if x.dtype.kind == "f" and x.size and n != "decision"])
        x = np.array(a[name])
        x[tuple(rng.integers(0, s) for s in x.shape)] = value
        return h, {**a, name: x}
    return change


def bound_of_sum(h, a):
    """Add a bound on labels that those of the solution break."""
    row = np.where(np.arange(h["n"]) == 0, 1.0, 0.0)[None]
    y = np.array([float(a["labels"][0])])
    return h, {**a, "bound_weights": np.vstack([a["bound_weights"], row]),
               "bound_lower": np.append(a["bound_lower"], -y), "bound_upper": np.append(a["bound_upper"], -y)}


def other(h, a):
    """Return the label that point 0 does not have."""
    return -a["labels"][:1] if h["clusters"] == 2 else (a["labels"][:1] + 1) % h["clusters"]


CLAIMS = {  # of a proof, each of which makes it false or contradictory
    "bound raised by 1e-6": claim(bound=lambda h: h["bound"] + 1e-6 * max(abs(h["bound"]), abs(h["value"]))),
    "bound of infinity": claim(bound=lambda h: np.inf),
    "bound above the value": claim(bound=lambda h: h["value"] + 1e-6 * abs(h["value"])),
    "bound no number": claim(bound=lambda h: np.nan),
    "value raised by 1e-7": claim(value=lambda h: h["value"] + 1e-7 * abs(h["value"])),
    "value lowered by 1e-7": claim(value=lambda h: h["value"] - 1e-7 * abs(h["value"])),
    "value no number": claim(value=lambda h: np.nan),
    "optimal with a gap": claim(state=lambda h: "OPTIMAL", bound=lambda h: h["bound"] - 0.1 * abs(h["bound"])),
    "value under inflated sizes": lambda h, a, rng: (
        {**h, "value": h["value"] * (1 - 1e-5)}, {**a, "size": a["size"] + 1e300, "steep": a["steep"] + 1e300}),
    "another ridge": claim(ridge=lambda h: 1.01 * h["ridge"]),
    "no ridge": claim(ridge=lambda h: 0.0),
    "ridge of infinity": claim(ridge=lambda h: np.inf),
    "another constant": claim(constant=lambda h: h["constant"] + 1e-4 * abs(h["value"])),
    "more points": claim(n=lambda h: h["n"] + 1),
    "more clusters": claim(clusters=lambda h: h["clusters"] + 1),
    "clusters without end": claim(clusters=lambda h: 10**9),
    "another coding": claim(coding=lambda h: "one-vs-rest"),
    "another kind": claim(kind=lambda h: "oracle"),
    "another version": claim(version=lambda h: script.VERSION - 1),
    "another format": claim(format=lambda h: "proof"),
    "a bias that is not": claim(free_bias=lambda h: -1),
    "a holder that is not": claim(held=lambda h: 99),
    "no header": lambda h, a, rng: ({"format": script.FORMAT, "version": script.VERSION}, a),
    "other features": put("phi", lambda x, a, rng: x * 1.001),
    "features moved": put("phi", lambda x, a, rng: x + 1e-4 * np.abs(x).max() * rng.normal(size=x.shape)),
    "one row of features": put("phi", lambda x, a, rng: x[:1]),
    "weights moved": scaled("w", 1 + 1e-4),
    "weights of more clusters": put("w", lambda x, a, rng: np.hstack([x, x])),
    "decision values moved": lambda h, a, rng: (h, {**a, "decision": np.asarray(a["decision"]) * (1 + 1e-6)}),
    "labels of another range": put("labels", lambda y, a, rng: np.full_like(y, 7)),
    "labels open": put("labels", lambda y, a, rng: np.where(np.arange(len(y)) == 1, 0 if y.min() < 0 else -1, y)),
    "fewer labels": put("labels", lambda y, a, rng: y[:-1]),
    "a column of labels": put("labels", lambda y, a, rng: y[:, None]),
    "labels in words": put("labels", lambda y, a, rng: y.astype(str)),
    "complex weights": put("w", lambda x, a, rng: x + 0.1j),
    "another known label": lambda h, a, rng: (h, {
        **a, "known_index": np.append(a["known_index"], 0), "known_values": np.append(a["known_values"], other(h, a))}),
    "a label known twice": lambda h, a, rng: (h, {
        **a, "known_index": np.append(a["known_index"], [0, 0]),
        "known_values": np.concatenate([a["known_values"], other(h, a), a["labels"][:1]])}),
    "links that are both": lambda h, a, rng: appended("cannot", lambda a: [[0, 1]])(
        *appended("must", lambda a: [[0, 1]])(h, a, rng), rng),
    "a point apart from itself": appended("cannot", lambda a: [[2, 2]]),
    "sizes beyond the points": put("at_least", lambda x, a, rng: x + len(a["labels"])),
    "sizes of no points": put("at_most", lambda x, a, rng: 0 * x),
    "a bound the labels break": lambda h, a, rng: bound_of_sum(h, a),
    "a loss less": put("points", lambda x, a, rng: x[:-1]),
    "a loss more": put("slopes", lambda x, a, rng: np.append(x, 1.0)),
    "a loss of point -1": put("points", lambda x, a, rng: x - len(a["labels"])),
    "cells of loss -1": put("cell", lambda x, a, rng: x - 1),
    "losses nowhere": put("right", lambda x, a, rng: np.full_like(x, -1e300)),
    "nothing is a number": somewhere(np.nan),
    "a bound on one decision value more": put("decision_lower", lambda x, a, rng: np.append(x, 0.0)),
    "signs of scalars": put("nonneg", lambda x, a, rng: np.append(x, 1)),
    "no tree": put("tree", lambda x, a, rng: x[:0]),
    "a tree cut": put("tree", lambda x, a, rng: x[:-1]),
    "an empty tree": put("tree", lambda x, a, rng: np.zeros(1, dtype=int)),
    "cases that are not": put("tree", lambda x, a, rng: np.where(x < 0, x - 10**6, x)),
    "duals of one point": put("u", lambda x, a, rng: x[:, :1]),
    "multipliers of squared sums": put("eta", lambda x, a, rng: np.hstack([x, x + 1])),
}


def changed(name, change):
    return lambda h, a, rng: (h, {**a, name: change(a[name], rng)} if a.get(name, np.zeros(0)).size else a)


def random_entries(h, a, rng):
    forged = dict(a)
    for name in rng.choice([w for w in WITNESSES if w in a and a[w].size], 2):
        x = np.array(forged[name])
        at = tuple(rng.integers(0, s) for s in x.shape)
        x[at] = rng.choice([0, 1, -1, 3, -7]) * (1 if x.dtype.kind == "i" else rng.choice([1e-3, 1.0, 1e3]))
        forged[name] = x
    return h, forged


MOVES = {
    "twice": lambda x, rng: 2 * x, "half": lambda x, rng: (x / 2).astype(x.dtype), "negated": lambda x, rng: -x,
    "zero": lambda x, rng: 0 * x, "reversed": lambda x, rng: x[..., ::-1].copy(), "first": lambda x, rng: x[:1],
    "raised": lambda x, rng: x + 1, "permuted": lambda x, rng: rng.permutation(x.ravel()).reshape(x.shape),
    "inflated": lambda x, rng: (x * 1e6).astype(x.dtype if x.dtype.kind == "f" else int),
    "jittered": lambda x, rng: (
        x * (1 + 1e-3 * rng.normal(size=x.shape)) if x.dtype.kind == "f" else x + rng.integers(-1, 2, x.shape))}
FORGED = {f"{name} {move}": changed(name, change) for name in WITNESSES for move, change in MOVES.items()}
FORGED |= {f"random entries {i}": random_entries for i in range(20)}
FORGED |= {
    "read as the other kind": claim(kind=lambda h: "cases" if h["kind"] == "lift" else "lift"),
    "held by no bound": claim(held=lambda h: -1), "held by bound 0": claim(held=lambda h: 0),
    "sizes without limit": put("at_most", lambda x, a, rng: np.full_like(x, 1e300)),
    "squares of opposite signs": changed("q", lambda x, rng: x + np.where(np.arange(x.shape[1]) % 2, 5.0, -5.0)),
    "sums that drown": changed("tau", lambda x, rng: x + 1e9), "cuts of twos": changed("cuts", lambda x, rng: 2 * x)}


@functools.cache
def proof(kind):
    """Return header and arrays of a proof, and the least value over B."""
    header, arrays = written(solved(kind))
    return header, arrays, min(least(first(kind)), header["value"])


def is_caught(name, header, arrays, seed=0):
    """Return whether a forged claim has a failure, None where it changes nothing."""
    h, a = CLAIMS[name](header, dict(arrays), np.random.default_rng(seed))
    same = h == header and all(np.array_equal(a[n], x) for n, x in arrays.items())
    return None if same else bool(reported(h, a).failures)


def overstated(name, header, arrays, least, seed=0):
    """Return by which part a forged witness proves more than the least value over B."""
    h, a = FORGED[name](header, dict(arrays), np.random.default_rng(seed))
    found = script.check({**h, "bound": -1e300, "state": "CONVERGED"}, a)
    return max(0.0, (found.bound - least) / abs(least)) if found.bound > least else 0.0


def edited(path, rng, count=20):
    """Yield whether a file with a byte changed is refused, or says what it said."""
    content, before = path.read_bytes(), read_proof(path)
    for _ in range(count):
        at = rng.integers(len(content))
        path.write_bytes(content[:at] + bytes([content[at] ^ rng.integers(1, 256)]) + content[at + 1:])
        try:
            md.Solution.load(path)
            header, arrays = read_proof(path)
            yield header == before[0] and all(np.array_equal(arrays[n], x) for n, x in before[1].items())
        except DeclarationError:
            yield True
    path.write_bytes(content)


def agreement(folder, kinds):
    """Return for how many exported proofs the script, run alone, and `verify` say the same, and of how many."""
    alone, same, total = folder / "alone.py", 0, 0
    shutil.copy(script.__file__, alone)
    for kind in kinds:
        for seed in SCALES:
            solution = solved(kind, seed)
            solution.save(folder / "proof.npz")
            header, arrays = read_proof(folder / "proof.npz")
            write_proof(folder / "forged.npz", *CLAIMS["bound raised by 1e-6"](header, arrays, None))
            true, false = (subprocess.run([sys.executable, "-I", str(alone), str(folder / name)], capture_output=True,
                                          text=True, check=False) for name in ("proof.npz", "forged.npz"))
            report, total = solution.verify(), total + 1
            if report and true.stdout.strip() == str(report) and (true.returncode, false.returncode) == (0, 1):
                same += 1
            else:
                print(f"kind {kind}, scale {SCALES[seed]}: {report} against {true.stdout} {true.stderr} {false.stdout}")
    return same, total


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", type=int, nargs="*", default=KINDS)
    parser.add_argument("--agreement", action="store_true", help="also run the script alone on every proof")
    chosen = parser.parse_args()
    caught = witnesses = files = 0
    misses = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind in chosen.kinds:
            header, arrays, least = proof(kind)
            for forgery in CLAIMS:
                found = is_caught(forgery, header, arrays, kind)
                caught += found is not None
                misses += [(kind, forgery)] if found is False else []
            for forgery in FORGED:
                witnesses += 1
                if (more := overstated(forgery, header, arrays, least, kind)) > CLOSE:
                    misses.append((kind, forgery, more))
            solved(kind).save(folder / "edited.npz")
            for is_safe in edited(folder / "edited.npz", np.random.default_rng(kind)):
                files += 1
                misses += [] if is_safe else [(kind, "a byte")]
        print(f"{len(chosen.kinds)} proofs: {caught} false claims, {witnesses} forged witnesses, {files} edited files; "
              f"{len(misses)} missed")
        print(*misses, sep="\n")
        if chosen.agreement:
            same, total = agreement(folder, chosen.kinds)
            print(f"the script agrees with verify on {same} of {total} exported proofs")
            misses += [] if same == total else [(same, total)]
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main())
