"""One case: draw, declare, solve, and hold the answer against the oracle."""

from __future__ import annotations

import re
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import cvxpy  # noqa: F401 (a second of the first solve that needs it, no part of its time limit)
import numpy as np
from declare import Writer
from formulas import Margins
from generator import draw
from models import Model
from oracle import Ambiguous, Optimum, Oracle
from plans import Plan, plan

from margindsl import errors

VALUE = 1e-9  # of the sum of moduli of parts: what recomputing a value may differ by
FOUND = 1e-8  # the same where scalars were found anew by the conic solver, which is no more accurate
BEST = 1e-6  # what a value may lie above the best over weights at its labels
CERTIFYING = {"exact", "minimax", "sdp", "weight-lifting"}
FAINT = 1e-12  # decision values below which weights of no use are left of rounding
BOUND = 1e-7  # what a bound may lie above the optimum found by enumeration
UNFINISHED = ("inaccurate", "failed", "time_limit", "iteration_limit", "interrupted")  # words that promise no accuracy
OWN = tuple(value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Warning))
LOCAL = ("safe", "transductive")


@dataclass
class Result:
    """Represent what came of one case."""

    seed: int
    kind: str = "answer"  # or "refusal", "ambiguous", "infeasible"
    failures: list[tuple[str, str]] = field(default_factory=list)
    notes: Counter = field(default_factory=Counter)
    refusal: tuple[str, str] | None = None
    excess: float = -np.inf
    seconds: float = 0.0
    story: str = ""


def tell(seed: int) -> str:
    """Return model and plan of a seed in a line."""
    model = draw(seed)
    return f"{model} | {plan(model)}"


def judge(seed: int) -> Result:
    """Return what came of the case of a seed; nothing but a watchdog's interruption is raised."""
    began = time.process_time()
    result = Result(seed)
    model = draw(seed)
    chosen = plan(model)
    result.story = f"{model} | {chosen}"
    try:
        _judge(model, chosen, result)
    except Ambiguous:
        result.kind = "ambiguous"
    except Exception as error:
        result.failures.append(("harness", "".join(traceback.format_exception(error))[-1500:]))
    result.seconds = time.process_time() - began
    return result


def _judge(model: Model, chosen: Plan, result: Result) -> None:
    oracle = Oracle(model)  # before anything is solved: an ambiguous model is none
    solved = _solve(model, chosen, result)
    oracle = solved.get("oracle", oracle)
    error, solution = solved.get("error"), solved.get("solution")
    if error is not None:
        _judge_error(error, oracle, result)
        return
    if solution is None:
        return
    if solved.get("warm") is not None and chosen.name not in LOCAL:
        before = solved["warm"]
        room = 1e-6 * abs(before.value) + 1e-9 * _parts(oracle, before) + oracle.dust
        if solution.value > before.value + room:
            result.failures.append(("above warm start", f"{solution.value!r} > {before.value!r}"))
    Answer(oracle, chosen, solution, result, solved["seconds"]).check()


def _solve(model: Model, chosen: Plan, result: Result) -> dict[str, Any]:
    """Return solution or error, what the warm start was, and the seconds of the last solve."""
    out: dict[str, Any] = {}
    writer = Writer(model)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            earlier: list[Any] = []
            for _ in range(model.earlier):
                earlier.append(Writer(model).problem(tuple(earlier)).solve("alternating", random_state=0))
            if earlier:
                out["oracle"] = Oracle(model, [s.decision - s.bias for s in earlier])
                out["earlier"] = earlier
            problem = writer.problem(tuple(earlier))
            writer.settle()
            options = dict(chosen.options)
            if chosen.warm:
                out["warm"] = options["warm_start"] = problem.solve("alternating", random_state=1)
            began = time.process_time()
            out["solution"] = problem.solve(chosen.relaxation, chosen.solver, **options)
            out["seconds"] = time.process_time() - began
            if chosen.twice and "time_limit" not in options:
                again = problem.solve(chosen.relaxation, chosen.solver, **options)
                if not np.array_equal(again.labels, out["solution"].labels):
                    result.failures.append(("not repeatable", "two solves with one random_state differ in labels"))
            str(problem), out["solution"].summary()
        except errors.MarginError as error:
            out["error"] = error
        except Ambiguous:
            raise
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            last = [f for f in frames if "margindsl" in f.filename]
            place = f"{last[-1].filename.split('margindsl', 1)[-1]}:{last[-1].lineno}" if last else "?"
            result.kind = "exception"
            result.failures.append(("uncaught exception", f"{type(error).__name__}: {str(error)[:200]} at {place}"))
    _judge_warnings(heard, result)
    if "earlier" in out and "solution" in out:
        for s in out["earlier"]:
            w, v = np.asarray(out["solution"].weights), np.asarray(s.weights)
            # Noise has no direction.
            told = min(np.abs(t.decision - t.bias).max() for t in (s, out["solution"])) > FAINT
            if told and w.shape == v.shape and abs(w @ v) > 1e-7 * np.linalg.norm(w) * np.linalg.norm(v):
                result.failures.append(("not orthogonal", f"{w @ v!r}"))
    return out


def _judge_warnings(heard: list[Any], result: Result) -> None:
    for warning in heard:
        if issubclass(warning.category, OWN):
            result.notes[f"warned: {warning.category.__name__}"] += 1
            if "withdrawn" in str(warning.message):
                result.failures.append(("bound withdrawn", str(warning.message)))
        else:
            place = f"{warning.filename.rsplit('/', 2)[-2]}/{warning.filename.rsplit('/', 1)[-1]}:{warning.lineno}"
            result.failures.append(("foreign warning", f"{warning.category.__name__}: {warning.message} at {place}"))


def _judge_error(error: Exception, oracle: Oracle, result: Result) -> None:
    """Sort a documented error; saying that nothing is feasible is an answer, and may be wrong."""
    result.kind = "refusal"
    words = re.sub(r"-?\d[\d.e+-]*", "#", str(error).split("\n")[0])
    words = re.sub(r"`[^`]*`|'[^']*'", "…", words)
    result.refusal = (f"{type(error).__name__}: {words[:90]}", str(error)[:300])
    if fault := re.search(r"raised \w+(Error|Exception|Warning)", str(error)):
        result.failures.append(("a fault behind an error", f"{fault[0]}: {str(error)[:300]}"))
    if isinstance(error, (errors.InfeasibleError, errors.ContradictionError)):
        members = oracle.members()
        if members is not None and len(members) and _decision_is_possible(oracle):
            result.failures.append(("refused a feasible program", f"{type(error).__name__}: {str(error)[:200]}"))
        else:
            result.kind = "infeasible"


def _decision_is_possible(oracle: Oracle) -> bool:
    members = oracle.members()
    assert members is not None
    return any(oracle.at_labels(y)[0] is not None for y in members[:4])


def _parts(oracle: Oracle, solution: Any) -> float:
    return abs(solution.value) + sum(map(abs, oracle._loss_parts(
        oracle.margins(np.asarray(solution.labels), np.asarray(solution.decision)), np.zeros(oracle._scalars))))


def share(part: float, whole: float) -> str:
    return f"{part / whole:.2g}" if whole > 0 else "all"


class Answer:
    """Hold one solution against the oracle."""

    def __init__(self, oracle: Oracle, chosen: Plan, solution: Any, result: Result, seconds: float) -> None:
        self.oracle, self.plan, self.solution, self.result, self.seconds = oracle, chosen, solution, result, seconds
        self.labels = np.asarray(solution.labels)
        self.decision = np.asarray(solution.decision)
        result.notes[f"status {solution.status}"] += 1

    def fail(self, kind: str, words: str) -> None:
        self.result.failures.append((kind, words))

    def check(self) -> None:
        if not self.oracle.admits(self.labels):
            self.fail("labels outside B", f"{self.labels.tolist()}")
            return
        if not np.isfinite(self.solution.value) or not np.all(np.isfinite(self.decision)):
            self.fail("wrong value", f"value {self.solution.value!r} or decision values are not finite")
            return
        self.check_value()
        self.check_feasible()
        self.check_best()
        self.check_bound()
        self.check_proof()
        self.check_time()

    # -- the value is the formula's ---------------------------------------------------------------------

    def check_value(self) -> None:
        o, s = self.oracle, self.solution
        scalars, norm = self.scalars(), self.norm()
        self.found = scalars
        value, parts = o.value(self.labels, self.decision, norm, scalars)
        self.parts, self.room = parts, o.jitter(self.labels, self.decision, norm, scalars)
        below, above = value - s.value, s.value - value
        exact = self.known and s.status != "inaccurate"  # scalars found anew, as the mean in a variance, are the best
        if not self.sure:
            self.result.notes["scalars not found anew"] += 1
        elif (max(below, above) if exact else below) > (VALUE if self.known else FOUND) * parts + 10 * self.room:
            self.fail("wrong value", f"reported {s.value!r}, the formula gives {value!r} (of parts {parts:.3g})")
        self.check_reachable(norm)

    def norm(self) -> float:
        weights, k = np.asarray(self.solution.weights), self.oracle.model.k
        total = float(np.sum(weights**2))
        return total * (k - 1) / k if self.oracle.model.coding == "simplex" else total

    def scalars(self) -> np.ndarray:
        """Return scalars by name; those of one name are all to be there, and found anew from the margins."""
        m = self.oracle.model
        names = [name for _, name in m.scalars] + ["margin_mean"] * (self.oracle._scalars - len(m.scalars))
        given = dict(self.solution.scalars)
        if len(given) < len(names):
            self.fail("scalars lost", f"{len(given)} reported {list(given)}, {len(names)} declared")
        self.sure = True
        self.known = len(set(names)) == len(names) and set(names) <= set(given)
        if self.known:
            return np.array([given[name] for name in names])
        return self.best_scalars()

    def best_scalars(self) -> np.ndarray:
        from conic import Builder, Program, Rows

        o = self.oracle
        g = o.margins(self.labels, self.decision)
        b = Builder()
        b.scalars = list(map(int, b.columns(o._scalars)))
        total = Rows(np.zeros(1))
        for k, (nonneg, _) in enumerate(o.model.scalars):
            total = total.plus(b.scalar(k, 1).times(o.model.costs[k]))
            if nonneg:
                b.at_least(b.scalar(k, 1), Rows(np.zeros(1)))
        own = len(o.model.scalars)
        for t in o.model.terms:
            if t.aggregate == "mean_variance":
                centre = np.mean(g[t.index])
                b.equal(b.scalar(own, 1), Rows(np.array([centre + t.eta / (2 * t.lam)])))
                own += 1
            elif t.aggregate != "var":
                rows = t.formula.rows(Margins(Rows(g[t.index]), t.index, ()), b)
                rows = rows if t.weights is None else rows.times(t.weights[t.index])
                rows = rows.times(t.coefficient / (len(t.index) if t.aggregate == "mean" else 1))
                total = total.plus(Rows(np.array([rows.constant.sum()]), rows.terms, rows.squares))
        found = Program(b, total, np.zeros((0, 0))).solve(tight=True)
        self.sure = found.status in ("Solved", "AlmostSolved")  # margins of 1e23 can be beyond the conic solver
        return found.x[b.scalars]

    def check_reachable(self, norm: float) -> None:
        """Some weights of that norm give these decision values in features built anew."""
        o = self.oracle
        f = self.decision - self.solution.bias if o.model.bias is True else self.decision  # a penalised one is a weight
        phi = o.features / o.size
        noise = np.finfo(float).eps * float(np.max(np.abs(self.decision), initial=0.0))
        if o.model.earlier or noise > 1e-9 * float(np.max(np.abs(f), initial=0.0)):  # a bias that rounds the rest away
            return
        stacked = np.vstack([phi, 1e-8 * np.eye(phi.shape[1])])
        w = np.linalg.lstsq(stacked, np.concatenate([f, np.zeros((phi.shape[1], *f.shape[1:]))]), rcond=None)[0]
        miss = float(np.max(np.abs(phi @ w - f), initial=0.0))
        reach = float(np.max(np.abs(f), initial=0.0)) + np.sqrt(norm) * o.size
        least = float(np.sum((w / o.size)**2))
        if o.model.coding == "simplex":
            least *= (o.model.k - 1) / o.model.k
        if miss > 1e-6 * reach or least > norm * (1 + 1e-5) + 1e-300:
            self.fail("unreachable", f"no weights of norm {norm!r} give these decision values (miss {miss:.3g} of "
                                     f"{reach:.3g}, least norm {least!r})")

    def check_feasible(self) -> None:
        m = self.oracle.model
        for row in m.decision:
            sums = row.coefficients @ self.decision
            heft = float(np.abs(row.coefficients) @ np.abs(self.decision.reshape(m.n, -1)).max(axis=1))
            slack = 1e-6 * max(heft, *(abs(b) for b in (row.lower, row.upper) if np.isfinite(b)))
            rounded = np.sqrt(self.norm()) * self.oracle.longest  # what decision values of these weights are sums of
            slack += 64 * np.finfo(float).eps * float(np.abs(row.coefficients).sum()) * rounded
            low, high = (sums, sums) if m.k == 2 else (-np.ptp(sums), np.ptp(sums))
            if low < row.lower - slack or high > row.upper + slack:
                self.fail("decision bound broken", f"{sums!r} outside [{row.lower}, {row.upper}]")
        for (nonneg, _), s in zip(m.scalars, self.found):
            if nonneg and s < -1e-9 * (1 + np.abs(self.decision).max()):
                self.fail("scalar below zero", f"{s!r}")

    # -- the value is the best at the labels --------------------------------------------------------------

    def check_best(self) -> None:
        o, s = self.oracle, self.solution
        pattern = None
        if not o.is_convex:
            rest = self.decision.copy()
            rest[np.arange(o.model.n), self.labels] = -np.inf
            pattern = rest.argmax(axis=1)
        point, _ = o.at_labels(self.labels, pattern)
        self.here = point
        if point is None:
            self.result.notes["no oracle value"] += 1
            return
        above = s.value - point.value
        heeded = self.plan.options.get("tol", 1e-3 * self.plan.tol)  # fits heed what is asked, and by themselves more
        if above > max(BEST, heeded) * point.parts + 10 * self.room + o.dust:
            kind = "value above the best at its labels"
            if s.status in UNFINISHED:
                self.result.notes[f"{kind} ({s.status})"] += 1
            else:
                self.fail(kind, f"{s.status}: {s.value!r}, attained {point.value!r} "
                                f"({share(above, point.parts)} of parts)")

    # -- the bound is below the optimum -------------------------------------------------------------------

    def check_bound(self) -> None:
        o, s = self.oracle, self.solution
        if s.bound > s.value:
            self.fail("wrong bound", f"bound {s.bound!r} above its own value {s.value!r}")
        floor = min(0.0, self.oracle.model.constant * (1 + 1e-14)) - self.room
        if s.relaxation in CERTIFYING and self.is_nowhere_negative() and not s.bound >= floor:
            self.fail("bound below what the losses prove", f"{s.bound!r} of a sum that is nowhere below {floor!r}")
        best = Optimum(self.here, False, 0, -1)
        if np.isfinite(s.bound) or s.status == "optimal":
            found = o.optimum() if o.is_convex else Optimum(None, False, 0, -1)
            best = found if found.point is not None else best
        self.best = best
        if best.point is None:
            return
        point = best.point
        if np.isfinite(s.bound):
            self.result.notes["bounds"] += 1
            self.result.notes["bounds against enumeration"] += best.complete
            self.result.excess = (s.bound - point.value) / max(point.parts, o.dust, 1e-300)
            room = o.jitter(point.labels, o.decide(point.w, point.bias), float(np.sum(point.w**2)), point.scalars)
            if s.bound > point.value + BOUND * point.parts + 10 * room + o.dust:
                above = share(s.bound - point.value, point.parts)
                self.fail("wrong bound", f"{s.relaxation} {s.solver}: bound {s.bound!r} above {point.value!r}, "
                                         f"attained at {point.labels.tolist()} ({above} of parts)")
        self.check_status(best)

    def is_nowhere_negative(self) -> bool:
        m = self.oracle.model
        return not m.costs and all(t.formula is not None and (t.formula.nonnegative or t.aggregate == "var")
                                   for t in m.terms)

    def check_status(self, best: Optimum) -> None:
        s, tol = self.solution, self.plan.tol
        if s.status != "optimal":
            return
        self.result.notes["optimal"] += 1
        size = abs(s.value)
        dust = 1e-13 * self.parts + self.oracle.dust
        if not s.value - s.bound <= 1.5 * tol * size * (1 + 1e-6) + dust:
            self.fail("optimal with a gap", f"value {s.value!r}, bound {s.bound!r}, tol {tol}")
        slack = 1e-9 * best.point.parts + 10 * self.room + self.oracle.dust
        if s.value - best.point.value > 1.6 * tol * size + slack:
            self.fail("optimal at wrong labels", f"{s.value!r}, {best.point.value!r} at {best.point.labels.tolist()}")

    def check_proof(self) -> None:
        s = self.solution
        if s.certificate is not None and np.isfinite(s.bound) and not s.verify():
            self.fail("verify of a certificate", f"{s.relaxation} {s.solver}: {s.certificate.words[:120]}")
        if hasattr(s, "verify"):
            verdict = s.verify()
            if not verdict:
                self.fail("verify of a solution", str(verdict)[:300])

    def check_time(self) -> None:
        limit = self.plan.options.get("time_limit")
        if limit is not None and self.seconds > limit + max(0.5, 0.1 * limit):
            self.fail("time limit", f"{self.seconds:.2f} s of CPU under a limit of {limit}")
