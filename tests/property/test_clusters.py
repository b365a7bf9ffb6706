"""Properties of k clusters on small random problems, against enumeration."""

import dataclasses
import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import margindsl as md
from margindsl.contract import Budget
from margindsl.drivers.alternation import alternate
from margindsl.drivers.run import Run
from margindsl.program.program import CODINGS

N, K = 7, 3
LOSSES = [md.hinge, md.squared_hinge, lambda g: md.logistic(-g), lambda g: md.odm(g, 0.3, 0.2)]
EXAMPLES = settings(max_examples=12, deadline=None)
seeds = st.integers(0, 2**32 - 1)
losses = st.sampled_from(LOSSES)
codings = st.sampled_from(["crammer-singer", "simplex"])


def problem_of(seed, loss, coding, restrict=True):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 2)) * 2
    y, f = md.Labels(N, clusters=K), md.Hyperplane(X)
    constraints = []
    if restrict:
        i, j = rng.choice(N, 2, replace=False)
        constraints = [md.sizes(y, at_least=2, at_most=3), y[int(i)] != y[int(j)]]
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + 6 * md.mean(loss(md.margin(y, f, coding)))), constraints)


def value_of(program, labels, tol=1e-8):
    raw = md.Solver("newton").solve(program.fix_labels(labels), Budget(tol=tol))
    return program.fix_labels(labels).objective(raw["w"])


@settings(max_examples=2, deadline=None)
@given(seeds, st.sampled_from(LOSSES[:2]), codings)
def test_alternation_never_beats_enumeration_and_stays_inside(seed, loss, coding):
    problem = problem_of(seed, loss, coding)
    program = problem.program()
    seen = {}
    for labels in program.labels.enumerate():  # names do not matter: one of the six renamings is enough
        _, named = np.unique(labels, return_inverse=True)
        order = np.argsort(np.argsort([np.argmax(named == c) for c in range(named.max() + 1)]))
        seen.setdefault(tuple(order[named]), np.array(labels))
    best = min(value_of(program, labels, 1e-5) for labels in seen.values())
    for relaxation in (md.Alternating(restarts=2), md.CCCP(restarts=2)):
        solution = problem.solve(relaxation, random_state=0)
        assert program.labels.contains(solution.labels)
        assert solution.value >= program.to_user(best) * (1 - 1e-4) - 1e-6


@EXAMPLES
@given(seeds, losses, codings)
def test_the_value_belongs_to_labels_and_weights(seed, loss, coding):
    problem = problem_of(seed, loss, coding)
    method = md.Alternating(restarts=2, polish="none")
    solution, program = problem.solve(method, random_state=0), problem.program()
    outputs = program.features.apply(solution.weights)
    margins = CODINGS[coding].margin_table(outputs)[np.arange(N), solution.labels]
    norm = np.sum(solution.weights**2) * (1.0 if coding == "crammer-singer" else (K - 1) / K)
    assert np.isclose(solution.value, program.to_user(norm / 2 + program.losses.value(margins)))
    form = program.fix_labels(solution.labels)
    if loss is not LOSSES[3] or coding == "simplex":  # convex: the labels alone give the value back
        raw = md.Solver("newton").solve(form, Budget(tol=1e-9))
        assert np.isclose(program.to_user(form.objective(raw["w"])), solution.value, rtol=1e-6)


@EXAMPLES
@given(seeds, losses, codings, st.permutations(range(K)))
def test_names_of_clusters_do_not_matter(seed, loss, coding, names):
    program = problem_of(seed, loss, coding, restrict=False).program()
    labels = np.random.default_rng(seed).integers(K, size=N)
    names = np.array(names)
    first, second = value_of(program, labels, 1e-9), value_of(program, names[labels], 1e-9)
    assert np.isclose(first, second, rtol=1e-3 if loss is LOSSES[3] and coding != "simplex" else 1e-6)


@EXAMPLES
@given(seeds, losses)
def test_margins_of_the_strongest_other_cluster_are_those_of_codes_where_there_are_two(seed, loss):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 2))
    y, f = md.Labels(N), md.Hyperplane(X)
    binary = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 3 * md.mean(loss(y * f)))).program()
    paired = dataclasses.replace(binary.rescaled(0.5), coding="crammer-singer")
    labels = rng.integers(2, size=N)
    # ½(‖w_0‖² + ‖w_1‖²) = ¼‖w_1 − w_0‖²: half the regulariser, so half the losses give half the value.
    assert np.isclose(2 * value_of(paired, labels), value_of(binary, labels), rtol=1e-6)


@EXAMPLES
@given(seeds, losses, codings)
def test_alternation_goes_down(seed, loss, coding):
    program = problem_of(seed, loss, coding).program()
    rng = np.random.default_rng(seed)
    run = Run(program, md.Solver("newton"), md.Solver("newton"), Budget(), rng)
    start = run.fit(program.labels.sample(rng, 1)[0])
    end = alternate(run, start.labels, fit=start)
    values = [start.value, *(record.value for record in run.history), end.value]
    assert all(later <= earlier + 1e-6 * max(1.0, earlier) for earlier, later in itertools.pairwise(values))
    assert program.labels.contains(end.labels)
