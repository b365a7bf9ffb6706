"""Choose without labels: kernel, weight or answer by held-out margins, the number of clusters by stability."""

from margindsl.selection.prediction import held_out_losses, judges_of, select
from margindsl.selection.stability import Stability, select_clusters

__all__ = ["Stability", "held_out_losses", "judges_of", "select", "select_clusters"]
