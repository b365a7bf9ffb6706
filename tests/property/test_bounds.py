"""On every small problem: exact >= minimax >= label SDP >= certified bound, and everything is recomputed."""

import dataclasses
import warnings

import cvxpy as cp
import numpy as np
import pytest

import margindsl as md
from margindsl.contract import Budget
from margindsl.program.certificates import CombinedCertificate, FixedLabelCertificate, LabelLiftCertificate
from margindsl.program.exhaustion import PoolCertificate
from margindsl.relaxations.sdp import lift_labels
from margindsl.testing import random_instance

INSTANCES = 200
CHUNKS = 20
SEED = 20240

EXACT = md.Exact(starts=1)
MINIMAX = md.Minimax(oracle="exhaustive", rounding=2, polish="none", tol=1e-5)
SDP = md.SDP(rounding=2, polish="none")


def instance_number(k, **restrictions):
    return random_instance(np.random.default_rng([SEED, k]), **restrictions)


def solve(instance, relaxation, solver=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", md_triviality())
        return instance.problem.solve(relaxation, solver, random_state=0, **options)


def md_triviality():
    from margindsl.errors import TrivialityWarning

    return TrivialityWarning


def scale_of(*values):
    return max(1.0, *map(abs, values))


def assert_recomputed(instance, solution):
    """Labels lie in B, and the value is what plain numpy makes of labels, f, w and s."""
    assert instance.admits(solution.labels)
    norm = float(solution.weights @ solution.weights)
    value = instance.objective(solution.labels, solution.decision, norm, dict(solution.scalars))
    assert solution.value == pytest.approx(value, rel=1e-8, abs=1e-8)
    factor = instance.factor()
    residual = solution.decision - (solution.bias if instance.bias is True else 0.0)
    w, *_ = np.linalg.lstsq(factor, residual, rcond=None)
    assert np.allclose(factor @ w, residual, atol=1e-6 * scale_of(np.abs(residual).max()))
    assert float(w @ w) <= norm * (1 + 1e-6) + 1e-9  # the least norm that gives these decision values
    if instance.decision is not None:
        assert abs(solution.decision.sum()) <= instance.decision + 1e-6


def tampered(certificate):
    """Return certificates that claim more than they prove."""
    lift = max(1e-3, 0.01 * abs(certificate.bound))
    return [dataclasses.replace(certificate, bound=certificate.bound + lift)]


def scaled_duals(certificate):
    """Return the certificate with its dual point scaled, where one is stored."""
    if isinstance(certificate, (LabelLiftCertificate, FixedLabelCertificate)):
        return dataclasses.replace(certificate, u=1.05 * certificate.u)
    if isinstance(certificate, PoolCertificate):
        return dataclasses.replace(certificate, pool=1.05 * certificate.pool)
    assert isinstance(certificate, CombinedCertificate)
    parts = tuple(dataclasses.replace(part, u=1.05 * part.u) for part in certificate.parts)
    return dataclasses.replace(certificate, parts=parts)


def assert_certificate(certificate):
    assert certificate.verify()
    assert "\n" not in certificate.describe()
    for false in tampered(certificate):
        assert not false.verify()


def assert_fixed_label_duality(instance, labels):
    """Primal and dual values of the form agree at fixed labels, and weak duality holds."""
    form = instance.problem.program().fix_labels(labels)
    raw = md.Solver("newton").solve(form, Budget(tol=1e-9))
    primal = form.objective(raw["w"], float(raw["bias"]), raw["scalars"])
    dual = form.dual_objective(raw["u"], raw["tau"])
    assert primal == pytest.approx(dual, rel=1e-6, abs=1e-7)
    assert dual <= primal + 1e-9 * scale_of(primal)


def assert_chain(instance):
    exact = solve(instance, EXACT)
    sdp = solve(instance, SDP, "clarabel")
    other = solve(instance, SDP, "scs", tol=1e-7)
    tol = 2e-5 * scale_of(exact.value, sdp.estimate)
    for solution in (exact, sdp, other):
        assert_recomputed(instance, solution)
        assert_certificate(solution.certificate)
        assert solution.bound <= solution.value
        assert solution.bound <= exact.value + 1e-7 * scale_of(exact.value)
        assert exact.value <= solution.value + tol
    assert exact.status == "optimal" or exact.value - exact.bound <= 1e-8  # a relative gap means nothing at 0
    assert sdp.bound <= sdp.estimate + tol
    assert sdp.bound >= sdp.estimate - 50 * tol  # the repair costs little
    assert sdp.estimate <= exact.value + tol
    assert other.estimate == pytest.approx(sdp.estimate, abs=50 * tol)
    assert_fixed_label_duality(instance, exact.labels)
    assert_fixed_label_duality(instance, instance.truth)
    if instance.bias is True:
        with pytest.raises(md_refusal(), match="trivial with a free bias"):
            solve(instance, MINIMAX)
        return
    minimax = solve(instance, MINIMAX, "clarabel")
    if minimax.status == "failed":  # an interior-point method may stall; it says so, and another one does it
        assert minimax.message and minimax.bound == -np.inf and instance.admits(minimax.labels)
        minimax = solve(instance, MINIMAX, "ecos")
    assert_recomputed(instance, minimax)
    assert_certificate(minimax.certificate)
    assert minimax.bound <= minimax.value
    assert exact.value >= minimax.estimate - tol
    assert minimax.estimate >= sdp.estimate - tol
    assert minimax.bound == pytest.approx(minimax.estimate, abs=50 * tol)


def md_refusal():
    from margindsl.errors import RefusalError

    return RefusalError


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_order_of_values(chunk):
    for k in range(chunk, INSTANCES, CHUNKS):
        instance = instance_number(k)
        try:
            assert_chain(instance)
        except Exception as error:
            error.add_note(f"instance {k}: {instance!r}, parameters {instance.parameters}")
            raise
