"""Runs: which cells there are, what counts as finished, processes, interruptions, kills."""

import json
import os
import runpy
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import joblib
import pytest

from margindsl.errors import DeclarationError, SolverError, UnknownNameError
from margindsl.experiments import campaign as campaign_module
from margindsl.experiments import cells, datasets
from margindsl.experiments.campaign import plan, run_campaign
from margindsl.experiments.cells import Conduct
from margindsl.experiments.journal import Journal
from margindsl.experiments.protocols import get_protocol
from margindsl.experiments.tables import tabulate

STANDINS = Path(__file__).with_name("standins.py")
standins = SimpleNamespace(**runpy.run_path(str(STANDINS)))
ODMC = get_protocol("odmc")
FEW = ("KM", "NC", "GMMC", "ODMC")  # of the methods: baselines, and of those that solve


@pytest.fixture
def conduct(tmp_path, monkeypatch):
    standins.install(monkeypatch)
    folder = tmp_path / "data"
    folder.mkdir()
    for k, name in enumerate(("hepatitis", "colic")):
        standins.write_set(folder, name, seed=k)
    for cache in (cells._data, cells._fingerprint, cells._points):
        cache.cache_clear()
    return Conduct(str(folder), network=False)


def without_seconds(records):
    return sorted(json.dumps({k: v for k, v in r.items() if k != "seconds"}) for r in records)


def quick(conduct, names=("hepatitis",), **options):
    return plan(ODMC, names, conduct, extent="quick", **options)


def test_the_full_grid_is_that_of_the_paper(conduct):
    found = plan(ODMC, ("hepatitis",), conduct)
    counts = {}
    for _, cell in found.cells():
        counts[cell.method] = counts.get(cell.method, 0) + 1
    # Ten repeats; 4 weights × 6 kernels, and for ODMC × 4 ν × 4 θ × centred or not.
    assert counts == {"KM": 10, "NC": 50, "GMMC": 240, "IterSVR": 240, "CPMMC": 240, "LG-MMC": 240, "ODMC": 7680,
                      "ODMC lifted": 7680}
    assert len({key for key, _ in found.cells()}) == 10 + 50 + 4 * 240 + 2 * 7680


def test_methods_can_be_chosen(conduct):
    found = plan(ODMC, ("hepatitis",), conduct, extent="coarse", methods=("KM", "ODMC"))
    assert {cell.method for _, cell in found.cells()} == {"KM", "ODMC"}
    with pytest.raises(UnknownNameError, match=r"unknown method of odmc 'ODM'\. Did you mean"):
        plan(ODMC, ("hepatitis",), conduct, methods=("ODM",))
    with pytest.raises(UnknownNameError, match="unknown grid 'small'"):
        plan(ODMC, ("hepatitis",), conduct, extent="small")


def test_a_sample_is_a_part_of_the_grid_and_of_larger_samples(conduct):
    whole, small, large = ({cell.setting for _, cell in plan(
        ODMC, ("hepatitis",), conduct, methods=("ODMC",), repeats=2, sample=sample).cells()}
        for sample in (None, 20, 100))
    assert small < large < whole and (len(small), len(large)) == (20, 100)
    assert {cell.setting for _, cell in plan(ODMC, ("hepatitis",), conduct, methods=("KM",), sample=5).cells()} == {()}
    with pytest.raises(DeclarationError, match="sample: given 0, expected at least 1 setting"):
        plan(ODMC, ("hepatitis",), conduct, sample=0)


def test_the_quick_grid_is_a_part_of_the_full_one(conduct):
    full = {key for key, _ in plan(ODMC, ("hepatitis",), conduct).cells()}
    small = {key for key, _ in quick(conduct).cells()}
    assert small < full and len(small) == 2 * (1 + 2 + 4 * 2 + 2 * 4)


def test_grids_of_ssodm():
    for condition in get_protocol("ssodm").conditions:
        counts = {m.name: [len(list(m.settings(extent))) for extent in ("full", "coarse", "quick")]
                  for m in condition.methods}
        # 4 weights × 6 kernels; for ssODM 4² weights × 4 ν × 4 θ × 6 kernels × centred or not.
        assert counts == {"SVM": [24, 24, 2], "TSVM": [24, 6, 2], "LapSVM": [24, 6, 2], "USVM": [24, 6, 2],
                          "S4VM": [24, 6, 2], "ssODM": [3072, 12, 4], "ssODM lifted": [3072, 12, 4]}
        for method in condition.methods:
            full = set(method.settings())
            assert set(method.settings("coarse")) <= full and set(method.settings("quick")) < full


def test_methods_of_few_repeats_and_few_points(conduct, tmp_path):
    standins.write_set(tmp_path / "data", "haberman", n=500)
    found = plan(get_protocol("skmmc"), ("Haberman",), conduct)
    counts = {}
    for _, cell in found.cells():
        counts[cell.method] = counts.get(cell.method, 0) + 1
    assert counts == {"KM": 20, "NC": 5, "IterSVR": 400, "CPMMC": 21, "LG-MMC": 20, "SKMMC": 100, "SKMMCV2": 100}
    standins.write_set(tmp_path / "data", "house", n=500)
    large = plan(ODMC, ("house",), conduct)
    assert "GMMC" not in {cell.method for _, cell in large.cells()}


def test_sets_by_name():
    slides = get_protocol("cpmmc")
    assert len(slides.resolve(("digits pairs",))) == 45
    chosen = slides.resolve(("digits 0689", "DIGITS 3-8", "digits 3-8"))
    assert [name for _, name in chosen] == ["Dig 0689", "Digits 3-8"]
    assert {c.name for c, _ in get_protocol("ssodm").resolve(("house",))} == {"5% labels", "10% labels"}
    with pytest.raises(UnknownNameError, match="unknown data set of odmc 'hous'. Did you mean 'house'"):
        ODMC.resolve(("hous",))


def test_missing_sets_are_skipped_with_a_sentence(conduct, monkeypatch):
    asked = []

    def unreachable(number):
        asked.append(number)
        raise OSError("no route")

    monkeypatch.setattr(datasets, "_ask_openml", unreachable)
    found = quick(replace(conduct, network=True), ("diabetes", "hepatitis", "sick", "house"))
    assert [part.skipped for part in found.parts] == [True, False, True, True]
    assert "OpenML did not answer" in found.parts[0].note and "OpenML was not asked" in found.parts[2].note
    assert asked == [37]  # one unanswered question is enough
    assert "24 points, the paper has 80" in found.parts[1].note
    assert {cell.dataset for _, cell in found.cells()} == {"hepatitis"}


def test_repeats_are_checked(conduct):
    with pytest.raises(DeclarationError, match="repeats: given 0, expected at least 1"):
        quick(conduct, repeats=0)


def test_a_second_run_has_nothing_left_to_do(conduct, tmp_path):
    reports = []
    found = quick(conduct, repeats=1, methods=FEW)
    run_campaign(found, Journal(tmp_path / "cells.jsonl"), report=lambda *report: reports.append(report))
    assert [number for _, number, _ in reports] == list(range(1, 10)) and reports[-1][2] == 9
    again = []
    run_campaign(found, Journal(tmp_path / "cells.jsonl"), report=lambda *report: again.append(report))
    assert again == []
    # More repeats use what is there.
    run_campaign(quick(conduct, methods=FEW), Journal(tmp_path / "cells.jsonl"),
                 report=lambda *report: again.append(report))
    assert [number for _, number, _ in again] == list(range(10, 19))
    assert {record["repeat"] for record, _, _ in again} == {1}


def test_failures_and_shorter_limits_are_run_again(conduct):
    found = quick(conduct, repeats=1)
    keys = [key for key, _ in found.cells()]
    records = [{"key": keys[0], "status": "failed"}, {"key": keys[1], "status": "refused"},
               {"key": keys[2], "status": "done", "state": "time_limit", "limit": 10.0},
               {"key": keys[3], "status": "done", "state": "time_limit", "limit": 60.0},
               {"key": keys[4], "status": "done", "state": "converged", "limit": 10.0},
               {"key": "of another run", "status": "done", "state": "converged", "limit": 60.0}]
    assert set(found.finished(records)) == {keys[3], keys[4]}


def test_other_data_or_another_seed_is_another_cell(conduct, tmp_path):
    keys = {key for key, _ in quick(conduct).cells()}
    assert not keys & {key for key, _ in quick(replace(conduct, random_state=1)).cells()}
    standins.write_set(tmp_path / "data", "hepatitis", seed=9)
    assert not keys & {key for key, _ in quick(conduct).cells()}


@pytest.mark.slow
def test_processes_find_what_one_process_finds(conduct, tmp_path):
    found = quick(conduct, ("hepatitis", "colic"))
    # Other processes know no stand-ins: baselines alone.
    parts = tuple(replace(p, condition=replace(p.condition, methods=p.condition.methods[:2])) for p in found.parts)
    found = replace(found, parts=parts)
    one, two = Journal(tmp_path / "one.jsonl"), Journal(tmp_path / "two.jsonl")
    run_campaign(found, one, n_jobs=1)
    run_campaign(found, two, n_jobs=2)
    assert len(one.records) == 12 and without_seconds(one.records) == without_seconds(two.records)


KILLED = """
import os, runpy, signal, sys
from types import SimpleNamespace
import margindsl as md
from margindsl.experiments.campaign import plan, run_campaign
from margindsl.experiments.cells import Conduct
from margindsl.experiments.journal import Journal
from margindsl.experiments.protocols import get_protocol

standins = SimpleNamespace(**runpy.run_path(sys.argv[1]))
runs = []

def deadly(X, **arguments):
    runs.append(1)
    if len(runs) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return standins.clustering(X, **arguments)

for name in standins.CLUSTERING:
    setattr(md.recipes, name, deadly)
found = plan(get_protocol("odmc"), ("hepatitis",), Conduct(sys.argv[2], network=False), extent="quick",
             methods=sys.argv[4:])
run_campaign(found, Journal(sys.argv[3]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system has no SIGKILL")
def test_a_killed_run_goes_on_where_it_was(conduct, tmp_path):
    path, whole = tmp_path / "cells.jsonl", tmp_path / "whole.jsonl"
    done = subprocess.run([sys.executable, "-c", KILLED, str(STANDINS), conduct.directory, str(path), *FEW],
                          timeout=300)
    assert done.returncode == -signal.SIGKILL
    before = path.read_bytes()
    assert before.count(b"\n") == 6  # k-means, two spectral cells, three solves
    with open(path, "ab") as stream:
        stream.write(b'{"key": "torn')  # as if the kill had come in the middle of a write

    found, run = quick(conduct, methods=FEW), []
    run_campaign(found, Journal(path), report=lambda record, number, total: run.append(number))
    assert run == list(range(7, 19))
    assert path.read_bytes().startswith(before)
    run_campaign(found, Journal(whole))
    assert without_seconds(Journal(path).records) == without_seconds(Journal(whole).records)
    tables = [tabulate(found, Journal(p).records) for p in (path, whole)]
    assert [(e.oracle, e.honest, e.verdict) for e in tables[0].entries] == [
        (e.oracle, e.honest, e.verdict) for e in tables[1].entries]


def dying(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system has no SIGKILL")
def test_a_dead_process_is_explained(conduct, tmp_path, monkeypatch):
    monkeypatch.setattr(campaign_module, "_confined", dying)
    with pytest.raises(SolverError, match="a process died.*what was finished is kept: try again with one job"):
        run_campaign(quick(conduct), Journal(tmp_path / "cells.jsonl"), n_jobs=2)


def test_cells_under_way_are_kept_when_interrupted(conduct, tmp_path):
    journal, began = Journal(tmp_path / "cells.jsonl"), []

    def report(record, number, total):
        began.append(number)
        if number == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), joblib.parallel_config(backend="threading", n_jobs=2):
        run_campaign(quick(conduct, methods=FEW), journal, report=report)
    assert len(journal.records) == len(began) and 1 < len(began) < 18  # those under way; no other was begun
    run_campaign(quick(conduct, methods=FEW), journal)
    assert len(journal.records) == 18
