"""Run every benchmark and save one JSON file.

Run ``python tests/bench/run_all.py [--quick] [--json FILE] [--only NAME ...] [--limit SECONDS]``. Every benchmark is
a process of its own with the common options ``--quick`` and ``--json``; its table is printed as it comes. A benchmark
that fails or exceeds the limit is reported and does not stop the others; the exit code is then 1.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent
# what --quick means for benchmarks without the option
SMALL = {"bench_pairs": ["--pairs", "3", "--weights", "10"]}


def names() -> list[str]:
    """Return the benchmarks that need neither another tree nor a directory of data, and save what they find."""
    return sorted(path.stem for path in FOLDER.glob("bench_*.py")
                  if path.stem != "bench_trees" and '"--json"' in path.read_text(encoding="utf-8"))


def arguments(name: str, quick: bool, file: Path) -> list[str] | None:
    """Return the command line of a benchmark, None when it has no quick version."""
    options = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    short: list[str] | None = []
    if quick:
        short = ["--quick"] if '"--quick"' in options else SMALL.get(name)
    return None if short is None else [sys.executable, str(FOLDER / f"{name}.py"), "--json", str(file), *short]


def measure(name: str, quick: bool, limit: float) -> dict[str, object]:
    """Run one benchmark; return its rows, seconds and how it ended."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.json"
        command = arguments(name, quick, file)
        if command is None:
            return {"status": "no quick version", "seconds": 0.0, "rows": None}
        began = time.perf_counter()
        try:
            code = subprocess.run(command, timeout=limit, check=False).returncode
            status = "ok" if code == 0 else f"exit code {code}"
        except subprocess.TimeoutExpired:
            status = f"stopped after {limit:g} s"
        rows = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
        return {"status": status, "seconds": time.perf_counter() - began, "rows": rows}


def main(given: list[str] | None = None) -> int:
    """Run them all; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, minutes instead of hours")
    parser.add_argument("--json", type=Path, help="save all rows here")
    parser.add_argument("--only", nargs="+", choices=names(), default=names(), metavar="NAME")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds for each benchmark")
    options = parser.parse_args(given)
    results: dict[str, dict[str, object]] = {}
    for name in options.only:
        print(f"\n== {name}", flush=True)
        results[name] = measure(name, options.quick, options.limit)
        print(f"-- {name}: {results[name]['status']}, {results[name]['seconds']:.0f} s", flush=True)
        if options.json:  # after each, so that an interrupt loses nothing
            about = {"quick": options.quick, "python": platform.python_version(), "numpy": np.__version__,
                     "cores": os.cpu_count()}
            options.json.write_text(json.dumps({"about": about, "benchmarks": results}, indent=1), encoding="utf-8")
    return 0 if all(result["status"] in ("ok", "no quick version") for result in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
