"""One-dimensional convex functions: piecewise linear-quadratic algebra and smooth losses."""

from margindsl.calculus.atoms import absolute, huber, pos, square
from margindsl.calculus.composed import maximum
from margindsl.calculus.compound import Envelope
from margindsl.calculus.plq import PLQ
from margindsl.calculus.protocol import ConvexFunction
from margindsl.calculus.smooth import Logistic

__all__ = ["PLQ", "ConvexFunction", "Envelope", "Logistic", "absolute", "huber", "maximum", "pos", "square"]
