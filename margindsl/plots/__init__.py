"""Pictures of solutions and comparisons: each takes axes, or makes some, and returns them."""

from margindsl.plots.compared import comparison, path
from margindsl.plots.course import convergence
from margindsl.plots.matrix import label_matrix
from margindsl.plots.plane import boundary
from margindsl.plots.spread import margins, profile

SOLUTION = {plot.__name__: plot for plot in (margins, profile, boundary, convergence, label_matrix)}

__all__ = ["SOLUTION", "boundary", "comparison", "convergence", "label_matrix", "margins", "path", "profile"]
