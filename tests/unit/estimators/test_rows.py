"""Links between the rows of a data frame, by the names its index gives them."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from margindsl.errors import DeclarationError
from margindsl.estimators import MarginClusterer

NAMES = ["ada", "ben", "cleo", "dan", "eva", "finn"]
FRAME = pd.DataFrame({"a": [-2.0, -1.9, -1.8, 1.8, 1.9, 2.0], "b": [0.0, 0.1, 0.2, 0.0, 0.1, 0.2]}, index=NAMES)
PAIRS = [("ada", "finn"), ("cleo", "dan")]


@pytest.mark.parametrize("given", [
    PAIRS, np.array(PAIRS), pd.DataFrame(PAIRS), nx.Graph(PAIRS), set(PAIRS)],
    ids=["list", "array", "frame", "graph", "set"])
def test_links_name_rows_of_the_frame(given):
    labels = MarginClusterer(random_state=0).fit(FRAME, must_link=given).labels_
    cluster = dict(zip(NAMES, labels))
    assert cluster["ada"] == cluster["finn"] and cluster["cleo"] == cluster["dan"]


def test_labels_that_are_numbers_are_labels_not_positions():
    shuffled = FRAME.reset_index(drop=True).iloc[::-1]
    labels = MarginClusterer(random_state=0).fit(shuffled, cannot_link=[(0, 1)]).labels_
    cluster = dict(zip(shuffled.index, labels))
    assert cluster[0] != cluster[1]


def test_a_frame_that_is_numbered_takes_numbers():
    numbered = FRAME.reset_index(drop=True)
    labels = MarginClusterer(random_state=0).fit(numbered, cannot_link=[(0, 1)]).labels_
    assert labels[0] != labels[1]


@pytest.mark.parametrize("given,said", [
    ([("ada", "zoe")], "'zoe' is not in the index"), ([("ada",)], "expected pairs"), (["ab"], "expected pairs"),
    ([(0, 1)], "0 is not in the index")])
def test_a_link_to_no_row_is_refused(given, said):
    with pytest.raises(DeclarationError, match=said):
        MarginClusterer().fit(FRAME, must_link=given)


def test_a_name_of_two_rows_is_refused():
    twice = FRAME.set_axis(["ada", "ada", *NAMES[2:]])
    with pytest.raises(DeclarationError, match="'ada' stands 2 times"):
        MarginClusterer().fit(twice, cannot_link=[("ada", "dan")])
