"""Choose among labellings of the same points without labels: by how well held-out margins are predicted.

Objectives of two kernels or two loss weights are not comparable, since each measures margins in its own feature space.
What is comparable is prediction: a clustering that follows the structure of the data is one that a classifier
trained on some of its points extends to the others, whichever kernel the classifier uses. So every labelling is
judged by every problem, by the loss of held-out points, and judgements are averaged over the problems. Margins are
linear in the rows c(y_i) ⊗ φ_i of codes, for any number of clusters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import margindsl as md
from margindsl.contract import Budget
from margindsl.drivers.moves import SMOOTHING
from margindsl.errors import DeclarationError, RefusalError, SolverError
from margindsl.features import build, mean_distance
from margindsl.features.operator import FeatureOperator
from margindsl.features.points import row_blocks
from margindsl.host.parallel import share_out
from margindsl.labelset import presolve
from margindsl.program.forms import FixedLabelForm
from margindsl.program.losses import Losses
from margindsl.program.program import MarginProgram
from margindsl.runtime.registry import make_solver
from margindsl.typing import ArrayLike, FloatArray, IntArray, RandomState

TOL = 1e-6
WIDTHS = (0.25, 0.35, 0.5, 1.0)  # times the mean distance
RANK = 80
WEIGHT = 100.0


def select(problems: Sequence[Any], solutions: Sequence[Any], folds: int | None = None,
           random_state: RandomState = 0, n_jobs: int | None = None) -> int:
    """Return the index of the solution whose labels the problems predict best on held-out points.

    The score of a labelling is the mean over the problems of its held-out loss (`held_out_losses`), each in units of
    the problem's loss at the zero hyperplane: multiplying the loss of one problem by a number changes no choice, nor
    does renaming clusters. No class labels are used.

    Parameters
    ----------
    problems : sequence of Problem
        The judges, all over the same points, as `md.judges_of` makes them: one a kernel, at one common loss weight and
        with features scaled to the same trace. More than two clusters are judged by simplex margins.
    solutions : sequence of Solution or of (n,) arrays, ±1 or clusters 0..k−1
        The labellings to choose from.
    folds : int or None
        None leaves out one component of the label set at a time, by one Newton step: no randomness and one fit a
        labelling and problem. A number of folds, at least 2, refits without each.
    random_state : int, numpy Generator or None
        Draws the folds, the same ones for all labellings.
    n_jobs : int or None
        Judgements at a time, as in scikit-learn: None is one unless `joblib.parallel_config` says otherwise.

    Returns
    -------
    int
        The first of the best.

    Raises
    ------
    DeclarationError
        If there is nothing to choose from, no judge, the sizes differ, or the loss of margins zero is not positive.
    RefusalError
        For problems with Crammer-Singer margins, or with shared scalars.

    References
    ----------
    R. Tibshirani, G. Walther (2005). Cluster validation by prediction strength.
    Y. Mroueh, T. Poggio, L. Rosasco, J.-J. Slotine (2012). Multiclass learning with simplex coding, Definition 1.

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
    if hasattr(problems, "program"):
        raise DeclarationError("select: given one problem, expected a list of them, then a list of solutions")
    labellings = [np.asarray(getattr(solution, "labels", solution)) for solution in solutions]
    if not labellings or not len(problems):
        raise DeclarationError(
            f"select: given {len(problems)} problems and {len(labellings)} solutions; at least one of each is needed")
    programs = [problem.program() for problem in problems]
    scores = _judge(programs, labellings, folds, random_state, n_jobs)
    units = []  # the mean losses of margins zero, which every labelling has at the zero hyperplane
    for losses in (program.losses for program in programs):
        units.append(losses.value(np.zeros(losses.n)) / max(float(losses.weights.sum()), 1e-300))
        if not units[-1] > 0:
            raise DeclarationError(
                f"select: the loss of margins zero is {units[-1]:.3g} in a problem, so its zero hyperplane predicts "
                "every labelling well; judge with a loss that asks for a margin, such as md.odm or md.hinge")
    # Not the geometric mean, in which a judge who finds several labellings almost perfect outvotes all others.
    return int(np.argmin(np.mean(scores / units, axis=1)))


def judges_of(X: FloatArray, clusters: int = 2) -> list[md.Problem]:
    """Return ODM problems on the points: linear and Gaussian kernels, all scaled to trace n, one loss weight.

    Parameters
    ----------
    X : (n, d) float array
    clusters : int
        With more than two the margins are those of simplex codes.

    Examples
    --------
    >>> judges = judges_of(np.random.default_rng(0).normal(size=(30, 2)))
    >>> len(judges), round(float(np.sum(judges[2].hyperplane.X ** 2)), 6)
    (5, 30.0)
    """
    judges = []
    for kernel in ("linear", *(md.RBF(width * mean_distance, rank=min(RANK, np.shape(X)[0])) for width in WIDTHS)):
        features = build(X, kernel).toarray()
        features = features * np.sqrt(len(features) / np.sum(features**2))
        y, f = md.Labels(len(features), clusters=clusters), md.Hyperplane(features, centre=False)
        loss = md.mean(md.odm(md.margin(y, f, coding="simplex"), nu=0.4, theta=0.2))
        judges.append(md.Problem(md.Minimize(md.sq_norm(f) / 2 + WEIGHT * loss)))
    return judges


def held_out_losses(problems: Sequence[Any], labellings: Sequence[ArrayLike], folds: int | None = None,
                    random_state: RandomState = 0) -> FloatArray:
    """Return the mean loss of held-out points, for every labelling and problem.

    The hyperplane is fitted to the labels of the points that are not held out, at the problem's regulariser and
    weights; the held-out margins γ_i = y_i f_i then cost Σ c ρ(γ_i) / Σ c. Components of the label set are held out
    whole, so that a must-link never gives a held-out label away. Without folds the fit without component C is
    approximated by one Newton step from the fit to all, w + (H − Σ_{i∈C} h_i φ_i φ_iᵀ)⁻¹ Σ_{i∈C} ∇ℓ_i, with H the
    Hessian and h_i the curvatures of the losses: for a single point f_i − y_i u_i a_i / (1 − h_i a_i),
    a_i = φ_iᵀ H⁻¹ φ_i. With k clusters the margin is that of simplex codes, γ_i = ⟨c_{y_i}, Vᵀφ_i⟩, and φ_i above
    stands for c_{y_i} ⊗ φ_i, y_i for +1.

    Parameters
    ----------
    problems : sequence of Problem
    labellings : sequence of (n,) arrays, ±1 or clusters 0..k−1
    folds : int or None
    random_state : int, numpy Generator or None

    Returns
    -------
    (labellings, problems) float array

    Raises
    ------
    DeclarationError
        If `folds` is not an integer from 2 to the number of components, or a labelling is not n signs or
        clusters.
    RefusalError
        For problems with Crammer-Singer margins, or with shared scalars.
    """
    return _judge([problem.program() for problem in problems], labellings, folds, random_state)


def _judge(programs: Sequence[MarginProgram], labellings: Sequence[ArrayLike], folds: int | None,
           random_state: RandomState, n_jobs: int | None = None) -> FloatArray:
    """Return the (labellings, programs) held-out losses, those of equal clusterings computed once."""
    seed = int(np.random.default_rng(random_state).integers(2**32))
    for program in programs:
        _check(program, labellings, folds)
    found: dict[bytes, int] = {}
    distinct: list[IntArray] = []
    order = []
    for labels in map(programs[0].labels.names.read, labellings):
        _, first, cluster = np.unique(labels, return_index=True, return_inverse=True)
        key = np.argsort(np.argsort(first))[cluster].tobytes()  # clusters numbered in the order of their first points
        if key not in found:
            found[key] = len(distinct)
            distinct.append(labels)
        order.append(found[key])
    scores = np.empty((len(distinct), len(programs)))
    if folds is None:
        pairs = [(row, column) for column in range(len(programs)) for row in range(len(distinct))]
        share_out(_leave_one_out, [(programs[column], distinct[row]) for row, column in pairs],
                  lambda number, loss: scores.__setitem__(pairs[number], loss), n_jobs)
    else:
        share_out(_refit, [(program, distinct, seed, folds) for program in programs],
                  lambda column, losses: scores.__setitem__((slice(None), column), losses), n_jobs)
    return scores[order]


def _check(program: MarginProgram, labellings: Sequence[ArrayLike], folds: int | None) -> None:
    if not program.kind.is_linear:
        raise RefusalError(
            f"select judges {program.clusters} clusters by simplex margins, which are linear in the hyperplane; this "
            "problem has Crammer-Singer margins. Judge with md.margin(y, f, coding='simplex'); the labellings may come "
            "from any problem")
    if program.losses.scalars.count:
        raise RefusalError(
            "select compares held-out losses, and a loss with a shared scalar is none by itself. Judge with a problem "
            "whose loss is a function of the margin alone, such as md.odm")
    for labels in labellings:
        if np.shape(labels) != (program.n,):
            raise DeclarationError(
                f"select: a labelling has shape {np.shape(labels)}, a problem {program.n} points; give labellings and "
                "problems of the same points")
        wrong = np.asarray(labels)[~program.labels.names.is_label(labels)]
        if wrong.size:
            raise DeclarationError(
                f"select: a labelling holds {wrong[0]}; labels of a problem are each {program.labels.names.expected}; "
                "to choose the number of clusters, md.select_clusters(X)")
    if folds is None:
        return
    if isinstance(folds, bool) or not isinstance(folds, (int, np.integer)) or not 2 <= folds <= program.labels.count:
        raise DeclarationError(
            f"select(folds={folds!r}): expected None or an integer from 2 to the number of label components, "
            f"{program.labels.count}")


def _refit(program: MarginProgram, labellings: Sequence[IntArray], seed: int, folds: int) -> FloatArray:
    """Return the (m,) held-out losses of labellings under one program, refitted without every fold.

    Components stay whole, and folds hold equally many of them.
    """
    fold = (np.random.default_rng(seed).permutation(program.labels.count) % folds)[program.labels.component]
    total, losses = np.zeros(len(labellings)), program.losses
    whole = [_form(program, program.features, losses, labels) for labels in labellings]
    for held in range(folds):
        train = np.flatnonzero(fold != held)
        tested = fold[losses.points] == held
        features, kept = program.features.take(train), losses.restricted(train)
        for index, (form, labels) in enumerate(zip(whole, labellings)):
            margins, _ = _fit(_form(program, features, kept, labels[train]), form)
            total[index] += float(np.sum(losses.row_losses(losses.arguments(margins))[tested]))
    return total / max(float(losses.weights.sum()), 1e-300)


def _form(program: MarginProgram, features: FeatureOperator, losses: Losses, labels: IntArray) -> FixedLabelForm:
    """Return the problem of fixed labels on all points or some, without bounds on decision values."""
    form: FixedLabelForm = replace(
        program, features=features, losses=losses, labels=presolve(len(labels), program.clusters),
        decision=()).fix_labels(labels)
    return form


def _fit(form: FixedLabelForm, whole: FixedLabelForm) -> tuple[FloatArray, FloatArray]:
    """Return the margins (n,) of a fit on the points of the whole, and its multipliers u."""
    raw = make_solver("newton").open(form).solve(form, Budget(tol=TOL))
    if not raw.has_answer:
        raise SolverError(
            f"select: a hyperplane cannot be fitted to {form.n} points: {raw.message or raw.status.value}")
    return whole.margins(whole.outputs(raw["w"], whole.plane(raw.variables)[0])), np.asarray(raw["u"])


def _leave_one_out(program: MarginProgram, labels: IntArray) -> float:
    """Return the held-out loss of one labelling, each component left out in turn by one Newton step."""
    losses = program.losses
    form = _form(program, program.features, losses, labels)

    def rows(index: Any) -> FloatArray:
        """Return the rows xᵢ in which margins of some points are linear, with their codes where the bias is free."""
        return np.hstack([form.rows.rows(index), form.own[index, : form.border]])

    # 1. The fit to all points: margins, slopes yᵢuᵢ and curvatures hᵢ of the losses, those of kinks smoothed.
    margins, u = _fit(form, form)
    slope, arguments = losses.scatter(u), losses.arguments(margins)
    curvature = (np.bincount(losses.points, weights=losses.curvature(arguments) * losses.slopes**2, minlength=losses.n)
                 if losses.is_smooth else losses.smoothed_curvature(arguments, SMOOTHING))
    # 2. The Hessian H in w, and in the bias where it is free. The bias has no regulariser; where no point curves, it is
    #    held by the last term of its corner alone.
    hessian = form.rows.gram(curvature) + np.eye(form.size_of_w)
    if form.free_bias:
        weighted = curvature[:, None] * form.own
        cross, corner = form.rows.adjoint(weighted), form.own.T @ weighted
        hessian = np.block([[hessian, cross], [cross.T, corner + np.diag(1e-9 * np.diag(corner) + 1e-9)]])
    inverse = np.linalg.inv(hessian)
    # 3. Points that are left out alone: γᵢ moves by aᵢ / (1 − hᵢaᵢ) times the slope, aᵢ = xᵢᵀH⁻¹xᵢ.
    held_out = margins.copy()
    for block in row_blocks(form.n, form.size_of_w):
        some = rows(block)
        leverage = np.einsum("ij,ij->i", some @ inverse, some)
        held_out[block] -= slope[block] * leverage / np.maximum(1.0 - curvature[block] * leverage, 1e-9)
    # 4. Components C of several points: X_C (H − X_Cᵀ D X_C)⁻¹ X_Cᵀ s, in the features or in the points of C.
    component = program.labels.component
    groups = np.split(np.argsort(component, kind="stable"), np.cumsum(np.bincount(component))[:-1])
    for inside in (group for group in groups if len(group) > 1):
        own, h, s = rows(inside), curvature[inside], slope[inside]
        if len(own) > len(hessian):
            step = own @ np.linalg.solve(hessian - own.T @ (h[:, None] * own), own.T @ s)
        else:
            block = own @ inverse @ own.T
            step = block @ np.linalg.solve(np.eye(len(own)) - h[:, None] * block, s)
        held_out[inside] = margins[inside] - step
    return float(np.sum(losses.row_losses(losses.arguments(held_out)))) / max(float(losses.weights.sum()), 1e-300)
