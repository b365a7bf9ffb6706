"""Label generation: grow a working set of labellings by the most violated one (Li et al. 2009)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from margindsl.calculus.accuracy import relative_gap
from margindsl.contract import RawSolution, Status
from margindsl.drivers.alternation import alternate
from margindsl.drivers.checkpoint import State, pack, raw_of, raw_state
from margindsl.drivers.run import LATE, Run, StoppingRule
from margindsl.drivers.starts import distinct
from margindsl.errors import SolverError
from margindsl.program.clusters import first_names
from margindsl.program.exhaustion import coded_costs
from margindsl.program.forms import SaddleForm
from margindsl.program.program import MarginProgram
from margindsl.typing import FloatArray, IntArray

STAGE = "label generation"
LONG = 150  # labellings in the working set from which dead ones are dropped
MASTER_TOL = 1e-6  # an exact master needs fewer rounds, and the engines finish fast
INEXACT, LOOSEST = 1e-2, 1e-2  # accuracy of a master, relative to the gap that new labellings may close; the roughest
UNPAID = "label generation ended where it no longer paid, with {left:.1e} of the master's value left; tol goes on"
STEPS = 60  # of the oracle from each start, at most
PATIENCE = 20  # rounds without progress of the master's value after which generation stops


class Vertex(NamedTuple):
    """Represent what a mixture is of: a labelling with a bias (q,), a corner of its limits."""

    labels: IntArray
    bias: FloatArray


@dataclass(frozen=True, eq=False)
class Generated:
    """Represent the end of a label generation."""

    form: SaddleForm  # the last master problem
    raw: RawSolution  # its solution
    lower: float  # min over all labellings seen of G(u, y): a bound only as far as the oracle is exact
    status: Status
    message: str = ""


def most_violated(run: Run, scatter: FloatArray, starts: list[IntArray]) -> list[tuple[float, IntArray]]:
    """Return labellings with large ‖Σ_i ũ_i φ_i c(y_i)ᵀ‖² + 2 max bΣ_i ũ_i y_i, best first: linearise, call the oracle.

    The maximand is convex in y, so that every step is monotone; several starts are used.

    `scatter` (n,): duals ũ at the points.
    """
    program = run.program.bounding
    found: list[tuple[float, IntArray]] = []
    for y in starts:
        if found and run.budget.expired:
            break
        V = program.code_sum(y, scatter)
        value = program.code_cost(V)
        for _ in range(STEPS):
            if run.budget.expired:
                break
            new = program.labels.maximise(program.code_gains(V, scatter))
            V_new = program.code_sum(new, scatter)
            new_value = program.code_cost(V_new)
            if new_value <= value * (1 + 1e-12):
                break
            y, V, value = new, V_new, new_value
        found.append((value, y))
    found.sort(key=lambda item: -item[0])
    best_first = distinct([y for _, y in found])
    values = {id(y): v for v, y in found}
    return [(values[id(y)], y) for y in best_first]


def improve_by_moves(run: Run, scatter: FloatArray, value: float, y: IntArray,
                     rounds: int = 20) -> tuple[float, IntArray]:
    """Improve a violated labelling by moves of single components (exact change of its cost)."""
    program = run.program.bounding
    label_set, features = program.labels, program.features
    if max(program.n, label_set.count) * features.rank > 2e7:
        return value, y
    H = features.component_sums(label_set.component, label_set.sign * scatter, label_set.count)
    norms = np.einsum("cr,cr->c", H, H)
    sums = np.bincount(label_set.component, label_set.sign * scatter) if program.is_biased else np.zeros(0)
    codes = program.label_codes
    apart = np.sum((codes[:, None] - codes) ** 2, axis=2)
    everyone, z = np.arange(label_set.count), label_set.contract(y)
    for _ in range(rounds):
        gains = (H @ (H.T @ codes[z])) @ codes.T
        change = 2.0 * (gains - gains[everyone, z][:, None]) + norms[:, None] * apart[z]
        if len(sums):
            total = sums @ codes[z]
            moved = total + sums[:, None, None] * (codes - codes[z][:, None])
            change += 2.0 * (program.bias.support(moved) - program.bias.support(total))
        change[~label_set.feasible_moves(y)] = -np.inf
        component, label = (int(at) for at in np.unravel_index(np.argmax(change), change.shape))
        if not change[component, label] > 1e-12 * max(value, 1e-300):
            break
        z[component] = label
        y = label_set.at_points(z)
        value += float(change[component, label])
    return value, y


def generate(run: Run, initial: list[IntArray], *, tol: float, most: int, per_round: int, starts: int,
             exhaustive: IntArray | None = None, share: float = 0.0) -> Generated:
    """Return the master problem at the end of label generation.

    Parameters
    ----------
    initial : list of (n,) int arrays
        The first working set.
    tol : float
        Stop when the most violated labelling is within this relative gap of the master's value, or when the
        master's value stands still.
    most : int
        Most rounds.
    per_round : int
        Labellings added a round, at the master's u and at a point between it and the best u so far each.
    starts : int
        Random starts of the oracle besides the working set's heaviest labellings.
    exhaustive : (M, n) int array, optional
        All of B: the oracle is then exact.
    share : float
        Stop, too, when what the master may still lose is this part of the gap to the best labels known, which no
        labelling that is added closes, or its fall no longer pays (see `StoppingRule`); 0 to go on to `tol`.

    References
    ----------
    W. Ben-Ameur, J. Neto (2007). Acceleration of cutting-plane and column generation algorithms: the in-out method.
    """
    program, working = run.program.bounding, vertices(run.program, initial)
    raw: RawSolution | None = None
    centre: FloatArray | None = None  # the u of the best lower bound: the master's own swings from round to round
    lower, first, course = -np.inf, 0, list[float]()
    state = run.resume(STAGE)
    if state is not None:
        working = [Vertex(y, bias) for y, bias in zip(state["labellings"], state["biases"])]
        raw, centre, lower = raw_of(state), state.get("u"), float(state["value"])
        course, first = state["course"].tolist(), int(state["iteration"])
    solved: tuple[SaddleForm, RawSolution] | None = None
    finest, left = max(min(tol * 0.2, MASTER_TOL), 1e-9), 0.0
    rule: StoppingRule | None = None
    for iteration in range(first, most):
        run.keep(STAGE, partial(_kept, working, raw, centre, lower, list(course), iteration))
        form, accuracy = master_of(program, working), max(finest, min(INEXACT * left, LOOSEST))
        answer = run.solve(form, raw, tol=accuracy)
        if not answer.has_answer or (answer.status in LATE and solved is not None):
            kept = solved is not None and answer.status is Status.FAILED  # the masters before stand
            status = Status.INACCURATE if kept else answer.status
            return Generated(*(solved or (form, answer)), lower, status, answer.message)
        raw, solved = answer, (form, answer)
        master = form.dual_objective(raw["u"])
        if answer.status is Status.INACCURATE and answer.objective - master > tol * abs(master):
            # What violates a point that is not the master's says little, and the next master is no easier.
            return Generated(form, raw, lower, answer.status, _message(answer))
        violated = _violated(run, form, raw, raw["u"], starts, exhaustive)
        linear = -program.losses.conjugate_value(raw["u"])
        found, points = violated[:per_round], [(linear - 0.5 * violated[0][0], raw["u"])]
        if exhaustive is None and centre is not None:  # halfway between the master's u and the centre (in-out)
            u = 0.5 * (np.asarray(raw["u"]) + centre)
            inner = _violated(run, form, raw, u, starts, None)
            points.insert(0, (-program.losses.conjugate_value(u) - 0.5 * inner[0][0], u))
            found = [item for pair in zip(violated, inner[:per_round]) for item in pair] + found
        for value, u in points:
            lower, centre = (value, np.asarray(u)) if value > lower else (lower, centre)
        fresh = _fresh(program, working, found) or _fresh(program, working, violated)[:per_round]
        stop, left = run.record(STAGE, iteration, master, lower), relative_gap(master, min(lower, master))
        if run.budget.expired and not stop:  # so that the oracle may have been cut short, and proves nothing
            return Generated(form, raw, lower, Status.TIME_LIMIT)
        closed = violated[0][0] <= 2.0 * (linear - master) + 2.0 * tol * abs(master)
        if (closed or not fresh) and accuracy > finest and not stop:
            left = 0.0  # the same master once more, to the end
            continue
        closed = closed or (run.best is not None and master - lower < share * (run.best.value - master))
        course.append(master)
        stalled = len(course) > PATIENCE and course[-PATIENCE - 1] - master <= 0.2 * tol * abs(master)
        rule = rule or StoppingRule(run.budget.incumbent, program, lower)
        rule.bound = lower
        unpaid = share > 0 and rule.ends(master)
        if closed or stalled or unpaid or not fresh:
            if answer.status in (Status.OPTIMAL, Status.CONVERGED):
                sentence = UNPAID.format(left=left) if unpaid and not closed else ""
                return Generated(form, raw, lower, Status.CONVERGED, sentence)
            return Generated(form, raw, lower, answer.status,  # a master cut short closes nothing
                             _message(answer))
        if stop:
            return Generated(form, raw, lower, Status.INTERRUPTED)
        if len(working) >= LONG:  # labellings of negligible weight go
            mu = np.asarray(raw["mu"])
            keep = mu > 1e-9
            variables = dict(raw.variables) | {"mu": mu[keep]}
            if "W" in variables:
                variables["W"] = np.asarray(variables["W"])[:, keep]
            working = [y for y, alive in zip(working, keep) if alive]
            raw = RawSolution(raw.status, variables, raw.message, raw.objective, raw.iterations, raw.seconds)
        working = working + fresh
    working = working[: len(raw["mu"])] if raw else working
    form = master_of(program, working)
    return Generated(form, raw, lower, Status.ITERATION_LIMIT)  # type: ignore[arg-type]


def _message(answer: RawSolution) -> str:
    return f"the last master problem ended as {answer.status.word}: {answer.message}"


def vertices(program: MarginProgram, labellings: list[IntArray]) -> list[Vertex]:
    """Return labellings, each once, with corners of the limits of the bias, both ends of an interval."""
    return [Vertex(y, end) for y in distinct(labellings) for end in program.bias.ends]


def master_of(program: MarginProgram, working: list[Vertex]) -> SaddleForm:
    """Return the master problem over a working set."""
    return SaddleForm(program.features, program.losses, np.stack([v.labels for v in working]),
                      np.stack([v.bias for v in working]), codes=program.label_codes)


def improved_starts(run: Run, initial: list[IntArray]) -> list[IntArray]:
    """Return labellings with those that alternation reaches from them in front.

    Where a single labelling closes the relaxation (small weights) it is often among them, and the first master
    ends the generation.

    `run` remembers the best of their fits.
    """
    improved = []
    for y in initial:
        # with shared scalars the objective may fall without end at a labelling, and not over the mixtures
        with suppress(SolverError):
            improved.append(alternate(run, y, rounds=20, tol=1e-5).labels)
    return distinct([*improved, *initial])


def _kept(working: list[Vertex], raw: RawSolution | None, centre: FloatArray | None, lower: float,
          course: list[float], iteration: int) -> State:
    """Return where a generation stands before a master, as arrays."""
    found = {"labellings": pack([v.labels for v in working]), "course": np.array(course), "value": np.array(lower),
             "biases": np.stack([v.bias for v in working]), "iteration": np.array(iteration)}
    return found | ({} if centre is None else {"u": centre}) | raw_state(raw)


def _violated(run: Run, form: SaddleForm, raw: RawSolution, u: FloatArray, starts: int,
              exhaustive: IntArray | None) -> list[tuple[float, Vertex]]:
    """Return costly labellings: the eight of all B that cost most, or found from the heaviest ones, their mean and
    random directions."""
    scatter, program = form.losses.scatter(u), run.program.bounding
    if exhaustive is not None:
        values = np.concatenate([coded_costs(program, block, scatter)
                                 for block in np.array_split(exhaustive, max(1, len(exhaustive) // 4096))])
        found = [(float(values[k]), exhaustive[k]) for k in np.argsort(-values)[:8]]
    else:
        seeds = [form.labellings[k] for k in np.argsort(-raw["mu"])[:4]]
        directions = [form.directions(u) @ raw["mu"]]
        directions += [run.rng.standard_normal(form.features.rank * form.width) for _ in range(starts)]
        for w in directions:
            if run.budget.expired:
                break
            seeds.append(program.labels.maximise(program.code_gains(w.reshape(form.width, -1).T, scatter)))
        first, *rest = most_violated(run, scatter, seeds)
        found = sorted([improve_by_moves(run, scatter, *first), *rest], key=lambda item: -item[0])
    if not program.is_biased:
        return [(value, Vertex(y, np.zeros(form.width))) for value, y in found]
    return [(value, Vertex(y, program.bias.end(scatter @ program.label_codes[y]))) for value, y in found]


def _fresh(program: MarginProgram, working: list[Vertex], violated: list[tuple[float, Vertex]]) -> list[Vertex]:
    """Return the violated vertices that differ from the working set in more than names, each once."""
    known, fresh = set(_keys(program, working)), []
    for (_, vertex), key in zip(violated, _keys(program, [vertex for _, vertex in violated])):
        if key not in known:
            fresh.append(vertex)
            known.add(key)
    return fresh


def _keys(program: MarginProgram, found: list[Vertex]) -> list[tuple[bytes, bytes]]:
    """Return keys that are equal where names alone differ."""
    heights = np.stack([vertex.bias for vertex in found]) @ program.label_codes.T
    names = first_names(np.stack([vertex.labels for vertex in found]), heights)
    return [(row.tobytes(), height.tobytes()) for row, height in zip(*names)]
