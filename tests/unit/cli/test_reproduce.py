"""`margindsl reproduce`: files, exit codes, progress, going on after Ctrl-C."""

import csv
import io
import json
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

import margindsl as md
from margindsl.cli.main import main
from margindsl.experiments import cells, datasets

standins = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[1] / "experiments" / "standins.py")))


@pytest.fixture
def run(tmp_path, monkeypatch):
    standins.install(monkeypatch)
    standins.write_set(tmp_path, "hepatitis")

    def unreachable(number):
        raise OSError("no route")

    monkeypatch.setattr(datasets, "_ask_openml", unreachable)
    monkeypatch.chdir(tmp_path)
    for cache in (cells._data, cells._fingerprint, cells._points):
        cache.cache_clear()
    return lambda *arguments: main(["reproduce", "odmc", "--data", str(tmp_path), *arguments])


def records(folder):
    return [json.loads(line) for line in (folder / "cells.jsonl").read_text(encoding="utf-8").splitlines()]


def test_tables_are_written_and_printed(run, tmp_path, capsys):
    assert run("--sets", "hepatitis,diabetes", "--quick", "--verbose") == 0
    out, err = capsys.readouterr()
    assert "unsupervised, Acc" in out and "1.000 / 1.000 / 0.841" in out
    assert "diabetes (unsupervised): skipped: data set 'diabetes': not in" in out
    assert [line.split()[0] for line in err.splitlines() if "repeat" in line] == [f"{k}/38" for k in range(1, 39)]
    assert "38/38 hepatitis, " in err and "written: " in err
    folder = tmp_path / "reproduce-odmc"
    assert len(records(folder)) == 38
    rows = list(csv.DictReader(io.StringIO((folder / "table.csv").read_text(encoding="utf-8"))))
    assert {row["method"] for row in rows if row["dataset"] == "hepatitis"} == {
        "KM", "NC", "GMMC", "IterSVR", "CPMMC", "LG-MMC", "ODMC", "ODMC lifted"}
    assert [row["note"][:8] for row in rows if row["dataset"] == "diabetes"] == ["skipped:"]
    assert (folder / "table.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_ctrl_c_leaves_tables_and_the_same_command_goes_on(run, tmp_path, monkeypatch, capsys):
    def interrupted(X, **arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(md.recipes, "cpmmc", interrupted)
    command = ("--sets", "hepatitis", "--quick", "--repeats", "1", "--output", "out/run")
    assert run(*command) == 3
    out, err = capsys.readouterr()
    assert "interrupted; the same command goes on from here" in err
    before = records(tmp_path / "out" / "run")
    assert len(before) == 7 and "unsupervised, Acc" in out
    monkeypatch.setattr(md.recipes, "cpmmc", standins.clustering)
    assert run(*command, "--quiet") == 0
    after = records(tmp_path / "out" / "run")
    assert after[:7] == before and len(after) == 19
    assert capsys.readouterr().err == ""


def test_another_rule_uses_the_finished_cells(run, tmp_path, capsys):
    command = ("--sets", "hepatitis", "--quick", "--repeats", "1")
    assert run(*command) == 0
    before = records(tmp_path / "reproduce-odmc")
    assert run(*command, "--choose", "held-out") == 0
    out = capsys.readouterr().out
    assert "Rule without labels: held-out." in out and out.count("1.000 / 1.000 / 0.841") == 2
    assert records(tmp_path / "reproduce-odmc") == before


def test_nothing_to_show_is_a_failure(run, capsys):
    assert run("--sets", "diabetes", "--quick") == 1
    assert "skipped" in capsys.readouterr().out


@pytest.mark.parametrize("arguments, message", [
    (["--sets", "hepatitus"], "unknown data set of odmc 'hepatitus'. Did you mean 'hepatitis'"),
    (["--sets", " , "], "expected names of data sets, comma separated"),
    (["--time-limit", "0"], "--time-limit 0: expected a positive number of seconds"),
    (["--choose", "stabilty"], "unknown rule of choice 'stabilty'. Did you mean 'stability'"),
    (["--data", "nowhere"], "data directory 'nowhere' does not exist"),
    (["--sets", "hepatitis", "--output", "hepatitis.csv/out"], "cannot make the directory hepatitis.csv/out")])
def test_wrong_arguments_are_one_line(run, capsys, arguments, message):
    assert run(*arguments) == 1
    out, err = capsys.readouterr()
    assert message in err and err.count("\n") == 1 and out == ""


@pytest.mark.parametrize("arguments", [["--jobs", "0"], ["--repeats", "two"], ["--random-state", "-1"]])
def test_wrong_usage(run, capsys, arguments):
    with pytest.raises(SystemExit) as caught:
        run(*arguments)
    assert caught.value.code == 2
    assert "whole number" in capsys.readouterr().err


def test_unknown_paper_is_wrong_usage(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["reproduce", "odm"])
    assert caught.value.code == 2 and "odmssc" in capsys.readouterr().err


def test_a_broken_journal_is_named(run, tmp_path, capsys):
    folder = tmp_path / "reproduce-odmc"
    folder.mkdir()
    (folder / "cells.jsonl").write_text("nonsense\n", encoding="utf-8")
    assert run("--sets", "hepatitis", "--quick") == 1
    assert "line 1 is no record of a cell" in capsys.readouterr().err
