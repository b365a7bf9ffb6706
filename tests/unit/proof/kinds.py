"""Problems whose solutions have certificates of every kind, of two clusters and three, with a held bias and without."""

import dataclasses
import functools
import warnings

import numpy as np

import margindsl as md
from margindsl.runtime.registry import as_relaxation


def points(seed, k=2, n=6):
    rng = np.random.default_rng(seed)
    centres = np.array([[0.8, 0.0], [-0.8, 0.0], [0.0, 1.5]])[:k]
    return centres[np.arange(n) % k] + 0.7 * rng.normal(size=(n, 2))


def declare(X, loss=md.hinge, constraint="balance", weight=3.0, k=2, coding="crammer-singer", scale=1.0):
    n, held = len(X), constraint in HELD
    y, f = md.Labels(n, clusters=k), md.Hyperplane(X * scale, bias=held, centre=constraint != "beside")
    margins = md.margin(y, f, coding=coding) if k > 2 else y * f
    constraints = {
        "balance": lambda: [abs(md.sum(y)) <= 2],
        "links": lambda: [y[0] == y[2], y[1] != y[2], md.sum(y) <= 4, md.sum(y) >= -2],
        "known": lambda: [y[0] == 1, y[1] == -1, md.sum(y) <= 3],
        "decision": lambda: [abs(md.sum(f)) <= 0.5 * scale, y[0] == y[2]],
        "held": lambda: [abs(md.sum(f)) <= 0.5],
        "beside": lambda: [md.sum(f) >= 0.1, md.sum(f) <= 0.6, y[0] != y[1]],
        "zero": lambda: [abs(md.sum(np.arange(1.0, n + 1) * f)) <= 0, abs(md.sum(y)) <= 2],
        "level": lambda: [abs(md.sum(f)) <= 0, md.sizes(y, at_least=1)],
        "all": lambda: [y[i] == (1 if i % 2 else -1) for i in range(n)],
        "sizes": lambda: [md.sizes(y, at_least=1, at_most=4)],
        "partly": lambda: [md.sizes(y, at_least=1), y[0] == 0, y[1] == 1, y[3] == y[4], y[2] != y[5]],
        "clusters": lambda: [y[i] == i % k for i in range(n)]}[constraint]()
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + weight * md.mean(loss(margins))), constraints)


HELD = "held", "beside", "zero", "level"  # of which a bound on decision values holds a free bias


def soft(m):
    return md.logistic(-m)


def shared(m):
    """Return a loss with a scalar that all points share."""
    rho = md.Scalar(nonneg=True, name="rho")
    return md.pos(rho - m) - 0.4 * rho


TWO = [(relaxation, loss, constraint)  # losses and constraints side by side, each with every relaxation that takes it
       for relaxation, losses, constraints in (
           ("exact", (md.hinge, md.squared_hinge, soft, md.hinge), ("balance", "known", "balance", "decision")),
           (md.Exact(method="branching"), (md.hinge, md.squared_hinge), ("balance", "links")),
           ("weight-lifting", (md.hinge, soft, soft), ("balance", "balance", "decision")),
           ("minimax", (md.hinge, md.squared_hinge), ("balance", "links")),
           (md.Minimax(oracle="exhaustive"), (md.hinge,), ("links",)),
           ("sdp", (md.hinge, soft, md.hinge, soft), ("balance", "known", "decision", "decision")),
           (md.SDP(cuts="all"), (md.hinge, md.squared_hinge), ("balance", "balance")),
           ("gmmc", (md.squared_hinge,), ("balance",)),
           ("supervised", (md.hinge, soft), ("all", "all")),
           ("sdp", (shared,), ("balance",)), ("exact", (shared,), ("links",)),
           ("sdp", (md.hinge, soft, md.hinge, soft), ("held", "beside", "zero", "zero")),
           ("exact", (md.hinge, md.hinge), ("beside", "zero")),
           (md.Exact(method="branching"), (md.squared_hinge, md.squared_hinge), ("held", "beside")),
           (md.SDP(cuts="all"), (md.squared_hinge, md.squared_hinge), ("held", "zero")),
           (md.Exact(method="branching", nodes="joint"), (md.odm, md.hinge, md.odm, md.hinge),
            ("balance", "links", "known", "decision")),
           (md.Exact(method="branching", nodes="joint"), (shared, md.squared_hinge), ("links", "zero")),
           ("weight-lifting", (md.hinge, md.hinge), ("held", "zero")), ("minimax", (md.hinge,), ("beside",)),
           (md.Minimax(oracle="exhaustive"), (md.hinge, md.hinge), ("beside", "zero")))
       for loss, constraint in zip(losses, constraints, strict=True)]
MORE = [("sdp", md.hinge, "crammer-singer", "sizes"), ("sdp", md.squared_hinge, "crammer-singer", "partly"),
        ("sdp", md.squared_hinge, "simplex", "sizes"), ("sdp", md.hinge, "simplex", "partly"),
        ("sdp", md.odm, "simplex", "partly"),
        ("supervised", md.hinge, "crammer-singer", "clusters"), ("supervised", md.squared_hinge, "simplex", "clusters")]
MORE += [(relaxation, md.hinge, coding, constraint) for relaxation, coding, constraint in (
    ("exact", "simplex", "sizes"), ("exact", "crammer-singer", "partly"), ("minimax", "crammer-singer", "sizes"),
    (md.Exact(method="branching"), "simplex", "partly"), (md.Minimax(oracle="exhaustive"), "crammer-singer", "partly"),
    ("weight-lifting", "simplex", "sizes"), ("weight-lifting", "crammer-singer", "sizes"), ("sdp", "simplex", "held"),
    ("sdp", "crammer-singer", "level"), ("exact", "simplex", "held"), ("exact", "crammer-singer", "level"),
    (md.Minimax(oracle="exhaustive"), "simplex", "held"), ("weight-lifting", "simplex", "held"))]
KINDS = [*range(len(TWO) + len(MORE))]
SCALES = {0: 1.0, 1: 1e3, 2: 1e-3}


@functools.cache
def problem(kind, seed=0, weight=3.0):
    weight = weight / max(1.0, SCALES[seed]) ** 2  # far features with the margins of near ones
    if kind < len(TWO):
        _, loss, constraint = TWO[kind]
        return declare(points(seed + first(kind)), loss, constraint, weight, scale=SCALES[seed])
    _, loss, coding, constraint = MORE[kind - len(TWO)]
    return declare(points(seed + first(kind), 3), loss, constraint, weight, 3, coding, scale=SCALES[seed])


@functools.cache
def first(kind):
    """Return the first kind of the same declaration: relaxations of one problem have one optimum."""
    declarations = [declaration for _, *declaration in (*TWO, *MORE)]
    return declarations.index(declarations[kind])


@functools.cache
def least(kind):
    """Return the least value over B of a kind that is the first of its declaration."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return problem(kind).solve("exact", random_state=0).value


def solved(kind, seed=0):
    return _solved(kind, seed)


@functools.cache  # whose keys tell a default that is given from one that is not
def _solved(kind, seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Proofs are of any labels: found ones are not improved.
        plain = dataclasses.replace(as_relaxation([*TWO, *MORE][kind][0]), polish="none")
        return problem(kind, seed).solve(plain, random_state=0)
