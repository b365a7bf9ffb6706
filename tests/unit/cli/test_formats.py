"""Files of every kind give the same points, several clusters and recipes are declared, answers are read by programs."""

import json
from functools import cache

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

import margindsl as md
from margindsl.cli.commands import LISTS
from margindsl.cli.declaration import declare
from margindsl.cli.main import build_parser, main
from margindsl.host.extensions import RELAXATIONS, registered

N, K = 24, 3
CLASSES = np.arange(N) % K
X = np.random.default_rng(5).normal(size=(N, 2)) + 6.0 * np.array([[0.0, 1.0], [1.0, -1.0], [-1.0, -1.0]])[CLASSES]


def write(path, suffix):
    target = path / f"points.{suffix}"
    if suffix in ("csv", "tsv"):
        mark = "," if suffix == "csv" else "\t"
        rows = [("a", "b", "label"), *((*map(repr, row), str(c)) for row, c in zip(X.tolist(), CLASSES))]
        target.write_text("\n".join(map(mark.join, rows)) + "\n", encoding="utf-8")
    elif suffix == "npy":
        np.save(target, X)
    elif suffix == "npz":
        np.savez(target, X=X, y=CLASSES)
    else:
        dump_svmlight_file(X, CLASSES, str(target), zero_based=False)
    return str(target)


def solved(capsys, *arguments):
    assert main(["solve", *arguments, "--relaxation", "alternating", "--json", "--quiet"]) == 0
    return json.loads(capsys.readouterr().out)


@cache
def solved_in_memory():
    """Return the solution at the points as they are."""
    y, f = md.Labels(N, K), md.Hyperplane(X)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.hinge(md.margin(y, f)))), [md.sizes(y, 6, 10)])
    return problem.solve("alternating", random_state=0)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "npy", "npz", "libsvm"])
def test_points_are_the_same_whatever_holds_them(tmp_path, capsys, suffix):
    path = write(tmp_path, suffix)
    truth = [] if suffix == "npy" else ["--truth", "label"]
    found = solved(capsys, path, *truth, "--clusters", "3", "--balance", "0.25", "--loss", "hinge")
    own = solved_in_memory()
    assert found["value"] == pytest.approx(own.value, rel=1e-6) and found["labels"] == own.labels.tolist()
    assert found["gap"] is None and found["cluster_sizes"] == list(own.cluster_sizes)


@pytest.mark.parametrize("suffix", ["npz", "libsvm"])
def test_labels_in_a_file_are_no_feature(tmp_path, suffix):
    arguments = build_parser().parse_args(["solve", write(tmp_path, suffix)])
    from margindsl.cli.declaration import read_points

    assert read_points(arguments)[0].shape == (N, 2)


@pytest.mark.parametrize("suffix, content, message", [
    ("npy", b"nonsense", "holds no table"), ("npz", b"nonsense", "holds no table"),
    ("libsvm", b"a b c\n", "cannot read"), ("npy", None, "No such file")])
def test_files_that_are_none_are_one_line(tmp_path, capsys, suffix, content, message):
    path = tmp_path / f"bad.{suffix}"
    if content is not None:
        path.write_bytes(content)
    assert main(["solve", str(path)]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and message in err and str(path) in err


def test_values_that_are_no_numbers_are_named(tmp_path, capsys):
    path = tmp_path / "points.npy"
    np.save(path, np.array([[1.0, 2.0], [np.nan, 3.0], [4.0, 5.0]]))
    assert main(["solve", str(path)]) == 1
    assert "column '0' holds nan (row 2)" in capsys.readouterr().err


@pytest.mark.parametrize("n, clusters, fraction", [(24, 2, 0.1), (25, 2, 0.05), (24, 3, 0.0), (25, 3, 0.2)])
def test_balance_is_the_same_promise_for_any_number_of_clusters(n, clusters, fraction):
    flags = ["solve", "-", "--clusters", str(clusters), "--balance", str(fraction), "--loss", "hinge"]
    labels = declare(build_parser().parse_args(flags), np.random.default_rng(0).normal(size=(n, 2))).program().labels
    for size in range(n // clusters - 4, n // clusters + 5):
        rest = np.array_split(np.arange(n - size), clusters - 1)
        sizes = [size, *map(len, rest)]
        given = np.repeat(labels.names.values, sizes)
        allowed = all(abs(s - n / clusters) <= fraction * n / clusters + 1e-9 for s in sizes)
        assert (not labels.violations(given)) == allowed, sizes


def test_a_split_that_no_sizes_allow_says_so(tmp_path, capsys):
    assert main(["solve", write(tmp_path, "npy"), "--clusters", "5", "--balance", "0"]) == 1
    assert "24 points cannot be split so evenly into 5 clusters" in capsys.readouterr().err


def test_a_recipe_is_solved_as_it_is_published(tmp_path, capsys):
    path = write(tmp_path, "npy")
    assert main(["solve", path, "--recipe", "cpm3c", "--set", "clusters=3", "--relaxation", "alternating",
                 "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["cluster_sizes"]) == 3
    assert main(["solve", path, "--recipe", "cpmmc", "--set", "C=2", "--json", "--quiet", "--tol", "1e-3"]) == 0
    found = json.loads(capsys.readouterr().out)
    own = md.recipes.cpmmc(X, C=2).solve(tol=1e-3, random_state=0)
    assert found["value"] == pytest.approx(own.value, rel=1e-6) and found["relaxation"] == own.relaxation


@pytest.mark.parametrize("arguments, message", [
    (["--recipe", "odmx"], "unknown recipe 'odmx'. Did you mean"), (["--recipe", "odmc", "--set", "lamm=2"], "lamm"),
    (["--recipe", "odmc", "--loss", "hinge"], "give its parameters with --set"),
    (["--set", "lam=2"], "add --recipe NAME"),
    (["--recipe", "svm"], "recipe 'svm' needs y")])
def test_wrong_recipes_are_one_line(tmp_path, capsys, arguments, message):
    assert main(["solve", write(tmp_path, "npy"), *arguments]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and message in err


def test_a_saved_solution_has_a_page_and_a_proof(tmp_path, capsys):
    path = write(tmp_path, "npy")
    kept, page = str(tmp_path / "found.npz"), str(tmp_path / "found.html")
    assert main(["solve", path, "--balance", "0.2", "--relaxation", "sdp", "--quiet", "--save", kept, "--report", page,
                 "--output", str(tmp_path / "labels.csv")]) == 0
    assert main(["verify", kept, path]) == 0 and "proved" in capsys.readouterr().out
    assert main(["report", kept, "--output", str(tmp_path / "again.html")]) == 0
    first, again = ((tmp_path / name).read_text(encoding="utf-8") for name in ("found.html", "again.html"))
    assert "md.sizes" in first and "md.sizes" in again
    assert main(["report", str(tmp_path / "labels.csv")]) == 1 and "no saved solution" in capsys.readouterr().err


def test_lists_are_those_of_the_classes(capsys):
    for row, info in zip(LISTS["solvers"](), md.solvers(), strict=True):
        assert row == info
    for row in md.relaxations():
        cls = registered(RELAXATIONS)[row.name].load()
        assert list(vars(row).values()) == [cls.name, cls.bound, cls.summary]
    assert main(["recipes", "--names"]) == 0
    assert capsys.readouterr().out.split() == list(md.recipes.names())
    assert main(["solvers", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [vars(info) for info in md.solvers()]


@pytest.mark.parametrize("options", [["--scale", "standard"], ["--scale", "minmax", "--drop", "x"], ["--truth", "c"]])
def test_points_are_verified_as_they_were_solved(tmp_path, capsys, options):
    path, kept = str(tmp_path / "points.csv"), str(tmp_path / "kept.npz")
    X = np.random.default_rng(0).normal(size=(12, 3))
    rows = "\n".join(",".join(map(str, row)) + f",{i % 2}" for i, row in enumerate(X))
    (tmp_path / "points.csv").write_text(f"x,y,z,c\n{rows}\n")
    assert main(["solve", path, *options, "--save", kept, "--quiet", "--output", str(tmp_path / "labels.csv")]) == 0
    assert main(["verify", kept, path, *options]) == 0
    assert "features are those of" in capsys.readouterr().out
    assert main(["verify", kept, path]) == 1 and "FAILED" in capsys.readouterr().out


def test_features_that_are_not_linear_are_unverified(tmp_path, capsys):
    path, kept = str(tmp_path / "points.npy"), str(tmp_path / "kept.npz")
    np.save(path, np.random.default_rng(0).normal(size=(12, 2)))
    arguments = ["--kernel", "rbf", "--save", kept, "--quiet", "--output", str(tmp_path / "labels.csv")]
    assert main(["solve", path, *arguments]) == 0
    assert main(["verify", kept, path]) == 1
    said = capsys.readouterr().out
    assert "unverified" in said and "FAILED" not in said


@pytest.mark.parametrize("kind", ["complex", "datetime64[ns]", "timedelta64[s]"])
def test_numbers_are_not_taken_in_part(tmp_path, capsys, kind):
    path = str(tmp_path / "points.npy")
    np.save(path, np.arange(24).reshape(12, 2).astype(kind))
    assert main(["solve", path, "--quiet"]) == 1
    assert "a table of real numbers" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--save", "--report", "--output"])
def test_the_option_without_a_name_is_named(tmp_path, capsys, option):
    path = str(tmp_path / "points.npy")
    np.save(path, np.random.default_rng(0).normal(size=(12, 2)))
    assert main(["solve", path, option, ""]) == 1
    assert f"{option} ''" in capsys.readouterr().err
