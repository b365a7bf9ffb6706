"""Outer loops over subproblems: alternation, label generation, enumeration, rounding, local search."""
