"""How long a user waits for the first line: processor seconds of fresh processes, as multiples of ``import numpy``.

    python tests/bench/bench_start.py [--repeats 5] [--json FILE]
"""

import argparse
import json
import os
import subprocess
import sys

FIRST = ("import margindsl as md; y, f = md.Labels(2), md.Hyperplane([[0.0], [1.0]]); "
         "md.Problem(md.Minimize(md.sq_norm(f) / 2 + md.mean(md.hinge(y * f))))")
PROGRAM = "import sys; from margindsl.cli.main import main; sys.exit(main({}))"
STARTS = {
    "import numpy": "import numpy",
    "import margindsl": "import margindsl",
    "import scipy.sparse": "import scipy.sparse",
    "first Problem": FIRST,
    "margindsl --help": PROGRAM.format(["--help"]),
    "margindsl solvers": PROGRAM.format(["solvers"]),
    "import margindsl.estimators": "import margindsl.estimators",
    "import sklearn.base": "import sklearn.base",
}


def seconds(code: str, repeats: int) -> float:
    """Return the least processor seconds of a process that runs code, over some repeats; an empty one is taken off."""
    def once(code: str) -> float:
        before = os.times()
        subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=True)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    return min(once(code) for _ in range(repeats)) - min(once("pass") for _ in range(repeats))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json")
    options = parser.parse_args()
    measured = {name: seconds(code, options.repeats) for name, code in STARTS.items()}
    unit = measured["import numpy"]
    for name, value in measured.items():
        print(f"{name:28} {value:6.3f} s {value / unit:6.2f} x")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({name: value / unit for name, value in measured.items()}, file, indent=1)


if __name__ == "__main__":
    main()
