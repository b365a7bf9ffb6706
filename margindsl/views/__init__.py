"""What people look at: pictures, one HTML page of an answer, what notebooks show, and how to read an answer."""

from margindsl.views.page import write_comparison, write_report

__all__ = ["write_comparison", "write_report"]
