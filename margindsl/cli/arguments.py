"""Arguments shared by the commands that read data."""

from __future__ import annotations

import argparse
import ast
from typing import Any

_OUTPUT = {"compare": "where the table goes; default stdout", "certify": "where the best labels found go",
           "select": "where the labels chosen go"}
LOSSES = ("odm", "hinge", "squared-hinge", "epsilon-insensitive", "logistic", "mean-variance")


def seed(text: str) -> int:
    """Return a random state, a whole number of at least 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 0")
    return int(text)


def setting(text: str) -> tuple[str, Any]:
    """Return name and value of NAME=VALUE, a number where it reads as one."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    try:
        return name, ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return name, value


def add_data(parser: argparse.ArgumentParser, command: str) -> None:
    """Add the arguments that say which points are read."""
    group = parser.add_argument_group("data")
    group.add_argument("data", metavar="data.csv", help="one point a row: .csv, .tsv, .parquet, .npy, .npz, .libsvm; "
                       "'-' reads CSV from stdin")
    if command == "certify":
        group.add_argument("labels", metavar="labels.csv",
                           help="the cluster of each point, of any names: one column, or one called 'label'")
    add_columns(group, "not a feature, accuracy is reported")


def add_columns(group: Any, use: str) -> None:
    """Add the arguments that say which columns are features and in what units, `use` being what classes are for."""
    group.add_argument("--truth", metavar="COLUMN", help=f"column of true classes (name, or number from 0): {use}")
    group.add_argument("--drop", metavar="COLUMN", action="append", default=[],
                       help="column to leave out (may be repeated)")
    group.add_argument("--scale", choices=("none", "minmax", "standard"), default="none",
                       help="scaling of each column (default none)")


def add_declaration(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that declare the problem."""
    group = parser.add_argument_group("declaration")
    group.add_argument("--clusters", type=int, default=2, metavar="K", help="number of clusters (default 2)")
    group.add_argument("--recipe", metavar="NAME", help="a published method instead of loss, kernel and bias; "
                       "`margindsl recipes` lists them")
    group.add_argument("--set", metavar="NAME=VALUE", type=setting, action="append", default=[],
                       help="a parameter of the recipe (may be repeated)")
    group.add_argument("--loss", choices=LOSSES, default="odm", help="margin loss (default odm)")
    group.add_argument("--lam", type=float, default=10.0, help="weight of the mean loss (default 10)")
    group.add_argument("--nu", type=float, help="odm: weight above the band (default 0.4)")
    group.add_argument("--theta", type=float, help="odm: half width of the band (default 0.2)")
    group.add_argument("--eps", type=float, help="epsilon-insensitive: half width (default 0.1)")
    group.add_argument("--eta", type=float, help="mean-variance: weight of the mean (default 1)")
    group.add_argument("--kernel", default="linear", help="linear (default), rbf, polynomial, or a registered name")
    group.add_argument("--width", help="rbf: a number or 'median' (default)")
    group.add_argument("--degree", type=int, help="polynomial: degree (default 3)")
    group.add_argument("--bias", choices=("none", "free", "penalised"), default="none")
    group.add_argument("--balance", type=float, metavar="FRACTION",
                       help="sizes within this fraction of equal ones; of two clusters, |sum of labels| at most this "
                            "fraction of the number of points")
    group.add_argument("--must-link", metavar="PAIRS.CSV", help="rows i,j: same cluster (points numbered from 0)")
    group.add_argument("--cannot-link", metavar="PAIRS.CSV", help="rows i,j: different clusters")
    group.add_argument("--known", metavar="KNOWN.CSV", help="rows index,label with labels -1 and 1, or 0 to K-1")


def add_solve_options(parser: argparse.ArgumentParser, command: str) -> None:
    """Add the arguments that say how the problem is solved and where the answer goes."""
    group = parser.add_argument_group("solving")
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
    group.add_argument("--tol", type=float, default=1e-6, help="relative accuracy (default 1e-6)")
    group.add_argument("--max-iter", type=int, help="cap on the solver's iterations")
    group.add_argument("--time-limit", type=float, metavar="SECONDS", help="limit of each solve")
    group.add_argument("--seed", "--random-state", type=seed, default=0, dest="seed", metavar="S",
                       help="random state (default 0)")
    group.add_argument("--output", metavar="FILE.CSV",
                       help=_OUTPUT.get(command, "where the labels go; default stdout"))
    group.add_argument("--json", action="store_true", help="the answer as one JSON object on stdout")
    if command == "select":
        group.add_argument("--weights", default="0.1,1,10,100", metavar="A,B,...",
                           help="weights of the mean loss to choose from (default 0.1,1,10,100)")
    if command in ("solve", "compare"):
        group.add_argument("--report", metavar="FILE.HTML", help="one HTML page about the answer")
    if command == "solve":
        group.add_argument("--save", metavar="FILE.NPZ", help="the solution with its proof, for `verify` and `report`")
    add_talk(group, "no progress and no summary on stderr")


def add_talk(parser: Any, quiet: str) -> None:
    """Add the arguments that say how much is told on the way; without them a line on a terminal."""
    talk = parser.add_mutually_exclusive_group()
    talk.add_argument("--quiet", action="store_true", help=quiet)
    talk.add_argument("--verbose", action="store_true", help="a line a round on stderr, in pipes too")
