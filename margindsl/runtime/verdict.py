"""What an answer may be called: bounds that values do not contradict, and the status that was earned."""

from __future__ import annotations

import warnings

import numpy as np

from margindsl.calculus.accuracy import relative_gap
from margindsl.contract import RawSolution, Status
from margindsl.errors import AccuracyWarning
from margindsl.program.certificates import Certificate, certify_least_value
from margindsl.program.program import MarginProgram
from margindsl.proof import check

CONTRADICTION = 1e-8  # of the parts of a value, above the safety margins of certificates and rounding of fits
CLOSED = 1.5  # times the tolerance: a certified gap so small is closed


def is_closed(value: float, bound: float, tol: float) -> bool:
    """Return whether a gap is as small as was asked for, and as the judge asks for."""
    return relative_gap(value, bound) <= min(CLOSED * tol, check.CLOSED)


def sound_bound(bound: float, value: float, size: float, noise: float = 0.0) -> float:
    """Return a bound that an attained value does not contradict: equal up to rounding, else none, with a warning.

    Parameters
    ----------
    size : float
        Sum of the sizes of the parts of the value.
    noise : float
        What rounding may have done to the value: much, where a steep loss has its kink.
    """
    if bound <= value:
        return bound
    if bound - value <= CONTRADICTION * size + noise:
        return value
    warnings.warn(f"the certified bound {bound:.8g} lies above an attained value {value:.8g}; it is withdrawn",
                  AccuracyWarning, stacklevel=2)
    return -np.inf


def least_proof(program: MarginProgram) -> Certificate | None:
    """Return the proof that the losses of a program give by themselves, None where they have no least value."""
    least = certify_least_value(program.losses, len(program.lifted_decision))
    return least if np.isfinite(least.bound) else None


def strongest(certificate: Certificate | None, least: Certificate | None) -> Certificate | None:
    """Return a certificate, or the proof of the losses alone where it says less; None for neither."""
    if certificate is None or not np.isfinite(certificate.bound):
        return least
    return least if least is not None and certificate.bound < least.bound else certificate


def fit_gap(raw: RawSolution) -> float:
    """Return the relative gap to which a fixed-label problem was solved, NaN where its solver keeps no course."""
    duals = [dual for _, _, dual in raw.trace]
    return relative_gap(raw.objective, max(duals)) if duals else float("nan")


def earned(state: Status, message: str, raw: RawSolution | None, *, value: float, bound: float, estimate: float,
            tol: float) -> tuple[Status, str]:
    """Return the status an answer has earned, and the message that goes with it.

    OPTIMAL if and only if the certified gap is closed; a relaxation's own optimum is CONVERGED, for it says nothing
    about the labels. CONVERGED becomes INACCURATE where the hyperplane of the labels, or the relaxation's value, fell
    short of the tolerance.

    Parameters
    ----------
    state : Status
        How the relaxation ended.
    message : str
        Its words.
    raw : RawSolution or None
        The fit of the labels; None of a problem that is not convex, to which no gap belongs.
    tol : float
        The relative gap asked for.
    """
    if is_closed(value, bound, tol):
        return Status.OPTIMAL, message
    words = [message] if message else []
    short = fit_gap(raw) if raw is not None and raw.status in (Status.INACCURATE, Status.ITERATION_LIMIT) else 0.0
    if not short <= tol:
        gap = "an unknown relative gap" if np.isnan(short) else f"a relative gap of {short:.1e} only"
        words.append(f"the hyperplane of the labels was fitted to {gap}")
    if estimate < bound and relative_gap(bound, estimate) > tol:
        words.append(f"the relaxation was not solved to its end: its estimate {estimate:.6g} lies below the certified "
                     f"bound {bound:.6g}")
    if state in (Status.OPTIMAL, Status.CONVERGED):
        state = Status.INACCURATE if len(words) > bool(message) else Status.CONVERGED
    if state is Status.INACCURATE and not words:
        words.append(f"the relaxation stopped short of the relative accuracy {tol:.1e}")
    return state, "; ".join(words)


__all__ = ["earned", "fit_gap", "is_closed", "least_proof", "sound_bound", "strongest"]
