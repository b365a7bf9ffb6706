"""What an answer may be called: its bound and status judged anew by the problem as it was declared."""

from __future__ import annotations

import dataclasses
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from margindsl.calculus.accuracy import EPS, relative_gap
from margindsl.calculus.capped import Capped
from margindsl.contract import RawSolution, Status
from margindsl.errors import AccuracyWarning, MarginError
from margindsl.host.clock import fits_in
from margindsl.language.lowering import Declaration
from margindsl.program.certificates import Certificate, certify_least_value
from margindsl.program.program import MarginProgram
from margindsl.proof.check import CLOSED as JUDGED_CLOSED
from margindsl.proof.check import Report, check, compare_features
from margindsl.proof.export import LARGEST, NoProof, Stated, UnknownProof, agree, codes_of, declared, export
from margindsl.runtime.presolve import assemble, first_other, mapped, prepare_features, prepare_labels
from margindsl.typing import FloatArray, IntArray

KEPT = 4_000_000  # entries of features that go into files
AT_ONCE = 5_000_000  # entries of features that are formed to check a bound at the end of a solve
ROUNDED = 1e-6  # relative part of a bound that may be lost to rounding without a word
MORE = 1e-3  # relative part of a bound by which a check proves visibly more
UNCHECKED = 1e-11  # the same that is taken off where there is no time to see how much it is
CONTRADICTION = 1e-8  # of the parts of a value, above the safety margins of certificates and rounding of fits
CLOSED = 1.5  # times the tolerance: a certified gap so small is closed
AGAIN = 16 * EPS  # by how much a check of the same proof may differ where sums are taken in another order


@dataclass(frozen=True, eq=False)
class Basis:
    """Represent what a solution must be judged by: the declaration, and what is not among its public numbers.

    Parameters
    ----------
    weights : (r,) or (r, k) float array
        In the coordinates of the program's features, which a manifold term or orthogonality may have mapped.
    tol : float
        The relative gap asked for.
    """

    declaration: Declaration
    weights: FloatArray
    tol: float
    beyond: tuple[IntArray, FloatArray] | None = None  # labels, decision values of rows that are no points, or of all

    def program(self) -> MarginProgram:
        """Return the margin program, lowered and its features built anew from the declaration."""
        features = prepare_features(self.declaration.planes, rotate=not self.declaration.by_columns)
        return assemble(self.declaration, features, prepare_labels(self.declaration))

    @property
    def whole(self) -> Declaration:
        """Return the declaration with losses up to a cap as they are."""
        return self.declaration.capped or self.declaration

    def outliers(self, solution: Any) -> IntArray:
        """Return the points with a loss above its cap."""
        capped, found, stated = self.whole, [np.zeros(0, dtype=int)], self.stated(solution)
        rows = capped.rows
        margins = ((2 * stated.labels - 1) * stated.decision[:, -1])[:capped.losses.n]
        v, parents = capped.losses.arguments(margins, stated.scalars), np.arange(capped.own_labels.n)
        parents = parents if rows is None else np.append(parents, rows.parents)
        for term, part in capped.losses.slices():
            if isinstance(term.loss, Capped):
                over = np.asarray(term.loss.rho(v[part])) > term.loss.cap * (1.0 + 1e-9)
                found.append(parents[term.points[over & (term.weights > 0)]])
        return np.unique(np.concatenate(found))

    def judges_as(self, other: Basis) -> bool:
        """Return whether another declaration is over the same points and says the same, parameters included.

        Of losses that proofs do not know that is not known, and denied.
        """
        own, others = self.declaration.planes, other.declaration.planes
        if len(own) != len(others) or any(a is not b for a, b in zip(own, others)):
            return False
        try:
            (header, arrays), (head, numbers) = declared(self.whole), declared(other.whole)
            return agree(header, head) and agree(arrays, numbers)
        except UnknownProof:
            return False

    def stated(self, solution: Any) -> Stated:
        """Return what a solution claims."""
        labels, decision = codes_of(solution.labels, solution.decision)
        rows = self.declaration.rows
        if rows is not None and self.beyond is not None:
            labels = np.concatenate([labels, self.beyond[0]])
            beyond = np.asarray(self.beyond[1]).reshape(-1, decision.shape[1])
            decision = beyond if rows.blocks else np.concatenate([decision, beyond])
        return Stated(labels, self.weights, np.asarray(solution.bias).tolist(), decision,
                      np.array([*solution.scalars.values()], dtype=float), solution.value, solution.bound,
                      solution.state.name)


def verify(solution: Any, certificate: Certificate | None) -> Report:
    """Return what of a solution holds for the problem as declared, by its `basis`; features are built anew."""
    basis: Basis = solution.basis
    try:
        program = basis.program()
    except MarginError as error:
        return Report(failures=[f"the declaration cannot be lowered again: {error}"])
    try:
        report = _check(program, basis.stated(solution), certificate)
        for features in mapped(program.normal.declared.features, np.zeros(program.features.rank))[0], solution.features:
            if (features.n, features.rank) != (len(solution.decision), len(solution.weights)):
                report.failures.append("features are not those of the weights")
            elif first_other(features, solution.weights, solution.bias, solution.decision) is not None:
                report.failures.append("decision values are not those of the solution's weights over the points")
    except (TypeError, ValueError, AttributeError) as error:  # what was written over an answer by hand
        return Report(failures=[f"the solution does not hold what an answer does: {error}"])
    if solution.coding != program.coding:
        report.failures.append(f"margins are {solution.coding!r}, declared {program.coding!r}")
    return report


def _check(program: MarginProgram, stated: Stated, certificate: Certificate | None, most: int = LARGEST,
           whole: bool = True) -> Report:
    try:
        header, arrays = export(program, stated, certificate, most=most)
    except (NoProof, ValueError) as error:
        return Report(failures=[str(error)])
    except IndexError:
        return Report(failures=["the certificate names points, components or rows that are not there"])
    except UnknownProof as error:
        return Report(unverified=[str(error)])
    if arrays["labels"].shape != (program.n,) or ("phi" in arrays and len(stated.weights) != program.features.rank):
        return Report(failures=["labels or weights are not of the size of the problem"])
    report = check(header, arrays)
    X = program.source.hyperplane.X
    if whole and "phi" in arrays and header["linear"] and isinstance(X, np.ndarray):
        report.failures += compare_features(header, arrays, X)
    return report


def checked(solution: Any, program: MarginProgram, certificate: Certificate | None, least: Certificate | None) -> Any:
    """Return a solution whose bound is what the independent check proves: rounding is taken off.

    Where the check, which sees all that is lost at a point at once, proves visibly more, that is the bound.

    A bound the check has no means, memory or time for stays as it is, but for what rounding may take; `verify` or
    `unverified` says so. Where rounding leaves less than the losses prove alone, that is proved instead; where it takes
    a visible part of the bound, the message says so.

    `least`: the proof the losses give by themselves; None where no bound is expected.
    """
    if certificate is None or not np.isfinite(solution.bound):
        return solution
    unchecked = dataclasses.replace(solution, bound=solution.bound - UNCHECKED * abs(solution.bound))
    if not fits_in(certificate.work(program.n, program.features.rank)):
        return _message(solution, dataclasses.replace(
            unchecked, unverified="the bound: the time limit left none to check it anew"))
    report = _judged(program, solution, certificate)
    if report.bound == -np.inf and not report.failures:  # not looked at; that of a value may be uncertain beside it
        return solution if certificate is least else _message(solution, unchecked)
    judged = solution
    if least is not None and certificate is not least and not report.bound >= program.to_user(least.bound):
        bound = min(program.to_user(least.bound), solution.value)
        judged = dataclasses.replace(solution, bound=bound, certificate=least)
        report = _judged(program, judged, least)
    proved = min(report.bound - AGAIN * abs(report.bound), solution.value)
    if solution.bound <= proved and relative_gap(proved, solution.bound) <= MORE:
        return dataclasses.replace(solution, certificate=judged.certificate)
    return _message(solution, dataclasses.replace(judged, bound=proved))


def _judged(program: MarginProgram, solution: Any, certificate: Certificate) -> Report:
    """Return what a check finds of a proof, whatever status the solution has."""
    stated = dataclasses.replace(solution.basis.stated(solution), state=Status.CONVERGED.name)
    return _check(program, stated, certificate, LARGEST if program.features.is_dense else AT_ONCE, False)


def _message(solution: Any, judged: Any) -> Any:
    """Return a solution whose bound was replaced by what is proved, its status and message true again."""
    state, closed = solution.state, is_closed(judged.value, judged.bound, solution.basis.tol)
    if judged.bound > solution.bound or relative_gap(solution.bound, judged.bound) <= ROUNDED:
        state = Status.OPTIMAL if closed else Status.CONVERGED if state is Status.OPTIMAL else state
        estimate = max(solution.estimate, judged.bound)  # NaN stays
        return dataclasses.replace(judged, state=state, estimate=estimate)
    sentence = (f"of the bound {solution.bound:.6g} the independent check proves {judged.bound:.6g}"
            if np.isfinite(judged.bound) else f"the proof of the bound {solution.bound:.6g} does not hold")
    state = Status.INACCURATE if state in (Status.OPTIMAL, Status.CONVERGED) else state
    return dataclasses.replace(
        judged, state=state, message=f"{solution.message}; {sentence}" if solution.message else sentence)


def declaration_of(problem: Any, n: int) -> tuple[dict[str, Any], dict[str, Any], MarginProgram]:
    """Return (header, arrays) of what a problem declares over n rows, and its program."""
    program = problem.program()
    if program.n != n and (capped := program.source.capped) is not None:
        program = Basis(capped, np.zeros(0), 0.0).program()
    return (*declared(program.source), program)


def written(solution: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (header, arrays) of the proof of a solution, for a file; empty where there is none."""
    basis = solution.basis
    if basis is None:
        return {}, {}
    if not isinstance(basis, Basis):
        return dict(basis.header), dict(basis.arrays)
    stated, program = basis.stated(solution), basis.program()
    try:
        fits = program.n * program.features.rank <= (KEPT if program.features.is_dense else 0)
        header, arrays = export(program, stated, solution.certificate, features=fits)
    except UnknownProof as error:
        return {"unproved": str(error)}, {}
    return {**header, "own_weights": np.array_equal(solution.weights, basis.weights)}, arrays


def is_closed(value: float, bound: float, tol: float) -> bool:
    """Return whether a gap is as small as was asked for, and as the judge asks for."""
    return relative_gap(value, bound) <= min(CLOSED * tol, JUDGED_CLOSED)


def sound_bound(bound: float, value: float, size: float, noise: float = 0.0) -> float:
    """Return a bound that an attained value does not contradict: equal up to rounding, else none, with a warning.

    `size`: sum of the sizes of the parts of the value; `noise`: what rounding may have done to the value: much, where a
    steep loss has its kink.
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


def final_status(state: Status, message: str, raw: RawSolution | None, *, value: float, bound: float, estimate: float,
            tol: float) -> tuple[Status, str]:
    """Return the status an answer has earned, and the message that goes with it.

    OPTIMAL if and only if the certified gap is closed; a relaxation's own optimum is CONVERGED, for it says nothing
    about the labels. CONVERGED becomes INACCURATE where the hyperplane of the labels, or the relaxation's value, fell
    short of the tolerance.

    `state`: how the relaxation ended; `message`: its words; `raw`: the fit of the labels; None of a problem that is not
    convex, to which no gap belongs; `tol`: the relative gap asked for.
    """
    if is_closed(value, bound, tol):
        return Status.OPTIMAL, message
    words = [message] if message else []
    short = 0.0
    if raw is not None and raw.status in (Status.INACCURATE, Status.ITERATION_LIMIT):  # NaN: its solver keeps no course
        short = relative_gap(raw.objective, max(dual for _, _, dual in raw.trace)) if raw.trace else np.nan
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
