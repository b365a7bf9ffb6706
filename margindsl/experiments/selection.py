"""Choose among labellings of the same points without labels: by how well held-out margins are predicted.

Objectives of two kernels or two loss weights are not comparable, since each measures margins in its own feature space.
What is comparable is prediction: a clustering that follows the structure of the data is one that a classifier
trained on some of its points extends to the others, whichever kernel the classifier uses. So every labelling is
judged by every problem, by the loss of held-out points, and judgements are averaged over the problems.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from margindsl.contract import Budget, RawSolution
from margindsl.drivers.search import smoothed_curvature
from margindsl.errors import DeclarationError, RefusalError, SolverError
from margindsl.points import row_blocks
from margindsl.program.forms import FixedLabelForm
from margindsl.program.losses import Losses, LossTerm
from margindsl.program.program import MarginProgram
from margindsl.runtime.registry import make_solver
from margindsl.typing import ArrayLike, FloatArray, IntArray, RandomState

TOL = 1e-6


def select(problems: Sequence[Any], solutions: Sequence[Any], folds: int | None = None,
           random_state: RandomState = 0) -> int:
    """Return the index of the solution whose labels the problems predict best on held-out points.

    The score of a labelling is the geometric mean over the problems of its held-out loss (`held_out_losses`). The
    geometric mean is free of the problems' units: multiplying the loss of one problem by a number changes no choice.
    No class labels are used.

    Parameters
    ----------
    problems : sequence of Problem
        The judges, all over the same points and with two clusters: usually one a kernel, at one common loss weight
        and with features scaled to the same trace. They need not be those the solutions come from.
    solutions : sequence of Solution or of (n,) arrays ±1
        The labellings to choose from.
    folds : int or None
        None leaves out one component of the label set at a time, by one Newton step: no randomness and one fit a
        labelling and problem. A number of folds, at least 2, refits without each.
    random_state : int, numpy Generator or None
        Draws the folds, the same ones for all labellings.

    Returns
    -------
    int
        The first of the best.

    Raises
    ------
    DeclarationError
        If there is nothing to choose from, no judge, the sizes differ, or a loss is negative.
    RefusalError
        For problems of more than two clusters, or with shared scalars.

    References
    ----------
    R. Tibshirani, G. Walther (2005). Cluster validation by prediction strength.

    Notes
    -----
    Flipping all labels leaves every margin y_i f_i, and so the score, as it is: labellings that name
    the same clusters the other way round are judged once. A rule of the form ``rule(solutions) -> index`` is
    ``functools.partial(select, problems)``.

    Examples
    --------
    >>> import numpy as np, margindsl as md
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 2)) + np.repeat([[-2.0, 0.0], [2.0, 0.0]], 20, axis=0)
    >>> y, f = md.Labels(40), md.Hyperplane(X)
    >>> problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.hinge(y * f))))
    >>> across, along = np.where(X[:, 1] > 0, 1, -1), np.where(X[:, 0] > 0, 1, -1)
    >>> select([problem], [across, along])
    1
    """
    labellings = [np.asarray(getattr(solution, "labels", solution)) for solution in solutions]
    if not labellings or not len(problems):
        raise DeclarationError(
            f"select: given {len(problems)} problems and {len(labellings)} solutions; at least one of each is needed")
    scores = held_out_losses(problems, labellings, folds, random_state)
    if scores.min() < 0:
        raise DeclarationError(
            f"select: a held-out loss is {scores.min():.3g}; judge with losses that are never negative, for their "
            "geometric mean is taken")
    # A loss of exactly zero is perfect in the eyes of one judge; it must not silence the others.
    return int(np.argmin(np.mean(np.log(np.maximum(scores, 1e-12)), axis=1)))


def held_out_losses(problems: Sequence[Any], labellings: Sequence[ArrayLike], folds: int | None = None,
                    random_state: RandomState = 0) -> FloatArray:
    """Return the mean loss of held-out points, for every labelling and problem.

    The hyperplane is fitted to the labels of the points that are not held out, at the problem's regulariser and
    weights; the held-out margins γ_i = y_i f_i then cost Σ c ρ(γ_i) / Σ c. Components of the label set are held out
    whole, so that a must-link never gives a held-out label away. Without folds the fit without component C is
    approximated by one Newton step from the fit to all, w + (H − Σ_{i∈C} h_i φ_i φ_iᵀ)⁻¹ Σ_{i∈C} ∇ℓ_i, with H the
    Hessian and h_i the curvatures of the losses: for a single point f_i − y_i u_i a_i / (1 − h_i a_i),
    a_i = φ_iᵀ H⁻¹ φ_i.

    Parameters
    ----------
    problems : sequence of Problem
    labellings : sequence of (n,) arrays ±1
    folds : int or None
    random_state : int, numpy Generator or None

    Returns
    -------
    (labellings, problems) float array

    Raises
    ------
    DeclarationError
        If `folds` is not an integer from 2 to the number of components, or a labelling is not n signs.
    RefusalError
        For problems of more than two clusters, or with shared scalars.
    """
    seed = int(np.random.default_rng(random_state).integers(2**32))
    programs = [problem.program() for problem in problems]
    for program in programs:
        _check(program, labellings, folds)
    distinct, place = _without_repeats(labellings)
    scores = np.empty((len(distinct), len(programs)))
    for column, program in enumerate(programs):
        if folds is None:
            scores[:, column] = [_leave_one_out(program, labels) for labels in distinct]
        else:
            scores[:, column] = _refit(program, distinct, _draw_folds(program, folds, np.random.default_rng(seed)))
    return scores[place]


def _check(program: MarginProgram, labellings: Sequence[ArrayLike], folds: int | None) -> None:
    if program.clusters > 2:
        raise RefusalError(
            f"select judges labellings ±1 of two clusters; this problem has {program.clusters}. Choose among more "
            "clusters by the stability of their labels instead")
    if program.losses.scalars.count:
        raise RefusalError(
            "select compares held-out losses, and a loss with a shared scalar is none by itself. Judge with a problem "
            "whose loss is a function of the margin alone, such as md.odm")
    for labels in labellings:
        if np.shape(labels) != (program.n,):
            raise DeclarationError(
                f"select: a labelling has shape {np.shape(labels)}, a problem {program.n} points; give labellings and "
                "problems of the same points")
        if not np.isin(labels, (-1, 1)).all():
            raise DeclarationError("select: a labelling holds something else than +1 and -1")
    if folds is None:
        return
    if isinstance(folds, bool) or not isinstance(folds, (int, np.integer)) or not 2 <= folds <= program.labels.count:
        raise DeclarationError(
            f"select(folds={folds!r}): expected None or an integer from 2 to the number of label components, "
            f"{program.labels.count}")


def _without_repeats(labellings: Sequence[ArrayLike]) -> tuple[list[IntArray], IntArray]:
    """Return the labellings that differ as clusterings, and for each given one its place among them."""
    found: dict[bytes, int] = {}
    distinct: list[IntArray] = []
    place = []
    for given in labellings:
        labels = np.asarray(given).astype(np.int8)
        key = (labels * labels[0]).tobytes()
        if key not in found:
            found[key] = len(distinct)
            distinct.append(labels)
        place.append(found[key])
    return distinct, np.array(place, dtype=int)


def _draw_folds(program: MarginProgram, folds: int, rng: np.random.Generator) -> IntArray:
    """Return the (n,) fold of every point; components stay whole, folds hold equally many components."""
    labels = program.labels
    return (rng.permutation(labels.count) % folds)[labels.component]


def _refit(program: MarginProgram, labellings: Sequence[IntArray], fold: IntArray) -> FloatArray:
    """Return the (m,) held-out losses of labellings under one program, refitted without every fold."""
    total = np.zeros(len(labellings))
    losses = program.losses
    for held in range(int(fold.max()) + 1):
        train = np.flatnonzero(fold != held)
        tested = fold[losses.points] == held
        features, kept = program.features.take(train), restrict(losses, train)
        for index, labels in enumerate(labellings):
            raw = _fit(FixedLabelForm(features, kept, labels[train], free_bias=program.free_bias))
            decision = program.features.apply(raw["w"]) + float(raw.get("bias", 0.0))
            total[index] += float(np.sum(losses.row_losses(losses.arguments(labels * decision))[tested]))
    return total / max(float(losses.weights.sum()), 1e-300)


def _fit(form: FixedLabelForm) -> RawSolution:
    raw = make_solver("newton").open(form).solve(form, Budget(tol=TOL))
    if not raw.has_answer:
        raise SolverError(
            f"select: a hyperplane cannot be fitted to {form.n} points: {raw.message or raw.status.value}")
    return raw


def _leave_one_out(program: MarginProgram, labels: IntArray) -> float:
    """Return the held-out loss of one labelling, each component left out in turn by one Newton step."""
    losses, features = program.losses, program.features
    raw = _fit(FixedLabelForm(features, losses, labels, free_bias=program.free_bias))
    decision = features.apply(raw["w"]) + float(raw.get("bias", 0.0))
    arguments = losses.arguments(labels * decision)
    curvature = _curvature(losses, arguments)
    slope = labels * losses.spread(np.asarray(raw["u"]))
    hessian = _hessian(program, curvature)
    inverse = np.linalg.inv(hessian)
    held_out = decision - slope * _single_steps(program, inverse, curvature)
    size = np.bincount(program.labels.component, minlength=program.labels.count)
    order = np.argsort(program.labels.component, kind="stable")
    ends = np.cumsum(size)
    for c in np.flatnonzero(size > 1):
        inside = order[ends[c] - size[c]:ends[c]]
        held_out[inside] = decision[inside] - _step_without(_rows(program, inside), hessian, inverse, curvature[inside],
                                                            slope[inside])
    held = losses.row_losses(losses.arguments(labels * held_out))
    return float(np.sum(held)) / max(float(losses.weights.sum()), 1e-300)


def _step_without(rows: FloatArray, hessian: FloatArray, inverse: FloatArray, curvature: FloatArray,
                  slope: FloatArray) -> FloatArray:
    """Return Φ_C (H − Φ_Cᵀ D Φ_C)⁻¹ Φ_Cᵀ s of a component with rows Φ_C, in its points or in the features."""
    if len(rows) > len(hessian):
        without = hessian - rows.T @ (curvature[:, None] * rows)
        return np.asarray(rows @ np.linalg.solve(without, rows.T @ slope))
    block = rows @ inverse @ rows.T
    return np.asarray(block @ np.linalg.solve(np.eye(len(rows)) - curvature[:, None] * block, slope))


def _curvature(losses: Losses, arguments: FloatArray) -> FloatArray:
    """Return (n,) curvatures of the losses in the margins; kinks are smoothed."""
    if not losses.is_smooth:
        return smoothed_curvature(losses, arguments)
    return np.bincount(losses.points, weights=losses.curvature(arguments) * losses.slopes**2, minlength=losses.n)


def _hessian(program: MarginProgram, curvature: FloatArray) -> FloatArray:
    """Return the Hessian in w, and in the bias where it is free."""
    features = program.features
    ridge = features.gram(curvature) + np.eye(features.rank)
    if not program.free_bias:
        return ridge
    cross = features.adjoint(curvature)
    # The bias has no regulariser; where no point curves, it is held by this alone.
    corner = float(curvature.sum()) * (1 + 1e-9) + 1e-9
    return np.block([[ridge, cross[:, None]], [cross[None, :], np.array([[corner]])]])


def _rows(program: MarginProgram, index: Any) -> FloatArray:
    """Return the features of some points, with a constant column where the bias is free."""
    rows = program.features.rows(index)
    return np.column_stack([rows, np.ones(len(rows))]) if program.free_bias else rows


def _single_steps(program: MarginProgram, inverse: FloatArray, curvature: FloatArray) -> FloatArray:
    """Return the (n,) factors a_i / (1 − h_i a_i) of points that are left out alone, block by block."""
    steps = np.empty(program.n)
    for block in row_blocks(program.n, program.features.rank):
        rows = _rows(program, block)
        leverage = np.einsum("ij,ij->i", rows @ inverse, rows)
        steps[block] = leverage / np.maximum(1.0 - curvature[block] * leverage, 1e-9)
    return steps


def restrict(losses: Losses, index: IntArray) -> Losses:
    """Return the losses of some points, renumbered, their weights scaled up to the whole.

    Parameters
    ----------
    losses : Losses
    index : (m,) int array
        Points kept, without repeats.
    """
    place = np.full(losses.n, -1)
    place[index] = np.arange(len(index))
    terms = []
    for term in losses.terms:
        inside = place[term.points] >= 0
        share = float(term.weights[inside].sum())
        factor = float(term.weights.sum()) / share if share > 0 else 1.0
        terms.append(LossTerm(term.loss, place[term.points[inside]], factor * term.weights[inside],
                              term.slopes[inside], term.shifts[inside], term.coupling[inside]))
    return Losses(len(index), tuple(terms), losses.scalars)


__all__ = ["held_out_losses", "restrict", "select"]
