"""Every field of every kind of proof is forged in every way: none is believed.

A forgery is believed when it passes as the proof of the problem it was exported from, with a value, bound or status
that is false, or with a dual point that proves more than the least value over B, which is enumerated.
"""

import dataclasses
import functools
import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from kinds import declare, points, shared, soft

import margindsl as md
from margindsl.contract import Budget
from margindsl.program.exhaustion import members
from margindsl.proof.check import check, compare_features
from margindsl.proof.export import agree, declared
from margindsl.runtime.judging import written
from margindsl.runtime.registry import as_relaxation

CLOSE = 1e-7  # relative accuracy of the least value
CUTS = md.SDP(cuts="all")
KINDS = {  # relaxation, loss, constraint, clusters and coding
    "fixed labels": ("supervised", md.hinge, "all"),
    "lift": ("sdp", md.hinge, "balance"),
    "lift of known labels": ("sdp", md.squared_hinge, "known"),
    "lift of links": ("sdp", md.squared_hinge, "links"),
    "lift with cuts": (CUTS, md.squared_hinge, "balance"),
    "lift of a held bias": (CUTS, md.squared_hinge, "held"),
    "lift of scalars": ("sdp", shared, "balance"),
    "weights": ("weight-lifting", md.hinge, "decision"),
    "weights of a soft loss": ("weight-lifting", soft, "balance"),
    "pool": ("minimax", md.hinge, "balance"),
    "pool of cases": (md.Minimax(oracle="exhaustive"), md.hinge, "links"),
    "tree": (md.Exact(method="branching"), md.hinge, "links"),
    "cases": ("exact", md.squared_hinge, "known"),
    "cases of a bias": ("exact", md.hinge, "beside"),
    "cases of decision bounds": ("exact", md.hinge, "decision"),
    "cases of scalars": ("exact", shared, "links"),
    "simplex lift": ("sdp", md.hinge, "sizes", 3, "simplex"),
    "simplex lift of known labels": ("sdp", md.odm, "partly", 3, "simplex"),
    "simplex cases": ("exact", md.hinge, "partly", 3, "simplex"),
    "simplex bias": ("exact", md.hinge, "held", 3, "simplex"),
    "Crammer-Singer lift": ("sdp", md.squared_hinge, "partly", 3, "crammer-singer"),
    "Crammer-Singer cases": ("exact", md.hinge, "sizes", 3, "crammer-singer"),
    "Crammer-Singer labels": ("supervised", md.hinge, "clusters", 3, "crammer-singer"),
    "Crammer-Singer weights": ("weight-lifting", md.hinge, "sizes", 3, "crammer-singer")}
SHARE = 14  # each kind meets one forgery in so many, another one than the kinds beside it


@functools.cache
def problem(kind, seed=0, weight=3.0):
    _, loss, constraint, k, coding = (*KINDS[kind], 2, "binary")[:5]
    return declare(points(seed, k, n=3 + k), loss, constraint, weight, k, coding)


@functools.cache
def proof(kind, seed=0, weight=3.0):
    """Return header and arrays of a proof, and those its problem declares."""
    given = problem(kind, seed, weight)
    plain = dataclasses.replace(as_relaxation(KINDS[kind][0]), polish="none")  # forged are proofs of any labels
    header, arrays = written(given.solve(plain, random_state=0))
    return header, arrays, *declared(given.program().source)


@functools.cache
def least(kind):
    """Return the least value over B, and what it may be off by: a hyperplane is fitted to every labelling."""
    program = problem(kind).program()
    solver = md.Solver("clarabel" if program.losses.scalars.count else "newton")
    values = []
    for labels in members(program):
        form = program.fix_labels(labels)
        raw = solver.solve(form, Budget(tol=1e-9))
        values.append(form.objective(raw["w"], raw["bias"], raw["scalars"]))
    lowest = program.to_user(min(values))
    return lowest, CLOSE * abs(lowest)


def entry(value):
    """Return a change of one entry."""
    def change(x, rng):
        x = x.astype(float) if isinstance(value, float) else x.copy()
        x.flat[rng.integers(x.size)] = value
        return x
    return change


def wrapped(kind):
    return lambda x, rng: (-1 - np.abs(x)).astype(np.int64).astype(kind)


CHANGES = {
    "wrapped": wrapped(np.uint64), "wrapped in a byte": wrapped(np.uint8),
    "-6 wrapped": lambda x, rng: np.where(np.arange(x.size).reshape(x.shape) == 0, np.uint64(2**64 - 6), 0),
    "huge": entry(1e300), "large": entry(1e15), "tiny": entry(1e-300), "no number": entry(np.nan),
    "infinite": entry(np.inf), "infinite below": entry(-np.inf), "less by one": entry(-1.0),
    "zero": lambda x, rng: 0 * x, "one": lambda x, rng: 0 * x + 1, "all large": lambda x, rng: x + 1e9,
    "truth values": lambda x, rng: x.astype(bool), "objects": lambda x, rng: x.astype(object),
    "complex": lambda x, rng: x + 1j * np.abs(x), "words": lambda x, rng: x.astype(str),
    "bytes": lambda x, rng: x.astype("S8"), "single precision": lambda x, rng: x.astype(np.float32),
    "whole": lambda x, rng: np.rint(x).astype(int), "in a byte": lambda x, rng: x.astype(np.int8),
    "first alone": lambda x, rng: x[:1], "last missing": lambda x, rng: x[:-1],
    "doubled": lambda x, rng: np.concatenate([x, x]), "doubled across": lambda x, rng: np.concatenate([x, x], axis=-1),
    "an axis more": lambda x, rng: x[None], "flat": lambda x, rng: x.ravel(), "transposed": lambda x, rng: x.T,
    "empty": lambda x, rng: x[:0], "a number": lambda x, rng: x.flat[0], "reversed": lambda x, rng: x[::-1],
    "reversed across": lambda x, rng: x[..., ::-1],
    "permuted": lambda x, rng: rng.permutation(x.ravel()).reshape(x.shape), "negated": lambda x, rng: -1.0 * x,
    "one negated": lambda x, rng: x * np.where(np.arange(x.size).reshape(x.shape) == rng.integers(x.size), -1, 1),
    "times 1.3": lambda x, rng: x * 1.3, "times .99": lambda x, rng: x * 0.99, "twice": lambda x, rng: 2 * x,
    "times a million": lambda x, rng: x * 1e6, "raised": lambda x, rng: x + 1, "lowered": lambda x, rng: x - 1.0,
    "jittered": lambda x, rng: x + 1e-3 * rng.normal(size=x.shape) * (np.abs(x) + 1e-3)}
FIELDS = [None, "x", [], {}, True, False, np.nan, np.inf, -np.inf, -1, 0, 1, 3, 2.5, -6, 10**9, 2**64 - 6, 10**400,
          1e300, 1e-300]
WORDS = ["cases", "lift", "none", "pool", "simplex", "binary", "crammer-singer", "OPTIMAL"]
WITNESSES = ("u", "q", "v", "e", "tau", "d", "kappa", "theta", "eta", "tangents", "middles", "units", "inner", "outer")


def forged_arrays(kind):
    """Yield what was forged, the header and the arrays."""
    header, arrays, *_ = proof(kind)
    two = header["clusters"] == 2
    others = proof(kind, 1)[1], proof(kind, 0, 9.0)[1], proof("lift with cuts" if two else "simplex cases")[1]
    rng = np.random.default_rng(0)
    for name, x in arrays.items():
        yield f"{name} missing", header, {key: y for key, y in arrays.items() if key != name}
        for said, change in CHANGES.items() if x.size else ():
            yield f"{name} {said}", header, {**arrays, name: change(x, rng)}
        for other in others:
            yield f"{name} of another proof", header, {**arrays, name: other.get(name, x[:0])}
    for first, second in itertools.combinations([name for name in WITNESSES if name in arrays], 2):
        both = {name: rng.choice([-1.0, 0.5, 3.0]) * arrays[name] for name in (first, second)}
        yield f"{first} and {second}", header, {**arrays, **both}


def forged_headers(kind):
    """Yield what was forged, the header and the arrays."""
    header, arrays, *_ = proof(kind)
    other, gap = proof(kind, 1)[0], max(abs(header["value"]), 1e-3)
    for name, x in header.items():
        yield f"{name} missing", {key: y for key, y in header.items() if key != name}, arrays
        more = [1.3 * x, 0.99 * x, -x] if isinstance(x, float) else WORDS if isinstance(x, str) else []
        for value in [*FIELDS, *more, other[name]]:
            yield f"{name} {value!r}"[:60], {**header, name: value}, arrays
    for part in (1e-6, 1e-3, 0.1, 1e9):
        for name, moved in (("bound", part), ("value", -part), ("value", part)):
            yield f"{name} moved by {moved}", {**header, name: header[name] + moved * gap}, arrays
    yield "optimal", {**header, "state": "OPTIMAL", "bound": header["bound"] - 0.01 * gap}, arrays
    yield "optimal at any gap", {**header, "state": "OPTIMAL", "bound": -1e9, "tol": 1e9}, arrays


def is_believed(kind, header, arrays):
    """Return whether a forgery is the proof of its problem, and says or proves what is false."""
    true, own, declaration, numbers = proof(kind)
    if not (agree(declaration, header) and agree(numbers, arrays)):
        return False  # refused beside its problem
    header, arrays = {**header, **declaration}, {**arrays, **numbers}
    if "phi" in arrays and compare_features(header, arrays, problem(kind).hyperplane.X):
        return False
    (lowest, off), report = least(kind), check(header, arrays)
    same = all(np.array_equal(arrays[name], own[name]) for name in ("labels", "w", "scalars") if name in arrays)
    if report and not report.unverified and (
            header["bound"] > lowest + off or header["value"] < lowest - off
            or (same and abs(header["value"] - true["value"]) > CLOSE * abs(true["value"]))
            or (header["state"] == "OPTIMAL" and header["bound"] < lowest - 2e-3 * abs(lowest))):
        return True
    report = check({**header, "bound": -1e300, "state": "CONVERGED"}, arrays)
    return bool(report) and report.bound > lowest + off


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_no_forgery_is_believed(kind):
    (header, arrays, *_), (lowest, off) = proof(kind), least(kind)
    report = check(header, arrays)
    assert report and not report.unverified and len(report.proved) == 3
    assert header["bound"] <= lowest + off and header["value"] >= lowest - off
    tried = [*forged_arrays(kind), *forged_headers(kind)][list(KINDS).index(kind) % SHARE::SHARE]
    believed = [said for said, *forgery in tried if is_believed(kind, *forgery)]
    assert len(tried) > 100 and not believed


def test_each_column_of_the_data_counts_in_its_own_unit():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8, 3)) * [1.0, 30.0, 3e4]
    for centre, bias in itertools.product((True, False), (True, False, "penalised")):
        y, f = md.Labels(8), md.Hyperplane(X, centre=centre, bias=bias)
        held = [abs(md.sum(f)) <= 1] if bias is True else []
        given = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= 2, *held])
        header, arrays = written(given.solve("alternating", random_state=0))
        assert not compare_features(header, arrays, X)
        others = [X[:, 1:], X[:, :2], X[:, [1, 0, 2]], X * [0.0, 1, 1], X * [1 + 1e-9, 1, 1], X[::-1], X[:7],
                  np.column_stack([rng.permutation(X[:, 0]), X[:, 1:]]), np.hstack([X, X]), X[:, 0]]
        assert all(compare_features(header, arrays, other) for other in others)
    wide = rng.normal(size=(5, 9)) * np.where(np.arange(9) < 8, 1.0, 3e4)  # the features of which are rotated
    y, f = md.Labels(5), md.Hyperplane(wide)
    given = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= 1])
    header, arrays = written(given.solve("alternating", random_state=0))
    assert not compare_features(header, arrays, wide) and arrays["phi"].shape[1] < 9
    for other in (wide[:, 1:], wide * np.where(np.arange(9) == 3, 1.001, 1.0), rng.permuted(wide, axis=0)):
        assert compare_features(header, arrays, other)
    square = rng.normal(size=(5, 1)) * rng.normal(size=5)  # as many columns as points, rotated with one for the bias
    y, f = md.Labels(5), md.Hyperplane(sp.csr_array(square), bias="penalised")
    given = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= 1])
    header, arrays = written(given.solve("alternating", random_state=0))
    assert not compare_features(header, arrays, square) and compare_features(header, arrays, 1.001 * square)
