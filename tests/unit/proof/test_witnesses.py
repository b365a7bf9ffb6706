"""Witnesses are verified, not believed: holes that were closed, trees that leave out, headers that make no sense."""

import functools
import itertools
import warnings

import numpy as np
import pytest

import margindsl as md
from margindsl.proof import check as script
from margindsl.runtime.judging import written

RNG = np.random.default_rng(11)
X = np.vstack([RNG.normal(-0.7, 1.0, (4, 2)), RNG.normal(0.9, 1.0, (4, 2))])


def declare(k, loss):
    n = 8 if k == 2 else 6
    y, f = md.Labels(n, clusters=k), md.Hyperplane(X[:n])
    margins = y * f if k == 2 else md.margin(y, f)
    constraints = [abs(md.sum(y)) <= 3, y[0] == y[1]] if k == 2 else [
        md.sizes(y, at_least=1, at_most=3), y[0] != y[1], y[2] == 0]
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 6 * md.mean(loss(margins))), constraints)


CASES = {
    "soft": (declare(2, lambda m: md.logistic(-m)), "sdp"),
    "sdp": (declare(2, md.hinge), "sdp"), "branching": (declare(2, md.hinge), md.Exact(method="branching")),
    "three": (declare(3, md.hinge), "sdp"), "three cases": (declare(3, md.hinge), "exact")}


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


@pytest.mark.parametrize("signs", [[1, 1, 1], [1, 1, -1], [1, -1, -1], [-1, -1, -1]])
def test_a_sum_of_three_signs_is_no_equality(signs):
    """(±z_i ± z_j ± z_k)² is 1 or 9, whatever the signs: a negative multiplier of it would prove too much."""
    header, arrays, _ = proof("sdp")
    cut = np.zeros((1, header["n"] + 1), dtype=int)
    cut[0, 2:5] = signs
    assert "a multiplier is negative" in script.check(
        header, {**arrays, "cuts": cut, "theta": np.array([[-1e-6]])}).failures[0]
    assert not script.check({**header, "bound": -1e300, "state": "CONVERGED"},
                            {**arrays, "cuts": cut, "theta": np.array([[1e-6]])}).failures


@pytest.mark.parametrize("case", ["sdp", "three"])
def test_a_cut_counts_the_least_square_that_a_sum_of_codes_can_have(case):
    header, arrays, _ = proof(case)
    held = script.Proof(header, arrays)
    codes = held.codes / np.linalg.norm(held.codes[0])
    for signs in ([1], [1, 1], [1, -1], [1, 1, 1], [1, 1, -1], [1, 1, 1, 1], [1, 1, 1, -1], [1, 1, 1, 1, 1]):
        sums = [np.array(signs) @ codes[list(y)] for y in itertools.product(range(held.clusters), repeat=len(signs))]
        assert script.least_square(np.array([signs]), held.clusters)[0] == pytest.approx(
            min(x @ x for x in sums), abs=1e-12)


@pytest.mark.parametrize(("coding", "k"), [("binary", 2), *itertools.product(("simplex", "crammer-singer"), (3, 4, 7))])
def test_what_follows_from_codes(coding, k):
    said, rng = script.coded(coding, k), np.random.default_rng(0)
    codes, f = said["codes"], rng.normal(size=(100, said["codes"].shape[1]))
    squares = np.array([(f @ c) ** 2 for c in codes])
    assert np.all(squares <= said["stretch"] * np.sum(f**2, axis=1) * (1 + 1e-12))
    assert np.all(squares >= said["low"] * np.sum(f**2, axis=1) * (1 - 1e-12))
    assert np.allclose(np.sum(codes**2, axis=1), said["stretch"]) and np.allclose(codes.sum(axis=0), 0)
    biases = np.array([b - np.mean(b) * (len(b) > 1) for b in itertools.product([-0.5, 0.5], repeat=len(f[0]))])
    biases /= np.abs(biases @ said["pairs"].T).max(axis=1, initial=1e-300, keepdims=True)
    assert np.max(np.sum(biases**2, axis=1)) == pytest.approx(said["corner"])
    best = np.max(biases @ f[0]) if len(f[0]) == 1 else np.max(biases @ (f[0] - f[0].mean()))
    share = 1 / np.abs(said["pairs"][0]).sum()
    assert best == pytest.approx(share * np.abs(f[0] - f[0].mean() * (len(f[0]) > 1)).sum())


def test_other_codes_than_those_of_the_coding_are_refused():
    for case in ("sdp", "three"):
        header, arrays, _ = proof(case)
        for codes in (-arrays["codes"], 2 * arrays["codes"], arrays["codes"][::-1], arrays["codes"][:, :0]):
            assert script.check(header, {**arrays, "codes": codes}).failures


def test_sizes_may_be_at_their_limits_and_no_farther():
    header, arrays, _ = proof("three")
    header, sizes = {**header, "bound": -1e300, "state": "CONVERGED"}, np.bincount(arrays["labels"], minlength=3)
    assert not script.check(header, {**arrays, "at_least": sizes, "at_most": sizes}).failures
    for one in np.eye(3, dtype=int):
        for name, limit in (("at_least", sizes + one), ("at_most", sizes - one)):
            assert "labels are not in B" in script.check(header, {**arrays, name: limit}).failures


@pytest.mark.parametrize("decided", [{}, {2: 1}, {2: 1, 3: 1, 4: 1}, {2: -1, 3: -1, 4: -1}, {0: -1, 2: 1, 3: -1},
                                     {0: 1, 2: 1, 3: 1, 4: -1, 5: -1, 6: -1}, {0: -1, 2: -1, 3: -1, 4: 1, 5: 1, 6: 1}])
def test_radii_are_the_farthest_that_labellings_go(decided):
    header, arrays, _ = proof("sdp")
    held = script.Proof(header, {**arrays, "middles": np.array([0.5]), "kappa": np.ones((1, 2))})
    B, every = script.LabelSet(held), np.array(list(itertools.product([-1, 1], repeat=8)))
    inside = (np.abs(every.sum(axis=1)) <= 3) & (every[:, 0] == every[:, 1])
    z = B.z.copy()
    for point, label in decided.items():
        inside &= every[:, point] == label
        z[B.component[point]] = B.turned((label + 1) // 2, point)
    sums = every[inside] @ held.bound_weights[0]
    assert B.sum_radius(0, z) == pytest.approx(np.max(np.abs(sums - held.middles[0])), rel=1e-9)
    assert B.code_radius(z) >= np.max(np.abs(sums))  # of sizes alone, which say less


@pytest.mark.parametrize("factor", [1.0, 1e3, 1e6])
def test_multipliers_of_sums_however_large_prove_nothing_false(factor):
    header, arrays, optimum = proof("sdp")
    size = factor * max(np.max(np.abs(arrays["d"])), 1.0)
    assert unclaimed(header, {**arrays, "kappa": arrays["kappa"] + size}) <= optimum * (1 + 1e-9)


def test_tangents_where_a_loss_is_least_prove_that_it_is_no_less():
    """log(1 + exp(-z)) >= 0 is its tangent at infinity."""
    header, arrays, _ = proof("soft")
    nothing = {name: 0 * arrays[name] for name in ("u", "q", "tau", "eta", "tangents", "d", "kappa", "theta")}
    assert unclaimed(header, {**arrays, **nothing}) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_least_values_of_logistic_losses_are_those_of_a_grid(share):
    held = script.Proof(*proof("soft")[:2])
    u, x = np.zeros(len(held.points)), np.linspace(-30, 30, 60_001)[:, None]
    u[held.log_at] = share * held.log_c * held.log_a
    every = held.log_c * np.logaddexp(0, -held.log_a * x - held.log_d) + u[held.log_at] * x
    with np.errstate(all="ignore"):
        low, _, _ = held.least(u, 0 * u, np.full(len(held.log_at), -share))
    assert low == pytest.approx(every.min(axis=0).sum(), rel=1e-6)


def test_what_losses_prove_by_themselves_is_exact():
    for loss in (md.hinge, md.squared_hinge, lambda m: md.huber(m - 1), lambda m: (1 - m) ** 2):
        y, f = md.Labels(8), md.Hyperplane(1e-3 * X)
        problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 7.3 * md.mean(loss(y * f))))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            solution = problem.solve(md.SDP(), time_limit=1e-9, random_state=0)
        assert solution.bound == -np.inf or solution.bound >= 0.0


def test_a_point_that_is_zero_is_that_of_the_data_in_rotated_features():
    X = np.random.default_rng(0).normal(size=(3, 5))
    X[0] = 0.0
    y, f = md.Labels(3), md.Hyperplane(X, centre=False)
    objective = md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(y * f)))
    solution = md.Problem(objective, [y[[0, 1]] == np.array([1, -1])]).solve("exact")
    header, arrays = written(solution)
    assert solution.verify() and not script.compare_features(header, arrays, X)
    other = X.copy()
    other[1, 0] += 1e-3
    assert script.compare_features(header, arrays, other) == ["the features are not those of the data"]


@pytest.mark.parametrize("off, holds", [(2.0**-53, True), (1e-9, False)])
def test_values_may_be_what_rounding_makes_of_margins_at_a_kink(off, holds):
    y, f = md.Labels(2), md.Hyperplane(np.array([[2.0**10], [-(2.0**10)]]))
    objective = md.Minimize(md.sq_norm(f) / 2 + 0.04 * md.mean(md.hinge(y * f)))
    header, arrays = written(md.Problem(objective, [y[0] != y[1]]).solve("exact", random_state=0))
    arrays["w"] = np.sign(arrays["w"]) * 2.0**-10 * (1 + 2.0**-52)  # margins are just above 1, where the loss is 0
    header.update(value=0.5 * 2.0**-20 + 0.04 * off, bound=0.0, state="CONVERGED")
    assert (not script.check(header, arrays).failures) == holds


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("coding", ["crammer-singer", "simplex"])
def test_logistic_losses_of_several_clusters_keep_their_bound(seed, coding):
    # Nothing but tangents holds their duals, which are sums over clusters and must cancel them to the last digit.
    rng = np.random.default_rng(seed)
    X, clusters = rng.normal(size=(12, 3)), np.arange(12) % 3
    y, f = md.Labels(12, clusters=3), md.Hyperplane(X)
    loss = md.sum(md.logistic(rng.normal(size=12) - md.margin(y, f, coding=coding)))
    for relaxation, known in (("supervised", 12), ("exact", 10)):
        problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 3 * loss), [y[:known] == clusters[:known]])
        solution = problem.solve(relaxation, random_state=0)
        assert solution.verify() and solution.bound == pytest.approx(solution.value, rel=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_losses_that_fall_both_ways_are_proved_beside_a_free_bias(seed):
    # The multipliers of far points are rounding beside those that level the bias: slopes far out are zero but for it.
    X = 1e3 * np.random.default_rng(seed).normal(size=(3, 3))
    y, f = md.Labels(3), md.Hyperplane(X, bias=True)
    falling, rising = md.mean(md.logistic(y * f + 1)), md.mean(md.logistic(1.12 - 2.559 * y * f))
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 0.9 * falling + 2.7 * rising), [y[0] == y[2], y[0] != y[1]])
    solution = problem.solve("exact", random_state=4)
    assert solution.verify() and solution.gap < 1e-5
