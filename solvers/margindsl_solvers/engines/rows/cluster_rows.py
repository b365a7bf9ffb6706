"""Rows of a fixed-cluster form: feasible pairs, starts, answers, Newton steps; majorants of rising losses in turn."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from margindsl.contract import Budget, RawSolution, Status
from margindsl.features.coded import weighted_gram
from margindsl.program.clusters import ClusterForm
from margindsl.program.codes import runner_up
from margindsl.typing import FloatArray, IntArray
from margindsl_solvers.engines.nearest import ROUNDING, ROUNDS, nearest
from margindsl_solvers.engines.rows.clusters import ClusterModel, PointBlocks
from margindsl_solvers.engines.rows.envelopes import Pair
from margindsl_solvers.engines.rows.system import bordered, solve_positive

MAJORANTS = 60


@dataclass(eq=False)
class ClusterRows(ClusterModel):
    """Judge points of a fixed-cluster form, read starts and write answers.

    Rising losses of a form without runner-ups are majorised anew before every Newton step, at the point where
    the majorant touches the objective; the line search lowers it, and with it the objective.
    """

    @classmethod
    def at(cls, form: ClusterForm, x: FloatArray) -> ClusterRows:
        """Return the rows majorised at the form's runner-ups, or at those of a point where it has none."""
        return cls(form, runners(form, x) if form.runner is None else form.runner)

    # -- judging ------------------------------------------------------------------------------------

    def inside(self, x: FloatArray) -> FloatArray:
        x, end = self.with_signs(x), self.rank + self.bias
        x[:end] = inside_balance(self.form, x[:end])
        return x

    def violation(self, x: FloatArray) -> float:
        return self.form.primal_residual(*self.form.split(x))

    # -- starts and answers -------------------------------------------------------------------------

    def start_slopes(self, start: RawSolution | None) -> tuple[FloatArray, bool]:
        """Return normalised multipliers of an earlier solution, of points that changed clusters renamed; or zeros."""
        form, slopes = self.form, np.zeros(len(self.weights))
        u, labels = (start.get("u"), start.get("clusters")) if start else (None, None)
        falling = form.parts.falling
        if u is None or labels is None or np.shape(u) != (falling.rows, form.clusters) or np.shape(labels) != (form.n,):
            return slopes, False
        u, rows = np.array(u, dtype=float), np.arange(falling.rows)
        old, new = np.asarray(labels)[falling.points], form.labels[falling.points]
        u[rows, old], u[rows, new] = u[rows, new], 0.0
        own = np.take_along_axis(u, self.others[falling.points], axis=1).ravel() if falling.rows else np.zeros(0)
        assert start is not None
        for values, part in ((-own, self.block_rows), (start.get("t", ()), self.rising_rows),
                             (start.get("tau", ()), self.decision_rows)):
            values = np.ravel(np.asarray(values, dtype=float))
            if values.shape == self.weights[part].shape:
                slopes[part] = self.normalised(values, part)
        return self.clip(slopes), True

    def variables(self, pair: Pair) -> dict[str, FloatArray]:
        form, multipliers = self.form, self.weights * pair.slopes
        u = np.zeros((form.parts.falling.rows, form.clusters))
        if len(u):
            np.put_along_axis(u, self.others[form.parts.falling.points],
                              -multipliers[self.block_rows].reshape(-1, self.width), axis=1)
        w, bias, s = form.split(pair.x)
        return {"w": w.copy(), "bias": bias.copy(), "scalars": s.copy(),
                "u": np.maximum(u, 0.0), "t": multipliers[self.rising_rows], "tau": multipliers[self.decision_rows],
                "runner": self.runner, "clusters": form.labels}

    # -- Newton -------------------------------------------------------------------------------------

    def renew(self, x: FloatArray) -> bool:
        if self.form.is_convex:
            return False
        runner = runners(self.form, x)
        moved, self.runner = not np.array_equal(runner, self.runner), runner
        return moved

    def newton_step(self, v: FloatArray, centre: FloatArray, kappa: float, gradient: FloatArray, reach: FloatArray,
                    limit: int) -> FloatArray:
        rows = self.curvatures(v, centre, kappa)
        curvature, balance, own = self.curvature(v, centre, kappa, rows), rows[self.decision_rows], self.bias
        damping = self._damping(curvature, gradient, reach)
        held = self.damping(np.diag(curvature.corner), gradient[self.rank + own :], reach[own:])
        curvature = dataclasses.replace(curvature, corner=curvature.corner + np.diag(held))
        if self.rank <= limit:
            return dense_step(self.form, curvature, balance, gradient, damping)
        return _iterative(self.form, curvature, balance, gradient, damping)

    def _damping(self, curvature: PointBlocks, gradient: FloatArray, reach: FloatArray) -> float:
        """Return what holds a bias in a Newton system, in proportion to its gradient: see `Curvature.step`."""
        if not self.bias:
            return 0.0
        curved, end = curvature.trace, self.rank + self.bias
        firm = curved <= 1e-10 * float(np.sum(self.weights[self.loss_rows]))
        pull = float(np.max(np.abs(gradient[self.rank : end]) / reach[: self.bias]))
        return 1e-13 * curved + (1e-3 if firm else 1e-7) * pull  # where both are zero, nothing pulls at the bias


def balance(form: ClusterForm) -> tuple[FloatArray, FloatArray]:
    """Return the rows in (w, β) and the radii of |Σ a f_p − Σ a f_q| ≤ l over all pairs (slides Eq. 18)."""
    return form.bound_normals, form.bound_ends[1]


def runners(form: ClusterForm, x: FloatArray) -> IntArray:
    """Return the (n,) strongest clusters other than the points' own, at x = (w, β)."""
    return runner_up(form.outputs(*form.split(x)[:2]), form.labels)


def dense_step(form: ClusterForm, curvature: PointBlocks, balance: FloatArray, gradient: FloatArray,
               damping: float = 0.0) -> FloatArray:
    """Return the Newton step by Cholesky's factor of I + Σ_i H_i ⊗ φ_iφ_iᵀ, H_i the k × k block of point i.

    The system is assembled in W = VBᵀ, where it has one r × r block a pair of clusters that meet; it maps the
    weights that sum to zero over clusters to themselves. A bias has one row more a cluster; scalars come last.
    """
    k, r, bias, end = form.clusters, form.features.rank, int(form.free_bias), form.size_of_w + form.border
    size = r + bias
    lower = curvature.first >= curvature.second
    pair = (curvature.first * k + curvature.second)[lower]
    order = np.argsort(pair, kind="stable")
    point, value = curvature.point[lower][order], curvature.value[lower][order]
    ends = np.searchsorted(pair[order], np.arange(k * k + 1))
    blocks = np.zeros((k, size, k, size))
    for code in np.flatnonzero(np.diff(ends)):
        inside, (p, q) = slice(ends[code], ends[code + 1]), divmod(int(code), k)
        blocks[p, :r, q, :r] = weighted_gram(form.features, point[inside], value[inside])
        if bias:
            blocks[p, r, q, r] = value[inside].sum()
            blocks[p, r, q, :r] = blocks[p, :r, q, r] = value[inside] @ form.features.rows(point[inside])
    H = blocks.reshape(k * size, k * size)
    H.flat[:: k * size + 1] += np.tile(np.append(np.ones(r), np.full(bias, damping)), k)
    if bias:  # nothing moves with a number added to the biases of all clusters
        H[r::size, r::size] += max(float(np.diag(H)[r::size].max()), 1e-300)
    if len(balance):
        G = (form.codes @ _packed(form, form.bound_normals)).reshape(-1, k * size)
        H += (G.T * balance) @ G
    right = (form.codes @ _packed(form, gradient)).ravel()
    if len(curvature.corner):
        side = (form.codes @ _packed(form, _side(form, curvature).T)).reshape(-1, k * size)
        H = np.block([[H, side.T], [side, curvature.corner]])
        right = np.append(right, gradient[end:])
    solved = solve_positive(H, right, lower=True)
    step = form.codes.T @ solved[: k * size].reshape(k, size)
    return -np.concatenate([step[:, :r].ravel(), step[:, r:].ravel(), solved[k * size :]])


def _side(form: ClusterForm, curvature: PointBlocks) -> FloatArray:
    """Return the (r(k−1) [+k−1], S) second derivatives in weights or bias and a scalar."""
    columns = [form.drawn(table)[: form.size_of_w + form.border] for table in curvature.crossed.transpose(2, 0, 1)]
    return np.stack(columns, axis=1)


def _packed(form: ClusterForm, x: FloatArray) -> FloatArray:
    """Return rows (…, k−1, r [+1]) of the weights of every code and its bias, of x (…, r(k−1) [+k−1 +S])."""
    r = form.size_of_w
    bias = x[..., r : r + form.border]
    return np.concatenate([x[..., :r].reshape(*x.shape[:-1], form.clusters - 1, form.features.rank),
                           bias.reshape(*x.shape[:-1], form.clusters - 1, int(form.free_bias))], axis=-1)


def _iterative(form: ClusterForm, curvature: PointBlocks, balance: FloatArray, gradient: FloatArray,
               damping: float = 0.0) -> FloatArray:
    """Return the Newton step by conjugate gradients, scalars eliminated."""
    G, k, blocks = form.bound_normals, form.clusters, curvature.matrix(form.n, form.clusters)
    held = np.append(np.ones(form.size_of_w), np.full(form.border, damping))
    end = len(held)

    def product(x: FloatArray) -> FloatArray:
        x = x.ravel()
        table = (blocks @ form.outputs(*form.split(x)[:2]).ravel()).reshape(-1, k)
        return held * x + form.drawn(table)[:end] + (G.T @ (balance * (G @ x)) if len(balance) else 0.0)

    operator = LinearOperator((end, end), matvec=product, dtype=float)

    def inverse(X: FloatArray) -> FloatArray:
        return np.stack([cg(operator, column, rtol=1e-8, maxiter=500)[0] for column in X.T], axis=1)

    side = _side(form, curvature) if len(curvature.corner) else np.zeros((end, 0))
    return bordered(inverse, gradient, side, curvature.corner, end)


def inside_balance(form: ClusterForm, x: FloatArray) -> FloatArray:
    """Return a point moved into the pairwise balance by the shortest way."""
    if not form.decision:
        return np.array(x, dtype=float)
    if len(form.decision) > 1:
        return nearest(x, form.bound_normals, *form.bound_ends)
    # The sums Σ a f_p = ⟨b_p ⊗ σ, x⟩ add up to zero and BᵀB = I: ‖Δx‖ = ‖Δ sums‖/‖σ‖, and only their range counts.
    sums, totals = form.decision_rows
    total = np.append(sums[0], totals[: int(form.free_bias)])
    square = float(total @ total)
    X = _packed(form, np.array(x, dtype=float))
    for _ in range(ROUNDS if square > 0 else 0):
        sums = form.codes @ (X @ total)
        change = clip_range(sums, float(form.decision[0].upper)) - sums
        if not np.any(change):
            break
        X = X + np.outer(form.codes.T @ change, total / square)
    r = form.features.rank
    return np.append(X[:, :r].ravel(), X[:, r:].ravel())


def clip_range(values: FloatArray, width: float) -> FloatArray:
    """Return the nearest values with max − min ≤ width: clipped to [t, t + width] for the t that keeps their sum.

    Shapes: `values` (k,).

    Examples
    --------
    >>> clip_range(np.array([-3.0, 0.0, 2.0, 3.0]), 2.0).round(1).tolist()
    [-0.7, 0.0, 1.3, 1.3]
    """
    if float(np.ptp(values)) <= width * (1.0 + ROUNDING):
        return values
    ends = np.sort(np.concatenate([values, values - width]))
    missing = np.sum(np.clip(values[:, None], ends, ends + width) - values[:, None], axis=0)  # rises with t
    t = float(np.interp(0.0, missing, ends))
    return np.clip(values, t, t + width)


# -- starts -------------------------------------------------------------------------------------------


def start_clusters(form: ClusterForm, start: RawSolution | None) -> tuple[FloatArray, bool]:
    """Return x = (w, β, s) of an earlier solution, or the directions to the clusters' means; and which."""
    none = np.zeros(form.losses.scalars.count)
    given = [np.ravel(np.asarray(start.get(name, left), dtype=float)) if start else np.zeros(0)
             for name, left in (("w", ()), ("bias", 0.0), ("scalars", none))]
    if given[0].shape == (form.size_of_w,) and len(given[1]) in (1, form.width) and (
            given[2].shape == none.shape and all(np.all(np.isfinite(value)) for value in given)):
        return np.array(form.join(*given)), True
    sizes = np.maximum(np.bincount(form.labels, minlength=form.clusters), 1)
    V = form.features.adjoint(form.codes[form.labels] / sizes[form.labels][:, None])
    outputs = form.features.apply(V) @ form.codes.T
    spread = float(np.mean(np.abs(form.margins(outputs))))
    return form.join((V / spread if spread > 0 else V).T.ravel(), 0.0), False


Solve = Callable[[ClusterForm, Budget, RawSolution | None], RawSolution]


def fair_start(form: ClusterForm, budget: Budget, start: RawSolution | None, solve: Solve) -> RawSolution | None:
    """Return a start for rising losses: the falling losses alone are convex, and their answer is a fair one."""
    if form.is_convex or start_clusters(form, start)[1]:
        return start
    if form.losses.scalars.count:  # nothing may hold them but what rises
        return start
    return solve(form.falling_only(), budget.replace(tol=max(budget.tol, 1e-2)), None)


# -- majorants ------------------------------------------------------------------------------------------


def majorise(form: ClusterForm, budget: Budget, start: RawSolution | None, solve: Solve) -> RawSolution:
    """Solve a fixed-cluster form; rising losses by their majorants at the runner-ups, until these stand still.

    Every solve lowers the majorant and the majorant touches the objective, so that the objective never rises.
    The answer is a stationary point, not always the lowest.

    Parameters
    ----------
    budget : Budget
        Its tolerance is the relative gap of the last solve, and the relative decrease at which the majorants stop.
    solve : callable
        (convex form, budget, start) -> RawSolution.
    """
    if form.is_convex:
        return solve(form, budget, start)
    tol, start = budget.tol, fair_start(form, budget, start, solve)
    runner = runners(form, start_clusters(form, start)[0])
    best, value, answer, iterations, seconds = None, math.inf, start, 0, 0.0
    for turn in range(MAJORANTS):
        accuracy = max(tol, 1e-3 * 0.1**turn)
        new = solve(dataclasses.replace(form, runner=runner), budget.replace(tol=accuracy), answer)
        iterations, seconds = iterations + new.iterations, seconds + new.seconds.get("solve", 0.0)
        if not new.has_answer:
            return new if best is None else best
        answer, now = new, form.objective(new["w"], new["bias"], new["scalars"])
        changed = runner_up(form.outputs(new["w"], new["bias"]), form.labels)
        settled = accuracy == tol and value - now <= tol * abs(now)
        if now < value:
            best, value = new, now
        if (np.array_equal(changed, runner) and accuracy == tol) or settled or new.status in (
                Status.TIME_LIMIT, Status.INTERRUPTED, Status.ITERATION_LIMIT):
            break
        runner = changed
    assert best is not None
    return dataclasses.replace(best, objective=value, iterations=iterations, seconds={"compile": 0.0, "solve": seconds})

