"""Points whose cluster is not that of `predict`, of the estimator and of the command line, on every set.

Run ``python tests/bench/bench_predict.py [--data PATH ...] [--points 400] [--cli 10] [--quick] [--json FILE]``; sets
and draws are those of `bench_quality`. Asked: none but points that a size, a link or a known label holds, which
`held_` marks; and the clusters that the command writes for the first ``--cli`` sets, from a file, are the estimator's.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from bench_quality import bundled, drawn, stored

from margindsl.cli.main import main as command
from margindsl.estimators import MarginClusterer


def main() -> int:
    """Count, print; the exit code is 1 where something differs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=Path, nargs="+", help="files or folders of files; beside scikit-learn's sets")
    parser.add_argument("--points", type=int, default=400)
    parser.add_argument("--cli", type=int, default=10, help="sets that go through the command line, too")
    parser.add_argument("--quick", action="store_true", help="150 points, two sets through the command line")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.quick:
        options.points, options.cli = 150, 2
    warnings.simplefilter("ignore")
    faults = sets = held = total = 0
    for name, X, y in [*bundled(), *stored(options.data or [])]:
        points, _, k = drawn(X, y, options.points, 0)
        model = MarginClusterer(k, random_state=0).fit(points)
        differ = model.predict(points) != model.labels_
        wrong, words = int(np.sum(differ != model.held_)), ""
        if sets < options.cli:
            with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
                path, out = Path(folder) / "points.csv", Path(folder) / "clusters.csv"
                pd.DataFrame(points, columns=[f"x{j}" for j in range(points.shape[1])]).to_csv(path, index=False)
                code = command(["cluster", str(path), "--clusters", str(k), "--seed", "0", "--output", str(out)])
                other = len(points) if code else int(np.sum(pd.read_csv(out)["cluster"].to_numpy() != model.labels_))
            wrong, words = wrong + other, f", {other} of the command's clusters differ"
        faults, sets, held, total = faults + wrong, sets + 1, held + int(model.held_.sum()), total + len(points)
        print(f"{name:24s} {len(points)} points, {int(model.held_.sum())} held, {int(differ.sum())} differ{words}",
              flush=True)
    if options.json:
        options.json.write_text(json.dumps({"sets": sets, "points": total, "held": held, "faults": faults}))
    print(f"{sets} sets, {total} points, {held} held by sizes, {faults} faults")
    return int(faults > 0)


if __name__ == "__main__":
    raise SystemExit(main())
