"""Cells: what is drawn, what is scored, what is recorded."""

import json
import math
import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import margindsl as md
from margindsl.contract import Status
from margindsl.errors import DeclarationError, UnknownNameError
from margindsl.experiments import cells
from margindsl.experiments.cells import (
    Cell,
    Conduct,
    as_candidate,
    as_kernel,
    draw_side_information,
    fingerprint_of,
    nearest_balance,
    null_value,
    pack,
    run_cell,
    unpack,
)
from margindsl.experiments.datasets import Dataset
from margindsl.experiments.methods import CALLS, Call, Task, get_call
from margindsl.experiments.protocols import PROTOCOLS, get_protocol

standins = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("standins.py"))))
UNSUPERVISED = get_protocol("odmc").conditions[0]
FIVE, TEN = get_protocol("ssodm").conditions
LINKED = get_protocol("odmssc").conditions[0]


@pytest.fixture
def conduct(tmp_path, monkeypatch):
    standins.install(monkeypatch)
    for name in ("hepatitis", "house", "fruitfly"):
        standins.write_set(tmp_path, name)
    for cache in (cells._data, cells._fingerprint, cells._points):
        cache.cache_clear()
    return Conduct(str(tmp_path), network=False)


def dataset(n=200, positive=0.5, seed=0):
    rng = np.random.default_rng(seed)
    classes = np.zeros(n, dtype=int)
    classes[:round(positive * n)] = 1
    return Dataset("points", rng.normal(size=(n, 2)), rng.permutation(classes))


def test_a_cell_is_scored_and_recorded(conduct):
    cell = Cell("odmc", "unsupervised", "hepatitis", "ODMC", (("kernel", "linear"), ("lam", 10.0)), 0)
    record = json.loads(json.dumps(run_cell(cell, conduct)))
    assert record["status"] == "done" and record["state"] in ("optimal", "converged")
    assert record["scores"] == {"Acc": 1.0, "RI": 1.0}  # the clusters are four deviations apart
    seen = as_candidate(record)
    assert seen.labels.sum() == 12 and 0 < seen.value < seen.null
    assert seen.null == pytest.approx(10.0)  # λ times the hinge at zero
    assert run_cell(cell, conduct)["scores"] == record["scores"]


def test_the_factor_of_a_kernel_stands_for_the_kernel(conduct, monkeypatch):
    setting = (("kernel", "rbf 1"), ("lam", 10.0))
    factored = run_cell(Cell("odmc", "unsupervised", "hepatitis", "ODMC", setting, 0), conduct)
    monkeypatch.setitem(CALLS, "odmc", Call(CALLS["odmc"].run, factored=False))
    direct = run_cell(Cell("odmc", "unsupervised", "hepatitis", "ODMC", setting, 0), conduct)
    assert factored["value"] == pytest.approx(direct["value"], rel=1e-6)
    assert factored["labels"] == direct["labels"]


def test_predictions_on_the_test_part_are_scored(conduct):
    cell = Cell("ssodm", "5% labels", "house", "SVM", (("kernel", "rbf 4"), ("C", 100.0)), 1)
    record = run_cell(cell, conduct)
    assert record["status"] == "done" and record["scores"]["Acc"] >= 5 / 6
    assert len(unpack(record["labels"])) == 18  # three quarters of 24


def test_links_reach_the_method(conduct):
    for method, setting in (("ODMSSC", (("kernel", "linear"), ("lam", 1.0))), ("COPKMEANS", ())):
        record = run_cell(Cell("odmssc", "100 constraints", "fruitfly", method, setting, 0), conduct)
        assert record["status"] == "done", record
        # A hundred true pairs among 24 points tie nearly all of them to the truth.
        assert record["scores"]["RI"] > 0.9 and set(record["scores"]) == {"RI", "FMI", "NMI"}


def test_failures_are_recorded_not_raised(conduct, monkeypatch):
    cell = Cell("odmc", "unsupervised", "hepatitis", "CPMMC", (("kernel", "linear"), ("C", 1.0)), 0)

    def broken(X, **arguments):
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(md.recipes, "cpmmc", broken)
    record = run_cell(cell, conduct)
    assert (record["status"], record["message"]) == ("failed", "ZeroDivisionError: by nothing")

    def refused(X, **arguments):
        raise DeclarationError("too\nsmall")

    monkeypatch.setattr(md.recipes, "cpmmc", refused)
    record = run_cell(cell, conduct)
    assert (record["status"], record["message"]) == ("refused", "too small")


def test_an_interrupted_solve_is_no_answer(conduct, monkeypatch):
    class Interrupted(md.Problem):
        def solve(self, *arguments, **options):
            solution = super().solve(*arguments, **options)
            object.__setattr__(solution, "state", Status.INTERRUPTED)
            return solution

    def recipe(X, **arguments):
        problem = standins.clustering(X)
        return Interrupted(problem.objective, problem.constraints, relaxation="alternating")

    monkeypatch.setattr(md.recipes, "odmc", recipe)
    with pytest.raises(KeyboardInterrupt):
        run_cell(Cell("odmc", "unsupervised", "hepatitis", "ODMC", (("kernel", "linear"),), 0), conduct)


def test_splits_and_labels():
    data = dataset()
    five, ten = (draw_side_information(data, condition, 0, 3) for condition in (FIVE, TEN))
    assert five.training.sum() == 150
    assert np.array_equal(five.training, ten.training)
    truth = data.signs[five.training]
    for draw, count in ((five, 8), (ten, 15)):
        known = draw.known != 0
        assert known.sum() == count and np.array_equal(draw.known[known], truth[known])
    assert np.all(ten.known[five.known != 0] != 0)  # 5 % is a part of 10 %
    assert not np.array_equal(five.training, draw_side_information(data, FIVE, 0, 4).training)
    assert not np.array_equal(five.training, draw_side_information(data, FIVE, 1, 3).training)


@given(st.integers(0, 10**6), st.integers(6, 60))
@settings(deadline=None, max_examples=30)
def test_both_classes_are_always_labelled(seed, n):
    draw = draw_side_information(dataset(n, 2 / n), FIVE, seed, 0)
    assert {-1, 1} <= set(draw.known[draw.known != 0])


def test_a_class_that_is_never_drawn_is_explained(monkeypatch):
    pair = Dataset("pair", np.array([[0.0], [1.0]]), np.array([0, 1]))
    monkeypatch.setattr(cells, "TRAINING", 0.5)  # one training point cannot hold two classes
    with pytest.raises(DeclarationError, match="data set 'pair': 1000 random splits left a class out"):
        draw_side_information(pair, FIVE, 0, 0)


def test_links_are_true_and_as_many_as_the_protocol_says():
    data = dataset()
    draw = draw_side_information(data, LINKED, 0, 0)
    assert len(draw.must) + len(draw.cannot) == 100
    assert np.all(data.classes[draw.must[:, 0]] == data.classes[draw.must[:, 1]])
    assert np.all(data.classes[draw.cannot[:, 0]] != data.classes[draw.cannot[:, 1]])


def test_unsupervised_cells_are_given_nothing_of_the_classes():
    draw = draw_side_information(dataset(), UNSUPERVISED, 0, 0)
    assert draw.known is None and not len(draw.must) and not len(draw.cannot) and draw.training.all()


@pytest.mark.parametrize("positive, bound", [(0.5, 0.03), (0.55, 0.03), (0.59, 0.3), (0.65, 0.3), (0.9, 0.9)])
def test_balance_is_the_nearer_of_the_two_and_admits_the_classes(positive, bound):
    assert nearest_balance(dataset(1000, positive)) == bound


def test_kernels():
    assert as_kernel("linear") == "linear"
    assert as_kernel("rbf 0.25") == md.RBF(0.25 * md.sqrt_mean_distance)


def test_null_value_is_the_objective_at_zero():
    X = dataset(20).X
    assert null_value(standins.clustering(X, C=7.0)) == pytest.approx(7.0)
    y, f, rho = md.Labels(20), md.Hyperplane(X, bias=True), md.Scalar(nonneg=True, name="rho")
    threshold = md.Problem(md.Minimize(md.sq_norm(f) / 2 - rho + 10 * md.mean(md.pos(rho - y * f))),
                           [abs(md.sum(f)) <= 1])
    assert math.isnan(null_value(threshold))


@given(arrays(np.int64, st.integers(1, 40), elements=st.integers(0, 4)))
@settings(deadline=None, max_examples=50)
def test_packing_keeps_the_partition(labels):
    assert np.array_equal(unpack(pack(labels)), np.unique(labels, return_inverse=True)[1])


def test_fingerprints_tell_data_apart():
    data = dataset()
    moved = Dataset("points", data.X + 1e-9, data.classes)
    assert fingerprint_of(data) == fingerprint_of(dataset()) != fingerprint_of(moved)


def test_every_method_of_every_protocol_can_be_called():
    for protocol in PROTOCOLS.values():
        for condition in protocol.conditions:
            assert {method.call for method in condition.methods} <= set(CALLS)
            assert set(condition.measures) <= set(cells.MEASURES)
    with pytest.raises(UnknownNameError, match="unknown method 'kmean'. Did you mean 'kmeans'"):
        get_call("kmean")


def test_both_columns_of_ssodm_find_the_classes_of_two_blobs():
    rng = np.random.default_rng(0)
    truth = np.repeat([-1, 1], 20)
    known = np.where(np.arange(40) % 10 == 0, truth, 0)
    X = rng.normal(size=(40, 3)) + 3.0 * truth[:, None]
    found = {}
    for name in ("ssodm", "ssodm_lifted"):
        call = get_call(name)
        problem = call.run(Task(X, "linear", {"lam1": 10.0, "lam2": 10.0, "centre": False}, known=known))
        solution = problem.solve(**call.options, random_state=0)
        assert np.array_equal(solution.labels, truth)
        found[solution.relaxation] = solution.value
    assert found["minimax"] == pytest.approx(found["weight-lifting"], rel=1e-6)
