"""Whatever stands in a proof, no bound above the least value over B passes; witnesses are verified, not believed."""

import functools
import warnings

import numpy as np
import pytest

import margindsl as md
from margindsl.proof import check as script
from margindsl.proof.report import reported
from margindsl.runtime.evidence import written

RNG = np.random.default_rng(11)
X = np.vstack([RNG.normal(-0.7, 1.0, (4, 2)), RNG.normal(0.9, 1.0, (4, 2))])


def soft(m):
    return md.logistic(-m)


def declare(k, loss, coding="crammer-singer", bias=False):
    n = 8 if k == 2 else 6
    y, f = md.Labels(n, clusters=k), md.Hyperplane(X[:n], bias=bias)
    margins = y * f if k == 2 else md.margin(y, f, coding=coding)
    constraints = [abs(md.sum(y)) <= 3, y[0] == y[1]] if k == 2 else [
        md.sizes(y, at_least=1, at_most=3), y[0] != y[1], y[2] == 0]
    constraints += [abs(md.sum(f)) <= 0.4] if bias is True else []
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 6 * md.mean(loss(margins))), constraints)


CASES = {
    "sdp": (declare(2, md.hinge), "sdp"),
    "triangles": (declare(2, md.squared_hinge), md.SDP(moments=True, cuts="triangle")),
    "free bias": (declare(2, md.hinge, bias=True), "sdp"),
    "weights": (declare(2, soft), "weight-lifting"),
    "branching": (declare(2, md.hinge), md.Exact(method="branching")),
    "pool": (declare(2, md.hinge), md.Minimax(oracle="exhaustive")),
    "enumeration": (declare(2, soft, bias=True), "exact"),
    "three": (declare(3, md.hinge), "sdp"),
    "three cases": (declare(3, md.hinge), "exact"),
    "three codes": (declare(3, md.squared_hinge, "simplex"), "exact")}


@functools.cache
def proof(case):
    """Return header and arrays of a proof, and the least value over B."""
    problem, relaxation = CASES[case]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        header, arrays = written(problem.solve(relaxation, random_state=0))
        return header, arrays, problem.solve("exact", random_state=0).value


def unclaimed(header, arrays):
    """Return the bound that a proof proves, whatever is claimed."""
    return script.check({**header, "bound": -1e300, "state": "CONVERGED"}, arrays).bound


def twice(x):
    return 2 * x


def negated(x):
    return -x


def zeroed(x):
    return np.zeros_like(x)


def reversed_(x):
    return x[..., ::-1].copy()


def first_only(x):
    return x[:1]


def not_a_number(x):
    return np.full(x.shape, np.nan)


def single(x):
    return x.astype(np.float16)


def raised(x):
    return x + 1


WITNESSES = ("u", "q", "tau", "tangents", "d", "kappa", "theta", "eta", "cuts", "middles", "units", "tree")
CHANGES = (twice, negated, zeroed, reversed_, first_only, not_a_number, single, raised)


@pytest.mark.parametrize("case", CASES)
def test_forged_witnesses_prove_nothing_false(case):
    header, arrays, optimum = proof(case)
    assert reported(header, arrays), str(reported(header, arrays))
    for name in WITNESSES:
        for change in CHANGES:
            if name in arrays and arrays[name].size:
                proved = unclaimed(header, {**arrays, name: change(arrays[name])})
                assert proved <= optimum + 1e-7 * abs(optimum), (name, change.__name__)


@pytest.mark.parametrize("case", CASES)
def test_random_forgeries(case):
    header, arrays, optimum = proof(case)
    rng = np.random.default_rng(5)
    for _ in range(60):
        forged = dict(arrays)
        for name in rng.choice([w for w in WITNESSES if w in arrays and arrays[w].size], 2):
            x = np.array(forged[name])
            at = tuple(rng.integers(0, s) for s in x.shape)
            x[at] = rng.choice([0, 1, -1, 3, -7]) * (1 if x.dtype.kind == "i" else rng.choice([1e-3, 1.0, 1e3]))
            forged[name] = x
        assert unclaimed(header, forged) <= optimum + 1e-7 * abs(optimum)


def test_duals_of_a_points_own_cluster_count_for_nothing():
    header, arrays, optimum = proof("three cases")
    u = arrays["u"] + 6 / 6  # every multiplier at its limit, the own cluster's too
    assert unclaimed(header, {**arrays, "u": u}) <= optimum


def test_middles_and_squares_of_several_clusters():
    header, arrays, optimum = proof("three")
    for change in ({"middles": np.array([2.0])}, {"q": np.full_like(arrays["q"], -1.0)},
                   {"theta": -np.abs(arrays["theta"]) - 1.0}, {"cuts": 3 * arrays["cuts"]}):
        assert unclaimed(header, {**arrays, **change}) <= optimum


def test_a_tree_that_leaves_labellings_out():
    header, arrays, _ = proof("branching")
    assert "uncovered" in script.check(header, {**arrays, "tree": arrays["tree"][:1] * 0}).failures[0]
    assert "uncovered" in script.check(header, {**arrays, "tree": arrays["tree"][:-1]}).failures[0]


@pytest.mark.parametrize("change", [
    {"version": 2}, {"version": 3}, {"version": None}, {"format": "other"}, {"ridge": -1.0}, {"n": 10**12},
    {"clusters": 10**9}, {"coding": "simplex"}, {"kind": "oracle"}, {"free_bias": "yes"}, {"bound": "high"}])
def test_headers_that_make_no_sense(change):
    header, arrays, _ = proof("sdp")
    found = script.check({**header, **change}, arrays)
    assert found.failures and (("version" in found.failures[0]) == bool({"version", "format"} & set(change)))


def test_what_losses_prove_by_themselves_is_exact():
    for loss in (md.hinge, md.squared_hinge, lambda m: md.huber(m - 1), lambda m: (1 - m) ** 2):
        y, f = md.Labels(8), md.Hyperplane(1e-9 * X)
        problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 7.3 * md.mean(loss(y * f))))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            solution = problem.solve(md.SDP(), time_limit=1e-9, random_state=0)
        assert solution.bound == -np.inf or solution.bound >= 0.0
