"""The commands: what they write where, and their exit codes."""

import csv
import io
import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest

import margindsl as md
from margindsl.cli.declaration import declare
from margindsl.cli.main import LOSSES, build_parser, main
from margindsl.contract import Status
from margindsl.estimators import MarginClusterer
from margindsl.runtime import relaxation_names
from margindsl.runtime.problem import Problem

N = 24


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(5)
    classes = np.repeat(["oak", "elm"], N // 2)
    X = rng.normal(size=(N, 2)) + np.where(classes == "oak", 1.5, -1.5)[:, None]
    path = tmp_path / "trees.csv"
    lines = ["height,width,kind", *(f"{a!r},{b!r},{c}" for (a, b), c in zip(X.tolist(), classes))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


@pytest.fixture
def full():
    if not os.path.exists("/dev/full") or not stat.S_ISCHR(os.stat("/dev/full").st_mode):
        pytest.skip("this system has no device /dev/full, on which nothing can be written")
    return "/dev/full"


def pairs_file(tmp_path, name, rows):
    path = tmp_path / name
    path.write_text("\n".join(f"{i},{j}" for i, j in rows) + "\n", encoding="utf-8")
    return str(path)


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_solve_writes_labels_to_stdout_and_a_summary_to_stderr(data, capsys):
    assert main(["solve", data, "--truth", "kind", "--balance", "0.1", "--relaxation", "alternating"]) == 0
    out, err = capsys.readouterr()
    rows = rows_of(out)
    labels = np.array([int(row["label"]) for row in rows])
    decision = np.array([float(row["decision"]) for row in rows])
    assert [int(row["index"]) for row in rows] == list(range(N))
    assert set(labels) == {-1, 1} and abs(labels.sum()) <= 0.1 * N
    assert np.allclose([float(row["margin"]) for row in rows], labels * decision)
    assert "status    converged" in err and "alternating with newton" in err
    # The two groups are three standard deviations apart in both coordinates.
    assert float(err.split("accuracy")[1].split("%")[0]) > 90


@pytest.mark.parametrize("more, arguments", [
    ([], {}), (["--clusters", "3", "--min-size", "0.25"], {"n_clusters": 3, "min_size": 0.25}),
    (["--max-size", "14", "--kernel", "linear", "--lam", "3"], {"max_size": 14, "kernel": "linear", "lam": 3.0})])
def test_cluster_is_the_estimator(data, capsys, more, arguments):
    assert main(["cluster", data, "--truth", "kind", *more]) == 0
    out, err = capsys.readouterr()
    X = np.array([[float(row["height"]), float(row["width"])] for row in rows_of(Path(data).read_text())])
    model = MarginClusterer(random_state=0, **arguments).fit(X)
    assert [int(row["cluster"]) for row in rows_of(out)] == model.labels_.tolist()
    assert "24 points, 2 columns" in err and "oak" in err and "accuracy" in err


def test_cluster_keeps_links_and_known_clusters_and_appends_a_column(data, tmp_path, capsys):
    must, known = pairs_file(tmp_path, "must.csv", [(0, 23)]), pairs_file(tmp_path, "known.csv", [(0, 1), (5, 0)])
    target = str(tmp_path / "out.csv")
    assert main(["cluster", data, "--drop", "kind", "--must-link", must, "--known", known, "--append", "--output",
                 target, "--json"]) == 0
    out, err = capsys.readouterr()
    rows = rows_of(Path(target).read_text())
    clusters = [int(row["cluster"]) for row in rows]
    assert list(rows[0]) == ["height", "width", "kind", "cluster"] and clusters == json.loads(out)["clusters"]
    assert clusters[0] == clusters[23] == 1 and clusters[5] == 0 and "24 points" in err
    assert main(["certify", data, target, "--drop", "kind", "--relaxation", "weight-lifting"]) == 0
    twice = pairs_file(tmp_path, "twice.csv", [(0, 1), (5, 0), (0, 0)])
    assert main(["cluster", data, "--drop", "kind", "--known", twice]) == 1
    assert "row 3 holds 0,0, expected one label a point" in capsys.readouterr().err


def test_solve_agrees_with_the_language(data, tmp_path, capsys):
    must = pairs_file(tmp_path, "must.csv", [(0, 1), (2, 3)])
    cannot = pairs_file(tmp_path, "cannot.csv", [(0, 20)])
    known = pairs_file(tmp_path, "known.csv", [(5, 1), (15, -1)])
    output = tmp_path / "labels.csv"
    assert main(["solve", data, "--drop", "kind", "--balance", "0.2", "--must-link", must, "--cannot-link", cannot,
                 "--known", known, "--loss", "hinge", "--lam", "3", "--relaxation", "cccp", "--solver", "clarabel",
                 "--output", str(output), "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    labels = np.array([int(row["label"]) for row in rows_of(output.read_text(encoding="utf-8"))])
    X = np.loadtxt(data, delimiter=",", skiprows=1, usecols=(0, 1))
    y, f = md.Labels(N), md.Hyperplane(X)
    problem = md.Problem(
        md.Minimize(md.sq_norm(f) / 2 + 3 * md.mean(md.hinge(y * f))),
        [abs(md.sum(y)) <= 0.2 * N, md.must_link(y, [(0, 1), (2, 3)]), md.cannot_link(y, [(0, 20)]),
         y[[5, 15]] == [1, -1]])
    assert np.array_equal(labels, problem.solve("cccp", "clarabel", random_state=0).labels)
    assert labels[0] == labels[1] == -labels[20] and labels[5] == 1 and labels[15] == -1


FLAGS = [
    (["--loss", "odm", "--nu", "0.3", "--theta", "0.1"], lambda g: 10 * md.mean(md.odm(g, 0.3, 0.1))),
    (["--loss", "hinge"], lambda g: 10 * md.mean(md.hinge(g))),
    (["--loss", "squared-hinge", "--lam", "2"], lambda g: 2 * md.mean(md.squared_hinge(g))),
    (["--loss", "epsilon-insensitive", "--eps", "0.3"], lambda g: 10 * md.mean(md.epsilon_insensitive(g, 0.3))),
    (["--loss", "logistic"], lambda g: 10 * md.mean(md.logistic(-g))),
    (["--loss", "mean-variance", "--eta", "2"], lambda g: md.mean_variance(g, 2.0, 10.0))]
KERNELS = [
    ([], "linear"), (["--kernel", "rbf", "--width", "0.7"], md.RBF(0.7)), (["--kernel", "rbf"], md.RBF("median")),
    (["--kernel", "polynomial", "--degree", "2"], md.Polynomial(degree=2))]


@pytest.mark.parametrize("flags, expression, kernel, chosen", [
    (*flags, *KERNELS[(i + turn) % 4]) for turn in (0, 1) for i, flags in enumerate(FLAGS)])
def test_flags_declare_what_they_say(flags, expression, kernel, chosen):
    X = np.random.default_rng(0).normal(size=(10, 2))
    labels = np.where(X[:, 0] > 0, 1, 0)
    given = declare(build_parser().parse_args(["solve", "-", *flags, *kernel]), X).program().fix_labels(labels)
    y, f = md.Labels(10), md.Hyperplane(X, kernel=chosen)
    own = md.Problem(md.Minimize(md.sq_norm(f) / 2 + expression(y * f))).program().fix_labels(labels)
    w = np.random.default_rng(1).normal(size=own.features.rank)
    scalars = np.ones(own.losses.scalars.count)
    assert given.objective(w, 0.0, scalars) == pytest.approx(own.objective(w, 0.0, scalars), rel=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_solves_with_the_automatic_choice(data, capsys, loss):
    assert main(["solve", data, "--truth", "kind", "--balance", "0.1", "--loss", loss, "--quiet", "--tol", "1e-3",
                 "--time-limit", "3"]) in (0, 3)
    assert abs(sum(int(row["label"]) for row in rows_of(capsys.readouterr().out))) <= 0.1 * N


def test_compare_prints_a_table_and_writes_csv(data, tmp_path, capsys):
    arguments = ["compare", data, "--truth", "kind", "--balance", "0.1", "--relaxations", "alternating,exact,cccp",
                 "--solvers", "newton,osqp", "--time-limit", "60"]
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0].split()[:2] == ["relaxation", "solver"]
    assert out.count("alternating") == 2 and "refused" in out and "accuracy" in out
    assert "cccp with osqp: value" in err and "exact with newton: refused" in err
    target = tmp_path / "table.csv"
    assert main([*arguments, "--output", str(target), "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    rows = rows_of(target.read_text(encoding="utf-8"))
    assert [row["status"] for row in rows if row["relaxation"] == "exact"] == ["refused", "refused"]
    assert np.ptp([float(row["value"]) for row in rows if row["relaxation"] == "cccp"]) < 1e-6


def test_compare_fails_when_everything_is_refused(data, capsys):
    assert main(["compare", data, "--drop", "kind", "--relaxations", "supervised", "--solvers", "newton,osqp",
                 "--balance", "0.1"]) == 1
    assert capsys.readouterr().out.count("refused") == 2


def test_explain_prints_every_stage(data, capsys):
    assert main(["explain", data, "--drop", "kind", "--balance", "0.1", "--relaxation", "sdp", "--solver", "scs"]) == 0
    out = capsys.readouterr().out
    for stage in ("[language]", "[margin program]", "[relaxation]", "[standard form]", "[solver]"):
        assert stage in out
    assert "md.sizes(y, at_least=[11, 11], at_most=[13, 13])" in out  # |sum of labels| <= 2.4


def test_lists(capsys):
    assert main(["solvers"]) == 0
    listing = capsys.readouterr().out
    for info in md.solvers():
        line = next(line for line in listing.splitlines() if line.split()[0] == info.name)
        assert info.version in line and info.kind in line and info.accepts in line
    assert main(["relaxations", "--names"]) == 0
    assert capsys.readouterr().out.split() == list(relaxation_names())


@pytest.mark.parametrize("arguments, message", [
    (["--relaxation", "sdq"], r"unknown relaxation 'sdq'. Did you mean 'sdp'?"),
    (["--solver", "newtn"], r"unknown solver 'newtn'. Did you mean 'newton'"),
    (["--relaxation", "minimax", "--bias", "free"], r"minimax is trivial with a free bias"),
    (["--truth", "sort"], r"has no column 'sort'; its columns are height, width, kind"),
    (["--must-link", "missing.csv"], r"cannot read missing.csv"),
    (["--width", "3"], r"--width belongs to --kernel rbf, and --kernel is linear: drop it, or add --kernel rbf"),
    (["--kernel", "rbf", "--degree", "4"], r"--degree belongs to --kernel polynomial, and --kernel is rbf"),
    (["--eps", "2"], r"--eps belongs to --loss epsilon-insensitive, and --loss is odm"),
    (["--loss", "hinge", "--nu", "3"], r"--nu belongs to --loss odm, and --loss is hinge"),
    (["--loss", "logistic", "--theta", "0.2"], r"--theta belongs to --loss odm, and --loss is logistic"),
    (["--eta", "1"], r"--eta belongs to --loss mean-variance, and --loss is odm"),
    (["--known", ""], r"cannot read '': No such file or directory"),
    (["--output", ""], r"--output '': expected the name of a file"),
    (["--output", "/"], r"cannot write /: it is a directory"),
    (["--output", "no/such/folder.csv"], r"cannot write no/such/folder.csv: its folder does not exist"),
    (["--drop", "height", "--drop", "width"], r"no column is left as a feature"),
])
def test_errors_are_one_line_and_code_1(data, capsys, arguments, message):
    drop = [] if "--truth" in arguments else ["--drop", "kind"]
    assert main(["solve", data, *drop, *arguments]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("margindsl: ") and err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize("option, value, expected", [
    ("--balance", "7", "a fraction between 0 and 1"), ("--time-limit", "0", "a positive number of seconds"),
    ("--time-limit", "nan", "a positive number of seconds"), ("--tol", "5", "a number between 0 and 1"),
    ("--max-iter", "0", "a whole number of at least 1"), ("--theta", "1.5", "a number from 0 to below 1"),
    ("--nu", "nan", "a number of at least 0"), ("--lam", "inf", "a number of at least 0"),
    ("--lam", "-1", "a number of at least 0"), ("--eps", "-1", "a number of at least 0"),
    ("--eta", "nan", "a finite number"), ("--degree", "0", "a whole number of at least 1"),
    ("--width", "-2", "a positive number, or 'median'"), ("--width", "wide", "a positive number, or 'median'"),
    ("--clusters", "1", "a whole number of at least 2"), ("--seed", "-1", "a whole number of at least 0")])
def test_numbers_outside_their_range_are_wrong_usage(data, capsys, option, value, expected):
    with pytest.raises(SystemExit) as exit_:
        main(["solve", data, option, value])
    assert exit_.value.code == 2
    assert f"{option}: given {value!r}, expected {expected}" in re.sub(r"/-[-\w]+", "", capsys.readouterr().err)


def test_column_that_is_not_numeric_is_named(data, capsys):
    assert main(["solve", data]) == 1
    err = capsys.readouterr().err
    assert "column 'kind' holds 'oak' (row 1)" in err
    assert "--drop kind" in err and "--truth" in err


def test_contradictory_links_are_one_line(data, tmp_path, capsys):
    must = pairs_file(tmp_path, "must.csv", [(0, 1), (1, 2)])
    cannot = pairs_file(tmp_path, "cannot.csv", [(0, 2)])
    assert main(["compare", data, "--drop", "kind", "--must-link", must, "--cannot-link", cannot]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and "contradict" in err


def test_trivial_problem_warns_in_one_line(data, capsys):
    assert main(["solve", data, "--drop", "kind", "--relaxation", "alternating", "--bias", "free"]) == 0
    warnings = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert len(warnings) == 1 and "all-equal labelling" in warnings[0]
    assert "add --balance FRACTION" in warnings[0] and "md." not in warnings[0]


@pytest.mark.parametrize("option, row, message", [
    ("--must-link", "0,400", "pairs.csv: row 2 holds 0,400, expected points from 0 to 23"),
    ("--cannot-link", "3,3", "pairs.csv: row 2 holds 3,3, expected two different points"),
    ("--known", "5,2", "pairs.csv: row 2 holds 5,2, expected a label second, +1 or -1"),
    ("--known", "0,-1", "pairs.csv: row 2 holds 0,-1, expected one label a point, and an earlier row has another"),
    ("--known", "0,x1", "pairs.csv: column 'j' holds 'x1' (row 2)")])
def test_side_information_names_file_and_line(data, tmp_path, capsys, option, row, message):
    path = tmp_path / "pairs.csv"
    path.write_text(f"i,j\n0,1\n{row}\n", encoding="utf-8")
    assert main(["solve", data, "--drop", "kind", option, str(path)]) == 1
    out, err = capsys.readouterr()
    assert out == "" and message in err and "md." not in err


@pytest.mark.parametrize("text, message", [
    ("?,1\n0,0\n1,1\n5,5\n6,6\n", "first row holds '?' above numbers"),
    ("1,2\n", "has one point; at least two are needed"),
    ("x,y\n1,2\n", "has one point; at least two are needed"),
    ("1\nb\n3\n", "column '0' holds 'b' (row 2), expected finite numbers; most cells are numbers: mend this one")])
def test_files_that_are_no_points(tmp_path, capsys, text, message):
    path = tmp_path / "points.csv"
    path.write_text(text, encoding="utf-8")
    for command in ("solve", "compare", "explain"):
        assert main([command, str(path)]) == 1
        out, err = capsys.readouterr()
        assert out == "" and err.count("\n") == 1 and f"{path}" in err and message in err and "--drop" not in err


@pytest.mark.parametrize("command, first", [
    (["solve", "--relaxation", "alternating"], "index,label,decision,margin"),
    (["compare", "--relaxations", "alternating"], "relaxation,solver,")])
def test_a_result_that_cannot_be_written_goes_to_stdout(data, full, capsys, command, first):
    name, *options = command
    arguments = [name, data, "--drop", "kind", "--balance", "0.1", *options]
    assert main([*arguments, "--output", full]) == 1
    out, err = capsys.readouterr()
    assert out.startswith(first) and len(rows_of(out)) == (N if name == "solve" else 1)
    last = err.splitlines()[-1]
    assert last.startswith("margindsl: cannot write /dev/full: No space left on device")
    assert "went to standard output" in last
    assert name == "compare" or "status    converged" in err


@pytest.mark.parametrize("option", ["--save", "--report"])
def test_a_file_that_cannot_be_written_is_named(data, full, capsys, option):
    assert main(["solve", data, "--drop", "kind", "--balance", "0.1", "--quiet", option, full]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == "margindsl: cannot write /dev/full: No space left on device"
    assert stat.S_ISCHR(os.stat(full).st_mode)


def test_no_solver_at_all_is_an_error(data, capsys):
    assert main(["compare", data, "--drop", "kind", "--solvers", ""]) == 1
    assert "--solvers '': expected names, comma separated" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["solve", "x.csv"], ["compare", "x.csv"], ["demo"]])
def test_the_random_state_has_two_names(command):
    given = [vars(build_parser().parse_args([*command, option, "7"])) for option in ("--seed", "--random-state")]
    assert given[0] == given[1] and 7 in given[0].values()


@pytest.mark.parametrize("arguments", [[], ["sove"], ["solve"], ["solve", "x.csv", "--lam", "much"],
                                       ["solve", "x.csv", "--seed", "-1"], ["demo", "--seed", "0.5"],
                                       ["solve", "x.csv", "--loss", "zero-one"]])
def test_wrong_usage_is_code_2(arguments, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    assert "usage: margindsl" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["solve", "--help"]])
def test_help_is_code_0(arguments, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 0
    assert "margindsl" in capsys.readouterr().out


def test_time_limit_is_code_3_with_labels(data, capsys):
    arguments = ["solve", data, "--drop", "kind", "--balance", "0.1", "--relaxation", "cccp", "--time-limit", "1e-6"]
    assert main(arguments) == 3
    out, err = capsys.readouterr()
    assert len(rows_of(out)) == N and "time limit reached" in err


def interrupting(monkeypatch):
    """Make every solve see Ctrl-C at its first report."""
    solve = Problem.solve

    def interrupted(self, *arguments, callback=None, **options):
        def press(progress):
            raise KeyboardInterrupt

        return solve(self, *arguments, callback=press, **options)

    monkeypatch.setattr(Problem, "solve", interrupted)


def test_interrupt_is_code_3_with_labels(data, capsys, monkeypatch):
    interrupting(monkeypatch)
    assert main(["solve", data, "--drop", "kind", "--balance", "0.1", "--relaxation", "alternating"]) == 3
    out, err = capsys.readouterr()
    assert len(rows_of(out)) == N and f"status    {Status.INTERRUPTED.word}" in err


def test_interrupt_caught_by_the_engine_itself_is_code_3_with_labels(data, capsys, monkeypatch):
    def fail(*_):
        raise cp.SolverError("Solver 'SCS' failed")

    monkeypatch.setattr("margindsl_solvers.engines.conic.bridge.words_of", lambda *_: "interrupted")
    monkeypatch.setattr(cp.Problem, "unpack_results", fail)
    assert main(["solve", data, "--drop", "kind", "--balance", "0.1", "--relaxation", "sdp", "--solver", "scs"]) == 3
    out, err = capsys.readouterr()
    assert len(rows_of(out)) == N and "status    interrupted" in err


def test_interrupt_ends_a_comparison_after_its_row(data, capsys, monkeypatch):
    interrupting(monkeypatch)
    assert main(["compare", data, "--drop", "kind", "--balance", "0.1", "--relaxations", "alternating,cccp"]) == 3
    assert "cccp" not in capsys.readouterr().out


def test_interrupt_before_labels_is_code_130(data, capsys, monkeypatch):
    def press(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("margindsl.cli.commands.read_points", press)
    assert main(["solve", data]) == 130
    assert capsys.readouterr().err == "margindsl: interrupted before there were labels\n"


@pytest.mark.parametrize("place", ["absent", ""])
@pytest.mark.parametrize("command", ["verify", "report", "solve"])
def test_files_that_cannot_be_read_are_one_line(command, place, tmp_path, capsys):
    absent = str(tmp_path / place)
    assert main([command, absent]) == 1
    said = capsys.readouterr().err
    assert said.startswith("margindsl: ") and said.count("\n") == 1 and absent in said


STREAMS = """
import os, sys
from margindsl.cli.main import main

*given, target, device = sys.argv[1:]
assert main([*given, "--relaxation", "alternating", "--solver", "highs", "--json"]) == 0
sys.stdout.flush()
read, write = os.pipe()
os.close(read)
os.dup2(write, sys.stdout.fileno())
print("--", file=sys.stderr)
assert main([*given, "--relaxation", "cccp", "--quiet", "--save", target]) == 0
os.dup2(os.open(device, os.O_WRONLY), sys.stdout.fileno())
print("--", file=sys.stderr)
sys.exit(main([*given, "--relaxation", "alternating", "--quiet"]))
"""


def test_standard_output_holds_nothing_but_json_and_may_be_closed_or_full(data, tmp_path):
    """HiGHS prints a line of its own when it is loaded; a saved answer outlives the reader of the labels."""
    target, device = tmp_path / "answer.npz", "/dev/full" if os.path.exists("/dev/full") else os.devnull
    done = subprocess.run([sys.executable, "-c", STREAMS, "solve", data, "--drop", "kind", "--balance", "0.1", target,
                           device], capture_output=True, text=True)
    assert len(json.loads(done.stdout)["labels"]) == N and md.Solution.load(target).verify()
    _, closed, last = done.stderr.split("--\n")
    assert closed == "" and done.returncode == (device == "/dev/full")
    assert last == "margindsl: cannot write to standard output: No space left on device\n" * done.returncode


def test_help_starts_light():
    code = ("import sys; from margindsl.cli.main import build_parser; build_parser().format_help(); "
            "print([m for m in ('numpy', 'scipy', 'cvxpy', 'sklearn', 'networkx') if m in sys.modules])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_demo_runs_every_kind_of_relaxation_and_solver(tmp_path, capsys):
    assert main(["demo", "--time-limit", "0.3", "--report", str(tmp_path / "demo.html")]) == 0
    assert "Digits 3 and 8" in (tmp_path / "demo.html").read_text(encoding="utf-8")
    out, err = capsys.readouterr()
    for word in ("minimise", "alternating", "cccp", "minimax", "sdp", "weight-lifting", "lbfgs", "mirror-prox", "scs",
                 "certified", "k-means", "accuracy"):
        assert word in out
    assert "refused" not in out
    assert "alternating with lbfgs: value" in err and "\r" not in err


def test_certify_tells_value_bound_and_a_better_labelling(data, tmp_path, capsys):
    given, better = tmp_path / "given.csv", tmp_path / "better.csv"
    given.write_text("\n".join(["left", "right"] * (N // 2)) + "\n", encoding="utf-8")
    arguments = [data, str(given), "--truth", "kind", "--balance", "0.1", "--quiet"]
    assert main(["certify", *arguments, "--output", str(better)]) == 0
    told = dict(line.split(None, 1) for line in capsys.readouterr().out.splitlines())
    assert set(told) == {"value", "bound", "gap", "better"}
    bound, better_value, value = (float(told[name].split(",")[0]) for name in ("bound", "better", "value"))
    assert bound <= better_value * (1 + 1e-6) and better_value < value  # six digits are printed
    # What `solve` and `certify` write can be read again, and is not improved by being read.
    assert main(["certify", data, str(better), *arguments[2:]]) == 0
    again = dict(line.split(None, 1) for line in capsys.readouterr().out.splitlines())
    assert float(again["value"].split(",")[0]) == pytest.approx(float(told["better"].split(",")[0]), rel=1e-7)


@pytest.mark.parametrize("text, words", [("a,b\nx,y\n", "which of 2 columns"), ("index,label\n1,a\n0,b\n", "order"),
                                         ("a\nb\n", "one label for each")])
def test_certify_refuses_what_is_no_labelling(data, tmp_path, capsys, text, words):
    path = tmp_path / "labels.csv"
    path.write_text(text, encoding="utf-8")
    assert main(["certify", data, str(path), "--truth", "kind"]) == 1
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("written", ["--output", "--save", "--report"])
@pytest.mark.parametrize("other", ["points.csv", "./points.csv", "link.csv", "known.csv"])
def test_no_file_that_is_read_is_written(tmp_path, monkeypatch, capsys, written, other):
    monkeypatch.chdir(tmp_path)
    Path("points.csv").write_text("0,1\n2,3\n5,1\n4,4\n", encoding="utf-8")
    Path("known.csv").write_text("0,1\n", encoding="utf-8")
    Path("link.csv").symlink_to("points.csv")
    kept = {name: Path(name).read_text(encoding="utf-8") for name in ("points.csv", "known.csv")}
    assert main(["solve", "points.csv", "--known", "known.csv", "--quiet", written, other]) == 1
    assert "would be lost" in capsys.readouterr().err
    assert kept == {name: Path(name).read_text(encoding="utf-8") for name in kept}


def test_two_answers_do_not_share_a_file(tmp_path, capsys):
    points, answer = tmp_path / "points.csv", str(tmp_path / "answer")
    points.write_text("0,1\n2,3\n5,1\n4,4\n", encoding="utf-8")
    assert main(["solve", str(points), "--output", answer, "--save", answer]) == 1
    assert "is written, too" in capsys.readouterr().err


@pytest.mark.parametrize("rows", ["index,label\n0,a\n1,\n2,a\n3,b\n", "label,x\na,1\nnan,1\nb,1\nb,1\n"])
def test_a_missing_class_is_named(tmp_path, capsys, rows):
    points, labels = tmp_path / "points.csv", tmp_path / "labels.csv"
    points.write_text("0,1\n2,3\n5,1\n4,4\n", encoding="utf-8")
    labels.write_text(rows, encoding="utf-8")
    assert main(["certify", str(points), str(labels)]) == 1
    assert "holds no name in row 2" in capsys.readouterr().err


def test_certify_takes_as_many_clusters_as_there_are_labels(tmp_path, capsys):
    points, labels = tmp_path / "points.csv", tmp_path / "labels.csv"
    points.write_text("a\n0\n1\n5\n6\n11\n12\n")
    labels.write_text("label\nx\nx\ny\ny\nz\nz\n")
    assert main(["certify", str(points), str(labels), "--relaxation", "alternating", "--quiet"]) == 0
    assert capsys.readouterr().out.startswith("value")


def test_advice_is_in_words_of_the_command_line(tmp_path, capsys):
    points = tmp_path / "line.csv"
    points.write_text("a,b\n" + "".join(f"{side + i / 50},{i % 3}\n" for side in (-3, 3) for i in range(10)))
    assert main(["solve", str(points), "--clusters", "3", "--relaxation", "alternating", "--seed", "0"]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "margindsl certify" in said and "md." not in said and "solution." not in said
    assert (" / 0 of 20 points; that none is empty is a constraint: --balance" in said) == (" / 0 of" in said)


def test_labels_that_were_written_with_names_are_read_with_them(data, tmp_path, capsys):
    named = tmp_path / "named.csv"
    head, *rows = Path(data).read_text(encoding="utf-8").splitlines()
    lines = [f"name,{head}", *(f"p{i},{row}" for i, row in enumerate(rows))]
    named.write_text("\n".join(lines) + "\n", encoding="utf-8")
    table = [str(named), "--index", "name", "--truth", "kind", "--balance", "0.1"]
    found, better = str(tmp_path / "labels.csv"), str(tmp_path / "better.csv")
    assert main(["solve", *table, "--relaxation", "alternating", "--quiet", "--output", found]) == 0
    certified = ["certify", table[0], found, *table[1:], "--relaxation", "alternating", "--output", better]
    assert main(certified) == 0
    assert [row["index"] for row in rows_of(Path(better).read_text(encoding="utf-8"))] == [f"p{i}" for i in range(N)]
    lines = Path(found).read_text(encoding="utf-8").splitlines()
    numbered = [re.sub("^p", "", line) for line in lines]
    Path(found).write_text("\n".join(numbered) + "\n", encoding="utf-8")
    assert main(certified) == 0
    Path(found).write_text("\n".join([lines[0], *reversed(lines[1:])]) + "\n", encoding="utf-8")
    capsys.readouterr()
    assert main(certified) != 0 and "sort the rows" in capsys.readouterr().err


def test_a_column_that_would_be_lost_is_not_appended(data, tmp_path, capsys):
    text = Path(data).read_text(encoding="utf-8").replace("kind", "cluster")
    taken = tmp_path / "taken.csv"
    taken.write_text(text, encoding="utf-8")
    assert main(["cluster", str(taken), "--truth", "cluster", "--append", "--quiet"]) != 0
    assert "'cluster' already" in capsys.readouterr().err
