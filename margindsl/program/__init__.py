"""The middle language: the margin program, the standard forms, their residuals, bounds and certificates."""

from margindsl.program.bounds import DecisionBound, QuadraticBound
from margindsl.program.certificates import Certificate
from margindsl.program.cuts import MatrixCuts
from margindsl.program.dump import dump_form
from margindsl.program.forms import (
    FixedLabelForm,
    Form,
    LabelLiftForm,
    SaddleForm,
    WeightLiftForm,
)
from margindsl.program.label_certificate import LabelLiftCertificate, repair_label_lift
from margindsl.program.losses import Losses, LossTerm, SharedScalars
from margindsl.program.moment import MomentLiftForm
from margindsl.program.moment_certificate import MomentLiftCertificate, repair_moment_lift
from margindsl.program.program import MarginProgram

__all__ = [
    "Certificate", "DecisionBound",
    "FixedLabelForm", "Form", "LabelLiftCertificate", "LabelLiftForm",
    "LossTerm", "Losses", "MarginProgram", "MatrixCuts", "MomentLiftCertificate", "MomentLiftForm",
    "QuadraticBound", "SaddleForm", "SharedScalars", "WeightLiftForm", "dump_form",
    "repair_label_lift", "repair_moment_lift",
]
