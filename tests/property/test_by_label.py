"""Losses by label: against enumeration with a conic model by hand, in every relaxation that takes them."""

from itertools import product

import cvxpy as cp
import numpy as np
import pytest

import margindsl as md
from margindsl.errors import GrammarError, RefusalError

N = 5
HINGE, SQUARED, LEAST = lambda m: cp.pos(1 - m), lambda m: cp.square(cp.pos(1 - m)), lambda m: cp.square(1 - m)
OURS = {HINGE: md.hinge, SQUARED: md.squared_hinge, LEAST: lambda m: md.square(1 - m)}


def random_model(seed):
    """Return a problem, and what a labelling costs in cvxpy."""
    rng = np.random.default_rng(seed)
    X, a = rng.normal(size=(N, 2)), rng.uniform(0.3, 1.5, N)
    Z = X - X.mean(axis=0)
    bias, scalar = seed % 3 == 1, seed % 5 == 2
    y, f, s = md.Labels(N), md.Hyperplane(X, bias="penalised" if bias else False), md.Scalar(nonneg=True)
    Z = np.column_stack([Z, np.ones(N)]) if bias else Z
    kinds = [list(OURS)[i] for i in rng.integers(0, 3, 2)]
    costs, widths, index = rng.uniform(0.2, 3, 2), rng.uniform(0.5, 1.5, 2), np.sort(rng.choice(N, 3, replace=False))
    up, low = (cost * OURS[kind](m / width) for cost, kind, m, width in zip(costs, kinds, (f, -f), widths))
    style = seed % 4
    shared = 0.4 * s + md.mean(md.pos(0.5 - s - y * f)) if scalar else 0.0
    objective = md.sq_norm(f) / 2 + shared + {  # of the style
        0: md.mean(md.by_label(y, {+1: up, -1: low})),
        1: md.sum(a * md.by_label(y, {1: up, -1: low})) + md.mean(md.odm(y * f)),
        2: md.sum(md.by_label(y[index], {1: up[index], -1: 0.7})) + md.mean(md.hinge(y * f)),
        3: md.mean(md.by_label(y, {1: up + 0.2 * f, -1: costs[1] * OURS[kinds[1]](y * f / widths[1]) + 0.1}))}[style]
    held = [[abs(md.sum(y)) <= 3, y[0] == 1], [y[0] == y[1]], [y[0] != y[1], md.sum(y) >= -1],
            [y[2] == -1]][seed // 4 % 4]
    admits = [lambda z: abs(z.sum()) <= 3 and z[0] == 1, lambda z: z[0] == z[1],
              lambda z: z[0] != z[1] and z.sum() >= -1, lambda z: z[2] == -1][seed // 4 % 4]

    def value(z):
        w, t = cp.Variable(Z.shape[1]), cp.Variable(nonneg=True)
        d = Z @ w
        rows = [costs[k] * kinds[k](sign * d / widths[k]) for k, sign in ((0, 1.0), (1, -1.0))]
        plus, minus = (z > 0).astype(float), (z < 0).astype(float)
        g = cp.multiply(z, d)
        total = cp.sum_squares(w) / 2 + (0.4 * t + cp.sum(cp.pos(0.5 - t - g)) / N if scalar else 0.0)
        if style == 0:
            total += (plus @ rows[0] + minus @ rows[1]) / N
        elif style == 1:
            excess = (cp.square(cp.pos(0.8 - g)) + 0.5 * cp.square(cp.pos(g - 1.2))) / 0.64
            total += (a * plus) @ rows[0] + (a * minus) @ rows[1] + cp.sum(excess) / N
        elif style == 2:
            total += plus[index] @ rows[0][index] + 0.7 * minus[index].sum() + cp.sum(cp.pos(1 - g)) / N
        else:
            total += (plus @ (rows[0] + 0.2 * d) + minus @ (rows[1] + 0.1)) / N
        return cp.Problem(cp.Minimize(total)).solve("CLARABEL", tol_gap_rel=1e-9, tol_gap_abs=1e-9, tol_feas=1e-9)

    return md.Problem(md.Minimize(objective), held), {
        z: value(np.array(z)) for z in product((-1, 1), repeat=N) if admits(np.array(z))}


@pytest.mark.parametrize("seed", [0, 5, 14, 187])  # all styles and rules; the last with a bias and a scalar
def test_every_relaxation_bounds_them(seed):
    problem, values = random_model(seed)
    least = min(values.values())
    z = max(values, key=values.get)
    known = problem.at_labels(np.array(z)).solve("supervised")
    assert known.value == pytest.approx(values[z], abs=1e-7) and known.verify()
    bounded = (md.SDP, md.WeightLifting)[seed % 2](polish="none")
    for relaxation in ("exact", bounded, "alternating"):
        found = problem.solve(relaxation, random_state=0)
        assert found.bound <= least + 1e-6 and found.value >= least - 1e-6 and found.verify(), relaxation
        assert found.value == pytest.approx(values[tuple(found.labels.tolist())], abs=1e-6)
        if relaxation == "exact":
            assert found.value == pytest.approx(least, abs=1e-6) and found.status == "optimal"
        if isinstance(relaxation, md.SDP):
            assert found.bound > -np.inf


def test_a_loss_that_is_the_same_for_both_labels_is_one_of_margins():
    X = np.random.default_rng(0).normal(size=(N, 2))
    y, f = md.Labels(N), md.Hyperplane(X)
    plain, split = (md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(loss)), [y[0] == 1, abs(md.sum(y)) <= 3])
                    for loss in (md.odm(y * f), md.by_label(y, {+1: md.odm(f), -1: md.odm(-f)})))
    assert plain.solve("exact").value == pytest.approx(split.solve("exact").value, abs=1e-8)
    assert split.solve("exact").bound == pytest.approx(split.solve("exact").value, abs=1e-6)


def test_what_is_no_loss_by_label_is_refused():
    y, y3, f = md.Labels(N), md.Labels(N, clusters=3), md.Hyperplane(np.arange(2.0 * N).reshape(N, 2))
    table = {+1: md.hinge(f), -1: md.hinge(-f)}
    for losses in ({1: md.hinge(f)}, [1, 2]):
        with pytest.raises(GrammarError, match="Give a loss for each label"):
            md.by_label(y, losses)
    for labels, losses in ((y3, table), (y, {1: 1.0, -1: 0.0}), (y[:2], table)):
        with pytest.raises(GrammarError, match="is not a piecewise quadratic loss of decision values for each of two"):
            md.by_label(labels, losses)
    for loss in (md.logistic(f), md.hinge(f - md.Scalar()), md.minimum(md.hinge(y * f), 2)):
        with pytest.raises(GrammarError, match="is not a piecewise quadratic loss"):
            md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.by_label(y, {1: loss, -1: md.hinge(-f)}))))
    with pytest.raises(GrammarError, match="is concave"):
        md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.by_label(y, {1: -md.hinge(f), -1: 0}))))
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.by_label(y, table))))
    for relaxation in ("cccp", "minimax", "gmmc"):
        with pytest.raises(RefusalError, match="a loss by label is a function of y f and of f|squared hinge alone"):
            problem.solve(relaxation)
    with pytest.raises(RefusalError, match="interior"):
        problem.solve("sdp", solver="clarabel")
    assert str(md.by_label(y, table)) == "md.by_label(y, {+1: md.pos(1 - f), -1: md.pos(1 - (-f))})"
    assert "begin{cases}" in problem.latex()
