"""From a checked declaration to a margin program: label set, features, regulariser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from margindsl.errors import DeclarationError, RefusalError
from margindsl.features import FeatureOperator, MappedFeatures, build
from margindsl.labelset import LabelSet, presolve
from margindsl.language.lowering import Declaration
from margindsl.language.margins import Hyperplane
from margindsl.program.forms import DecisionBound
from margindsl.program.program import MarginProgram
from margindsl.typing import FloatArray


@dataclass(frozen=True, eq=False)
class Prepared:
    """Represent the parts of a compiled problem that do not change with its parameters.

    Parameters
    ----------
    base : FeatureOperator
        The features of the hyperplane (centred, with the constant feature of a penalised bias).
    """

    base: FeatureOperator


def prepare_features(hyperplane: Hyperplane, random_state: int | None = None) -> Prepared:
    """Build the features of a hyperplane once."""
    base = build(hyperplane.X, hyperplane.kernel, centre=hyperplane.centre,
                 penalised_bias=hyperplane.bias == "penalised", random_state=random_state)
    return Prepared(base)


def prepare_labels(declaration: Declaration) -> LabelSet:
    """Presolve the label set of a declaration.

    Raises
    ------
    RefusalError
        For more than two clusters, which no relaxation accepts yet.
    ContradictionError, InfeasibleError
        If the label constraints contradict one another or leave no labelling.
    """
    if declaration.labels.clusters > 2:
        raise RefusalError(
            f"{declaration.labels.clusters} clusters were declared; relaxations take two clusters. "
            "Declare md.Labels(n), or split one cluster at a time.")
    index, values = declaration.known
    bounds = [*declaration.label_bounds, *_size_bounds(declaration)]
    return presolve(declaration.labels.n, must=declaration.must, cannot=declaration.cannot,
                    known=(index, values), bounds=bounds)


def _size_bounds(declaration: Declaration) -> list[tuple[FloatArray, float, float]]:
    """Return sizes of two clusters as bounds on Σy: cluster 0 is y = −1, cluster 1 is y = +1."""
    n = declaration.labels.n
    bounds = []
    for sizes in declaration.sizes:
        low = max(2 * sizes.at_least[1] - n, n - 2 * sizes.at_most[0])
        high = min(2 * sizes.at_most[1] - n, n - 2 * sizes.at_least[0])
        bounds.append((np.ones(n), float(low), float(high)))
    return bounds


def assemble(declaration: Declaration, prepared: Prepared, labels: LabelSet, text: str = "") -> MarginProgram:
    """Return the margin program: the coefficient of ½‖w‖² divided out, quadratic terms moved into features."""
    ridge = declaration.ridge
    features: FeatureOperator = prepared.base
    if declaration.orthogonal:
        features = _project_out(features, declaration.orthogonal)
    if declaration.manifolds:
        features = _manifold_metric(features, declaration.manifolds, ridge)
    return MarginProgram(
        features, labels, declaration.losses.rescaled(1.0 / ridge),
        tuple(DecisionBound(b.weights, b.lower, b.upper) for b in declaration.decision),
        free_bias=declaration.hyperplane.bias is True, scale=ridge, constant=declaration.constant, text=text)


def _project_out(features: FeatureOperator, solutions: tuple[Any, ...]) -> FeatureOperator:
    """Return features orthogonal to the weight vectors of earlier solutions (MME, slides Eq. 23)."""
    W = np.column_stack([np.asarray(s.weights, dtype=float) for s in solutions])
    if W.shape[0] != features.rank:
        raise DeclarationError(
            f"md.orthogonal: an earlier solution has {W.shape[0]} weights, these features {features.rank}; "
            "solve both over the same points and kernel")
    values, vectors = np.linalg.eigh(W @ W.T)
    complement = vectors[:, values <= 1e-12 * max(float(values[-1]), 1e-300)]
    if not complement.shape[1]:
        raise DeclarationError(f"md.orthogonal: {W.shape[1]} earlier solutions span all {W.shape[0]} features")
    return MappedFeatures(features, complement @ complement.T, label="orthogonal")


def _manifold_metric(features: FeatureOperator, manifolds: tuple[tuple[float, Any], ...],
                     ridge: float) -> FeatureOperator:
    """Return Φ R⁻¹ with RᵀR = I + Σ 2μ/κ ΦᵀLΦ, so that ½‖w‖² carries the manifold terms."""
    matrix = features.toarray()
    metric = np.eye(features.rank)
    for coefficient, laplacian in manifolds:
        metric += (2.0 * coefficient / ridge) * (matrix.T @ (laplacian @ matrix))
    factor = np.linalg.cholesky((metric + metric.T) / 2)
    return MappedFeatures(features, np.linalg.inv(factor).T, label="manifold metric")


__all__ = ["Prepared", "assemble", "prepare_features", "prepare_labels"]
