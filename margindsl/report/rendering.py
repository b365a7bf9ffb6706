"""Pages from templates."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from margindsl.errors import NotInstalledError


def rendered(template: Path, content: Mapping[str, Any]) -> str:
    """Return a template filled in; everything but the template itself is escaped."""
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError:
        raise NotInstalledError("an HTML page needs the package jinja2; run `pip install margindsl[report]`") from None
    places = Environment(loader=FileSystemLoader(template.parent), autoescape=True, undefined=StrictUndefined,
                         trim_blocks=True, lstrip_blocks=True)
    return places.get_template(template.name).render(**content)


__all__ = ["rendered"]
