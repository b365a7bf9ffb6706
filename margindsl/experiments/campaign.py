"""A run of an experiment: which cells there are, which are finished, and running the rest."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from margindsl.errors import DeclarationError, UnknownNameError, one_of
from margindsl.experiments.cells import DONE, Cell, Conduct, cell_key, fingerprint_of, load_for, run_cell
from margindsl.experiments.datasets import MissingDataError, sources
from margindsl.experiments.journal import Journal
from margindsl.experiments.protocols import EXTENTS, Condition, Method, Protocol, Setting, describe
from margindsl.host.parallel import share_out
from margindsl.host.progress import task
from margindsl.host.threads import small_work_threads

Report = Callable[[dict[str, Any], int, int], None]


@dataclass(frozen=True)
class Part:
    """Represent one data set under one condition.

    Parameters
    ----------
    dataset : str
        As printed.
    n, d : int
        Its size; 0 when it is skipped.
    note : str
        Why it is skipped, or how it differs from the paper's set.
    """

    condition: Condition
    dataset: str
    n: int = 0
    d: int = 0
    fingerprint: str = ""
    note: str = ""

    @property
    def skipped(self) -> bool:
        """Return whether there is no data."""
        return self.n == 0


@dataclass(frozen=True)
class Campaign:
    """Represent a run of a protocol.

    Parameters
    ----------
    extent : {"full", "coarse", "quick"}
        The grid.
    only : tuple of str or None
        Names of the methods that are run; None runs all.
    sample : int or None
        Most settings of a method, see `sampled`; None runs the whole grid.
    """

    protocol: Protocol
    parts: tuple[Part, ...]
    conduct: Conduct
    extent: str
    repeats: int
    only: tuple[str, ...] | None = None
    sample: int | None = None

    def methods(self, part: Part) -> Iterator[Method]:
        """Yield the methods that are run on a set."""
        return (m for m in part.condition.methods if (m.largest is None or part.n <= m.largest)
                and (self.only is None or m.name in self.only))

    def settings(self, method: Method) -> list[Setting]:
        """Return the settings of a method that are run, those of one kernel together."""
        return sampled(list(method.settings(self.extent)), self.sample, self.conduct.random_state)

    def cells(self) -> Iterator[tuple[str, Cell]]:
        """Yield every cell with its key: set by set, repeat by repeat, settings of one kernel together."""
        for part in self.parts:
            if part.skipped:
                continue
            for repeat in range(self.repeats):
                for method in self.methods(part):
                    if repeat >= (method.repeats or self.repeats):
                        continue
                    for setting in self.settings(method):
                        cell = Cell(self.protocol.paper, part.condition.name, part.dataset, method.name, setting,
                                    repeat)
                        yield cell_key(cell, self.conduct, part.fingerprint), cell

    def finished(self, records: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """Return the records of this run's cells that need not be run again, by key.

        Failures are tried again, and so is what a shorter time limit cut off.
        """
        own = {key for key, _ in self.cells()}
        limit = self.conduct.time_limit
        return {r["key"]: r for r in records if r["key"] in own and r["status"] == DONE
                and not (r["state"] == "time_limit" and r["limit"] < limit)}

    def latest(self, records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the last record of each of this run's cells, failures included."""
        own = {key for key, _ in self.cells()}
        return list({r["key"]: r for r in records if r["key"] in own}.values())


def plan(protocol: Protocol, names: Sequence[str] | None = None, conduct: Conduct | None = None, *,
         extent: str = "full", repeats: int | None = None,
         methods: Sequence[str] | None = None, sample: int | None = None) -> Campaign:
    """Return the run of a protocol on some of its sets; what cannot be had is marked as skipped.

    Parameters
    ----------
    names : sequence of str, optional
        Sets as printed; default all.
    extent : {"full", "coarse", "quick"}
        The paper's grid, or a part of it and few repeats.
    repeats : int, optional
        Instead of the protocol's.
    methods : sequence of str, optional
        Which are run; default all.
    sample : int, optional
        Most settings of each method, drawn from its grid.
    """
    one_of("grid", extent, EXTENTS)
    known = {method.name for condition in protocol.conditions for method in condition.methods}
    for name in methods or ():
        if name not in known:
            raise UnknownNameError(f"method of {protocol.paper}", name, known)
    conduct = conduct or Conduct()
    asking = conduct
    count = repeats if repeats is not None else protocol.count(extent)
    if count < 1:
        raise DeclarationError(f"repeats: given {count}, expected at least 1")
    if sample is not None and sample < 1:
        raise DeclarationError(f"sample: given {sample}, expected at least 1 setting")
    parts: list[Part] = []
    for condition, name in protocol.resolve(None if names is None else tuple(names)):
        twin = next((p for p in parts if p.dataset == name), None)
        part = replace(twin, condition=condition) if twin else None
        if part is None:
            part, offline = _inspect(protocol, condition, name, asking)
            if offline:  # do not wait for an answer once a set
                asking = replace(asking, network=False)
        parts.append(part)
    return Campaign(protocol, tuple(parts), conduct, extent, count,
                    None if methods is None else tuple(methods), sample)


def sampled(settings: Sequence[Setting], most: int | None, random_state: int) -> list[Setting]:
    """Return at most so many settings of a grid, in its order, drawn without replacement.

    A larger sample holds the smaller ones of the same state, so that what was run stays of use.

    Examples
    --------
    >>> grid = [(("C", value),) for value in (1, 10, 100)]
    >>> set(sampled(grid, 1, 0)) < set(sampled(grid, 2, 0)) < set(sampled(grid, None, 0))
    True
    """
    if most is None or most >= len(settings):
        return list(settings)
    drawn = np.random.default_rng(random_state).permutation(len(settings))[:most]
    return [settings[k] for k in sorted(drawn)]


def _inspect(protocol: Protocol, condition: Condition, name: str, conduct: Conduct) -> tuple[Part, bool]:
    try:
        data = load_for(protocol.paper, name, conduct)
    except MissingDataError as error:
        return Part(condition, name, note=f"skipped: {error}"), error.offline
    source = sources(protocol.paper).get(name)
    note = source.note if source is not None else ""
    n, _ = protocol.printed.sizes.get((condition.name, name), (None, None))
    if not note and n is not None and n != data.n:
        note = f"{data.n} points, the paper has {n}"
    return Part(condition, name, data.n, data.X.shape[1], fingerprint_of(data), note), False


def run_campaign(campaign: Campaign, journal: Journal, *, n_jobs: int | None = None, report: Report | None = None,
                 shown: bool = True) -> None:
    """Run every cell that is not finished, and append it to the journal.

    Parameters
    ----------
    n_jobs : int or None
        Cells at a time, as in scikit-learn, on joblib's active backend: processes unless `joblib.parallel_config` says
        otherwise. BLAS has one thread in each.
    report : callable, optional
        Called with each new record, the number of finished cells and the number of all.
    shown : bool
        Whether a line says on a terminal how far the run has come, and what is left.
    """
    finished = campaign.finished(journal.records)
    waiting = [cell for key, cell in campaign.cells() if key not in finished]
    total = len(finished) + len(waiting)
    numbers = itertools.count(len(finished) + 1)

    with task(f"{campaign.protocol.paper}, cells", len(waiting), shown=shown) as whole:
        def keep(record: dict[str, Any]) -> None:
            journal.append(record)
            number = next(numbers)
            whole.step(title_of(record))
            if report is not None:
                report(record, number, total)

        share_out(_confined, [(cell, campaign.conduct) for cell in waiting], lambda _, record: keep(record), n_jobs)


def title_of(record: dict[str, Any]) -> str:
    """Return what a record is of, and how it ended unless it is done."""
    setting = describe(tuple((name, value) for name, value in record["setting"]))
    title = f"{record['dataset']}, {record['method']} {setting}".rstrip() + f", repeat {record['repeat'] + 1}"
    return title if record["status"] == DONE else f"{title}, {record['status']}"


def _confined(cell: Cell, conduct: Conduct) -> dict[str, Any]:
    """Run a cell with one thread of BLAS and of scikit-learn."""
    import sklearn.cluster  # noqa: F401  (its OpenMP must be loaded to be limited)

    with small_work_threads(0), threadpool_limits(limits=1, user_api="openmp"):
        return run_cell(cell, conduct)
