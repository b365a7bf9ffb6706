"""One cell of an experiment: data set × method × setting × repeat, run and scored."""

from __future__ import annotations

import base64
import hashlib
import json
import time
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

import margindsl as md
from margindsl import __version__, metrics
from margindsl.contract import Status
from margindsl.errors import DeclarationError, MarginError
from margindsl.experiments.choice import Candidate
from margindsl.experiments.datasets import Dataset, load_dataset, sources
from margindsl.experiments.methods import Task, get_call
from margindsl.experiments.protocols import Condition, Setting, get_protocol
from margindsl.features import build
from margindsl.typing import BoolArray, FloatArray, IntArray

BALANCES = (0.03, 0.3)  # ODMC, experimental section: balanced and imbalanced sets
LOOSE_BALANCE = 0.9  # where 0.3 excludes the true classes: printed accuracies lie above what it admits
TRAINING = 0.75
DONE = "done"

MEASURES: dict[str, Callable[[Any, Any], float]] = {
    "Acc": metrics.clustering_accuracy, "RI": metrics.rand_index, "FMI": metrics.fowlkes_mallows,
    "NMI": metrics.normalised_mutual_information, "Rand index": metrics.rand_index,
    "accuracy": lambda truth, labels: 100.0 * metrics.clustering_accuracy(truth, labels),
    "clustering error": lambda truth, labels: 100.0 * (1.0 - metrics.clustering_accuracy(truth, labels)),
    "balanced error": lambda truth, labels: 100.0 * metrics.balanced_error(truth, labels)}
ERRORS = ("clustering error", "balanced error")  # where less is better


@dataclass(frozen=True)
class Conduct:
    """Represent how cells are run.

    Parameters
    ----------
    directory : str or None
        Of data files.
    time_limit : float
        Seconds a solve.
    network : bool
        Whether OpenML may be asked.
    """

    directory: str | None = None
    random_state: int = 0
    time_limit: float = 60.0
    network: bool = True


@dataclass(frozen=True)
class Cell:
    """Represent one cell.

    Parameters
    ----------
    paper, condition, dataset, method : str
        As printed.
    """

    paper: str
    condition: str
    dataset: str
    method: str
    setting: Setting  # (str, value)
    repeat: int


def cell_key(cell: Cell, conduct: Conduct, fingerprint: str) -> str:
    """Return what a finished cell is found by again: the cell, the random state, the data, the version."""
    return json.dumps([cell.paper, cell.condition, cell.dataset, cell.method, cell.setting, cell.repeat,
                       conduct.random_state, fingerprint, __version__])


def load_for(paper: str, dataset: str, conduct: Conduct) -> Dataset:
    """Return the data set that stands for a set a paper lists, scaled as the protocol says."""
    source = sources(paper).get(dataset)
    name = dataset.lower() if source is None else source.name
    return load_dataset(name, conduct.directory, get_protocol(paper).scale, network=conduct.network)


def fingerprint_of(data: Dataset) -> str:
    """Return a short digest of points and classes."""
    digest = hashlib.sha256(np.ascontiguousarray(data.X, dtype=float).data)
    digest.update(np.ascontiguousarray(data.classes, dtype=np.int64).data)
    return digest.hexdigest()[:16]


def run_cell(cell: Cell, conduct: Conduct) -> dict[str, Any]:
    """Run one cell; a method that fails gives a record that says so.

    Returns
    -------
    dict
        What is written as one line of JSON: the cell, ``status`` ("done", "refused", "failed"), ``state`` of the
        solve, ``scores`` by measure, what a rule of choice may see, ``seconds``, ``message``.
    """
    began = time.perf_counter()
    data = _data(cell.paper, cell.dataset, conduct)
    record: dict[str, Any] = {
        "key": cell_key(cell, conduct, _fingerprint(cell.paper, cell.dataset, conduct)), "paper": cell.paper,
        "condition": cell.condition, "dataset": cell.dataset, "method": cell.method, "setting": cell.setting,
        "repeat": cell.repeat, "limit": conduct.time_limit}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = _run(cell, conduct, data)
        record |= {"status": DONE, **found}
    except MarginError as error:
        record |= {"status": "refused", "message": " ".join(str(error).split())}
    except Exception as error:  # one method's fault must not end hours of others
        record |= {"status": "failed", "message": f"{type(error).__name__}: {' '.join(str(error).split())}"}
    return record | {"seconds": round(time.perf_counter() - began, 4)}


def _run(cell: Cell, conduct: Conduct, data: Dataset) -> dict[str, Any]:
    condition = get_protocol(cell.paper).condition(cell.condition)
    method = next(m for m in condition.methods if m.name == cell.method)
    call = get_call(method.call)
    setting = dict(cell.setting)
    kernel = setting.pop("kernel", "linear")
    draw = draw_side_information(data, condition, conduct.random_state, cell.repeat)
    X, test, shown = _points(cell.paper, cell.dataset, conduct, kernel if call.factored else "linear",
                             cell.repeat if condition.labelled else None, condition.name)
    task = Task(X, shown if call.factored else as_kernel(kernel), setting, data.clusters, draw.seed,
                nearest_balance(data), draw.known, draw.must, draw.cannot)
    answer = call.run(task)
    if not isinstance(answer, md.Problem):
        return {"state": "", "scores": score(condition, data.classes, answer), "labels": pack(answer)}
    solution = answer.solve(**call.options, time_limit=conduct.time_limit, random_state=draw.seed)
    if solution.state is Status.INTERRUPTED:
        raise KeyboardInterrupt
    if condition.labelled:
        predicted = solution.predict(test)
        scores = {"Acc": float(np.mean(predicted == data.signs[~draw.training]))}
    else:
        scores = score(condition, data.classes, solution.labels)
    return {"state": solution.status, "scores": scores, "labels": pack(solution.labels), "value": solution.value,
            "null": null_value(answer), "gap": solution.gap, "margin_mean": solution.margin_mean,
            "margin_variance": solution.margin_variance}


@dataclass(frozen=True, eq=False)
class Draw:
    """Represent what a repeat draws at random, the same for every method and setting.

    Parameters
    ----------
    seed : int
        Of the solves.
    known : (training points,) int array or None
        ±1, 0 where unknown.
    """

    seed: int
    training: BoolArray  # (n,)
    known: IntArray | None
    must: IntArray  # (m, 2)
    cannot: IntArray  # (m, 2)


def draw_side_information(data: Dataset, condition: Condition, random_state: int, repeat: int) -> Draw:
    """Draw the split, the labelled points and the links of one repeat.

    They depend on the data set, the random state and the repeat alone: methods and settings are compared on the same
    draw, and 5 % of labels are a part of 10 %.
    """
    rng = np.random.default_rng([random_state, repeat, zlib.crc32(data.name.encode())])
    seed = int(rng.integers(2**31 - 1))
    none = np.zeros((0, 2), dtype=int)
    training = np.ones(data.n, dtype=bool)
    if condition.links:
        pairs = np.array([rng.choice(data.n, 2, replace=False) for _ in range(condition.links)])
        same = data.classes[pairs[:, 0]] == data.classes[pairs[:, 1]]
        return Draw(seed, training, None, pairs[same], pairs[~same])
    if not condition.labelled:
        return Draw(seed, training, None, none, none)
    signs = data.signs
    for _ in range(1000):
        training = np.zeros(data.n, dtype=bool)
        training[rng.choice(data.n, round(TRAINING * data.n), replace=False)] = True
        if abs(signs[training].sum()) < training.sum():
            return Draw(seed, training, _label(signs[training], condition.labelled, rng), none, none)
    raise DeclarationError(f"data set {data.name!r}: 1000 random splits left a class out of the training part")


def _label(signs: IntArray, share: float, rng: np.random.Generator) -> IntArray:
    """Return the known labels: a share of the points, at least one of each class."""
    order = rng.permutation(len(signs))
    firsts = [int(np.flatnonzero(signs[order] == sign)[0]) for sign in (-1, 1)]
    order = np.r_[order[firsts], np.delete(order, firsts)]
    known = np.zeros(len(signs), dtype=int)
    chosen = order[:max(2, round(share * len(signs)))]
    known[chosen] = signs[chosen]
    return known


def nearest_balance(data: Dataset) -> float:
    """Return 0.03 or 0.3, whichever is nearer to the imbalance of the true classes; 0.9 where that is above 0.3."""
    if data.clusters != 2:
        return 1.0
    imbalance = abs(float(data.signs.mean()))
    if imbalance > max(BALANCES):
        return LOOSE_BALANCE
    return min(BALANCES, key=lambda bound: abs(bound - imbalance))


def as_kernel(name: str) -> Any:
    """Return the kernel a setting names: "linear", or "rbf k" of width k√γ.

    Examples
    --------
    >>> as_kernel("rbf 0.5")
    RBF(width=0.5 * sqrt_mean_distance, method='auto', rank=None, tol=1e-10)
    """
    return "linear" if name == "linear" else md.RBF(float(name.removeprefix("rbf ")) * md.sqrt_mean_distance)


def score(condition: Condition, classes: IntArray, labels: IntArray) -> dict[str, float]:
    """Return the measures of a condition."""
    return {measure: float(MEASURES[measure](classes, labels)) for measure in condition.measures}


def null_value(problem: md.Problem) -> float:
    """Return the objective of the zero hyperplane; NaN where shared scalars leave it undefined."""
    program = problem.program()
    if program.losses.scalars.count:
        return float("nan")
    return float(program.to_user(program.losses.value(np.zeros(program.n))))


def pack(labels: IntArray) -> str:
    """Return labels as text: eight points of two clusters a byte, else one point a byte.

    Examples
    --------
    >>> unpack(pack(np.array([-1, 1, 1]))).tolist(), unpack(pack(np.array([0, 2, 1]))).tolist()
    ([0, 1, 1], [0, 2, 1])
    """
    codes = np.unique(labels, return_inverse=True)[1].astype(np.uint8)
    body = np.packbits(codes) if codes.max(initial=0) <= 1 else codes
    head = f"{len(codes)}:{1 if codes.max(initial=0) <= 1 else 8}:"
    return head + base64.b64encode(body.tobytes()).decode()


def unpack(text: str) -> IntArray:
    """Return the labels `pack` wrote, as codes 0..k−1."""
    count, bits, body = text.split(":")
    codes = np.frombuffer(base64.b64decode(body), dtype=np.uint8)
    return (np.unpackbits(codes)[:int(count)] if bits == "1" else codes).astype(int)


def as_candidate(record: dict[str, Any]) -> Candidate:
    """Return what a rule of choice may see of a record."""
    names = ("value", "null", "gap", "margin_mean", "margin_variance")
    return Candidate(unpack(record["labels"]), **{name: record[name] for name in names if name in record})


# One process runs cells of one set after another: what they share is kept for a few of them.
@lru_cache(maxsize=2)
def _data(paper: str, dataset: str, conduct: Conduct) -> Dataset:
    return load_for(paper, dataset, conduct)


@lru_cache(maxsize=2)
def _fingerprint(paper: str, dataset: str, conduct: Conduct) -> str:
    return fingerprint_of(_data(paper, dataset, conduct))


@lru_cache(maxsize=2)
def _points(paper: str, dataset: str, conduct: Conduct, kernel: str, repeat: int | None,
            condition: str) -> tuple[FloatArray, FloatArray, str]:
    """Return training points, test points and the kernel on them, which is linear on the factor of a kernel."""
    data = _data(paper, dataset, conduct)
    training = np.ones(data.n, dtype=bool)
    if repeat is not None:
        training = draw_side_information(data, get_protocol(paper).condition(condition), conduct.random_state,
                                         repeat).training
    X, test = data.X[training], data.X[~training]
    if kernel == "linear":
        return X, test, "linear"
    features = build(X, as_kernel(kernel), centre=False)
    return features.toarray(), features.transform(test) if len(test) else test, "linear"
