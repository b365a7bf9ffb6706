"""Measure what a user would pick instead, on the same problems and in one process, with growth curves.

Run ``python tests/bench/bench_peers.py [--quick] [--only GROUP ...] [--repeats R] [--json FILE]``.
Groups:

- ``fixed``: labels known. ½‖w‖² + C mean (1 − m)²₊ by `newton`, liblinear (`LinearSVC`, dual=False), `SGDClassifier`,
  and cvxpy with Clarabel; the excess is of the objective over the best found.
- ``clusters``: labels unknown. `MarginClusterer` as it comes, k-means with ten starts, spectral clustering; accuracy.
- ``objective``: one margin problem (hinge, bounded balance). `alternating` and weight lifting here; alternation written
  by hand with cvxpy, a fixed-label problem a round; dccp, the same problem as a difference of convex functions.
- ``exact``: its optimum, proved to 1e-3. `exact` here; HiGHS by big-M: HiGHS takes no integer quadratic programmes, so
  that ½‖w‖² is cut by tangents, a mixed-integer linear programme a round (`scipy.optimize.milp`) until bound and value
  meet; SCIP by big-M, one mixed-integer quadratic programme.
- ``lift``: the semidefinite lift without cuts by `sdp`, and written by hand in cvxpy for Clarabel and SCS; the excess
  is of bounds, the optimum of the lift being one.
- ``links``: must- and cannot-links. Alternation under links, COP-KMeans of `active_semi_clustering`; accuracy.

Packages that are not installed are left out, with a word.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.optimize
import scipy.sparse as sp
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.linear_model import SGDClassifier
from sklearn.svm import LinearSVC

import margindsl as md
from margindsl.contract import Budget
from margindsl.estimators import MarginClusterer
from margindsl.metrics import clustering_accuracy

WEIGHT, TOLERANCE, LIMIT = 10.0, 1e-3, 20.0
SIZES = {"fixed": (2_000, 10_000, 50_000), "clusters": (500, 2_000, 8_000), "objective": (200, 800, 3_200),
         "exact": (8, 16, 30, 45, 60), "lift": (30, 60, 100), "links": (200, 800)}
BEARS = {"by hand": 3_200, "dccp": 1_000, "spectral": 2_000, "cvxpy": 10_000, "Clarabel": 60}  # more takes minutes
Answer = tuple[float, float]  # objective (NaN where there is none), accuracy in per cent


def clouds(n: int, d: int, seed: int, apart: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Return centred points of two clusters that overlap, and their classes ±1."""
    rng = np.random.default_rng(seed)
    truth = np.where(np.arange(n) < n // 2, 1, -1)
    X = rng.normal(size=(n, d)) + apart * truth[:, None] * rng.normal(size=d) / np.sqrt(d) * 1.5
    return X - X.mean(axis=0), truth


# -- labels known -----------------------------------------------------------------------------------------


def fixed(n: int, seed: int) -> Iterator[tuple[str, Callable[[], Answer]]]:
    """Yield the solvers of the squared hinge at fixed labels."""
    X, truth = clouds(n, 20, seed)

    def judged(w: np.ndarray) -> Answer:
        margins = truth * (X @ w)
        value = float(w @ w / 2 + WEIGHT * np.mean(np.maximum(0.0, 1.0 - margins) ** 2))
        return value, 100 * float(np.mean(margins > 0))

    def ours() -> Answer:
        y, f = md.Labels(n), md.Hyperplane(X)
        problem = md.Problem(md.Minimize(md.sq_norm(f) / 2 + WEIGHT * md.mean(md.squared_hinge(y * f))))
        form = problem.program().fix_labels((truth + 1) // 2)
        return judged(md.Solver("newton").solve(form, Budget(tol=1e-6))["w"])

    def liblinear() -> Answer:
        model = LinearSVC(C=WEIGHT / n, dual=False, fit_intercept=False, tol=1e-6, max_iter=10_000)
        return judged(model.fit(X, truth).coef_[0])

    def sgd() -> Answer:
        model = SGDClassifier("squared_hinge", alpha=1 / (2 * WEIGHT), fit_intercept=False, random_state=seed, tol=1e-5,
                              learning_rate="adaptive", eta0=0.01, max_iter=200)
        return judged(model.fit(X, truth).coef_[0])

    def by_cvxpy() -> Answer:
        w = cp.Variable(X.shape[1])
        cp.Problem(cp.Minimize(cp.sum_squares(w) / 2 + WEIGHT / n * cp.sum_squares(
            cp.pos(1 - cp.multiply(truth, X @ w))))).solve(solver=cp.CLARABEL)
        return judged(w.value)

    yield from (("newton", ours), ("liblinear", liblinear), ("SGD", sgd), ("cvxpy", by_cvxpy))


# -- labels unknown ---------------------------------------------------------------------------------------


def clusters(n: int, seed: int) -> Iterator[tuple[str, Callable[[], Answer]]]:
    """Yield clusterers as they come."""
    X, truth = clouds(n, 20, seed)
    models = {"MarginClusterer": MarginClusterer(random_state=seed), "k-means": KMeans(2, n_init=10, random_state=seed),
              "spectral": SpectralClustering(2, affinity="nearest_neighbors", random_state=seed)}
    for name, model in models.items():
        yield name, lambda model=model: (float("nan"), 100 * clustering_accuracy(truth, model.fit_predict(X)))


def declared(X: np.ndarray) -> md.Problem:
    """Return the hinge with a bounded sum of decision values."""
    y, f = md.Labels(len(X)), md.Hyperplane(X)
    return md.Problem(md.Minimize(md.sq_norm(f) / 2 + WEIGHT * md.mean(md.hinge(y * f))),
                      [abs(md.sum(y)) <= 0.2 * len(X)])


def objective_of(X: np.ndarray, w: np.ndarray, truth: np.ndarray) -> Answer:
    """Return the objective of a direction at the labels that suit it best under the balance, and its accuracy."""
    f, most = X @ w, int(0.2 * len(X) // 2)
    order = np.argsort(-f)
    ahead = min(max(int((f >= 0).sum()), len(X) // 2 - most), len(X) // 2 + most)
    y = np.full(len(X), -1)
    y[order[:ahead]] = 1
    value = float(w @ w / 2 + WEIGHT * np.mean(np.maximum(0.0, 1.0 - y * f)))
    return value, 100 * clustering_accuracy(truth, y)


def objective(n: int, seed: int) -> Iterator[tuple[str, Callable[[], Answer]]]:
    """Yield solvers of one margin problem."""
    X, truth = clouds(n, 10, seed)
    start = KMeans(2, n_init=1, random_state=seed).fit(X)
    direction = start.cluster_centers_[1] - start.cluster_centers_[0]

    def ours(relaxation: Any) -> Answer:
        solution = declared(X).solve(relaxation, random_state=seed, time_limit=LIMIT, verbose=False)
        return solution.value, 100 * clustering_accuracy(truth, solution.labels)

    def by_hand() -> Answer:
        w, y = cp.Variable(10), cp.Parameter(n)
        problem = cp.Problem(cp.Minimize(cp.sum_squares(w) / 2 + WEIGHT / n * cp.sum(
            cp.pos(1 - cp.multiply(y, X @ w)))))
        at, best = direction, np.inf
        for _ in range(100):
            f, most = X @ at, int(0.2 * n // 2)
            ahead = min(max(int((f >= 0).sum()), n // 2 - most), n // 2 + most)
            labels = np.full(n, -1.0)
            labels[np.argsort(-f)[:ahead]] = 1.0
            y.value = labels
            problem.solve(solver=cp.CLARABEL)
            if problem.value >= best - 1e-6 * best:
                break
            best, at = problem.value, w.value
        return objective_of(X, at, truth)

    def by_dccp() -> Answer:
        import dccp  # noqa: F401  (registers the method)

        w, reach = cp.Variable(10), cp.Variable(n)
        w.value = direction
        problem = cp.Problem(cp.Minimize(cp.sum_squares(w) / 2 + WEIGHT / n * cp.sum(cp.pos(1 - reach))),
                             [reach <= cp.abs(X @ w), cp.abs(cp.sum(X @ w)) <= 0.2 * n])
        problem.solve(method="dccp", solver=cp.CLARABEL, seed=seed)
        return objective_of(X, w.value, truth)

    yield "alternating", lambda: ours(md.Alternating(restarts=1, start="kmeans", polish="none"))
    yield "weight-lifting", lambda: ours(md.WeightLifting())
    yield from (("by hand", by_hand), ("dccp", by_dccp))


# -- the optimum ------------------------------------------------------------------------------------------


def exact(n: int, seed: int) -> Iterator[tuple[str, Callable[[], Answer]]]:
    """Yield proofs of the optimum."""
    X, truth = clouds(n, 3, seed)

    def ours() -> Answer:
        solution = declared(X).solve("exact", tol=TOLERANCE, time_limit=LIMIT, random_state=seed, verbose=False)
        if not solution.gap <= TOLERANCE:
            raise TimeoutError
        return solution.value, 100 * clustering_accuracy(truth, solution.labels)

    yield from (("exact", ours), ("HiGHS big-M", lambda: big_m(X, truth)), ("SCIP big-M", lambda: scip(X, truth)))


def scip(X: np.ndarray, truth: np.ndarray) -> Answer:
    """Return the optimum by SCIP, of the model of `big_m` with t ≥ ½‖w‖² as it is."""
    import pyscipopt

    (n, d), reach, model = X.shape, np.sqrt(2 * WEIGHT), pyscipopt.Model()
    model.hideOutput()
    model.setParams({"limits/time": LIMIT, "limits/gap": TOLERANCE})
    w, t = [model.addVar(lb=-reach, ub=reach) for _ in range(d)], model.addVar(lb=0)
    z, slack = [model.addVar(vtype="B") for _ in range(n)], [model.addVar(lb=0) for _ in range(n)]
    for x, z_i, s, M in zip(X, z, slack, 1 + reach * np.linalg.norm(X, axis=1)):
        f = pyscipopt.quicksum(float(a) * b for a, b in zip(x, w))
        model.addCons(s >= 1 - f - float(M) * (1 - z_i))
        model.addCons(s >= 1 + f - float(M) * z_i)
    model.addCons(t >= 0.5 * pyscipopt.quicksum(a * a for a in w))
    for sign in (1, -1):
        model.addCons(sign * (pyscipopt.quicksum(z) - n / 2) <= int(0.2 * n // 2))
    model.addCons(z[0] == 1)
    model.setObjective(t + WEIGHT / n * pyscipopt.quicksum(slack))
    model.optimize()
    if model.getGap() > TOLERANCE:
        raise TimeoutError
    labels = np.where(np.array([model.getVal(a) for a in z]) > 0.5, 1, -1)
    return model.getObjVal(), 100 * clustering_accuracy(truth, labels)


def lift(n: int, seed: int) -> Iterator[tuple[str, Callable[[], Answer]]]:
    """Yield the optima of [[M, N], [N', W]] ⪰ 0 with a unit diagonal of M, as bounds."""
    X, _ = clouds(n, 13, seed)

    def ours() -> Answer:
        return declared(X).solve(md.SDP(cuts="none", polish="none", rounding=0), tol=1e-5).bound, float("nan")

    def by_hand(solver: str) -> Answer:
        Z = cp.Variable((n + 13, n + 13), PSD=True)
        losses = cp.sum(cp.pos(1 - cp.sum(cp.multiply(X, Z[:n, n:]), axis=1)))
        problem = cp.Problem(cp.Minimize(cp.trace(Z[n:, n:]) / 2 + WEIGHT / n * losses),
                             [cp.diag(Z[:n, :n]) == 1, cp.sum(Z[:n, :n]) <= (0.2 * n) ** 2])
        problem.solve(solver, **({"eps": 1e-5} if solver == "SCS" else {}))
        return float(problem.value), float("nan")

    yield from (("sdp", ours), ("Clarabel", lambda: by_hand("CLARABEL")), ("SCS", lambda: by_hand("SCS")))


def big_m(X: np.ndarray, truth: np.ndarray) -> Answer:
    """Return the optimum by mixed-integer linear programmes over w (d), slacks ξ (n), z (n) in {0, 1} and t ≥ ½‖w‖².

    ξ_i ≥ 1 − f_i − M_i (1 − z_i) and ξ_i ≥ 1 + f_i − M_i z_i, with M_i = 1 + the most that |f_i| can be: at the optimum
    ½‖w‖² ≤ C. z_1 = 1 breaks the symmetry.
    """
    (n, d), ended = X.shape, time.monotonic() + LIMIT
    reach = np.sqrt(2 * WEIGHT)
    M = 1 + reach * np.linalg.norm(X, axis=1)
    eye, none = sp.eye_array(n), sp.csr_array((n, 1))
    cost = np.concatenate([np.zeros(d), np.full(n, WEIGHT / n), np.zeros(n), [1.0]])
    sums = np.concatenate([np.zeros(d + n), np.ones(n), [0.0]])
    kept = int(0.2 * n // 2)
    rows = [scipy.optimize.LinearConstraint(sp.hstack([X, eye, -sp.diags_array(M), none]), 1 - M, np.inf),
            scipy.optimize.LinearConstraint(sp.hstack([-X, eye, sp.diags_array(M), none]), np.ones(n), np.inf),
            scipy.optimize.LinearConstraint(sums, n / 2 - kept, n / 2 + kept)]
    lower = np.concatenate([np.full(d, -reach), np.zeros(n), [1.0], np.zeros(n - 1), [0.0]])
    upper = np.concatenate([np.full(d, reach), np.full(n, np.inf), np.ones(n), [np.inf]])
    kinds = np.concatenate([np.zeros(d + n), np.ones(n), [0]])
    best, answer = np.inf, (np.nan, np.nan)
    while True:
        left = ended - time.monotonic()
        if left <= 0:
            raise TimeoutError
        found = scipy.optimize.milp(cost, constraints=rows, bounds=scipy.optimize.Bounds(lower, upper),
                                    integrality=kinds, options={"time_limit": left, "mip_rel_gap": 0.2 * TOLERANCE})
        if found.x is None or found.status != 0:
            raise TimeoutError
        w, labels = found.x[:d], np.where(found.x[d + n:d + 2 * n] > 0.5, 1, -1)
        value = float(w @ w / 2 + WEIGHT * np.mean(np.maximum(0.0, 1 - labels * (X @ w))))
        if value < best:
            best, answer = value, (value, 100 * clustering_accuracy(truth, labels))
        if best - found.mip_dual_bound <= TOLERANCE * best:
            return answer
        tangent = np.concatenate([-w, np.zeros(2 * n), [1.0]])  # t ≥ wₖᵀw − ½‖wₖ‖²
        rows.append(scipy.optimize.LinearConstraint(tangent, -float(w @ w) / 2, np.inf))


# -- links ------------------------------------------------------------------------------------------------


def links(n: int, seed: int) -> Iterator[tuple[str, Callable[[], Answer]]]:
    """Yield clusterers under n/10 links drawn from the classes."""
    X, truth = clouds(n, 10, seed, apart=0.6)
    rng = np.random.default_rng(seed)
    pairs = [tuple(map(int, rng.choice(n, 2, replace=False))) for _ in range(n // 10)]
    must, cannot = ([p for p in pairs if (truth[p[0]] == truth[p[1]]) == same] for same in (True, False))

    def ours() -> Answer:
        model = MarginClusterer(random_state=seed).fit(X, must_link=must, cannot_link=cannot)
        return float("nan"), 100 * clustering_accuracy(truth, model.labels_)

    def cop() -> Answer:
        from active_semi_clustering.semi_supervised.pairwise_constraints import COPKMeans

        model = COPKMeans(n_clusters=2)
        np.random.seed(seed)  # noqa: NPY002  (it draws from there)
        model.fit(X, ml=must, cl=cannot)
        return float("nan"), 100 * clustering_accuracy(truth, np.asarray(model.labels_))

    yield from (("MarginClusterer", ours), ("COP-KMeans", cop))


# -- the command ------------------------------------------------------------------------------------------

GROUPS = {"fixed": fixed, "clusters": clusters, "objective": objective, "exact": exact, "lift": lift, "links": links}


def measure(group: str, n: int, repeats: int) -> list[dict[str, Any]]:
    """Return a row for every method: median CPU seconds over seeds, mean excess over the best value, mean accuracy."""
    found: dict[str, list[tuple[float, float, float]]] = {}
    words: dict[str, str] = {}
    for seed in range(repeats):
        for name, call in GROUPS[group](n, seed):
            if n > BEARS.get(name, n):
                words[name] = f"not run above {BEARS[name]} points"
                continue
            began = time.process_time()
            try:
                value, accuracy = call()
                found.setdefault(name, []).append((time.process_time() - began, value, accuracy))
            except ImportError as error:
                words[name] = f"not installed: {error.name}"
            except Exception as error:  # a peer that fails is a result
                late = isinstance(error, TimeoutError)
                words[name] = f"over {LIMIT:g} s" if late else f"failed: {type(error).__name__}"
    whole = {name: rows for name, rows in found.items() if len(rows) == repeats}
    best = [min((rows[k][1] for rows in whole.values()), default=np.nan) for k in range(repeats)]
    rows = []
    for name in dict.fromkeys([*found, *words]):
        row: dict[str, Any] = {"group": group, "n": n, "method": name, "note": words.get(name, "")}
        if name in whole:
            seconds, values, accuracies = zip(*whole[name])
            excess = np.mean([(v - b) / abs(b) for v, b in zip(values, best)])
            row |= {"seconds": float(np.median(seconds)), "accuracy": float(np.mean(accuracies)),
                    "excess": None if np.isnan(excess) else float(excess)}
        rows.append(row)
        print(line(row), flush=True)
    return rows


def line(row: dict[str, Any]) -> str:
    """Return a row of the table."""
    if "seconds" not in row:
        return f"| {row['group']} | {row['n']:,} | {row['method']} | {row['note']} | | |"
    excess = "" if row["excess"] is None else f"{100 * row['excess']:.2g} %"
    return (f"| {row['group']} | {row['n']:,} | {row['method']} | {row['seconds']:.3g} | {excess} | "
            f"{row['accuracy']:.1f} |")


def main(arguments: list[str] | None = None) -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the smallest size of every group, once")
    parser.add_argument("--only", nargs="*", choices=list(GROUPS), default=list(GROUPS))
    parser.add_argument("--repeats", type=int, default=3, help="seeds; default 3")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds of an exact method")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    globals()["LIMIT"] = options.limit
    rows: list[dict[str, Any]] = []
    if options.json and options.json.exists():  # groups that are not measured now keep their figures
        rows = [row for row in json.loads(options.json.read_text(encoding="utf-8")) if row["group"] not in options.only]
    for group in options.only:
        for n in SIZES[group][:1] if options.quick else SIZES[group]:
            rows += measure(group, n, 1 if options.quick else options.repeats)
    rows.sort(key=lambda row: list(GROUPS).index(row["group"]))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
