"""Tables: what is chosen how, means, differences, significance, and what they say about gaps."""

import csv
import math
import runpy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import ttest_rel

from margindsl.errors import DeclarationError
from margindsl.experiments.campaign import Campaign, Part
from margindsl.experiments.cells import Conduct, pack
from margindsl.experiments.choice import RULES, Rule
from margindsl.experiments.page import as_html, as_text, write_html
from margindsl.experiments.protocols import DIGIT_PAIRS, get_protocol
from margindsl.experiments.tables import Summary, best_setting, collect_runs, paired_test, tabulate, write_csv

standins = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("standins.py"))))
ODMC = get_protocol("odmc")
LABELS = np.array([0, 0, 1, 1])


def campaign(paper="odmc", names=("colic",), repeats=2, skipped=()):
    protocol = get_protocol(paper)
    parts = [Part(c, n, 188, 13, "print") for c, n in protocol.resolve(names)]
    parts += [Part(c, n, note="skipped: there is none") for c, n in protocol.resolve(skipped)] if skipped else []
    return Campaign(protocol, tuple(parts), Conduct(), "quick", repeats)


def records_of(found, scores, labels=None, **more):
    """Return a record for every cell, scored by a function of the cell."""
    rows = []
    for key, cell in found.cells():
        value = scores(cell)
        measures = found.protocol.condition(cell.condition).measures
        rows.append({
            "key": key, "condition": cell.condition, "dataset": cell.dataset, "method": cell.method, "status": "done",
            "state": "converged", "setting": [list(item) for item in cell.setting], "repeat": cell.repeat,
            "scores": dict.fromkeys(measures, value), "labels": pack(LABELS if labels is None else labels(cell)),
            "seconds": 2.0, **(more if cell.setting else {})})
    return rows


def entry(table, method, measure="Acc", dataset="colic"):
    return next(e for e in table.entries if (e.method, e.measure, e.dataset) == (method, measure, dataset))


def odmc_scores(cell):
    if cell.method == "KM":
        return [0.70, 0.72][cell.repeat]
    setting = dict(cell.setting)
    if cell.method == "ODMC":
        base = {10.0: 0.80, 100.0: 0.84}[setting["lam"]] + (0.02 if setting["kernel"] == "linear" else 0.0)
        return base + 0.01 * cell.repeat
    return 0.5


def test_best_setting_mean_deviation_and_difference():
    found = campaign()
    table = tabulate(found, records_of(found, odmc_scores))
    best = entry(table, "ODMC")
    assert best.oracle.mean == pytest.approx(0.865) and best.oracle.std == pytest.approx(0.01 / np.sqrt(2))
    assert best.oracle.setting == "kernel=linear lam=100 nu=0.4 theta=0.2 centre=True"
    assert best.printed.mean == 0.862 and best.difference == pytest.approx(0.003)
    assert entry(table, "KM").oracle.mean == pytest.approx(0.71)
    assert (best.cells, best.failures, best.limited, best.seconds) == (8, 0, 0, 2.0)


def test_errors_are_minimised():
    found = campaign("skmmc", ("Haberman",))
    table = tabulate(found, records_of(found, lambda cell: dict(cell.setting).get("l", 7)))
    assert entry(table, "CPMMC", "balanced error", "Haberman").oracle.setting == "C=10 l=0"
    assert entry(table, "KM", "balanced error", "Haberman").difference == pytest.approx(7 - 48.25)


def test_the_choice_without_labels_does_not_see_scores():
    found = campaign()

    def labels(cell):
        # Settings of weight 10 agree with one another, the others each say something else.
        setting = dict(cell.setting)
        odd = setting.get("lam") == 100.0 and setting["kernel"] == "linear"
        return np.array([0, 1, 0, 1]) if odd else LABELS

    honest = entry(tabulate(found, records_of(found, odmc_scores, labels)), "ODMC").honest
    assert honest.mean == pytest.approx(0.825)  # the first of those that agree: linear, weight 10
    shuffled = tabulate(found, records_of(found, lambda cell: 1 - odmc_scores(cell), labels))
    assert entry(shuffled, "ODMC").honest.setting == honest.setting


def test_a_rule_of_ones_own_and_one_across_repeats():
    found = campaign()
    records = records_of(found, odmc_scores, value=1.0, null=1.0)
    last = Rule("last", lambda candidates: len(candidates) - 1)
    assert entry(tabulate(found, records, last), "ODMC").honest.mean == pytest.approx(0.845)
    assert entry(tabulate(found, records, RULES["stability"]), "ODMC").honest.mean == pytest.approx(0.825)
    with pytest.raises(DeclarationError, match="rule 'wild' chose number 9 of 2 candidates; a rule returns an index"):
        tabulate(found, records, Rule("wild", lambda candidates: 9))


def test_labellings_without_objective_are_chosen_by_agreement():
    found = campaign("odmssc", ("fruitfly",))
    part = found.parts[0]
    weights = replace(part.condition.methods[1], quick={})
    condition = replace(part.condition, methods=(weights,))
    found = replace(found, parts=(replace(part, condition=condition),))
    rows = records_of(found, lambda cell: dict(cell.setting)["weight"],
                      lambda cell: np.array([0, 1, 0, 1]) if dict(cell.setting)["weight"] == 0.1 else LABELS)
    table = tabulate(found, rows, Rule("first", lambda candidates: 0))
    assert entry(table, "PCKMEANS", "RI", "fruitfly").honest.mean == 1.0


def test_settings_of_an_unfinished_repeat_are_left_out_of_the_best():
    rows = [{"setting": [["C", c]], "repeat": r, "scores": {"Acc": s}, "status": "done"}
            for c, r, s in ((1.0, 0, 0.6), (1.0, 1, 0.6), (10.0, 0, 0.9))]
    assert best_setting(collect_runs(rows), "Acc") == (("C", 1.0),)
    assert best_setting({}, "Acc") is None


def test_ties_go_to_the_first_setting_of_the_grid_whatever_the_order_of_records():
    found = campaign()
    rows = records_of(found, lambda cell: 0.5)
    tables = [tabulate(found, order) for order in (rows, rows[::-1])]
    assert [e.oracle for e in tables[0].entries] == [e.oracle for e in tables[1].entries]
    assert entry(tables[0], "ODMC").oracle.setting == "kernel=linear lam=10 nu=0.4 theta=0.2 centre=True"


def test_failures_are_counted_and_shown():
    found = campaign()
    rows = records_of(found, odmc_scores)
    for row in rows:
        if row["method"] == "GMMC":
            row |= {"status": "failed", "message": "MemoryError: too large"}
            del row["scores"]
    table = tabulate(found, rows)
    assert entry(table, "GMMC").oracle is None and entry(table, "GMMC").failures == 4
    assert math.isnan(entry(table, "GMMC").difference)
    assert "4 cells without an answer: MemoryError: too large" in as_text(table)


def test_the_last_record_of_a_cell_counts():
    found = campaign()
    rows = records_of(found, odmc_scores)
    failed = [{**row, "status": "failed", "message": "once"} for row in rows]
    table = tabulate(found, failed + rows)
    assert all(e.failures == 0 for e in table.entries)


def test_significance_counts_from_the_papers_own_method():
    found = campaign(repeats=4)
    rng = np.random.default_rng(0)
    noise = rng.normal(scale=0.01, size=(5, 4))

    def scores(cell):
        base = {"KM": 0.6, "NC": 0.9, "IterSVR": 0.75, "ODMC": 0.75}.get(cell.method, 0.7)
        return base + noise[["KM", "NC", "IterSVR", "ODMC"].index(cell.method) if cell.method in (
            "KM", "NC", "IterSVR", "ODMC") else 4, cell.repeat]

    table = tabulate(found, records_of(found, scores))
    assert [entry(table, m).verdict for m in ("KM", "NC", "ODMC")] == ["win", "loss", ""]
    assert table.tally("unsupervised", "Acc", "KM") == (1, 0, 0)
    expected = ttest_rel(0.75 + noise[3], 0.75 + noise[2]).pvalue
    assert entry(table, "IterSVR").p_value == pytest.approx(expected)


@given(arrays(float, st.integers(2, 12), elements=st.floats(0, 1)), st.integers(0, 1000))
@settings(deadline=None, max_examples=50)
def test_paired_test_is_scipys(own, seed):
    other = np.random.default_rng(seed).uniform(size=len(own))
    verdict, p_value = paired_test(own, other)
    assert p_value == pytest.approx(ttest_rel(own, other).pvalue)
    assert (verdict == "tie") == (p_value >= 0.05)
    if verdict != "tie":
        assert (verdict == "win") == (own.mean() > other.mean())
    opposite = {"win": "loss", "loss": "win", "tie": "tie"}
    assert paired_test(other, own)[0] == paired_test(own, other, less_is_better=True)[0] == opposite[verdict]


def test_paired_test_of_constant_differences():
    assert paired_test([0.5, 0.6], [0.5, 0.6]) == ("tie", 1.0)
    assert paired_test([0.5, 0.6], [0.4, 0.5]) == ("win", 0.0)
    assert paired_test([0.5, 0.6], [0.4, 0.5], less_is_better=True) == ("loss", 0.0)


def test_summary_of_one_repeat_has_no_deviation():
    assert Summary.of({0: 0.25}).std == 0.0
    assert Summary.of({0: 1.0, 1: 3.0}).std == pytest.approx(np.sqrt(2))


def test_the_mean_over_pairs_needs_all_of_them():
    found = campaign("cpmmc", ("digits pairs",))
    rows = records_of(found, lambda cell: DIGIT_PAIRS.index(cell.dataset))
    table = tabulate(found, rows)
    mean = entry(table, "KM", "clustering error", "UCI digits")
    assert mean.oracle.mean == pytest.approx(22.0) and mean.printed.mean == 3.62
    assert mean.oracle.setting == "worst pair 8-9: 44.00"
    assert mean.cells == 90
    partial = tabulate(found, [row for row in rows if row["dataset"] != "Digits 4-5"])
    assert not any(e.dataset == "UCI digits" for e in partial.entries)


def test_methods_that_are_not_run_show_the_papers_figure():
    found = campaign("odmssc", ("leukemia",))
    table = tabulate(found, records_of(found, lambda cell: 0.5))
    deep = entry(table, "DCC", "NMI", "leukemia")
    assert deep.oracle is None and deep.printed.mean == 0.815 and "not run" in deep.note
    large = campaign()
    large = replace(large, parts=(replace(large.parts[0], n=500),))
    assert "not run above 250 points" in entry(tabulate(large, records_of(large, odmc_scores)), "GMMC").note


def test_csv_holds_every_entry_and_every_skipped_set(tmp_path):
    found = campaign(skipped=("sick",))
    table = tabulate(found, records_of(found, odmc_scores))
    write_csv(table, tmp_path / "table.csv")
    with open(tmp_path / "table.csv", newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == len(table.entries) + 1
    best = next(r for r in rows if (r["method"], r["measure"]) == ("ODMC", "Acc"))
    assert float(best["ours_best_by_true_classes"]) == pytest.approx(0.865)
    assert float(best["difference_best"]) == pytest.approx(0.003)
    assert float(best["ours_chosen_without_labels"]) == pytest.approx(0.825)
    assert float(best["difference_chosen"]) == pytest.approx(0.825 - 0.862)
    assert rows[-1]["dataset"] == "sick" and rows[-1]["note"] == "skipped: there is none"


def test_pages_say_what_an_oracle_chose_and_escape(tmp_path):
    found = campaign(skipped=("sick",))
    found = replace(found, parts=(replace(found.parts[0], note="<b>bold & wrong"), *found.parts[1:]))
    table = tabulate(found, records_of(found, odmc_scores))
    page = as_html(table)
    for phrase in ("chosen by the true classes", "chosen without labels", "0.865 ± 0.007", "0.862 (+0.003)",
                   "sick (unsupervised): skipped: there is none", "fourclass, ODMC: Rand index 0.766",
                   "Features are scaled to [0, 1]", "&lt;b&gt;bold &amp; wrong"):
        assert phrase in page, phrase
    assert "<b>" not in page and "http" not in page
    text = as_text(table)
    assert "0.865 / 0.825 / 0.862" in text and "an oracle's choice" in text
    for write in (write_csv, write_html):
        with pytest.raises(DeclarationError, match="cannot write .*: No such file"):
            write(table, tmp_path / "nowhere" / "table")


def test_what_was_not_asked_for_says_so():
    found = replace(campaign(), only=("KM", "ODMC"))
    table = tabulate(found, records_of(found, odmc_scores))
    assert entry(table, "CPMMC").note == "not asked for" and entry(table, "ODMC").note == ""
