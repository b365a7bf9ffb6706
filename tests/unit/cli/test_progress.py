"""The progress line: one line on a terminal, silence elsewhere."""

import io

from margindsl.cli.progress import ProgressLine
from margindsl.contract import Progress

REPORT = Progress("alternating", 7, 1.25, float("-inf"), 3.0)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_terminal_gets_one_line_that_is_cleared():
    stream = Terminal()
    with ProgressLine("minimax", stream) as line:
        assert line(REPORT) is False
    text = stream.getvalue()
    assert "\n" not in text
    assert "minimax: alternating 7, value 1.25, 3.0 s" in text
    assert text.endswith("\r") and text.rstrip("\r").split("\r")[-1].strip() == ""
    assert max(map(len, text.split("\r"))) < 80


def test_reports_in_quick_succession_are_thinned():
    stream = Terminal()
    with ProgressLine("minimax", stream) as line:
        for _ in range(1000):
            line(REPORT)
    assert stream.getvalue().count("alternating") < 50


def test_nothing_is_written_without_a_terminal_or_when_quiet():
    for stream, quiet in ((io.StringIO(), False), (Terminal(), True)):
        with ProgressLine("minimax", stream, quiet) as line:
            assert line(REPORT) is False
        assert stream.getvalue() == ""
