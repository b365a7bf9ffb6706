"""No forged claim passes, no forged witness proves too much: a part of what `forger.py` tries, dealt out over kinds."""

import numpy as np
import pytest
from forger import CLAIMS, CLOSE, FORGED, edited, is_caught, overstated, proof
from kinds import KINDS, solved

CLAIM_SHARE, WITNESS_SHARE = 12, 24  # a kind meets one claim in twelve and one witness in 24


@pytest.mark.parametrize("kind", KINDS)
def test_false_claims_are_caught(kind):
    header, arrays, _ = proof(kind)
    missed = [name for name in list(CLAIMS)[kind % CLAIM_SHARE::CLAIM_SHARE]
              if is_caught(name, header, arrays, kind) is False]
    assert not missed


@pytest.mark.parametrize("kind", KINDS)
def test_forged_witnesses_prove_nothing_false(kind):
    header, arrays, least = proof(kind)
    assert header["bound"] <= least + CLOSE * abs(least)
    found = {name: overstated(name, header, arrays, least, kind)
             for name in list(FORGED)[kind % WITNESS_SHARE::WITNESS_SHARE]}
    assert max(found.values()) <= CLOSE, max(found, key=found.get)


@pytest.mark.parametrize("kind", KINDS[::8])
def test_edited_files_say_what_they_said_or_nothing(kind, tmp_path):
    solved(kind).save(tmp_path / "edited.npz")
    assert all(edited(tmp_path / "edited.npz", np.random.default_rng(kind)))


def test_the_forger_sees_what_proves_too_much():
    header, arrays, least = proof(0)
    assert overstated("held by no bound", header, arrays, 0.5 * least) > CLOSE
