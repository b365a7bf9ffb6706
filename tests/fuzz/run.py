"""Run many random models and print what came of them; `--case SEED` runs one and tells its story."""

from __future__ import annotations

import argparse
import json
import multiprocessing as mp
import os
import signal
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(name, "1")
sys.path.insert(0, str(Path(__file__).parent))
HANG = 40  # seconds of processor time: a busy machine is no failure


class Hang(BaseException):
    """Signal a case that does not end; no handler of the library catches it."""


def _ring(*_: Any) -> None:
    raise Hang


def run_case(seed: int, limit: float = HANG) -> Any:
    """Return the result of a case, with a failure where it does not end in time."""
    from judge import Result, judge, tell

    signal.signal(signal.SIGPROF, _ring)
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        return judge(seed)
    except Hang:
        words = f"no answer within {limit} s of processor time"
        return Result(seed, "hang", [("hang", words)], seconds=limit, story=tell(seed))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def work(tasks: Any, results: Any) -> None:
    """Run seeds until None comes."""
    for seed in iter(tasks.get, None):
        results.put(("begin", os.getpid(), seed))
        results.put(("end", os.getpid(), run_case(seed)))


class Crew:
    """Run seeds in worker processes; one that dies or hangs in foreign code is replaced, and its case a failure."""

    def __init__(self, seeds: list[int], jobs: int) -> None:
        context = mp.get_context("spawn")
        self.tasks, self.results = context.Queue(), context.Queue()
        for seed in [*seeds, *[None] * jobs]:
            self.tasks.put(seed)
        self.context, self.left = context, len(seeds)
        self.workers: dict[int, Any] = {}
        self.busy: dict[int, tuple[int, float]] = {}
        for _ in range(jobs):
            self._hire()

    def _hire(self) -> None:
        worker = self.context.Process(target=work, args=(self.tasks, self.results), daemon=True)
        worker.start()
        self.workers[worker.pid] = worker

    def __iter__(self) -> Any:
        from queue import Empty

        from judge import Result

        while self.left:
            try:
                word, pid, what = self.results.get(timeout=5)
            except Empty:
                for pid, (seed, began) in list(self.busy.items()):
                    dead = not self.workers[pid].is_alive()
                    if dead or time.monotonic() - began > 10 * HANG:
                        self.workers[pid].kill()
                        del self.busy[pid]
                        self.left -= 1
                        self._hire()
                        words = f"process died with {self.workers[pid].exitcode}" if dead else "hangs in foreign code"
                        yield Result(seed, "hang", [("hang", words)], seconds=time.monotonic() - began)
                continue
            if word == "begin":
                self.busy[pid] = (what, time.monotonic())
            else:
                self.busy.pop(pid, None)
                self.left -= 1
                yield what


class Tally:
    """Count results and print the table."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.notes: Counter[str] = Counter()
        self.failures: dict[str, list[tuple[int, str]]] = defaultdict(list)
        self.refusals: dict[str, list[tuple[int, str]]] = defaultdict(list)
        self.seconds: list[float] = []
        self.excess = -float("inf")

    def add(self, result: Any) -> None:
        self.kinds[result.kind] += 1
        self.notes.update(result.notes)
        self.seconds.append(result.seconds)
        self.excess = max(self.excess, result.excess)
        for kind, words in result.failures:
            self.failures[kind].append((result.seed, words))
        if result.refusal:
            self.refusals[result.refusal[0]].append((result.seed, result.refusal[1]))

    def lines(self) -> list[str]:
        total, seconds = sum(self.kinds.values()), sorted(self.seconds)
        lines = [f"{'models':<40} {total}"]
        lines += [f"{kind:<40} {count}" for kind, count in self.kinds.most_common()]
        lines += [f"{kind:<40} {count}" for kind, count in sorted(self.notes.items())]
        lines.append(f"{'largest (bound - optimum) / parts':<40} {self.excess:.3g}")
        if seconds:
            lines.append(f"{'seconds a case: median, mean, largest':<40} {seconds[len(seconds) // 2]:.3f} "
                         f"{sum(seconds) / len(seconds):.3f} {seconds[-1]:.1f}")
        lines.append("refusals by kind:")
        lines += [f"  {len(cases):>5}  {kind}   --case {cases[0][0]}"
                  for kind, cases in sorted(self.refusals.items(), key=lambda item: -len(item[1]))]
        lines.append("failures:")
        names = ("wrong bound", "wrong value", "labels outside B", "uncaught exception", "verify of a certificate",
                 "verify of a solution")
        for kind in dict.fromkeys((*names, *self.failures)):
            cases = self.failures.get(kind, [])
            lines.append(f"  {len(cases):>5}  {kind}" + "".join(f" {seed}" for seed, _ in cases[:12]))
        return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="first seed; cases are seed, seed + 1, ...")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write results a line each; seeds already there are not run again")
    parser.add_argument("--case", type=int, help="run this seed alone and tell its story")
    given = parser.parse_args()
    if given.case is not None:
        result = run_case(given.case)
        print(result.story, result.kind, dict(result.notes), result.refusal, f"{result.seconds:.2f} s", sep="\n")
        for kind, words in result.failures:
            print(f"FAILURE {kind}: {words}")
        return bool(result.failures)
    return campaign(given)


def campaign(given: argparse.Namespace) -> int:
    from judge import Result

    tally, done = Tally(), set()
    if given.json and given.json.exists():
        for line in given.json.read_text().splitlines():
            row = json.loads(line)
            done.add(row["seed"])
            tally.add(Result(**row))
    seeds = [seed for seed in range(given.seed, given.seed + given.cases) if seed not in done]
    began, out = time.monotonic(), given.json.open("a") if given.json else None
    for count, result in enumerate(Crew(seeds, given.jobs), 1):
        tally.add(result)
        if out:
            out.write(json.dumps(vars(result)) + "\n")
            out.flush()
        for kind, words in result.failures:
            print(f"--case {result.seed}  {kind}: {words.splitlines()[-1][:240]}  [{result.story[:200]}]", flush=True)
        if count % 200 == 0:
            print(f"# {count} of {len(seeds)}, {time.monotonic() - began:.0f} s, "
                  f"{sum(map(len, tally.failures.values()))} failures", flush=True)
    print("\n".join(tally.lines()))
    print(f"{time.monotonic() - began:.0f} s")
    return bool(tally.failures)


if __name__ == "__main__":
    sys.exit(main())
