"""The proof that an answer to a form gives, by the kind of the form: a table that new forms register with."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from margindsl.program.certificates import Certificate, certify_fixed_labels
from margindsl.program.clusters import ClusterForm
from margindsl.program.forms import FixedLabelForm, LabelLiftForm, WeightLiftForm
from margindsl.program.label_certificate import repair_label_lift
from margindsl.program.moment import MomentLiftForm
from margindsl.program.moment_certificate import repair_moment_lift
from margindsl.program.weight_certificate import repair_weight_lift


@singledispatch
def repaired(form: Any, answer: Any) -> Certificate | None:
    """Return the certificate of an answer's dual point, moved to where it proves something; None where there is none.

    Parameters
    ----------
    form : Form
    answer : mapping or RawSolution
        With `get`.
    """
    return None


@repaired.register(FixedLabelForm)
@repaired.register(ClusterForm)
def _fixed(form: FixedLabelForm | ClusterForm, answer: Any) -> Certificate | None:
    return certify_fixed_labels(form, answer.get("u"), answer.get("tau"))


@repaired.register(LabelLiftForm)
def _labels(form: LabelLiftForm, answer: Any) -> Certificate | None:
    return repair_label_lift(form, answer["u"], answer.get("d"), answer.get("kappa"), answer.get("eta"),
                             answer.get("V"))


@repaired.register(MomentLiftForm)
def _moments(form: MomentLiftForm, answer: Any) -> Certificate | None:
    return repair_moment_lift(form, answer["u"], answer.get("q"), answer.get("d"), answer.get("kappa"),
                              answer.get("eta"), answer.get("tau"))


@repaired.register(WeightLiftForm)
def _weights(form: WeightLiftForm, answer: Any) -> Certificate | None:
    return repair_weight_lift(form, answer["W"], answer.get("a"), answer.get("eta"))


__all__ = ["repaired"]
