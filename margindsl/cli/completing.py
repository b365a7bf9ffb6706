"""The command `margindsl completion`: a script that completes commands and options in a shell."""

from __future__ import annotations

import argparse

from margindsl.errors import NotInstalledError


def run(arguments: argparse.Namespace) -> int:
    """Print the script of a shell."""
    from margindsl.cli.main import build_parser

    try:
        import shtab
    except ImportError:
        raise NotInstalledError("completion needs shtab; run `pip install margindsl[completion]`") from None
    print(shtab.complete(build_parser(), arguments.shell))
    return 0
