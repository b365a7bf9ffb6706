"""Links between the rows of a data frame, by the names its index gives them."""

import os
import warnings

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import coo_array, csr_array
from sklearn import config_context
from sklearn.decomposition import PCA
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from margindsl.errors import DeclarationError
from margindsl.estimators import MarginClusterer
from margindsl.language.graphs import as_pairs

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
    ([("ada",)], "expected pairs"), (["ab"], "expected pairs"), ([(0, 1)], "0 is a number, and points are named by"),
    (csr_array(np.eye(6)), "0 is a number"), (csr_array(np.ones((2, 6))), "expected a square one")])
def test_a_link_between_no_names_is_refused(given, said):
    with pytest.raises(DeclarationError, match=said):
        MarginClusterer().fit(FRAME, must_link=given)


def test_a_name_of_two_rows_is_refused():
    twice = FRAME.set_axis(["ada", "ada", *NAMES[2:]])
    with pytest.raises(DeclarationError, match="'ada' names 2 points"):
        MarginClusterer().fit(twice, cannot_link=[("ada", "dan")])


def test_a_link_to_a_point_that_is_not_there_is_left_out():
    with pytest.warns(UserWarning, match="1 of 2 links are left out.*'zoe'"):
        model = MarginClusterer(random_state=0).fit(FRAME, must_link=[("ada", "zoe"), ("ada", "finn")])
    assert model.left_out_ == 1 and model.labels_[0] == model.labels_[5]


def test_a_matrix_links_names_as_pairs_do():
    shuffled = FRAME.reset_index(drop=True).iloc[::-1]
    matrix = coo_array(([1.0], ([0], [1])), shape=(6, 6))
    cluster = dict(zip(shuffled.index, MarginClusterer(random_state=0).fit(shuffled, cannot_link=matrix).labels_))
    assert cluster[0] != cluster[1]


def test_groups_stay_together_and_series_are_read_by_their_index():
    homes = pd.Series(["x", None, "y", np.nan, "y", "x"], index=NAMES)
    model = MarginClusterer(random_state=0).fit(FRAME, groups=homes.iloc[::-1])
    assert model.labels_[0] == model.labels_[5] and model.labels_[2] == model.labels_[4]
    model.fit(FRAME, labels=pd.Series({"finn": 0, "ada": 1, "dan": None}))
    assert model.labels_[0] == 1 and model.labels_[5] == 0
    with pytest.raises(DeclarationError, match=r"groups: given shape \(2,\)"):
        model.fit(FRAME, groups=[1, 2])
    with pytest.raises(DeclarationError, match="labels: the index of the series"):
        model.fit(FRAME, labels=pd.Series(0, index=range(6)))


TWINS = np.random.default_rng(0).normal(size=(12, 3)).repeat(2, axis=0)  # a link is right where its ends are equal


class Probe(MarginClusterer):
    """Keep the points it is fitted to."""

    def _read(self, X, *y, **checks):
        Probe.points = super()._read(X, *y, **checks)
        return Probe.points


def frame(values):
    return pd.DataFrame(np.asarray(values))


@pytest.mark.parametrize("seed", range(int(os.environ.get("MARGINDSL_LINK_CASES", "60"))))
def test_no_link_moves(seed, monkeypatch):
    """Whatever pipeline, splitter, index and form of links there is: a link joins the points it names, or none."""
    joined = []

    def judge(labels, must_link, cannot_link):
        pairs = as_pairs(must_link, labels.n, "must_link")
        joined.append([np.allclose(*Probe.points[pair]) for pair in pairs])
        return []

    monkeypatch.setattr("margindsl.estimators.clusterer.declared_links", judge)
    rng = np.random.default_rng(seed)
    order = rng.permutation(24) if rng.random() < 0.8 else np.arange(24)
    X, place = TWINS[order], np.argsort(order)
    kind = rng.choice(["array", "counted", "numbers", "text"])
    index = {"array": np.arange(24), "counted": np.arange(24), "numbers": order,
             "text": np.array([f"p{number}" for number in order])}[kind]
    links = [(index[place[k]].item(), index[place[k + 1]].item()) for k in range(0, 24, 2)]
    links = [links[k] for k in rng.permutation(12)[:rng.integers(1, 13)]]
    form = rng.choice(["list", "array", "graph", "matrix"] if kind != "text" else ["list", "array", "graph"])
    given = {"list": lambda: links, "array": lambda: np.array(links), "graph": lambda: nx.Graph(links),
             "matrix": lambda: coo_array((np.ones(len(links)), np.array(links).T), shape=(24, 24))}[form]()
    points = X if kind == "array" else pd.DataFrame(X, index=index)
    steps = [[], [StandardScaler()], [StandardScaler().set_output(transform="pandas")], [PCA(2)],
             [StandardScaler(), FunctionTransformer(frame)]][rng.integers(5)]
    pipeline, routed, named = make_pipeline(*steps, Probe(1)), rng.random() < 0.5, rng.random() < 0.3
    given = {"must_link": given} | ({"names": index} if named else {})
    if not routed:
        given = {f"probe__{word}": value for word, value in given.items()}
    cv = [KFold(2), KFold(3, shuffle=True, random_state=0), ShuffleSplit(2, random_state=0),
          [(rng.permutation(24), np.arange(3))]][rng.integers(4)]
    with warnings.catch_warnings(), config_context(enable_metadata_routing=routed):
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", FitFailedWarning)
        try:
            if routed:
                pipeline[-1].set_fit_request(must_link=True, names=True)
            if (use := rng.integers(3)) == 0:
                pipeline.fit(points, **given)
            elif use == 1:
                cross_validate(pipeline, points, params=given, cv=cv, scoring=lambda *_: 0.0)
            else:
                GridSearchCV(pipeline, {"probe__lam": [1.0, 2.0]}, cv=cv, scoring=lambda *_: 0.0).fit(points, **given)
        except (ValueError, KeyError) as error:  # scikit-learn reads a graph of as many nodes as rows by their numbers
            known = "links go by position", "cuts the rows of", "cuts a graph", "pairs of type"
            assert isinstance(error, KeyError) or any(said in str(error) for said in known)
        else:
            assert use or len(joined[0]) == len(links)
    assert all(map(all, joined)), (kind, form, steps, routed, named, use, cv)
