"""`examples/papers`: what is drawn and chosen, the baselines, and a run that goes on after it was stopped."""

import csv
import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import ttest_rel

from margindsl.errors import DeclarationError
from margindsl.metrics import clustering_accuracy

PAPERS = Path(__file__).parents[1] / "examples" / "papers"
MODULES = ("data", "protocols", "baselines", "methods", "cells", "tables", "reproduce")


@pytest.fixture(scope="module")
def papers():
    """Import the scripts as they import one another, and leave no names behind."""
    before = {name: sys.modules.pop(name, None) for name in MODULES}
    sys.path.insert(0, str(PAPERS))
    try:
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in MODULES})
    finally:
        sys.path.remove(str(PAPERS))
        for name, module in before.items():
            sys.modules.pop(name, None)
            sys.modules.update({name: module} if module else {})


def sets(papers, positive=0.5, n=200):
    rng = np.random.default_rng(0)
    classes = rng.permutation((np.arange(n) < positive * n).astype(int))
    return papers.data.Dataset("points", rng.normal(size=(n, 2)) + 4.0 * classes[:, None], classes)


def test_printed_figures_and_grids(papers):
    table = papers.data.printed_table("cpmmc").set_index(["measure", "condition", "dataset", "method"])
    assert table.loc[("clustering error", "two-class", "Digits 3-8", "CPMMC"), "mean"] == 3.08
    assert table.loc[("clustering error", "two-class", "Ionosphere", "KM"), "std"] == 17.9
    odmc = papers.protocols.PROTOCOLS["odmc"]
    assert len(list(odmc.conditions[0].methods[-1].settings())) == 768
    for protocol in papers.protocols.PROTOCOLS.values():
        assert protocol.resolve(None)
        for condition in protocol.conditions:
            assert {method.call for method in condition.methods} <= set(papers.methods.CALLS)
            assert set(condition.measures) <= {*papers.cells.MEASURES, papers.cells.SECONDS}


def test_five_per_cent_of_labels_are_a_part_of_ten_and_links_are_true(papers):
    data = sets(papers)
    five, ten = (papers.cells.draw(data, c, 0, 3) for c in papers.protocols.PROTOCOLS["ssodm"].conditions)
    for (_, training, known, _, _), count in ((five, 8), (ten, 15)):
        assert training.sum() == 150 and np.count_nonzero(known) == count
        assert np.array_equal(known[known != 0], data.signs[training][known != 0])
    assert np.all(ten[2][five[2] != 0] != 0)
    _, _, _, must, cannot = papers.cells.draw(data, papers.protocols.PROTOCOLS["odmssc"].conditions[0], 0, 0)
    assert len(must) + len(cannot) == 100
    assert np.all(data.classes[must[:, 0]] == data.classes[must[:, 1]])
    assert np.all(data.classes[cannot[:, 0]] != data.classes[cannot[:, 1]])


@pytest.mark.parametrize("positive, bound", [(0.5, 0.03), (0.59, 0.3), (0.65, 0.3), (0.9, 0.9)])
def test_balance_admits_the_classes(papers, positive, bound):
    assert papers.cells.nearest_balance(sets(papers, positive, 1000)) == bound


def test_baselines_keep_links(papers):
    data, rng = sets(papers), np.random.default_rng(1)
    pairs = np.array([rng.choice(200, 2, replace=False) for _ in range(80)])
    same = data.classes[pairs[:, 0]] == data.classes[pairs[:, 1]]
    kept = papers.baselines.cop_kmeans(data.X, 2, pairs[same], pairs[~same], rng)
    assert np.all((kept[pairs[:, 0]] == kept[pairs[:, 1]]) == same)
    wrong = [(i, j) for i, j in pairs[~same][:3]]  # links that k-means alone would break
    free = papers.baselines.pc_kmeans(data.X, 2, wrong, (), 0.0, rng)
    paid = papers.baselines.pc_kmeans(data.X, 2, wrong, (), 100.0, rng)
    assert any(free[i] != free[j] for i, j in wrong) and all(paid[i] == paid[j] for i, j in wrong)
    sent = papers.baselines.lcvqe(data.X, 2, (), pairs[same][:2], rng)
    assert all(sent[i] != sent[j] for i, j in pairs[same][:2])
    data.X[:, 1] = 4.0 * rng.normal(size=200)  # a column that neither links nor classes ask for
    links = data.X, 2, pairs[same], pairs[~same], 0.1, rng
    assert clustering_accuracy(data.classes, papers.baselines.kmeans(data.X, 2, rng)) < 0.8
    for found in (papers.baselines.mpc_kmeans(*links), papers.baselines.dcc(*links),
                  papers.baselines.mpc_kmeans(*links, full=True, penalties=False)):
        assert clustering_accuracy(data.classes, found) > 0.9
    with pytest.raises(DeclarationError, match="must-links tie together"):
        papers.baselines.cop_kmeans(data.X, 2, [(0, 1)], [(1, 0)], rng)


def test_rules_see_no_classes_and_the_paired_test_is_scipys(papers):
    records = [{"labels": "0011", "value": 3.0, "null": 4.0}, {"labels": "1100", "value": 2.0, "null": 4.0},
               {"labels": "0101", "value": 1.0, "null": 4.0}]
    runs = {k: {0: record} for k, record in enumerate(records)}
    assert papers.tables.choose(runs, "agreement", None) == {0: 0}
    assert papers.tables.choose(runs, "least-objective", None) == {0: 2}
    own, other = np.random.default_rng(0).normal(size=(2, 8)) + [[3.0], [0.0]]
    assert papers.tables.paired_test(own, other) == ("win", pytest.approx(ttest_rel(own, other).pvalue))
    assert papers.tables.paired_test([0.5, 0.6], [0.5, 0.6]) == ("tie", 1.0)
    assert papers.tables.paired_test([0.5, 0.6], [0.4, 0.5], less_is_better=True) == ("loss", 0.0)


def test_times_are_multiples_of_that_of_the_papers_own_method(papers):
    protocol = papers.protocols.PROTOCOLS["cpmmc"]
    part = papers.reproduce.Part(protocol.conditions[0], "Digits 3-8", sets(papers, n=4))
    records = [{"condition": "two-class", "dataset": "Digits 3-8", "method": method, "setting": [], "repeat": repeat,
                "status": "done", "labels": "0011", "seconds": 9.0,
                "scores": {"clustering error": 1.0, "CPU time": time}}
               for method, times in (("KM", (1.0, 3.0)), ("CPMMC", (4.0, 4.0))) for repeat, time in enumerate(times)]
    table = papers.tables.tabulated(protocol, [part], records, "full", "agreement").set_index(["measure", "method"])
    assert table.loc[("CPU time", "KM"), ["best", "chosen", "paper"]].tolist() == [0.5, 0.5, 0.51 / 1.10]
    assert table.loc[("clustering error", "KM"), "paper"] == 5.32


def test_a_run_goes_on_where_it_was_stopped(papers, tmp_path, monkeypatch, capsys):
    data = sets(papers, n=24)
    rows = "\n".join(",".join(map(repr, [*map(float, x), int(c)])) for x, c in zip(data.X, data.classes))
    (tmp_path / "hepatitis.csv").write_text(f"f0,f1,label\n{rows}\n")
    command = ["odmc", "--data", str(tmp_path), "--sets", "hepatitis,colic", "--quick", "--methods", "KM,ODMC,CPMMC",
               "--output", str(tmp_path / "out"), "--quiet"]
    monkeypatch.setattr("sklearn.datasets.fetch_openml", None)

    def interrupted(X, **_):
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("margindsl.recipes.odmc", interrupted)
        assert papers.reproduce.main(command) == 3
    before = (tmp_path / "out" / "cells.jsonl").read_text()
    assert before and "goes on from here" in capsys.readouterr().err
    (tmp_path / "out" / "cells.jsonl").write_text(before + '{"key": "torn')
    assert papers.reproduce.main(command) == 0
    out, err = capsys.readouterr()
    assert out.count("1.000 / 1.000 / 0.841") == 2  # as soon as its set is done, and in the table of all
    assert "1.000 / 1.000 / 0.841" in out and "colic (unsupervised): skipped: data set 'colic': not in" in out
    assert err == "" and (tmp_path / "out" / "cells.jsonl").read_text().startswith(before)
    records = [json.loads(line) for line in (tmp_path / "out" / "cells.jsonl").read_text().splitlines()]
    assert len(records) == len({record["key"] for record in records}) == 14
    with open(tmp_path / "out" / "table.csv", encoding="utf-8") as stream:
        found = {row["method"]: row for row in csv.DictReader(stream) if row["measure"] == "Acc"}
    assert found["ODMC"]["best"] == "1" and found["ODMC"]["paper"] == "0.841" and found["KM"]["verdict"] == "tie"


def test_unknown_sets_are_one_line(papers, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert papers.reproduce.main(["odmc", "--sets", "hepatitus"]) == 1
    assert "Did you mean 'hepatitis'" in capsys.readouterr().err
