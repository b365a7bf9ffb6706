"""The command `margindsl`: parse arguments, run one command, turn errors into one line and an exit code."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from margindsl import __version__
from margindsl.cli.arguments import add_columns, add_data, add_declaration, add_solve_options, seed
from margindsl.errors import MarginError, TrivialityWarning

OK, FAILED, USAGE, STOPPED, INTERRUPTED = 0, 1, 2, 3, 130

_EPILOG = """exit codes:
  0    done
  1    refused or malformed: one line on stderr says what was given, what was expected, what to do
  2    wrong usage
  3    stopped early by the time limit, an iteration cap or Ctrl-C; the best labels so far are written
  130  interrupted before there were labels"""

_TRIVIAL = ("neither --balance, --known nor --cannot-link excludes the all-equal labelling; add --balance FRACTION "
            "unless one cluster is an acceptable answer")

_COMMANDS = {
    "demo": "margindsl.cli.demo", "solvers": "margindsl.cli.names", "relaxations": "margindsl.cli.names",
    "recipes": "margindsl.cli.names", "report": "margindsl.cli.reporting", "completion": "margindsl.cli.completing",
    "solve": "margindsl.cli.solving", "compare": "margindsl.cli.comparing", "explain": "margindsl.cli.explaining",
    "verify": "margindsl.cli.verifying",
    "certify": "margindsl.cli.certifying", "select": "margindsl.cli.selecting"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; default those of the process.

    Returns
    -------
    int
        0 done, 1 a `MarginError`, 3 stopped early with labels written, 130 interrupted before that.

    Examples
    --------
    >>> main(["relaxations", "--names"])  # doctest: +ELLIPSIS
    alternating
    cccp
    ...
    0
    """
    arguments = build_parser().parse_args(argv)
    code = OK
    with _one_line_warnings():
        try:
            code = _command(arguments.command)(arguments)
            print(end="", flush=True)
            return code
        except MarginError as error:
            print(f"margindsl: {' '.join(str(error).split())}", file=sys.stderr)
            return FAILED
        except BrokenPipeError:
            # The reader of the pipe has gone; the flush at exit must not complain about it.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return code
        except OSError as error:
            if error.filename is not None:
                print(f"margindsl: {error.filename}: {error.strerror}", file=sys.stderr)
                return FAILED
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            print(f"margindsl: cannot write to standard output: {error.strerror}", file=sys.stderr)
            return FAILED
        except KeyboardInterrupt:
            print("margindsl: interrupted before there were labels", file=sys.stderr)
            return INTERRUPTED


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="margindsl", description="Margin-based clustering: declare, relax, solve, certify.",
        epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="version", version=f"margindsl {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    _add_demo(commands)
    for name, what in (("solvers", "list solvers: what each accepts, version, installed or not"),
                       ("relaxations", "list relaxations and the bounds they certify"),
                       ("recipes", "list published methods and what they declare")):
        listing = commands.add_parser(name, help=what, description=what)
        listing.add_argument("--names", action="store_true", help="names alone, one a line")
        listing.add_argument("--json", action="store_true", help="as JSON")
    _add_data_commands(commands)
    _add_files(commands)
    return parser


def _add_demo(commands: Any) -> None:
    what = "cluster the digits 3 and 8 by several relaxations and solvers, in about a minute"
    demo = commands.add_parser("demo", help=what, description=what)
    demo.add_argument("--time-limit", type=float, default=15.0, metavar="SECONDS",
                      help="limit of each solve (default 15)")
    demo.add_argument("--seed", "--random-state", type=seed, default=0, dest="seed", metavar="S",
                      help="choice of links and subsample (default 0)")


def _add_data_commands(commands: Any) -> None:
    for name, what in (("solve", "cluster the points of a CSV file; writes index,label,decision,margin"),
                       ("compare", "run several relaxations and solvers on a CSV file; prints a table"),
                       ("certify", "value, certified gap and improvement of labels found elsewhere"),
                       ("select", "solve at several loss weights and choose labels without classes; a table"),
                       ("explain", "print every stage of the compilation, without solving")):
        command = commands.add_parser(name, help=what, description=what, epilog=_EPILOG,
                                      formatter_class=argparse.RawDescriptionHelpFormatter)
        add_data(command, name)
        add_declaration(command)
        add_solve_options(command, name)


def _add_files(commands: Any) -> None:
    what = "write one HTML page about a saved solution"
    command = commands.add_parser("report", help=what, description=what)
    command.add_argument("file", metavar="FILE", help="a .npz file that Solution.save or `solve --save` wrote")
    command.add_argument("--output", metavar="FILE.HTML", help="where the page goes; default beside the file")
    what = "print a script that completes commands and options: eval \"$(margindsl completion bash)\""
    command = commands.add_parser("completion", help=what, description=what)
    command.add_argument("shell", choices=("bash", "zsh", "tcsh"))
    what = "recompute labels, value and bound of a saved solution from the proof in its file"
    command = commands.add_parser("verify", help=what, description=what)
    command.add_argument("file", metavar="FILE", help="a .npz file that Solution.save wrote")
    command.add_argument("data", metavar="DATA", nargs="?",
                         help="the points, as they were given: linear features are compared with them")
    add_columns(command, "not a feature")


def _command(name: str) -> Callable[[argparse.Namespace], int]:
    run: Callable[[argparse.Namespace], int] = importlib.import_module(_COMMANDS[name]).run
    return run


@contextmanager
def _one_line_warnings() -> Iterator[None]:
    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        if category.__module__.startswith("margindsl"):
            text = _TRIVIAL if issubclass(category, TrivialityWarning) else message
            print(f"margindsl: warning: {text}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


if __name__ == "__main__":
    sys.exit(main())
