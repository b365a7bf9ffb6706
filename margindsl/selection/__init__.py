"""Choose kernel, weight or answer without labels: by how well held-out margins are predicted."""

from margindsl.selection.prediction import held_out_losses, judges_of, select

__all__ = ["held_out_losses", "judges_of", "select"]
