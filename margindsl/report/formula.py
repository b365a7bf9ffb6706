"""Formulas as MathML, which browsers show without any script."""

from __future__ import annotations

import html
from typing import Any
from xml.etree import ElementTree


class Unreadable(ValueError):
    """LaTeX of which no MathML can be made."""


def math_of(latex: str) -> str:
    """Return LaTeX mathematics as a MathML element in which everything foreign is escaped."""
    from latex2mathml.converter import convert_to_element

    try:
        root: Any = convert_to_element(latex or "{}", display="block")
    except Exception as error:  # foreign code has errors of its own for every case
        raise Unreadable(latex) from error
    root.attrib.update(display="inline", displaystyle="true")  # limits below sums, at the left of its cell
    for element in root.iter():
        element.text = html.unescape(element.text or "")  # the converter writes entities for the serialiser to keep
    return ElementTree.tostring(root, encoding="unicode")


__all__ = ["Unreadable", "math_of"]
