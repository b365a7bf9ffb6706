"""Norms that are not squared, of all weights, of columns, groups of them and kernels: enumeration, cvxpy by hand."""

import itertools

import cvxpy as cp
import numpy as np
import pytest

import margindsl as md
from margindsl.program.gauge import Gauge

LOSSES = {"hinge": (md.hinge, lambda m: cp.pos(1 - m)),
          "squared hinge": (md.squared_hinge, lambda m: cp.square(cp.pos(1 - m))),
          "odm": (md.odm, lambda m: (cp.square(cp.pos(0.8 - m)) + 0.5 * cp.square(cp.pos(m - 1.2))) / 0.64)}
WEIGHTS = [(0, 1, 0), (1, 0, 0.3), (0, 0, 0.5), (0.5, 1, 0.2), (0, 1, 0.2), (1, 1, 0)]  # of |w|^2/2, T^2/2 and T
PLAIN = md.SDP(polish="none"), md.Minimax(polish="none")  # bounds hold whatever labels are found


class Model:
    """A random model: p |w|^2/2 + c T^2/2 + e T + C mean loss, T the sum of the norms of blocks."""

    def __init__(self, seed, least=4, most=7, free_bias=True):
        rng = np.random.default_rng(seed)
        self.n, d = int(rng.integers(least, most)), int(rng.integers(2, 4))
        X, self.y = rng.normal(size=(self.n, d)), md.Labels(self.n)
        kernels = [None, [md.RBF(1.0), md.RBF(3.0), md.Linear()], ["linear", md.RBF(0.7)]][rng.integers(3)]
        self.bias = bool(free_bias and rng.integers(2))
        self.f = f = md.Hyperplane(X, kernel=kernels or "linear", bias=self.bias)
        norm = md.norm(f, "kernels" if kernels else [2, 1, [0, 1, 0][:d]][rng.integers(3)])
        self.p, self.c, self.e = WEIGHTS[rng.integers(len(WEIGHTS))]
        self.C, (loss, self.loss) = float(rng.choice([1, 4, 12])), LOSSES[str(rng.choice(list(LOSSES)))]
        self.objective = (self.p * md.sq_norm(f) / 2 + self.c * norm**2 / 2 + self.e * norm +
                          self.C * md.mean(loss(self.y * f)))
        self.rules = [abs(md.sum(self.y)) <= self.n - 2]
        if rng.integers(2):
            self.rules.append(self.y[0] != self.y[1])
        program = md.Problem(md.Minimize(self.objective), self.rules).program()
        phi = program.features.toarray()
        block = np.zeros(phi.shape[1], dtype=int) if program.gauge is None else program.gauge.block
        w, b, self.z = cp.Variable(phi.shape[1]), cp.Variable() if self.bias else 0.0, cp.Parameter(self.n)
        T = sum(cp.norm(w[np.flatnonzero(block == v)]) for v in range(block.max() + 1))
        self.hand = cp.Problem(cp.Minimize(
            self.p * cp.sum_squares(w) / 2 + self.c * cp.square(T) / 2 + self.e * T +
            self.C * cp.sum(self.loss(cp.multiply(self.z, phi @ w + b))) / self.n))

    def problem(self, *rules):
        return md.Problem(md.Minimize(self.objective), [*self.rules, *rules])

    def by_hand(self, z):
        self.z.value = np.asarray(z, dtype=float)
        for tol in (1e-11, 1e-10, 1e-9, 1e-8):
            try:
                self.hand.solve(solver="CLARABEL", tol_gap_rel=tol, tol_gap_abs=tol, tol_feas=tol)
            except cp.SolverError:
                continue
            if self.hand.status == "optimal":
                return self.hand.value
        return None

    def least(self):
        """Return the least value over all labellings."""
        linked = len(self.rules) > 1
        values = [self.by_hand(z) for z in itertools.product([-1, 1], repeat=self.n)
                  if abs(sum(z)) <= self.n - 2 and not (linked and z[0] == z[1])]
        return None if None in values else min(values)


@pytest.mark.parametrize("seed", range(10))
def test_fixed_labels_equal_cvxpy_by_hand(seed):
    model = Model(seed)
    z = np.where(np.arange(model.n) % 2, 1, -1)
    found, value = model.problem(model.y == z).solve("supervised"), model.by_hand(z)
    assert found.verify() and found.bound <= found.value
    if value is not None:
        assert found.value == pytest.approx(value, rel=1e-7, abs=1e-7)
    assert found.gap <= 1e-5


@pytest.mark.parametrize("seed", range(101, 104))
def test_exact_is_the_least_of_all_labellings_and_bounds_lie_below_it(seed):
    model = Model(seed, most=6)
    least = model.least()
    if least is None:
        pytest.skip("cvxpy solved not all labellings")
    found = model.problem().solve("exact")
    assert found.value == pytest.approx(least, rel=1e-6, abs=1e-6)
    assert found.verify() and found.bound <= least * (1 + 1e-7) + 1e-7
    if not model.bias:
        assert found.status == "optimal"
    for relaxation in ("alternating", "cccp") if model.bias or not model.p + model.c else PLAIN:
        other = model.problem().solve(relaxation, random_state=0)
        assert other.verify() and other.value >= least - 1e-6 * abs(least) and other.bound <= least + 1e-7 * abs(least)


def test_a_kernel_listed_twice_gives_the_answer_of_one():
    X = np.random.default_rng(3).normal(size=(8, 2))
    y, one, two = md.Labels(8), md.Hyperplane(X, kernel=md.RBF(1.0)), md.Hyperplane(X, kernel=[md.RBF(1.0)] * 2)
    problems = [md.Problem(md.Minimize(norm / 2 + 4 * md.mean(md.hinge(y * f))), [abs(md.sum(y)) <= 2])
                for f, norm in ((one, md.sq_norm(one)), (two, md.norm(two, "kernels")**2))]
    found = [problem.solve("exact") for problem in problems]
    for relaxation in PLAIN:
        bounds = [problem.solve(relaxation, random_state=0).bound for problem in problems]
        assert bounds[1] == pytest.approx(bounds[0], rel=2e-3) and bounds[1] <= found[0].value + 1e-7
    assert found[1].value == pytest.approx(found[0].value, rel=1e-7) and found[1].verify()
    assert np.array_equal(found[0].labels, found[1].labels)
    assert found[1].kernel_weights.sum() == pytest.approx(1)
    new = np.random.default_rng(4).normal(size=(5, 2))
    assert found[1].decision_function(new) == pytest.approx(found[0].decision_function(new), abs=1e-5)


def test_lifts_at_the_weights_of_good_labels_bound_all_weights():
    """A dual point that holds for every kernel alone: far above the bound of all kernels at full weight, below all."""
    X = np.random.default_rng(2).normal(size=(10, 4))
    y, f = md.Labels(10), md.Hyperplane(X, kernel=[md.RBF(1.0), md.RBF(2.0), md.RBF(4.0), md.Linear()])
    loss, rules = 10 * md.mean(md.hinge(y * f)), [abs(md.sum(y)) <= 2]
    least, found, squared = (md.Problem(md.Minimize(norm / 2 + loss), rules).solve(relaxation, random_state=0)
                             for norm, relaxation in ((md.norm(f, "kernels")**2, "exact"), (
                                 md.norm(f, "kernels")**2, "sdp"), (md.sq_norm(f), "sdp")))
    assert squared.bound * 1.3 < found.bound <= least.value + 1e-7 and found.verify()


def test_half_the_square_is_the_least_over_weights_of_kernels():
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(7, 2)), md.Labels(7)
    kernels, z = [md.RBF(0.5), md.RBF(2.0), md.Linear()], np.where(rng.normal(size=7) > 0, 1, -1)
    f = md.Hyperplane(X, kernel=kernels)
    found = md.Problem(md.Minimize(md.norm(f, "kernels")**2 / 2 + 5 * md.mean(md.hinge(y * f))), [y == z]).solve()
    matrices, H = [md.features.as_kernel(k).matrix(X, X) for k in kernels], np.eye(7) - 1 / 7

    def value(d):
        K = H @ sum(a * M for a, M in zip(d, matrices)) @ H
        fixed = md.Hyperplane(None, kernel=md.Precomputed((K + K.T) / 2), centre=False)
        return md.Problem(md.Minimize(md.sq_norm(fixed) / 2 + 5 * md.mean(md.hinge(y * fixed))), [y == z]).solve().value

    assert value(found.kernel_weights) == pytest.approx(found.value, rel=1e-6)
    assert all(value(d) >= found.value * (1 - 1e-7) for d in rng.dirichlet(np.ones(3), size=10))


@pytest.mark.parametrize("p, c, e", WEIGHTS)
def test_the_conjugate_is_the_supremum_over_weights(p, c, e):
    rng = np.random.default_rng(0)
    gauge = Gauge(np.array([0, 0, 1, 2, -1]), p, c, e)
    for H in rng.normal(size=(8, 5, 2)):
        bound = gauge.conjugate(gauge.squares(H).sum(axis=1)[:, None])[0]
        W = cp.Variable((5, 2))
        t = [cp.norm(W[:2], "fro"), cp.norm(W[2]), cp.norm(W[3])]
        R = (cp.sum_squares(W[4]) + p * sum(map(cp.square, t)) + c * cp.square(sum(t))) / 2 + e * sum(t)
        if np.isfinite(bound):
            hand = cp.Problem(cp.Maximize(cp.sum(cp.multiply(H, W)) - R)).solve(solver="CLARABEL")
            assert bound == pytest.approx(hand, rel=1e-5, abs=1e-5)
            V = W.value
            assert np.sum(H * V) - gauge.value(V) <= bound + 1e-7


def test_columns_that_say_nothing_are_left_out():
    rng = np.random.default_rng(2)
    X = np.column_stack([np.repeat([-1.5, 1.5], 4) + 0.3 * rng.normal(size=8), *0.5 * rng.normal(size=(3, 8))])
    y, f = md.Labels(8), md.Hyperplane(X)
    found = md.Problem(md.Minimize(md.norm(f, 1) / 2 + 2 * md.mean(md.hinge(y * f))), [md.sum(y) == 0]).solve("exact")
    assert found.status == "optimal" and found.verify()
    assert abs(found.weights[0]) > 0.3 and np.all(np.abs(found.weights[1:]) < 1e-5)


@pytest.mark.parametrize("written, words", [
    (lambda f, r: md.norm(r, 1), "blocks of a norm"),
    (lambda f, r: md.norm(f, "kernels"), "blocks of a norm"),
    (lambda f, r: md.norm(f, [0, 1, 2]), "blocks of a norm"),
    (lambda f, r: md.norm(f, 3), "blocks of a norm"),
    (lambda f, r: md.norm(f) + md.norm(f, 1), "beside a norm of another kind"),
    (lambda f, r: md.sq_norm(f) - md.norm(f), "coefficient -1"),
    (lambda f, r: md.norm(f) + md.manifold(f, np.ones((6, 6)) - np.eye(6)), "beside a graph"),
])
def test_what_no_norm_can_be_says_what_to_write(written, words):
    X = np.random.default_rng(0).normal(size=(6, 2))
    f, r, y = md.Hyperplane(X), md.Hyperplane(X, kernel=md.RBF(1.0)), md.Labels(6)
    with pytest.raises(md.errors.GrammarError, match=words):
        md.Problem(md.Minimize(written(f, r) + md.mean(md.hinge(y * f))))


def test_a_lift_refuses_a_norm_that_is_nowhere_squared():
    f, y = md.Hyperplane(np.random.default_rng(0).normal(size=(6, 2))), md.Labels(6)
    problem = md.Problem(md.Minimize(md.norm(f) + md.mean(md.hinge(y * f))), [md.sum(y) == 0])
    with pytest.raises(md.errors.RefusalError, match="not squared"):
        problem.solve("sdp")
    assert "1 sum t of 1 blocks" in problem.compile("alternating").explain()
    assert r"\|f\|" in problem.latex() and "md.norm(f)" in problem.text()


def test_several_hyperplanes_choose_as_the_kernels_of_one():
    X, y = np.random.default_rng(6).normal(size=(7, 2)), md.Labels(7)
    one = md.Hyperplane(X, kernel=[md.RBF(1.0), md.Linear()])
    a, b = md.Hyperplane(X, kernel=md.RBF(1.0)), md.Hyperplane(X)
    rules = [abs(md.sum(y)) <= 1]
    found = [md.Problem(md.Minimize(norm**2 / 2 + 0.1 * norm + 4 * md.mean(md.hinge(y * f))), rules).solve("exact")
             for f, norm in ((one, md.norm(one, "kernels")), (a + b, md.norm(a) + md.norm(b)))]
    assert found[1].value == pytest.approx(found[0].value, rel=1e-7) and found[1].verify()
    assert found[1].kernel_weights == pytest.approx(found[0].kernel_weights, abs=1e-4)


def test_norms_of_hyperplanes_with_weights_of_their_own_equal_cvxpy_by_hand():
    X, y, z = np.random.default_rng(0).normal(size=(8, 2)), md.Labels(8), np.tile([1, -1], 4)
    a, b = md.Hyperplane(X, kernel=md.RBF(1.0)), md.Hyperplane(X)
    objective = 2 * md.sq_norm(a) + 0.3 * md.norm(b) + 0.5 * md.sq_norm(b) + 4 * md.mean(md.hinge(y * (a + b)))
    found = md.Problem(md.Minimize(objective), [y == z]).solve()
    A, B = (md.features.build(X, kernel).toarray() for kernel in (md.RBF(1.0), "linear"))
    v, w = cp.Variable(A.shape[1]), cp.Variable(2)
    hand = cp.Problem(cp.Minimize(2 * cp.sum_squares(v) + 0.3 * cp.norm(w) + 0.5 * cp.sum_squares(w) + cp.sum(
        cp.pos(1 - cp.multiply(z, A @ v + B @ w))) / 2))
    assert found.value == pytest.approx(hand.solve(solver="CLARABEL", tol_gap_rel=1e-10, tol_gap_abs=1e-10), rel=1e-7)
    assert found.verify() and found.status == "optimal"
