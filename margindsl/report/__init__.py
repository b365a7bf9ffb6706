"""One HTML page of a solution or a comparison, and how to read an answer."""

from margindsl.report.page import write_comparison, write_report

__all__ = ["write_comparison", "write_report"]
