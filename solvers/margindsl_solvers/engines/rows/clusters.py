"""Rows of a form with Crammer-Singer margins: blocks of k − 1 differences; majorants of rising losses in turn."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, cg

from margindsl.contract import Budget, RawSolution, Status
from margindsl.features.derived import weighted_gram
from margindsl.program.clusters import ClusterForm, runner_up
from margindsl.typing import FloatArray, IntArray
from margindsl_solvers.engines.rows.model import Block, Pair, Rows
from margindsl_solvers.engines.rows.plane import bordered, solve_positive

MAJORANTS = 60
FACTORED = 360  # products with the features that a factor of order r k may cost; conjugate gradients take about 30
INEXACT = 1e-2  # relative residual of a step by conjugate gradients; steps were as many as with 1e-8


class ClusterRows(Rows):
    """Write a fixed-cluster form as rows: blocks of a(f_y − f_q), q ≠ y, then differences to the runner-up.

    The blocks are those of the falling losses. Rising losses of a form without runner-ups are majorised anew before
    every Newton step, at the point where the majorant touches the objective; the line search lowers it, and with it the
    objective.
    """

    def __init__(self, form: ClusterForm, x: FloatArray) -> None:
        self.width = form.clusters - 1
        super().__init__(form, ((form.parts.falling, self.width), (form.parts.rising, None)), form.parts.constant)
        self.falling, self.rising = self.parts  # rows of the blocks, and of the rising losses
        every = np.arange(self.width)
        self.others = every + (every >= form.labels[:, None])  # (n, k-1) the clusters that are not a point's own
        # (n,) the clusters at which rising losses are majorised: the form's, those of a point where it has none
        self.runner: IntArray = runners(form, x) if form.runner is None else form.runner

    def margins(self, w: FloatArray, bias: FloatArray) -> list[FloatArray]:
        outputs, everyone = self.form.outputs(w, bias), np.arange(self.form.n)
        own = outputs[everyone, self.form.labels]
        return [own[:, None] - np.take_along_axis(outputs, self.others, axis=1), own - outputs[everyone, self.runner]]

    def pulled(self, tables: list[FloatArray]) -> FloatArray:
        (scatter, single), everyone = tables, np.arange(self.form.n)
        table = np.zeros((self.form.n, self.form.clusters))
        np.put_along_axis(table, self.others, -scatter, axis=1)
        table[everyone, self.form.labels] = scatter.sum(axis=1) + single
        table[everyone, self.runner] -= single
        return self.form.drawn(table)[: self.rank + self.bias]

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
        for values, part in ((-own, self.falling), (start.get("t", ()), self.rising),
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
                              -multipliers[self.falling].reshape(-1, self.width), axis=1)
        w, bias, s = self.form.split(pair.x)
        return {"w": w.copy(), "bias": bias.copy(), "scalars": s.copy(),
                "u": np.maximum(u, 0.0), "t": multipliers[self.rising], "tau": multipliers[self.decision_rows],
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
        damping = 0.0
        if self.bias:  # which is held in proportion to its gradient: see `Rows.damping`
            curved, end = float(curvature.value[curvature.first == curvature.second].sum()), self.rank + self.bias
            firm = curved <= 1e-10 * float(np.sum(self.weights[self.loss_rows]))
            force = float(np.max(np.abs(gradient[self.rank : end]) / reach[: self.bias]))
            damping = 1e-13 * curved + (1e-3 if firm else 1e-7) * force  # where both are zero, nothing pulls at it
        held = self.damping(np.diag(curvature.corner), gradient[self.rank + own :], reach[own:])
        curvature = dataclasses.replace(curvature, corner=curvature.corner + np.diag(held))
        size, scalars = self.form.clusters * self.form.features.rank, self.border > self.bias
        if self.rank <= limit and (scalars or size**2 <= FACTORED * self.form.n):
            return dense_step(self.form, curvature, balance, gradient, damping)
        return _iterative(self.form, curvature, balance, gradient, damping)

    def curvature(self, v: FloatArray, centre: FloatArray, kappa: float, rows: FloatArray) -> PointBlocks:
        """Return the generalised second derivative in the decision values, a k × k block a point, and the scalars.

        The `curvatures` of rows are those of the rising losses, in the difference to the runner-up, and of the signs.
        """
        form, x, rising = self.form, v + centre / kappa, self.form.parts.rising
        nowhere = np.zeros(0, dtype=int)
        positions: list[tuple[IntArray, IntArray, IntArray, FloatArray]] = [(nowhere, nowhere, nowhere, np.zeros(0))]
        crossed = np.zeros((form.n, form.clusters, form.losses.scalars.count))
        corner = np.zeros((crossed.shape[2], crossed.shape[2]))
        for block in (group for group in self.loss_groups if isinstance(group, Block)):
            positions += self._block_curvature(block, block.table(x[block.part]), kappa, crossed, corner)
        if rising.rows:
            single, slopes, b = rows[self.rising], rising.slopes, rising.coupling
            square, labels, runner = single * slopes**2, form.labels[rising.points], self.runner[rising.points]
            positions += [(rising.points, p, q, sign * square) for p, q, sign in (
                (labels, labels, 1), (runner, runner, 1), (labels, runner, -1), (runner, labels, -1))]
            for clusters, sign in ((labels, 1), (runner, -1)):
                np.add.at(crossed, (rising.points, clusters), (sign * single * slopes)[:, None] * b)
            corner += b.T @ (single[:, None] * b)
        corner[self.signed, self.signed] += rows[self.sign_rows]
        point, first, second, value = (np.concatenate(column) for column in zip(*positions))
        kept = value != 0
        return PointBlocks(point[kept], first[kept], second[kept], value[kept], crossed, corner)

    def _block_curvature(self, block: Block, m: FloatArray, kappa: float, crossed: FloatArray,
                         corner: FloatArray) -> list[tuple[IntArray, IntArray, IntArray, FloatArray]]:
        """Return κ(I − prox'(m)) on the entries that reach the level, as places in the decision values.

        What it is between them and the scalars is added to `crossed`, between scalars to `corner`.
        """
        level, count, mean, _ = block.level(m, kappa)
        alive = np.flatnonzero(m.min(axis=1) < level)
        share = np.asarray(block.function.prox_derivative(mean[alive], 1.0 / (count[alive] * kappa)))
        active = m[alive] < level[alive, None]
        curved = active[:, :, None] * np.eye(self.width) - (
            (share / count[alive])[:, None, None] * (active[:, :, None] & active[:, None, :]))
        curved *= (kappa * self.weights[block.part][:: self.width][alive])[:, None, None]
        falling, rows = self.form.parts.falling, block.part.start // self.width + alive
        points, slopes, b = falling.points[rows], falling.slopes[rows], falling.coupling[rows]
        others, labels, own = self.others[points], self.form.labels[points], curved.sum(axis=2)
        if b.shape[1]:
            total = own.sum(axis=1)
            np.add.at(crossed, (points[:, None], others), -(slopes[:, None] * own)[:, :, None] * b[:, None])
            np.add.at(crossed, (points, labels), (slopes * total)[:, None] * b)
            corner += b.T @ (total[:, None] * b)
        curved, own = curved * (slopes**2)[:, None, None], own * (slopes**2)[:, None]
        row, a, b = np.nonzero(curved)
        side, c = np.nonzero(own)
        return [(points[row], others[row, a], others[row, b], curved[row, a, b]),
                (points[side], labels[side], others[side, c], -own[side, c]),
                (points[side], others[side, c], labels[side], -own[side, c]),
                (points, labels, labels, own.sum(axis=1))]


@dataclass(frozen=True, eq=False)
class PointBlocks:
    """Represent a symmetric k × k block a point by its entries; those of one place are added up.

    `point`, `first`, `second`: the places: a point, and two clusters.
    """

    point: IntArray
    first: IntArray
    second: IntArray
    value: FloatArray
    crossed: FloatArray  # (n, k, S), second derivatives in a decision value and a scalar
    corner: FloatArray  # (S, S), those in two scalars


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
    G, n, k = form.bound_normals, form.n, form.clusters
    index = curvature.point * k + curvature.first, curvature.point * k + curvature.second
    blocks = csr_array((curvature.value, index), shape=(n * k, n * k))
    held = np.append(np.ones(form.size_of_w), np.full(form.border, damping))
    end = len(held)

    def product(x: FloatArray) -> FloatArray:
        x = x.ravel()
        table = (blocks @ form.outputs(*form.split(x)[:2]).ravel()).reshape(-1, k)
        return held * x + form.drawn(table)[:end] + (G.T @ (balance * (G @ x)) if len(balance) else 0.0)

    operator = LinearOperator((end, end), matvec=product, dtype=float)

    def inverse(X: FloatArray) -> FloatArray:
        return np.stack([cg(operator, column, rtol=INEXACT, maxiter=500)[0] for column in X.T], axis=1)

    side = _side(form, curvature) if len(curvature.corner) else np.zeros((end, 0))
    return bordered(inverse, gradient, side, curvature.corner, end)


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
    scatter = float(np.mean(np.abs(form.margins(form.features.apply(V) @ form.codes.T))))
    return form.join((V / scatter if scatter > 0 else V).T.ravel(), 0.0), False


Solve = Callable[[ClusterForm, Budget, RawSolution | None], RawSolution]


def fair_start(form: ClusterForm, budget: Budget, start: RawSolution | None, solve: Solve) -> RawSolution | None:
    """Return a start for rising losses: the falling losses alone are convex, and their answer is a fair one."""
    if form.is_convex or start_clusters(form, start)[1]:
        return start
    if form.losses.scalars.count:  # nothing may hold them but what rises
        return start
    parts = dataclasses.replace(form.parts, rising=dataclasses.replace(form.parts.rising, terms=()))
    falling = dataclasses.replace(form, losses=parts.falling, parts=parts)
    return solve(falling, budget.replace(tol=max(budget.tol, 1e-2)), None)


def majorise(form: ClusterForm, budget: Budget, start: RawSolution | None, solve: Solve) -> RawSolution:
    """Solve a fixed-cluster form; rising losses by their majorants at the runner-ups, until these stand still.

    Every solve lowers the majorant and the majorant touches the objective, so that the objective never rises.
    The answer is a stationary point, not always the lowest.

    `budget`: its tolerance is the relative gap of the last solve, and the relative decrease at which the majorants
    stop; `solve`: (convex form, budget, start) -> RawSolution.
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
        checked = accuracy == tol and value - now <= tol * abs(now)
        if now < value:
            best, value = new, now
        if (np.array_equal(changed, runner) and accuracy == tol) or checked or new.status in (
                Status.TIME_LIMIT, Status.INTERRUPTED, Status.ITERATION_LIMIT):
            break
        runner = changed
    assert best is not None
    return dataclasses.replace(best, objective=value, iterations=iterations, seconds={"compile": 0.0, "solve": seconds})
