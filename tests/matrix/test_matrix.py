"""The page of refusals is the code's; some cells of the matrix are solved, and all by `tests/matrix/matrix.py`."""

from pathlib import Path

import pytest
from cells import MARGINS, OBJECTIVES, RELAXATIONS, cells
from matrix import attempt, faults, page

CELLS = {margins: list(cells(margins)) for margins in MARGINS}
LABELSETS = len(CELLS["two"]) // len(OBJECTIVES)


def test_the_page_of_refusals_is_up_to_date():
    path = Path(__file__).parents[2] / "docs" / "refusals.md"
    assert path.read_text(encoding="utf-8") == page(), "python tests/matrix/matrix.py --docs writes it again"


@pytest.mark.slow
@pytest.mark.parametrize("objective,margins", [
    *((j, "two") for j in range(len(OBJECTIVES))), *((j, "simplex") for j in (0, 2, 3)),
    *((j, "Crammer-Singer") for j in (1, 5))])
def test_answers_hold_by_every_relaxation(objective, margins):
    cell = CELLS[margins][objective * LABELSETS + objective % LABELSETS]  # every label set is met
    half = list(RELAXATIONS)[objective % 2::2]  # the cells beside it meet the other half
    assert not faults([attempt(cell, relaxation, seconds=0.2) for relaxation in half])
