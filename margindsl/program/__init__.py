"""The middle language: the margin program, the standard forms, their residuals, bounds and certificates."""

from margindsl.program.forms import FixedLabelForm, SaddleForm
from margindsl.program.lift import LiftForm

__all__ = ["FixedLabelForm", "LiftForm", "SaddleForm"]
