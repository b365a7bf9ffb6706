"""What users write: labels, hyperplanes, expressions, constraints, and the grammar that checks them."""

from margindsl.language.atoms import (
    cvxpy_term,
    epsilon_insensitive,
    hinge,
    huber,
    logistic,
    manifold,
    max,
    maximum,
    mean,
    mean_variance,
    min,
    minimum,
    norm,
    odm,
    plq,
    pos,
    sq_norm,
    square,
    squared_hinge,
    sum,
    var,
)
from margindsl.language.expressions import Expression
from margindsl.language.formulation import Minimize
from margindsl.language.margins import Hyperplane, Labels, margin
from margindsl.language.relations import by_label, cannot_link, count, cvxpy_constraint, must_link, orthogonal, sizes
from margindsl.language.symbols import Parameter, Scalar

__all__ = [
    "Expression", "Hyperplane", "Labels", "Minimize", "Parameter", "Scalar",
    "by_label", "cannot_link", "count", "cvxpy_constraint", "cvxpy_term", "epsilon_insensitive",
    "hinge", "huber", "logistic", "manifold", "margin", "max", "maximum", "mean", "mean_variance", "min", "minimum",
    "must_link", "norm", "odm", "orthogonal", "plq", "pos", "sizes", "sq_norm", "square", "squared_hinge",
    "sum", "var",
]
