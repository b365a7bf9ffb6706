"""The rules of disciplined margin programming and the sentences users read."""

from __future__ import annotations

from dataclasses import dataclass

from margindsl.errors import GrammarError
from margindsl.language.expressions import Expression


@dataclass(frozen=True)
class Rule:
    """Represent one rule: what is required, and how to repair a breach."""

    requirement: str
    repair: str

    def broken_by(self, expression: Expression | str, **words: str) -> GrammarError:
        """Return the error for an offending sub-expression."""
        text = expression if isinstance(expression, str) else expression.text()
        return GrammarError(text, self.requirement.format(**words), self.repair.format(**words))


CONVEX_LOSS = Rule(
    "is concave: margin losses must be convex",
    "Give it a weight of at least 0 (recipes call it lam or C), or take a convex loss such as md.hinge or md.odm.")
NEGATIVE_PARAMETER = Rule(
    "is {value} and turns a loss concave: margin losses must be convex",
    "Give it a value of at least 0.")
MIXED_SUM = Rule(
    "is the difference of two convex functions: margin losses must be convex",
    "Keep non-negative sums of convex losses; a loss that stops to rise is md.minimum(loss, cap).")
SIGNED_WEIGHT = Rule(
    "multiplies a loss by weights of both signs: margin losses must be convex",
    "Give non-negative weights.")
COMPOSITION = Rule(
    "is not convex: a function of a convex one must rise over its values, a function of a concave one must fall",
    "Take an affine argument, or a convex one where the function rises, for instance md.pos(1 - g)**2.")
MAXIMUM = Rule(
    "takes the maximum of a concave function, which is not convex",
    "Take md.maximum of convex functions of the margin.")
ONE_MARGIN = Rule(
    "mixes margins of several points, or a margin and a scalar or decision values, in one non-linear function",
    "A loss is a function of one affine combination, such as md.pos(s - g).")
BARE_DECISION = Rule(
    "uses decision values of {clusters} clusters, a vector a point, outside a margin",
    "Write losses of md.margin(y, f), and of decision values of two clusters.")
SOFT_BALANCE = Rule(
    "is a square of decision values that is not the square of a weighted sum alone",
    "Write md.sum(weights * f)**2, without labels, scalars or constants.")
FREE_BALANCE = Rule(
    "penalises a weighted sum of decision values that a free bias moves",
    "Declare md.Hyperplane(X, bias='penalised'), or bound it by abs(md.sum(f)) <= l.")
TWO_PROBLEMS = Rule(
    "mixes two {what} in one problem",
    "Declare one md.Labels a problem, and give every md.Hyperplane its md.sq_norm(f) in the objective.")
TWO_CODINGS = Rule(
    "mixes two codings of the margins of several clusters",
    "Give every md.margin(y, f, coding=...) the same coding.")
NO_REGULARISER = Rule(
    "has no regulariser of a positive weight: the hyperplane {plane} would not be determined",
    "Add md.sq_norm(f) / 2, or md.norm(f), of every hyperplane.")
BLOCK_BIAS = Rule(
    "has a free bias beside other hyperplanes, or in sums of decision values that do not contain it once",
    "Declare md.Hyperplane(X, bias='penalised').")
BLOCK_ORTHOGONAL = Rule(
    "is about one hyperplane of several",
    "Declare one md.Hyperplane, without losses of decision values.")
REGULARISER_SIGN = Rule(
    "has coefficient {coefficient}: the regulariser must be convex",
    "Give md.sq_norm(f) a positive and md.manifold a non-negative coefficient.")
NORM = Rule(
    "is a norm that is not squared, beside {what}",
    "Write one norm, or one sum of norms, a problem, alone or squared, beside md.sq_norm(f), with binary or "
    "simplex-coded margins.")
OUTSIDE = Rule(
    "has a term or a constraint of CVXPY beside {what}",
    "Write it for one hyperplane of two clusters, its bias False or True, beside md.sq_norm(f) alone.")
VARIANCE = Rule(
    "takes the variance of something that is not affine in the margin, or subtracts a variance",
    "Write md.var(g) with a non-negative coefficient.")
NOT_SCALAR = Rule(
    "has one value a point: an objective is a single number",
    "Wrap it in md.mean(...) or md.sum(...).")
LABELS_IN_OBJECTIVE = Rule(
    "puts labels into the objective otherwise than by sums or pairs",
    "Labels enter through margins y * f, md.sum(h * y) and md.must_link(y, pairs, weight=s).")
PAIR_WEIGHTS = Rule(
    "has {weights} weights for {pairs} pairs",
    "Give one weight, or one a pair.")
PAIR_CODING = Rule(
    "is an energy of pairs, which is linear in the codes of labels, beside Crammer-Singer margins",
    "Write md.margin(y, f, coding='simplex').")
PAIR_BIAS = Rule(
    "is an energy of labels beside a free bias, which would move it",
    "Declare md.Hyperplane(X, bias='penalised').")
RAMP_CLUSTERS = Rule(
    "are of several clusters, beside a loss with a cap",
    "Take two clusters, or a loss without md.minimum.")
RAMP = Rule(
    "is not a piecewise linear loss of a margin below a positive cap",
    "Write md.minimum(md.hinge(g), 2): md.hinge, abs or md.epsilon_insensitive of a margin, and a number.")
STATES = Rule(
    "is not a piecewise quadratic loss of decision values for each of two labels, without scalars and caps",
    "Write md.by_label(y, {{+1: 3 * md.hinge(f), -1: md.hinge(-f)}}) with y = md.Labels(n) and f = md.Hyperplane(X).")
LINK_ON_DECISION = Rule(
    "links decision values: must-links and cannot-links are between labels",
    "Write y[i] == y[j] or y[i] != y[j] with y = md.Labels(n), or f[i] - f[j] == 0.")
KNOWN_ON_DECISION = Rule(
    "fixes decision values to labels: known labels are given to labels",
    "Write y[index] == values with y = md.Labels(n), or f[i] == value for the value at one point.")
MIXED_CONSTRAINT = Rule(
    "mixes labels and decision values in one constraint",
    "Constrain labels, as in abs(md.sum(y)) <= b, and decision values, as in abs(md.sum(f)) <= l, apart.")
NONLINEAR_CONSTRAINT = Rule(
    "is not linear in labels or in decision values",
    "Write abs(md.sum(y)) <= b, md.sum(weights * y) >= a, abs(md.sum(f)) <= l or abs(f) <= l.")
NONCONVEX_BOUND = Rule(
    "bounds a modulus from below, which is not convex",
    "Bound it from above: abs(...) <= b.")
LABEL_SUM = Rule(
    "sums labels of {clusters} clusters, which are names, not numbers",
    "Bound the sizes of the clusters with md.sizes(y, at_least=..., at_most=...).")
MARGIN_CONSTRAINT = Rule(
    "constrains margins: labels and decision values are constrained, margins enter the objective",
    "Add it to the objective as a loss: g >= 1 is lam * md.sum(md.pos(1 - g)) with lam above every multiplier.")
ENTRYWISE_CONSTRAINT = Rule(
    "is a constraint a point: at most {most} are taken, for each has a weight a point",
    "Wrap it in md.sum(...) or md.mean(...), or index some points.")
UNKNOWN_OBJECTIVE = Rule(
    "is not a sum of losses, regularisers and scalars",
    "See the grammar page for what an objective is made of.")
NO_MARGIN = Rule(
    "has no margins: nothing would be clustered",
    "Add a loss of y * f, for instance lam * md.mean(md.hinge(y * f)).")
NOT_CONSTRAINT = Rule(
    "is not a constraint",
    "List comparisons such as abs(md.sum(y)) <= b or y[0] == y[5].")
EMPTY_BOUND = Rule(
    "asks a modulus to be at most {value}",
    "Give a bound of at least 0.")
NOT_FINITE = Rule(
    "multiplies or divides beyond the largest number",
    "Change the constants or parameters, or rescale the formula.")
NO_VARIABLE = Rule(
    "holds neither labels nor decision values",
    "Drop it.")
MANY_SETTINGS = Rule(
    "has {number} different per-point settings inside one non-linear function (at most {most})",
    "Let per-point arrays scale or shift the margin, or weigh the loss, only.")

RULES: dict[str, Rule] = {name: rule for name, rule in globals().items() if isinstance(rule, Rule)}
