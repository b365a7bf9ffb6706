"""Features of a Dask array: one task a chunk of rows, on whatever scheduler is active."""

from __future__ import annotations

import itertools
import math
import uuid
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import dask
import numpy as np
from dask.callbacks import Callback

from margindsl.features.blocks import HELD
from margindsl.features.dense import DenseFeatures
from margindsl.features.maps import LinearMap, PointMap
from margindsl.features.operator import FeatureOperator, Index, as_index, assembled, cut, total
from margindsl.host.clock import Cancelled, check, remaining
from margindsl.host.threads import small_work_threads
from margindsl.typing import FloatArray

CACHED = 2**16  # numbers of features that stay in a core's cache between the products of one pass
LARGE = 2**16  # bytes of an array that are sent to workers beside the graph: as part of it they are packed twice
FAN = 16  # partial sums that are added at a time: by workers, which is one more hop, and the last ones here


class DaskFeatures(FeatureOperator):
    """Compute with the chunks of a Dask array where they are, as many at a time as the scheduler has workers.

    Threads of this process by default; the workers of a `dask.distributed.Client` where one is active. A pass is one
    round trip: `fold` sends a function and has its sum back. Of an array that was persisted every thread of a worker
    has one task, over all chunks it holds, and arrays of the points that nobody can write to (labels, weights) are
    sent there once, others for the pass; other Dask arrays are read anew, one task a chunk. Constant arrays are sent
    as one number. Where some workers hold more of the array than others, they hand a copy of what is too much on.

    Parameters
    ----------
    source : dask.array.Array (n, d)
        Chunked along rows only.
    point_map : PointMap
        Sends points of a chunk, and new ones, to their features; pickled to the workers.
    rank : int
        Columns of the features.
    """

    is_streamed = is_remote = skips_zeros = True

    def __init__(self, source: Any, point_map: PointMap, rank: int, label: str, trace_error: float = 0.0) -> None:
        self.source, self.point_map = source, point_map
        self.n, self.rank, self.label, self.trace_error = int(source.shape[0]), rank, label, trace_error
        ends = np.concatenate([[0], np.cumsum(source.chunks[0])]).astype(int)
        self._blocks = [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]
        self._sent: dict[int, tuple[Any, list[Any]]] = {}
        self._last: list[Any] = []  # futures of the last pass

    @classmethod
    def from_points(cls, X: Any, centre: bool = True) -> DaskFeatures:
        """Build linear features from a Dask array that was checked, subtracting the column means if asked."""
        n, d = X.shape
        mean = np.asarray(X.sum(axis=0, dtype=np.float64).compute()) / n if centre else None
        label = f"linear, {d} columns, in {len(X.chunks[0])} Dask chunks ({X.dtype})"
        return cls(X, LinearMap(d, mean), d, label + (", centred" if centre else ""))

    @property
    def offset(self) -> FloatArray | None:
        return self.point_map.offset

    def parts(self, function: Callable[..., Any], *rows: FloatArray | None) -> Iterator[tuple[slice, Any]]:
        return self._by_chunk(_each_chunk, function, rows)

    def each(self, function: Callable[..., FloatArray], *rows: FloatArray | None) -> FloatArray:
        return assembled(self.n, self._by_chunk(_each_point, function, rows))

    def _by_chunk(self, run: Callable[..., Any], function: Callable[..., Any],
                  rows: tuple[FloatArray | None, ...]) -> Iterator[tuple[slice, Any]]:
        found: dict[int, Any] = {}
        for share, results in zip(self._shares, self._computed(*self._tasks(run, function, rows))):
            found |= zip(share.chunks, results)
        return ((block, found[k]) for k, block in enumerate(self._blocks))

    def fold(self, function: Callable[..., Any], *rows: FloatArray | None) -> Any:
        graph, sums = self._tasks(_fold_chunks, function, rows)
        while len(sums) > FAN:
            added = [f"{sums[0]}-sum-{start}" for start in range(0, len(sums), FAN)]
            graph |= {key: (total, sums[share * FAN:(share + 1) * FAN]) for share, key in enumerate(added)}
            sums = added
        return total(self._computed(graph, sums))

    def rows(self, index: Index) -> FloatArray:
        index = as_index(index)
        if not isinstance(index, slice) and np.asarray(index).dtype == bool:
            index = np.flatnonzero(index)
        return self.point_map.rows(self._fetched(self.source[index]))

    def take(self, index: Index) -> FeatureOperator:
        index = as_index(index)
        if not isinstance(index, slice) and np.asarray(index).dtype == bool:
            index = np.flatnonzero(index)
        chosen = self.source[index]
        if chosen.shape[0] < self.n and chosen.shape[0] * self.rank <= HELD:
            held = DenseFeatures(self.point_map.rows(self._fetched(chosen)), self.point_map, self.label)
            held.trace_error = self.trace_error
            return held
        if chosen.shape[0] < self.n:  # chunks are not read again and again for a part of their points
            chosen = chosen.persist()
        return DaskFeatures(chosen, self.point_map, self.rank, self.label, self.trace_error)

    def transform(self, X_new: Any) -> FloatArray:
        return self.point_map(X_new)

    @cached_property
    def _chunks(self) -> tuple[dict[Any, Any], list[Any]]:
        """Return the graph that reads the chunks, and what stands for each in a task: its key, or a future itself."""
        graph, found = self.source.__dask_graph__(), dask.optimize(self.source)[0]
        futures = {key: value for key, value in graph.items() if hasattr(value, "add_done_callback")}
        keys = [keys[0] for keys in found.__dask_keys__()]
        graph = {key: value for key, value in found.__dask_graph__().items() if key not in futures}
        return graph, [futures.get(key, key) for key in keys]

    @cached_property
    def _shares(self) -> list[_Share]:
        """Return the chunks of each task: those that one thread of a worker holds, or a single one read anew."""
        chunks, held = self._chunks[1], defaultdict(list)
        client = chunks[0].client if all(hasattr(chunk, "client") for chunk in chunks) else None
        where = {} if client is None else client.who_has(chunks)
        if client is None or not all(where.values()):
            return [_Share([k]) for k in range(len(chunks))]
        for k, chunk in enumerate(chunks):
            held[next(iter(where[chunk.key]))].append(k)
        threads = client.nthreads()
        for k, worker in _balanced(held, threads, self._blocks):
            chunks[k] = client.submit(_itself, chunks[k], workers=[worker], pure=False)
        return [_Share(own[first::threads[worker]], worker) for worker, own in sorted(held.items())
                for first in range(min(threads[worker], len(own)))]

    def _tasks(self, run: Callable[..., Any], function: Callable[..., Any],
               rows: tuple[FloatArray | None, ...]) -> tuple[dict[Any, Any], list[str]]:
        """Return a graph with one task a place, `run` on its chunks and their parts of rows, and the keys of these."""
        graph, chunks = self._chunks
        what = _What(self.point_map, function, max(self.rank, int(self.source.shape[1])))
        name, divided = uuid.uuid4().hex, [self._divided(row) for row in rows]
        tasks = {f"pass-{name}-{number}": (run, [chunks[k] for k in share.chunks], what, *own)
                 for number, (share, *own) in enumerate(zip(self._shares, *divided))}
        return {**graph, **tasks}, list(tasks)

    def _divided(self, row: FloatArray | None) -> list[Any]:
        """Return what belongs to the chunks of each place: their parts of an array, or one number of a constant one."""
        if row is None or (not row.shape[1:] and len(row) and bool(np.all(row == row[0]))):
            one = None if row is None else Constant(row[0])
            return [[one] * len(share.chunks) for share in self._shares]
        may_change, placed = row.flags.writeable, any(share.worker for share in self._shares)
        if not placed or (may_change and row.nbytes < LARGE):
            return [self._own(row, share) for share in self._shares]
        reference, sent = self._sent.get(id(row), (None, []))
        if reference is None or reference() is not row:
            client = self._chunks[1][0].client
            sent = [client.scatter(self._own(row, share), workers=[share.worker], hash=False) for share in self._shares]
            if not may_change:
                self._sent[id(row)] = weakref.ref(row, partial(_forget, self._sent, id(row))), sent
        return sent

    def _own(self, row: FloatArray, share: _Share) -> list[FloatArray]:
        return [row[self._blocks[k]] for k in share.chunks]

    def _fetched(self, rows: Any) -> FloatArray:
        """Return points in memory, or give them up when the time is used up."""
        check()
        client = getattr(dask.base.get_scheduler(collections=[rows]), "__self__", None)
        if client is not None:
            return np.asarray(_gathered(client, [client.compute(rows)])[0])
        with Callback(posttask=lambda *_: check()):
            return np.asarray(rows.compute())

    def _computed(self, graph: dict[Any, Any], keys: list[str]) -> list[Any]:
        """Return what tasks make; a pass that is not over when the time is used up is given up."""
        check()
        scheduler = dask.base.get_scheduler(collections=[self.source])
        client = getattr(scheduler, "__self__", None)
        if client is not None:
            # The results of a pass are released after the next is sent: a message that follows another within 10 ms
            # waits for that time to end.
            futures = client.get(graph, keys, sync=False)
            self._last = futures  # of a thread that comes between, too: each gathers its own
            return _gathered(client, futures)
        with small_work_threads(0), Callback(posttask=lambda *_: check()):  # the chunks share the cores
            return list(scheduler(graph, keys))


@dataclass(frozen=True)
class _Share:
    """Represent one task of a pass: the numbers of its chunks, and the worker that holds them, where one does."""

    chunks: list[int]
    worker: str | None = None


@dataclass(frozen=True)
class _What:
    """Say what is done with every chunk: the map to features, then a function of few points at a time."""

    point_map: PointMap
    function: Callable[..., Any]
    width: int


def _gathered(client: Any, futures: list[Any]) -> list[Any]:
    """Return the results of futures, or cancel them when the time is used up."""
    left = remaining()

    async def gathering() -> list[Any]:  # waiting first, then gathering, is one more hop: 10 ms of 20
        return list(await client.gather(futures, errors="skip", asynchronous=True))  # raising, it warns of what is cut

    try:
        found = list(client.sync(gathering, callback_timeout=None if math.isinf(left) else max(left, 0.0)))
        return found if len(found) == len(futures) else [future.result() for future in futures]  # raises what failed
    except TimeoutError:
        raise Cancelled from None
    finally:
        if open_ones := [future for future in futures if not future.done()]:
            client.cancel(open_ones)


def _balanced(held: dict[str, list[int]], threads: dict[str, int], blocks: list[slice]) -> Iterator[tuple[int, str]]:
    """Move chunks between the lists of workers while that lowers the most rows a thread; yield chunk and new worker."""
    rows = {worker: sum(blocks[k].stop - blocks[k].start for k in held[worker]) for worker in threads}
    while True:
        most, least = (choose(rows, key=lambda worker: rows[worker] / threads[worker]) for choose in (max, min))
        size, k = min((blocks[k].stop - blocks[k].start, k) for k in held[most])
        if not (rows[least] + size) / threads[least] < rows[most] / threads[most]:
            return
        held[most].remove(k)
        held[least].append(k)
        rows[most], rows[least] = rows[most] - size, rows[least] + size
        yield k, least


def _itself(chunk: FloatArray) -> FloatArray:
    return chunk


def _forget(sent: dict[int, Any], key: int, _: Any) -> None:
    sent.pop(key, None)


@dataclass(frozen=True)
class Constant:
    """Stand for an array of equal numbers, on its way to a worker."""

    value: Any

    def full(self, length: int) -> FloatArray:
        """Return an array of so many, which takes no memory."""
        return np.broadcast_to(self.value, (length,))


def _fold_chunks(chunks: list[FloatArray], what: _What, *rows: list[Any]) -> Any:
    return total(found for chunk, *own in zip(chunks, *rows) for _, found in _found(chunk, what, own))


def _each_chunk(chunks: list[FloatArray], what: _What, *rows: list[Any]) -> list[Any]:
    return [what.function(what.point_map.rows(chunk), *_filled(own, len(chunk))) for chunk, *own in zip(chunks, *rows)]


def _each_point(chunks: list[FloatArray], what: _What, *rows: list[Any]) -> list[Any]:
    return [assembled(len(chunk), _found(chunk, what, own)) for chunk, *own in zip(chunks, *rows)]


def _found(chunk: FloatArray, what: _What, rows: list[Any]) -> Iterator[tuple[slice, Any]]:
    """Yield what the function makes of each block of a chunk that fits the cache."""
    size, own, start = max(64, CACHED // what.width), _filled(rows, len(chunk)), 0
    for phi in what.point_map.blocks(chunk, size):
        block = slice(start, start + len(phi))
        yield block, what.function(phi, *cut(own, block))
        start = block.stop


def _filled(rows: list[Any], length: int) -> list[FloatArray | None]:
    return [row.full(length) if isinstance(row, Constant) else row for row in rows]
