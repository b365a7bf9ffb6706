"""One cell of an experiment: data set × method × setting × repeat, run and scored."""

from __future__ import annotations

import json
import time
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from data import Dataset, load_for
from methods import CALLS, OF_POINTS, Task
from protocols import PROTOCOLS, Condition, Setting
from sklearn.metrics import fowlkes_mallows_score, normalized_mutual_info_score, rand_score
from threadpoolctl import threadpool_limits

import margindsl as md
from margindsl import metrics
from margindsl.contract import Status
from margindsl.errors import DeclarationError, MarginError
from margindsl.features import build

BALANCES = (0.03, 0.3)  # ODMC, experimental section: balanced and imbalanced sets
LOOSE_BALANCE = 0.9  # where 0.3 excludes the true classes: printed accuracies lie above what it admits
TRAINING = 0.75
MEASURES: dict[str, Callable[[Any, Any], float]] = {
    "Acc": metrics.clustering_accuracy, "RI": rand_score, "FMI": fowlkes_mallows_score,
    "NMI": normalized_mutual_info_score, "Rand index": rand_score,
    "accuracy": lambda truth, labels: 100.0 * metrics.clustering_accuracy(truth, labels),
    "clustering error": lambda truth, labels: 100.0 * (1.0 - metrics.clustering_accuracy(truth, labels)),
    "balanced error": lambda truth, labels: 100.0 * metrics.balanced_error(truth, labels)}
SECONDS = "CPU time"  # of declaration and solve, without loading the points and the factor of their kernel
ERRORS = ("clustering error", "balanced error", SECONDS)  # where less is better


@dataclass(frozen=True)
class Cell:
    """Represent one cell, and how it is run."""

    paper: str
    condition: str
    dataset: str
    method: str
    setting: Setting
    repeat: int
    directory: str | None = None  # of data files
    random_state: int = 0
    time_limit: float = 60.0  # seconds a solve

    def key(self, fingerprint: str) -> str:
        """Return what a finished cell is found by again: the cell, the random state, the data, the version."""
        return json.dumps([self.paper, self.condition, self.dataset, self.method, self.setting, self.repeat,
                           self.random_state, fingerprint, md.__version__])


def run_cell(cell: Cell) -> dict[str, Any]:
    """Run one cell; a method that fails gives a record that says so.

    The record is what is written as one line of JSON: the cell, ``status`` ("done", "refused", "failed"), ``state`` of
    the solve, ``scores`` by measure, labels and what else a rule of choice may see, ``seconds``, ``message``. An
    interrupted solve raises `KeyboardInterrupt`: its answer is not that of the cell.
    """
    began = time.perf_counter()
    data, _ = load_for(cell.paper, cell.dataset, cell.directory, PROTOCOLS[cell.paper].scale)
    record = {"key": cell.key(data.fingerprint), "condition": cell.condition, "dataset": cell.dataset,
              "method": cell.method, "setting": cell.setting, "repeat": cell.repeat, "limit": cell.time_limit}
    try:
        with warnings.catch_warnings(), threadpool_limits(limits=1):
            warnings.simplefilter("ignore")
            record |= {"status": "done", **_run(cell, data)}
    except MarginError as error:
        record |= {"status": "refused", "message": " ".join(str(error).split())}
    except Exception as error:  # one method's fault must not end hours of others
        record |= {"status": "failed", "message": f"{type(error).__name__}: {' '.join(str(error).split())}"}
    return record | {"seconds": round(time.perf_counter() - began, 4)}


def _run(cell: Cell, data: Dataset) -> dict[str, Any]:
    condition = next(c for c in PROTOCOLS[cell.paper].conditions if c.name == cell.condition)
    call = next(m.call for m in condition.methods if m.name == cell.method)
    declare, relaxation = CALLS[call]
    setting = dict(cell.setting)
    kernel = setting.pop("kernel", "linear")
    seed, training, known, must, cannot = draw(data, condition, cell.random_state, cell.repeat)
    if call in OF_POINTS or kernel == "linear":
        X, test, kernel = data.X[training], data.X[~training], as_kernel(kernel)
    else:
        (X, test), kernel = _factor(cell.paper, cell.dataset, cell.directory, kernel, training.tobytes()), "linear"
    began = time.process_time()
    answer = declare(Task(X, kernel, setting, data.clusters, seed, nearest_balance(data), known, must, cannot))

    def scores(labels: Any) -> dict[str, float]:
        seconds = time.process_time() - began
        return {measure: seconds if measure == SECONDS else float(MEASURES[measure](data.classes, labels))
                for measure in condition.measures}

    def packed(labels: Any) -> str:  # at most ten clusters
        return "".join(map(str, np.unique(labels, return_inverse=True)[1]))

    if not isinstance(answer, md.Problem):
        return {"state": "", "scores": scores(answer), "labels": packed(answer)}
    solution = answer.solve(relaxation, time_limit=cell.time_limit, random_state=seed)
    if solution.state is Status.INTERRUPTED:
        raise KeyboardInterrupt
    found = ({"Acc": float(np.mean(solution.predict(test) == data.signs[~training]))} if condition.labelled
             else scores(solution.labels))
    program = answer.program()  # the objective of the zero hyperplane, which shared scalars leave undefined
    null = np.nan if program.losses.scalars.count else program.to_user(program.losses.value(np.zeros(program.n)))
    return {"state": solution.status, "scores": found, "labels": packed(solution.labels), "value": solution.value,
            "null": float(null), "gap": solution.gap, "margin_mean": solution.margin_mean,
            "margin_variance": solution.margin_variance}


def draw(data: Dataset, condition: Condition, random_state: int, repeat: int) -> tuple[Any, ...]:
    """Draw what a repeat gives every method: seed, training part (n,), known signs of it, must-links, cannot-links.

    They depend on the data set, the random state and the repeat alone: methods and settings are compared on the same
    draw, and 5 % of labels are a part of 10 %.
    """
    rng = np.random.default_rng([random_state, repeat, zlib.crc32(data.name.encode())])
    seed, everyone, none = int(rng.integers(2**31 - 1)), np.ones(len(data.X), dtype=bool), np.zeros((0, 2), dtype=int)
    if condition.links:
        pairs = np.array([rng.choice(len(data.X), 2, replace=False) for _ in range(condition.links)])
        same = data.classes[pairs[:, 0]] == data.classes[pairs[:, 1]]
        return seed, everyone, None, pairs[same], pairs[~same]
    if not condition.labelled:
        return seed, everyone, None, none, none
    for _ in range(1000):
        training = np.zeros(len(data.X), dtype=bool)
        training[rng.choice(len(data.X), round(TRAINING * len(data.X)), replace=False)] = True
        signs = data.signs[training]
        if abs(signs.sum()) < len(signs):
            break
    else:
        raise DeclarationError(f"data set {data.name!r}: 1000 random splits left a class out of the training part")
    order = rng.permutation(len(signs))
    firsts = [int(np.flatnonzero(signs[order] == sign)[0]) for sign in (-1, 1)]  # at least one of each class
    order = np.r_[order[firsts], np.delete(order, firsts)]
    chosen = order[:max(2, round(condition.labelled * len(signs)))]
    known = np.zeros(len(signs), dtype=int)
    known[chosen] = signs[chosen]
    return seed, training, known, none, none


def nearest_balance(data: Dataset) -> float:
    """Return 0.03 or 0.3, whichever is nearer to the imbalance of the true classes; 0.9 where that is above 0.3."""
    if data.clusters != 2:
        return 1.0
    imbalance = abs(float(data.signs.mean()))
    return LOOSE_BALANCE if imbalance > max(BALANCES) else min(BALANCES, key=lambda bound: abs(bound - imbalance))


def as_kernel(name: str) -> Any:
    """Return the kernel a setting names: "linear", or "rbf k" of width k√γ."""
    return "linear" if name == "linear" else md.RBF(float(name.removeprefix("rbf ")) * md.sqrt_mean_distance)


@lru_cache(maxsize=2)
def _factor(paper: str, dataset: str, directory: str | None, kernel: str, mask: bytes) -> tuple[Any, Any]:
    """Return rows of the factor of a kernel, which stand for training and test points with a linear kernel."""
    data, _ = load_for(paper, dataset, directory, PROTOCOLS[paper].scale)
    training = np.frombuffer(mask, dtype=bool)
    features = build(data.X[training], as_kernel(kernel), centre=False)
    test = data.X[~training]
    return features.toarray(), features.transform(test) if len(test) else test
