"""A proof in other units is a proof about one program only."""

from dataclasses import replace

import numpy as np
import pytest

import margindsl as md
from margindsl.program.scaling import ScaledCertificate


@pytest.mark.parametrize("relaxation", ["sdp", "minimax", "weight-lifting", "exact", "supervised", "gmmc"])
def test_a_proof_of_other_losses_proves_nothing(relaxation):
    X = 1e4 * np.random.default_rng(0).standard_normal((8, 2))
    weight = md.Parameter(10.0)
    y, f = md.Labels(8), md.Hyperplane(X)
    known = [y == np.array([1, -1] * 4)] if relaxation == "supervised" else [abs(md.sum(y)) <= 2]
    problem = md.Problem(md.Minimize(1e8 * md.sq_norm(f) / 2 + weight * md.mean(md.squared_hinge(y * f))), known)
    certificate = problem.solve(relaxation, random_state=0).certificate.inner  # of the program
    assert isinstance(certificate, ScaledCertificate) and certificate.verify()
    weight.value = 0.1
    assert not replace(certificate, program=problem.program()).verify()
