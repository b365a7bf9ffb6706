"""The command `margindsl`: parse arguments, run one command, turn errors into one line and an exit code."""

from __future__ import annotations

import argparse
import ast
import difflib
import importlib
import math
import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from margindsl import __version__
from margindsl.errors import MarginError, TrivialityWarning, UnknownNameError

OK, FAILED, USAGE, STOPPED, INTERRUPTED = 0, 1, 2, 3, 130
LOSSES = ("odm", "hinge", "squared-hinge", "epsilon-insensitive", "logistic", "mean-variance")
RUN = {"solvers": "names", "relaxations": "names", "recipes": "names", "demo": "run"}  # functions of other names
OUTPUT = {"compare": "where the table goes; default stdout", "certify": "where the best labels found go"}

_EPILOG = """exit codes:
  0    done
  1    refused or malformed: one line on stderr says what was given, what was expected, what to do
  2    wrong usage
  3    stopped early by the time limit, an iteration cap or Ctrl-C; the best labels so far are written
  130  interrupted before there were labels"""

# What advice in Python is in words of the command line; a blank stands for any white space.
_SPOKEN = (
    (r"solution\.save\(path\), then run margindsl verify path", "--save FILE.NPZ, then run margindsl verify FILE.NPZ"),
    (r", or a greater tol", ""), (r"md\.certify\(problem, solution\.labels\)", "margindsl certify"),
    (r"md\.(solvers|compare)\b(\(\))?", r"margindsl \1"), (r"\bsolution\.message", "the line above"),
    (r"(, or go| Go) on from here: solve\(warm_start=solution\)(; with checkpoint=path.*? it was)?", ""),
    (r"md\.sizes\(y, at_least=1\)", "--balance FRACTION"), (r"\bmd\.sizes", "sizes"),
    (r"\bat_least\b", "min_size"), (r"\bat_most\b", "max_size"), (r"\bn_clusters\b", "clusters"),
    (r"\b(min_size|max_size|time_limit|max_iter|(?:clusters|relaxation|solver|kernel)(?==))(?:=(['\w.-]+\w'?))?",
     lambda found: " ".join(filter(None, (f"--{found[1].replace('_', '-')}", (found[2] or "").strip("'"))))))


def spoken(text: str) -> str:
    """Return a message whose advice is in words of the command line."""
    for pattern, words in _SPOKEN:
        text = re.sub(pattern.replace(" ", r"\s+"), words, text)
    return text


_TRIVIAL = ("neither --balance, --known nor --cannot-link excludes the all-equal labelling; add --balance FRACTION "
            "unless one cluster is an acceptable answer")


def number(kind: type, holds: Callable[[Any], bool], expected: str) -> Callable[[str], Any]:
    """Return what reads a number of a kind for which a condition holds."""
    def read(text: str) -> Any:
        try:
            if holds(value := kind(text)):
                return value
        except ValueError:
            pass
        raise argparse.ArgumentTypeError(f"given {text!r}, expected {expected}")

    return read


COUNT = number(int, lambda v: v >= 1, "a whole number of at least 1")
WEIGHT = number(float, lambda v: 0 <= v < math.inf, "a number of at least 0")
SIZE = number(lambda text: float(text) if "." in text else int(text),  # type: ignore[arg-type]
              lambda v: 0 < v < 1 or (isinstance(v, int) and v >= 1), "a whole number of points, or a fraction below 1")
SECONDS = number(float, lambda v: v > 0, "a positive number of seconds")
WIDTH = number(lambda text: text if text == "median" else float(text),  # type: ignore[arg-type]
               lambda v: v == "median" or 0 < v < math.inf, "a positive number, or 'median'")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, 1 of a `MarginError`, 3 stopped early, 130 interrupted.

    Wrong usage is a SystemExit of code 2.
    """
    parser = build_parser()
    arguments, rest = parser.parse_known_args(argv)
    if rest:
        parser.unrecognised(arguments.command, rest)
    # What libraries in C print (HiGHS a banner, SCS its interrupts) goes to standard error until the process ends, so
    # that standard output holds labels, tables or JSON alone. A caller that has put a stream of its own there keeps it.
    if sys.stdout is sys.__stdout__ and sys.stdout is not None:
        with suppress(OSError, ValueError):  # closed, or no file
            if sys.stdout.fileno() == 1:
                sys.stdout.flush()
                own = os.fdopen(os.dup(1), "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors)
                os.dup2(2, 1)
                sys.stdout = own
    code = OK
    with warnings.catch_warnings():
        warnings.showwarning = _show_in_one_line
        try:
            commands: Any = importlib.import_module(
                "margindsl.cli.demo" if arguments.command == "demo" else "margindsl.cli.commands")
            code = getattr(commands, RUN.get(arguments.command, arguments.command))(arguments)
            print(end="", flush=True)
            return code
        except MarginError as error:
            words = " ".join(str(error).split())
            print(f"margindsl: {words if isinstance(error, UnknownNameError) else spoken(words)}", file=sys.stderr)
            return FAILED
        except BrokenPipeError:
            # The reader of the pipe has gone; the flush at exit must not complain about it.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return code
        except OSError as error:
            if error.filename is None:
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            what = f"open {error.filename}" if error.filename else "write to standard output"
            print(f"margindsl: cannot {what}: {error.strerror}", file=sys.stderr)
            return FAILED
        except KeyboardInterrupt:
            print("margindsl: interrupted before there were labels", file=sys.stderr)
            return INTERRUPTED


class Parser(argparse.ArgumentParser):
    """Represent a parser that suggests the word that was meant."""

    def error(self, message: str) -> NoReturn:
        """Print usage and the message, with the choice that is like what was given, and exit with 2."""
        found = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        if found:
            message += suggestion(found[1], re.findall(r"[\w-]+", found[2]))
        self.print_usage(sys.stderr)
        print(f"{self.prog}: error: {message}", file=sys.stderr)
        raise SystemExit(USAGE)

    def unrecognised(self, command: str, rest: Sequence[str]) -> NoReturn:
        """Exit with 2 and the option of the command that is like the first one given."""
        commands = next(action for action in self._actions if isinstance(action, argparse._SubParsersAction))
        own: Parser = commands.choices[command]
        word = rest[0].partition("=")[0].replace("_", "-")
        others = [name for name, other in commands.choices.items() if word in other._option_string_actions]
        meant = (f"; {word} is an option of {', '.join(others)}" if others and command not in others else suggestion(
            word, [name for name in own._option_string_actions if name.startswith("--")]))
        own.error(f"unrecognized arguments: {' '.join(rest)}{meant}")


def suggestion(word: str, known: Sequence[str]) -> str:
    """Return the end of a sentence that names what is most like a word, empty where nothing is."""
    close = difflib.get_close_matches(word, known, 1, 0.5)
    return f"; did you mean {close[0]}?" if close else ""


def build_parser() -> Parser:
    """Return the parser of all commands."""
    parser = Parser(
        prog="margindsl", description="Margin-based clustering: declare, relax, solve, certify.",
        epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="version", version=f"margindsl {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")

    def command(name: str, what: str, **options: Any) -> argparse.ArgumentParser:
        made: argparse.ArgumentParser = commands.add_parser(name, help=what, description=what, **options)
        return made

    demo = command("demo", "cluster the digits 3 and 8 by several relaxations and solvers, in about a minute")
    demo.add_argument("--time-limit", type=SECONDS, default=15.0, metavar="SECONDS",
                      help="limit of each solve (default 15)")
    demo.add_argument("--report", default="margindsl-demo.html", metavar="FILE.HTML",
                      help="its page (default margindsl-demo.html)")
    _add_seed(demo, "choice of links and subsample (default 0)")
    for name, what in (("solvers", "list solvers: what each accepts, version, installed or not"),
                       ("relaxations", "list relaxations and the bounds they certify"),
                       ("recipes", "list published methods and what they declare")):
        listing = command(name, what)
        listing.add_argument("--names", action="store_true", help="names alone, one a line")
        listing.add_argument("--json", action="store_true", help="as JSON")
    easy = command("cluster", "cluster the points of a file; writes index,cluster,decision,margin",
                   epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = easy.add_argument_group("data")
    data.add_argument("data", metavar="data.csv",
                      help="one point a row: .csv, .npy, .npz, .libsvm; '-' reads CSV from stdin")
    _add_columns(data, "not a feature, clusters are counted by class")
    _add_clusters(easy.add_argument_group("clusters"))
    group = easy.add_argument_group("answer")
    group.add_argument("--time-limit", type=SECONDS, metavar="SECONDS", help="the best clusters so far are written")
    _add_seed(group, "random state (default 0)")
    group.add_argument("--output", metavar="FILE.CSV", help="where the clusters go; default stdout")
    group.add_argument("--append", action="store_true", help="write the whole table, a column cluster after the others")
    group.add_argument("--json", action="store_true", help="the answer as one JSON object on stdout")
    group.add_argument("--report", metavar="FILE.HTML", help="one HTML page about the answer")
    group.add_argument("--save", metavar="MODEL.NPZ", help="the model, for `predict` and `verify`")
    talk = group.add_mutually_exclusive_group()
    talk.add_argument("--quiet", action="store_true", help="no progress and no summary on stderr")
    talk.add_argument("--verbose", action="store_true", help="a line a round on stderr, in pipes too")
    for name, what in (("solve", "solve a problem over the points of a file; writes index,label,decision,margin"),
                       ("compare", "run several relaxations and solvers on a file; prints a table"),
                       ("certify", "value, certified gap and improvement of labels found elsewhere"),
                       ("explain", "print every stage of the compilation, without solving")):
        made = command(name, what, epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
        data = made.add_argument_group("data")
        data.add_argument("data", metavar="data.csv",
                          help="one point a row: .csv, .npy, .npz, .libsvm; '-' reads CSV from stdin")
        if name == "certify":
            data.add_argument("labels", metavar="labels.csv",
                              help="the cluster of each point, of any names: one column, or one called 'label'")
        _add_columns(data, "not a feature, accuracy is reported")
        _add_declaration(made.add_argument_group("declaration"))
        _add_solving(made.add_argument_group("solving"), name)
    new = command("predict", "clusters of new points by a model that `cluster --save` wrote")
    new.add_argument("file", metavar="MODEL.npz")
    new.add_argument("data", metavar="new.csv", help="points with the columns that the model learned from")
    new.add_argument("--index", metavar="COLUMN", help="column of names of the points")
    new.add_argument("--append", action="store_true", help="write the whole table, a column cluster after the others")
    new.add_argument("--output", metavar="FILE.CSV", help="where the clusters go; default stdout")
    new.add_argument("--json", action="store_true", help="clusters and decision values as one JSON object on stdout")
    page = command("report", "write one HTML page about a saved solution")
    page.add_argument("file", metavar="FILE", help="a .npz file that Solution.save or `solve --save` wrote")
    page.add_argument("--output", metavar="FILE.HTML", help="where the page goes; default beside the file")
    verify = command("verify", "recompute labels, value and bound of a saved solution from the proof in its file")
    verify.add_argument("file", metavar="FILE", help="a .npz file that Solution.save wrote")
    verify.add_argument("data", metavar="DATA", nargs="?",
                        help="the points, as they were given: linear features are compared with them")
    _add_columns(verify, "not a feature")
    return parser


def _add_columns(group: Any, use: str) -> None:
    """Add the arguments that say which columns are features and in what units, `use` being what classes are for."""
    group.add_argument("--truth", metavar="COLUMN", help=f"column of true classes (name, or number from 0): {use}")
    group.add_argument("--columns", metavar="A,B", action="append", default=[],
                       help="the columns that are features; default all others")
    group.add_argument("--drop", metavar="A,B", action="append", default=[], help="columns to leave out")
    group.add_argument("--index", metavar="COLUMN", help="column of names of the points, used by links and answers")
    group.add_argument("--missing", choices=("error", "median", "mean", "zero"), default="error",
                       help="what stands for missing numbers (default error); for words the most frequent one")
    group.add_argument("--one-hot", action="store_true", help="columns of words as columns of 0 and 1, one a word")
    group.add_argument("--scale", choices=("none", "minmax", "standard"), default="none",
                       help="scaling of each column (default none)")


def _add_clusters(group: Any) -> None:
    """Add the arguments of the estimator."""
    count = number(int, lambda v: v >= 2, "a whole number of at least 2, or auto")
    group.add_argument("--clusters", "-k", type=lambda text: text if text == "auto" else count(text), default=2,
                       metavar="K", help="number of clusters (default 2), or auto: the most stable one")
    for name, what in (("--min-size", "least"), ("--max-size", "most")):
        group.add_argument(name, type=SIZE, metavar="N", help=f"{what} points of a cluster, or fraction of all")
    group.add_argument("--lam", type=number(float, lambda v: v > 0, "a positive number"),
                       help="weight of the loss, against the scatter of the points (default 30)")
    group.add_argument("--kernel", default="auto", help="auto (default), linear, rbf, polynomial, or a registered name")
    group.add_argument("--must-link", metavar="PAIRS.CSV",
                       help="rows i,j: same cluster (points by number from 0, or by --index)")
    group.add_argument("--cannot-link", metavar="PAIRS.CSV", help="rows i,j: different clusters")
    group.add_argument("--links", metavar="LINKS.CSV", help="rows i,j,kind: kind must or cannot")
    group.add_argument("--known", metavar="KNOWN.CSV", help="rows index,cluster with clusters 0 to K-1")
    group.add_argument("--group", metavar="COLUMN", help="column of keys; rows of one key stay together")


def _add_declaration(group: Any) -> None:
    """Add the arguments that declare the problem."""
    group.add_argument("--clusters", "-k", type=number(int, lambda v: v >= 2, "a whole number of at least 2"),
                       default=2, metavar="K", help="number of clusters (default 2)")
    group.add_argument("--recipe", metavar="NAME", help="a published method instead of loss, kernel and bias; "
                       "`margindsl recipes` lists them")
    group.add_argument("--set", metavar="NAME=VALUE", type=setting, action="append", default=[],
                       help="a parameter of the recipe (may be repeated)")
    group.add_argument("--loss", choices=LOSSES, default="odm", help="margin loss (default odm)")
    group.add_argument("--lam", type=WEIGHT, default=10.0, help="weight of the mean loss (default 10)")
    group.add_argument("--nu", type=WEIGHT, help="odm: weight above the band (default 0.4)")
    group.add_argument("--theta", type=number(float, lambda v: 0 <= v < 1, "a number from 0 to below 1"),
                       help="odm: half width of the band (default 0.2)")
    group.add_argument("--eps", type=WEIGHT, help="epsilon-insensitive: half width (default 0.1)")
    group.add_argument("--eta", type=number(float, math.isfinite, "a finite number"),
                       help="mean-variance: weight of the mean (default 1)")
    group.add_argument("--kernel", default="linear", help="linear (default), rbf, polynomial, or a registered name")
    group.add_argument("--width", type=WIDTH, help="rbf: a number or 'median' (default)")
    group.add_argument("--degree", type=COUNT, help="polynomial: degree (default 3)")
    group.add_argument("--bias", choices=("none", "free", "penalised"), default="none")
    group.add_argument("--balance", type=number(float, lambda v: 0 <= v <= 1, "a fraction between 0 and 1"),
                       metavar="FRACTION",
                       help="sizes within this fraction of equal ones; of two clusters, |sum of labels| at most this "
                            "fraction of the number of points")
    group.add_argument("--must-link", metavar="PAIRS.CSV",
                       help="rows i,j: same cluster (points by number from 0, or by --index)")
    group.add_argument("--cannot-link", metavar="PAIRS.CSV", help="rows i,j: different clusters")
    group.add_argument("--links", metavar="LINKS.CSV", help="rows i,j,kind: kind must or cannot")
    group.add_argument("--known", metavar="KNOWN.CSV", help="rows index,label with labels -1 and 1, or 0 to K-1")


def _add_solving(group: Any, command: str) -> None:
    """Add the arguments that say how the problem is solved and where the answer goes."""
    if command == "compare":
        group.add_argument("--relaxations", default="minimax,cccp,alternating", metavar="A,B,...",
                           help="names, comma separated (default minimax,cccp,alternating)")
        group.add_argument("--solvers", metavar="X,Y,...",
                           help="names, comma separated; default: each relaxation's own choice")
    else:
        group.add_argument("--relaxation", help="name, or auto (default: the recipe's, else auto)")
        group.add_argument("--solver", help="name, or auto (default: the recipe's, else auto)")
    if command == "explain":
        return
    group.add_argument("--tol", type=number(float, lambda v: 0 < v < 1, "a number between 0 and 1"), default=1e-6,
                       help="relative accuracy (default 1e-6)")
    group.add_argument("--max-iter", type=COUNT, help="cap on the solver's iterations")
    group.add_argument("--time-limit", type=SECONDS, metavar="SECONDS", help="limit of each solve")
    _add_seed(group, "random state (default 0)")
    group.add_argument("--output", metavar="FILE.CSV", help=OUTPUT.get(command, "where the labels go; default stdout"))
    group.add_argument("--json", action="store_true", help="the answer as one JSON object on stdout")
    if command in ("solve", "compare"):
        group.add_argument("--report", metavar="FILE.HTML", help="one HTML page about the answer")
    if command == "solve":
        group.add_argument("--save", metavar="FILE.NPZ", help="the solution with its proof, for `verify` and `report`")
    talk = group.add_mutually_exclusive_group()  # without either a line on a terminal
    talk.add_argument("--quiet", action="store_true", help="no progress and no summary on stderr")
    talk.add_argument("--verbose", action="store_true", help="a line a round on stderr, in pipes too")


def _add_seed(parser: Any, what: str) -> None:
    parser.add_argument("--seed", "--random-state", default=0, dest="seed", metavar="S", help=what,
                        type=number(int, lambda v: v >= 0, "a whole number of at least 0"))


def setting(text: str) -> tuple[str, Any]:
    """Return name and value of NAME=VALUE, a number where it reads as one."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    try:
        return name, ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return name, value


def _show_in_one_line(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    if category.__module__.startswith("margindsl") or category.__name__ == "ConvergenceWarning":
        text = _TRIVIAL if issubclass(category, TrivialityWarning) else spoken(str(message))
        print(f"margindsl: warning: {text}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
