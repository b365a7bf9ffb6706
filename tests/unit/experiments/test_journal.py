"""The journal: whole lines or none."""

import json

import pytest

from margindsl.errors import DeclarationError
from margindsl.experiments.journal import Journal


def test_records_come_back(tmp_path):
    path = tmp_path / "cells.jsonl"
    journal = Journal(path)
    for k in range(3):
        journal.append({"key": str(k), "value": float("nan"), "setting": (("kernel", "rbf 1"),), "note": "½±"})
    assert [record["key"] for record in Journal(path).records] == ["0", "1", "2"]
    assert Journal(path).records[0]["setting"] == [["kernel", "rbf 1"]] == journal.records[0]["setting"]


@pytest.mark.parametrize("torn", ['{"key": "2', '{"key": "2"}', "{"])
def test_a_torn_last_line_is_dropped_and_the_next_record_is_whole(tmp_path, torn):
    path = tmp_path / "cells.jsonl"
    path.write_text('{"key": "0"}\n{"key": "1"}\n' + torn, encoding="utf-8")
    journal = Journal(path)
    journal.append({"key": "3"})
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["key"] for line in lines] == ["0", "1", "3"]


@pytest.mark.parametrize("line", ["nonsense", "[1, 2]", '{"other": 1}', ""])
def test_a_line_that_is_no_record_is_named(tmp_path, line):
    path = tmp_path / "cells.jsonl"
    path.write_text(f'{{"key": "0"}}\n{line}\n{{"key": "1"}}\n', encoding="utf-8")
    with pytest.raises(DeclarationError, match="line 2 is no record of a cell; remove the line"):
        Journal(path)


def test_files_that_cannot_be_used(tmp_path, monkeypatch):
    with pytest.raises(DeclarationError, match="cannot read .*: Is a directory"):
        Journal(tmp_path)
    with pytest.raises(DeclarationError, match="cannot write .*: No such file"):
        Journal(tmp_path / "nowhere" / "cells.jsonl").append({"key": "0"})
    monkeypatch.setattr("os.write", lambda handle, line: len(line) - 1)
    with pytest.raises(DeclarationError, match="the disk is full"):
        Journal(tmp_path / "cells.jsonl").append({"key": "0"})
