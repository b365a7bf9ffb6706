"""Command lines as people type them, on files as people have them: each has an answer, or a sentence that helps."""

import bz2
import gzip
import io
import json

import numpy as np
import pytest
from scipy.sparse import csr_array, save_npz

from margindsl.cli.main import main

RNG = np.random.default_rng(0)
SIDES = np.arange(12) % 2
X = RNG.normal(size=(12, 2)) * 0.3 + 3 * SIDES[:, None]
NAMES = ["ada", "ben", "cleo", "dan", "eva", "finn", "gus", "hal", "ida", "jon", "kim", "leo"]
ROWS = [f"{a:.3f},{b:.3f}" for a, b in X]


def table(header, *columns):
    """Return CSV of the points with further columns."""
    rows = [",".join([row, *(str(column[k]) for column in columns)]) for k, row in enumerate(ROWS)]
    return "\n".join([header, *rows]) + "\n" if header else "\n".join(rows) + "\n"


HOLES = table("a,b").replace(ROWS[3], f"NA,{ROWS[3].split(',')[1]}").replace(ROWS[5], f"{ROWS[5].split(',')[0]},")
HOME = ["x", "", "y", "", "y", "x", *[""] * 6]
WORD = ["red", "blue"] * 6
LIBSVM = "".join(f"{SIDES[k]} 1:{a:.3f} 9000000:{b:.3f}\n" for k, (a, b) in enumerate(X))
FILES = {
    "plain.csv": table("a,b"), "bare.csv": table(""), "named.csv": table("a,b,name", NAMES),
    "holes.csv": HOLES, "home.csv": table("a,b,home", HOME), "colour.csv": table("a,b,colour", WORD),
    "id.csv": table("a,b,Id", [k + 101 for k in range(12)]), "unnamed.csv": table("a,b,", list(range(12))),
    "semi.csv": table("a,b").replace(",", ";"), "tab.tsv": table("a,b").replace(",", "\t"),
    "bom.csv": "\ufeff" + table("a,b"), "dos.csv": table("a,b").replace("\n", "\r\n"), "space.csv": table(" a , b "),
    "class.csv": table("a,b,class", [f"c{side}" for side in SIDES]),
    "twice.csv": table("a,b,name", ["ada", *NAMES[:11]]),
    "quoted.csv": table('a,b,"first, last"', ['"x, y"'] * 12), "inf.csv": table("a,b").replace(ROWS[0], "inf,1"),
    "points.libsvm": LIBSVM, "empty.csv": "", "head.csv": "a,b\n", "one.csv": "a,b\n1,2\n",
    "comma.csv": table("a,b").replace(".", ","), "comma.tsv": table("a,b").replace(",", "\t").replace(".", ","),
    "german.csv": table("a,b").replace(",", ";").replace(".", ","), "bars.csv": table("a,b").replace(",", "|"),
    "blanks.txt": table("a,b").replace(",", "   "), "lines.csv": table("a,b").replace("\n", "\n\n"),
    "double.csv": table("a,a,b", SIDES), "flat.csv": table("a,b,c", [5] * 12),
    "truths.csv": table("a,b,c", ["true", "FALSE"] * 6), "big.csv": table("a,b,c", [k * 1e12 for k in X[:, 0]]),
    "trailing.csv": "a,b,\n" + "".join(f"{row},\n" for row in ROWS),
    "huge.csv": table("a,b,c", ["1e300", *"12345678901"]), "over.csv": table("a,b,c", ["1e400", *"12345678901"]),
    "date.csv": table("a,b,when", [f"2024-01-{k + 1:02d}" for k in range(12)]),
    "us.csv": table("a,b,when", [f"1/{k + 1}/2024 10:00" for k in range(12)]),
    "text.csv": table("a,b,note", [f"note number {k} of many" for k in range(12)]),
    "part.csv": table("a,b,share", [f"{k}%" for k in range(12)]), "mixed.csv": table("a,b,c", ["two", *"12345678901"]),
    "rows.csv": ",a,b\n" + "".join(f"row {k},{row}\n" for k, row in enumerate(ROWS)), "years.csv": table("2019,2020"),
    "nothing.csv": table("a,b,c", [""] * 12), "dash.csv": table("a,b,c", ["-", ".", *"1234567890"]),
    "ragged.csv": table("a,b") + "1,2,3\n", "sheet.xlsx": "PK", "odd_head.csv": table("1,b"),
    "same.csv": "ada,finn\ncleo,dan\n", "numbers.csv": "0,5\n2,3\n", "kinds.csv": "ada,finn,must\nada,ben,cannot\n",
    "odd.csv": "ada,finn,maybe\n", "typo.csv": "ada,fin\n", "known.csv": "ada,0\nben,1\n", "three.csv": "0,1,must\n",
    "notes.csv": "# by hand\n\n# twice\n" + table("#a,b"), "title.csv": "Our customers,\n" + table("a,b"),
    "hole.csv": table("a,b,colour", [*WORD[:3], "", *WORD[4:]]), "label.csv": table("a,b,label", SIDES),
    "none.csv": table("a,b,place", ["none", "shed"] * 6), "cm.csv": table("a,b,c", [f"{k} cm" for k in range(12)]),
    "even.csv": table("a,b,at", [k * 60 for k in range(12)]), "svm.txt": LIBSVM, "na.csv": table("a,b").replace(
        ROWS[2], f"#N/A,{ROWS[2].split(',')[1]}")}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).write_bytes(text.encode())
    (tmp_path / "plain.csv.gz").write_bytes(gzip.compress(FILES["plain.csv"].encode()))
    (tmp_path / "points.svm.bz2").write_bytes(bz2.compress(LIBSVM.encode()))
    (tmp_path / "packed.csv.bz2").write_bytes(bz2.compress(FILES["bare.csv"].encode()))
    for name, array in {"points": X, "single": X.astype("f4"), "whole": (100 * X).astype(int), "deep": X[None]}.items():
        np.save(tmp_path / f"{name}.npy", array)
    np.savez(tmp_path / "points.npz", X=X, y=SIDES)
    save_npz(tmp_path / "sparse.npz", csr_array(X))
    (tmp_path / "latin.csv").write_bytes("größe,b\n1,2\n3,4\n".encode("latin-1"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


GOOD = [
    "plain.csv", "bare.csv", "semi.csv", "tab.tsv", "bom.csv", "dos.csv", "space.csv --columns a,b", "plain.csv.gz",
    "packed.csv.bz2", "points.npy", "points.npz", "points.libsvm", "points.svm.bz2", "points.npz --truth label",
    "named.csv --drop name", "named.csv --index name", "named.csv --columns a,b", "named.csv --columns a --columns b",
    "named.csv --drop name,b", "class.csv --truth class --scale standard", "quoted.csv --drop first,\\ last",
    "holes.csv --missing median", "holes.csv --missing mean", "holes.csv --missing zero", "colour.csv --one-hot",
    "colour.csv --one-hot --scale minmax", "home.csv --group home", "named.csv --index name --must-link same.csv",
    "named.csv --index name --links kinds.csv", "named.csv --index name --known known.csv",
    "plain.csv --links three.csv", "plain.csv --must-link numbers.csv --clusters 3", "id.csv --drop Id",
    "id.csv --index Id", "plain.csv --min-size 0.4",
    "german.csv", "comma.tsv", "bars.csv", "blanks.txt", "lines.csv", "double.csv", "flat.csv",
    "double.csv --drop a\\ (2)", "flat.csv --scale standard", "truths.csv", "trailing.csv",
    "big.csv --scale minmax", "dash.csv --missing median",
    "notes.csv --columns #a,b", "hole.csv --one-hot --missing median", "none.csv --one-hot", "na.csv --missing zero",
    "sparse.npz", "plain.csv -k 3", "plain.csv --append",
    "rows.csv --index 0", "text.csv --drop note", "date.csv --index when", "single.npy", "whole.npy",
    "plain.csv --clusters 3 --min-size 2 --max-size 6", "named.csv --index name --append", "unnamed.csv --drop 2"]
WARNED = [("id.csv", "column 'Id' numbers the rows"), ("unnamed.csv", "column '' numbers the rows"),
          ("years.csv", "the first row of years.csv holds whole numbers alone and is read as a point"),
          ("even.csv", "column 'at' numbers"), ("label.csv", "--truth label takes it"),
          ("plain.csv --time-limit 1e-9", "give more --time-limit\n")]
BAD = [
    ("named.csv", 1, "column 'name' holds 'ada' (row 1)"), ("named.csv --drop nam", 1, "did you mean 'name'?"),
    ("named.csv --index Name", 1, "did you mean 'name'?"), ("holes.csv", 1, "--missing median fills"),
    ("twice.csv --index name", 1, "'ada' names several rows"), ("named.csv --one-hot", 1, "12 different words"),
    ("named.csv --index name --must-link typo.csv", 1, "no point is called 'fin'; did you mean 'finn'?"),
    ("named.csv --index name --links odd.csv", 1, "'maybe' as kind"), ("inf.csv", 1, "holds 'inf'"),
    ("points.libsvm --scale standard", 1, "scaling would fill it"), ("empty.csv", 1, "holds no table"),
    ("head.csv", 1, "empty"), ("one.csv", 1, "one point"), ("latin.csv", 1, "save it as CSV in UTF-8"),
    ("comma.csv", 1, "put ; between columns of decimal commas"), ("ragged.csv", 1, "Expected 2 fields in line 14"),
    ("huge.csv", 1, "expected finite numbers below 1e+150"), ("over.csv", 1, "holds '1e400'"),
    ("date.csv", 1, "these are dates"), ("us.csv", 1, "these are dates"), ("text.csv", 1, "12 different words in 12"),
    ("part.csv", 1, "without signs of units"), ("mixed.csv", 1, "most cells are numbers: mend this one"),
    ("rows.csv", 1, "--index 0"), ("nothing.csv --missing mean", 1, "it holds nothing: leave it out with --drop c"),
    ("sheet.xlsx", 1, "save the table as CSV"), ("odd_head.csv", 1, "neither a header nor a row like the others"),
    ("colour.csv", 1, "--one-hot makes a column"), ("deep.npy", 1, "a table of real numbers"),
    ("missing.csv", 1, "No such file"), ("plain.csv --columns a,b --drop a,b", 1, "no column is left"),
    ("plain.csv --min_size 3", 2, "did you mean --min-size?"),
    ("plain.csv --scale standart", 2, "did you mean standard?"),
    ("plain.csv --missing drop", 2, "invalid choice"), ("plain.csv --clusters two", 2, "expected a whole number"),
    ("hole.csv --one-hot", 1, "--one-hot with --missing median"), ("cm.csv", 1, "without signs of units"),
    ("svm.txt", 1, "call the file .libsvm"), ("title.csv", 1, "or what stands above it where it is the header"),
    ("plain.csv --must-link same.csv", 1, "or with --index COLUMN the names"),
    ("plain.csv -k 13", 1, ">= --clusters 13"), ("plain.csv --min-size 7", 1, "of such sizes have 14 to 24 points"),
    ("plain.csv --balance 0.1", 2, "--balance is an option of solve, compare, certify, explain"),
    ("plain.csv --group homes", 1, "no column 'homes'"), ("plain.csv --links numbers.csv", 1, "expected three")]


def words(line):
    return [word.replace("\0", " ") for word in line.replace("\\ ", "\0").split()]


@pytest.mark.parametrize("line", GOOD)
def test_a_file_is_clustered_and_json_is_alone(folder, capfd, line):
    assert main(["cluster", *words(line), "--json", *(["--output", "out.csv"] if "--append" in line else [])]) == 0
    out, err = capfd.readouterr()
    clusters = json.loads(out)["clusters"]
    assert len(clusters) == 12 and len(set(clusters)) >= 2 and "warning" not in err
    if "must-link same" in line or "kinds" in line or "home" in line:
        assert clusters[0] == clusters[5]


@pytest.mark.parametrize("line, said", WARNED)
def test_columns_that_number_the_rows_are_named(folder, capsys, line, said):
    assert main(["cluster", *words(line)]) in (0, 3)
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("line, code, said", BAD)
def test_what_is_wrong_is_said(folder, capsys, line, code, said):
    try:
        found = main(["cluster", *words(line)])
    except SystemExit as stopped:
        found = stopped.code
    error = capsys.readouterr().err
    assert found == code and said in error and "Traceback" not in error


def test_a_command_that_is_mistyped(capsys):
    with pytest.raises(SystemExit):
        main(["clustr", "plain.csv"])
    assert "did you mean cluster?" in capsys.readouterr().err


def test_answers_bear_the_names_of_the_points(folder, capsys):
    assert main(["cluster", "named.csv", "--index", "name"]) == 0
    assert [row.split(",")[0] for row in capsys.readouterr().out.splitlines()] == ["index", *NAMES]


@pytest.mark.parametrize("line, new", [
    ("named.csv --drop name --scale standard", "named.csv"), ("holes.csv --missing median", "holes.csv"),
    ("colour.csv --one-hot --scale minmax --clusters 3", "colour.csv"), ("points.libsvm", "points.svm.bz2"),
    ("hole.csv --one-hot --missing median", "hole.csv"), ("bare.csv --kernel linear", "bare.csv"),
    ("points.npz", "points.npz")])
def test_a_saved_model_predicts_new_files(folder, capsys, line, new):
    assert main(["cluster", *words(line), "--save", "model.npz", "--output", "found.csv"]) == 0
    capsys.readouterr()
    assert main(["predict", "model.npz", new]) == 0
    predicted = [row.split(",")[1] for row in capsys.readouterr().out.splitlines()]
    assert main(["predict", "model.npz", new, "--json"]) == 0
    assert ["cluster", *map(str, json.loads(capsys.readouterr().out)["clusters"])] == predicted
    assert predicted == [row.split(",")[1] for row in (folder / "found.csv").read_text().splitlines()]


def test_a_model_says_which_column_a_new_file_lacks(folder, capsys):
    assert main(["cluster", "plain.csv", "--save", "model.npz", "--output", "found.csv"]) == 0
    (folder / "new.csv").write_text("a,bb\n1,2\n")
    assert main(["predict", "model.npz", "new.csv"]) == 1
    assert "no column 'b'; did you mean 'bb'?" in capsys.readouterr().err
    assert main(["solve", "plain.csv", "--save", "other.npz", "--balance", "0.2", "--output", "found.csv"]) == 0
    assert main(["predict", "other.npz", "plain.csv"]) == 1
    assert "`margindsl cluster --save` wrote" in capsys.readouterr().err


def test_a_model_says_which_word_it_does_not_know(folder, capsys):
    assert main(["cluster", "colour.csv", "--one-hot", "--save", "model.npz", "--output", "found.csv"]) == 0
    (folder / "new.csv").write_text(FILES["colour.csv"].replace("blue", "violet"))
    assert main(["predict", "model.npz", "new.csv"]) == 0
    assert "holds 'violet', which the model does not know" in capsys.readouterr().err


def test_standard_input_is_read_once(folder, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(FILES["plain.csv"]))
    assert main(["cluster", "-", "--append", "--output", "-"]) == 0
    found = capsys.readouterr().out.splitlines()
    assert found[0] == "a,b,cluster" and len(found) == 13
