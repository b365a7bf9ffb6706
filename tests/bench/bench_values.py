"""Values of the default solve within some seconds beside the best of many restarts of everything.

Run ``python tests/bench/bench_values.py DIRECTORY [--limit 20] [--restarts 10] [--rows TEXT]``, with the directory and
rows of ``bench_rows.py``; twelve problems of at most 200 points. The excess is over the best value that `alternating`,
`cccp` and `sdp`, each with so many seeds, and `exact` within the same time have found.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

from bench_rows import problem

ROWS = [("heart", 60, "sh", 1, "linear", 0.3), ("heart", 200, "sh", 0.1, "linear", 0.1),
        ("heart", 150, "odm", 0.1, "rbf", 0.2), ("ionosphere", 150, "sh", 1, "linear", 0.1),
        ("ionosphere", 150, "hinge", 0.1, "rbf", 0.3), ("connectionist", 200, "sh", 0.1, "linear", 0.3),
        ("art100", 100, "hinge", 1, "linear", 0.1), ("2moons", 200, "odm", 1, "rbf", 0.1),
        ("wdbc", 150, "odm", 0.1, "linear", 0.0), ("heart", 100, "odm", 1, "linear", 0.0),
        ("ionosphere", 100, "odm", 1, "linear", 0.0), ("connectionist", 100, "hinge", 0.1, "rbf", 0.0)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--limit", type=float, default=20.0)
    parser.add_argument("--restarts", type=int, default=10)
    parser.add_argument("--rows", default="")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for row in ROWS:
        if options.rows not in (words := " ".join(map(str, row))):
            continue
        declared, began = problem(options.directory, *row), time.process_time()
        found = declared.solve(random_state=0, time_limit=options.limit)
        seconds, values = time.process_time() - began, {}
        for name, restarts in (("alternating", options.restarts), ("cccp", options.restarts),
                               ("sdp", options.restarts // 5), ("exact", 1)):
            values[name] = min(declared.solve(name, random_state=seed, time_limit=options.limit).value
                               for seed in range(1, 1 + restarts))
        best = min(found.value, *values.values())
        others = ", ".join(f"{name} {100 * (value / best - 1):.2f}" for name, value in values.items())
        print(f"{words}: {found.relaxation} {found.value:.6g}, {100 * (found.value / best - 1):.2f} % above, "
              f"{seconds:.1f} s; {others}", flush=True)


if __name__ == "__main__":
    main()
