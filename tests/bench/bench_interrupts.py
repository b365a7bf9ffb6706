"""Interrupt solves at random moments and look at what comes back.

Run ``python tests/bench/bench_interrupts.py [--count N] [--seed S] [--relaxations NAME ...]``. Each line of the table
is a relaxation: interrupts, answers, `KeyboardInterrupt` while compiling, solves that had ended before, answers that
are wrong (labels outside B, bounds too high), seconds from Ctrl-C to the answer (median and largest, of this
process), and whether the same problem afterwards has the value it had before. Ends with 1 where an answer is wrong.
"""

import argparse
import signal
import sys
import time
import warnings

import numpy as np

import margindsl as md

RELAXATIONS = ("alternating", "cccp", "exact", "minimax", "sdp", "weight-lifting", "alternating 3", "sdp 3")
SOUND = 1e-6


def declare(name, seed=0):
    """Return a problem of the size that takes a relaxation about a second."""
    rng = np.random.default_rng(seed)
    n = 20 if name == "exact" else 60
    X = rng.normal(size=(n, 4))
    X[: n // 2] += 0.8
    f = md.Hyperplane(X)
    if name.endswith("3"):
        y = md.Labels(n, clusters=3)
        coding = "simplex" if name == "sdp 3" else "crammer-singer"
        return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.hinge(md.margin(y, f, coding=coding)))),
                          [md.sizes(y, at_least=n // 6), y[0] != y[n - 1]])
    y = md.Labels(n)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 10 * md.mean(md.hinge(y * f))),
                      [abs(md.sum(y)) <= 4, y[0] == y[1], y[0] != y[n - 1]])


def interrupted(problem, name, delay):
    """Return the solution or None for KeyboardInterrupt, and seconds of this process after Ctrl-C (None: ended before).
    """
    moment = []

    def press(number, frame):
        moment.append(time.process_time())
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, press)
    try:
        signal.setitimer(signal.ITIMER_REAL, delay)
        try:
            solution = problem.solve(name.split()[0], random_state=0)
        except KeyboardInterrupt:
            solution = None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return solution, time.process_time() - moment[0] if moment else None


def wrong_with(problem, solution, whole):
    """Return what is wrong with an answer, empty where nothing is."""
    program = problem.program()
    if program.labels.violations(solution.labels):
        return "labels outside B"
    if not np.isfinite(solution.value) or solution.bound > min(solution.value, whole.value) * (1 + SOUND):
        return f"value {solution.value}, bound {solution.bound}, value of the whole solve {whole.value}"
    if solution.certificate is not None and not solution.verify():
        return "a certificate that does not verify"
    return "" if solution.status in ("interrupted", "optimal", "converged") else f"status {solution.status}"


def run(name, count, rng):
    """Print the line of one relaxation and return the number of wrong answers."""
    problem = declare(name)
    problem.solve(name.split()[0], random_state=0)
    began = time.perf_counter()
    whole = problem.solve(name.split()[0], random_state=0)
    length, answers, compiling, ended, wrong, seconds = time.perf_counter() - began, 0, 0, 0, [], []
    for _ in range(count):
        solution, after = interrupted(problem, name, float(rng.uniform(1e-4, length)))
        ended += after is None
        compiling += solution is None
        if solution is not None:
            answers += 1
            wrong += [words] if (words := wrong_with(problem, solution, whole)) else []
        if after is not None:
            seconds.append(after)
    again = problem.solve(name.split()[0], random_state=0)
    same = abs(again.value - whole.value) <= SOUND * abs(whole.value)
    print(f"{name:15} {count:5} {answers:8} {compiling:10} {ended:6} {len(wrong):6} {np.median(seconds or [0]):7.2f} "
          f"{max(seconds, default=0):7.2f}  {same}", flush=True)
    for words in sorted(set(wrong)):
        print(f"    {words}")
    return len(wrong) + (not same)


def main():
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--count", type=int, default=300, help="interrupts in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--relaxations", nargs="+", default=RELAXATIONS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(arguments.seed)
    print(f"{'relaxation':15} {'count':>5} {'answers':>8} {'compiling':>10} {'ended':>6} {'wrong':>6} {'median':>7} "
          f"{'largest':>7}  same afterwards")
    share = -(-arguments.count // len(arguments.relaxations))
    return int(sum(run(name, share, rng) for name in arguments.relaxations) > 0)


if __name__ == "__main__":
    sys.exit(main())
