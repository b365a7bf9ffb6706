"""The printed formula is the formula: read again with numpy, at the solution, it has the value of the solution."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

import margindsl as md
from margindsl.testing import zoo

RNG = np.random.default_rng(5)
X = np.round(RNG.normal(size=(8, 2)), 2)
WEIGHTS = np.array([1.0, 2.0, 1 / 3, 1.0, 2.0, 0.1, 1.0, 3.0])


def plq(pieces, x):
    (q, s, c), ends = np.array([row for _, row in pieces]).T, [end for end, _ in pieces[:-1]]
    k = np.searchsorted(ends, x)
    return q[k] * x**2 + s[k] * x + c[k]


def huber(x, M=1.0):
    return np.where(np.abs(x) <= M, x**2, 2 * M * np.abs(x) - M**2)


def margins(y, f, coding):
    own = f[np.arange(len(y)), y]
    others = np.where(np.eye(f.shape[1], dtype=bool)[y], -np.inf, f).max(axis=1)
    return own - others if coding == "crammer-singer" else own


def read(problem, solution):
    """Evaluate what is printed, by numpy; return the objective, the truth of every constraint, and f."""
    text = problem.text()
    minimise, subject, where = re.fullmatch(
        r"minimise    (.*)\nsubject to  (.*)\nwhere       (.*)", text, re.DOTALL).groups()
    base = problem.prepared().base
    while hasattr(base, "base"):
        base = base.base
    weights = np.asarray(solution.weights)
    penalised = problem.hyperplane.bias == "penalised"
    names = {**solution.scalars, "w" if weights.ndim == 1 else "W": weights[:-1] if penalised else weights,
             "b": weights[-1] if penalised else solution.bias, "X": problem.hyperplane.X,
             "phi": lambda points: base.toarray(), "mean": np.mean, "sum": np.sum, "array": np.array, "inf": np.inf,
             "abs": np.abs, "y": solution.labels}
    names |= {p.name: p.value for p in problem.parameters if p.name}
    lines = [line.strip() for line in where.splitlines()]
    names["f"] = eval(lines[0].removeprefix("f = "), names)
    norm = next((line.removeprefix("md.sq_norm(f) = ") for line in lines if line.startswith("md.sq_norm")), None)
    norm = norm or f"sum({'w' if weights.ndim == 1 else 'W'}**2)"
    names["md"] = SimpleNamespace(
        pos=lambda x: np.maximum(x, 0), sum=np.sum, mean=np.mean, var=np.var, plq=plq, huber=huber, margin=margins,
        maximum=lambda *many: np.maximum.reduce(np.broadcast_arrays(*many)), logistic=lambda x: np.logaddexp(0, x),
        square=np.square, sq_norm=lambda f: eval(norm, names),
        must_link=lambda y, pairs: all(y[i] == y[j] for i, j in pairs),
        cannot_link=lambda y, pairs: all(y[i] != y[j] for i, j in pairs),
        sizes=lambda y, at_least, at_most: np.all((np.array(at_least) <= (c := np.bincount((y + 1) // 2)))
                                                  & (c <= np.array(at_most))))
    rows = [re.sub(r"^(\S+) in \{.*", r"len(\1) > 0", line.strip()) for line in subject.splitlines()]
    rows = [re.sub(r"^(.*[^<>=!])(<=|>=|==)(.*)$", r"(\1) - (\3)  #\2", row) for row in rows]
    holds = []
    for row in rows:
        value = eval(row, names)
        sign = row.rpartition("#")[2] if "#" in row else "true"
        holds.append(bool(np.all({"<=": value <= 1e-6, ">=": value >= -1e-6, "==": np.abs(value) <= 1e-6,
                                  "true": value}[sign])))
    return eval(minimise, names), holds, names["f"]


def check(problem, solution):
    value, holds, f = read(problem, solution)
    assert value == pytest.approx(solution.value, rel=1e-9, abs=1e-12), problem.text()
    np.testing.assert_allclose(f, solution.decision, atol=1e-9 * np.abs(solution.decision).max())
    assert all(holds), list(zip(problem.text().splitlines()[1:], holds))


@pytest.mark.parametrize("known", zoo(), ids=lambda known: known.name)
def test_the_zoo_recomputes(known):
    check(known.problem, known.problem.solve(md.Alternating(restarts=1, polish="none"), random_state=0))


third, s, p = 1 / 3, md.Scalar(name="s"), md.Parameter(1 / 7, name="p")
LOSSES = {
    "numbers in full": lambda g: third * md.mean(md.hinge(g / third)),
    "negative numbers": lambda g: md.mean((-0.1 * g + (-0.3)) ** 2) + (-2) * md.mean(g) / 8,
    "a negative base": lambda g: md.mean(md.hinge(g)) * md.square(md.Parameter(-3.0)),
    "weights": lambda g: md.mean(WEIGHTS * md.hinge(g)) + md.sum(md.pos(WEIGHTS - g)) / 9,
    "pieces": lambda g: md.mean(md.plq([(0.0, (0, -2, 1)), (1.0, (1, -2, 1)), (np.inf, (0, 0, 0))], g)),
    "huber": lambda g: md.mean(md.huber(1 - g, 0.3)) + md.mean(md.huber(g)),
    "logistic": lambda g: md.mean(md.logistic(-g) + md.hinge(g)),
    "maximum": lambda g: md.mean(md.maximum(1 - g, 0.2 * (g - 1), 0.1)),
    "scalars": lambda g: md.mean(md.pos(s - g)) - s / 3 + 2 * md.mean_variance(g) + md.mean_variance(g[:5]),
    "variance": lambda g: md.var(2 * g) + md.mean(md.hinge(g)),
    "indices": lambda g: md.mean(md.hinge(g[[0, 2, 5]])) + md.mean(md.hinge(g[3:])) + md.hinge(g[1]) - g[-1] / 3,
    "parameters": lambda g: (p + 1) * md.mean(md.odm(g, 0.4, p)) - md.mean(g) * p / 2,
    "brackets": lambda g: md.mean((1 - (g - (2 - g))) ** 2) / (2 / (3 / 4)) - (1 - md.Parameter(0.1)),
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("options", [{}, {"centre": False}, {"bias": "penalised"}, {"kernel": md.RBF(1.0)}],
                         ids=["centred", "as it is", "penalised", "rbf"])
def test_formulas_recompute(loss, options):
    y, f = md.Labels(8), md.Hyperplane(X + 1, **options)
    problem = md.Problem(md.Minimize(third * md.sq_norm(f) + loss(y * f)),
                         [abs(md.sum(WEIGHTS * y)) <= 5, y[0] != y[1], y[[2, 6]] == [1, -1], y[7] != 1,
                          md.cannot_link(y, [(2, 3)]), md.sizes(y, at_least=2)])
    check(problem, problem.solve(md.Alternating(restarts=1, polish="none"), random_state=0))


@pytest.mark.parametrize("options", [{"bias": True}, {"bias": True, "kernel": md.RBF(1.0)}], ids=["linear", "rbf"])
def test_free_biases_recompute(options):
    y, f = md.Labels(8), md.Hyperplane(X + 1, **options)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 3 * md.mean(md.hinge(y * f))), [abs(md.sum(f)) <= 0.25])
    check(problem, problem.solve(md.CCCP(restarts=1, polish="none"), random_state=0))


@pytest.mark.filterwarnings("ignore::margindsl.errors.TrivialityWarning")
def test_several_clusters_recompute():
    y, f = md.Labels(8, clusters=3), md.Hyperplane(X)
    problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + 4 * md.mean(md.hinge(md.margin(y, f)))))
    solution = problem.solve(md.Alternating(restarts=1, polish="none"), random_state=0)
    value, _, decision = read(problem, solution)
    assert value == pytest.approx(solution.value, rel=1e-9)
    np.testing.assert_allclose(decision, solution.decision, atol=1e-9)

