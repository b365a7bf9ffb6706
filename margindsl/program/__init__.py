"""The middle language: the margin program, the standard forms, their residuals, bounds and certificates."""

from margindsl.program.bounds import DecisionBound, QuadraticBound
from margindsl.program.certificates import Certificate
from margindsl.program.dump import dump_form
from margindsl.program.forms import FixedLabelForm, Form, SaddleForm
from margindsl.program.lift import Cuts, LiftForm, LiftPoint
from margindsl.program.lift_certificate import repair_lift
from margindsl.program.losses import Losses, LossTerm, SharedScalars
from margindsl.program.program import MarginProgram

__all__ = [
    "Certificate", "Cuts", "DecisionBound", "FixedLabelForm", "Form", "LiftForm", "LiftPoint",
    "LossTerm", "Losses", "MarginProgram", "QuadraticBound", "SaddleForm", "SharedScalars", "dump_form",
    "repair_lift",
]
