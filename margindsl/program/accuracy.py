"""What tolerances are relative to, by its former name."""

from margindsl.accuracy import greatest_ratio, relative_gap, rounding

__all__ = ["greatest_ratio", "relative_gap", "rounding"]
