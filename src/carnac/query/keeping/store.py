"""The partial results of a process, within a limit of memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from carnac.ports.queries import KEPT_ROWS_MIN, SLICE_BYTES

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.core.answers.receipts import SliceKey

KEPT_BYTES = 256 << 20
ENTRY_BYTES = 16 << 20
MEMORY_SHARE = 4
"""Divisor: at most this part of the memory of queries is for kept results."""
PACKED_BYTES_MAX = 32 << 10
"""Size of the largest table that is kept as bytes: each column of a table takes `COLUMN_BYTES` besides."""
PACKED_OVERHEAD_BYTES = 500
COLUMN_BYTES = 2_000
"""Memory of a column besides its values, measured: objects, and buffers that are larger than their values."""
TAKEN_MAX = 32
"""Results of one statement that are put together at most; the slices of others are read again, and kept as one."""
LARGE_MAX = 10_000
"""Statements whose results are known to be too large."""


@dataclass(frozen=True, slots=True, eq=False)
class KeptResult:
    """The result of a statement over some slices.

    Attributes:
        held: A table, or its bytes as a stream of Arrow if it is small.
        rows: Of these segments.
        size_bytes: In memory.
    """

    slices: frozenset[SliceKey]
    held: pa.Table | bytes
    rows: int
    size_bytes: int

    @property
    def table(self) -> pa.Table:
        """The rows of the result."""
        import pyarrow as pa

        return (
            pa.ipc.open_stream(self.held).read_all() if isinstance(self.held, bytes) else self.held
        )


def kept_result(slices: frozenset[SliceKey], table: pa.Table, rows: int) -> KeptResult:
    """Return a result as it is kept.

    Args:
        rows: Of the segments.
    """
    own_bytes = SLICE_BYTES * len(slices)
    size_bytes = int(table.get_total_buffer_size())
    if size_bytes <= PACKED_BYTES_MAX:
        packed = _packed(table)
        return KeptResult(slices, packed, rows, own_bytes + PACKED_OVERHEAD_BYTES + len(packed))
    own_bytes += COLUMN_BYTES * sum(one.num_chunks for one in table.columns)
    return KeptResult(slices, table, rows, own_bytes + size_bytes)


def _packed(table: pa.Table) -> bytes:
    import pyarrow as pa

    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    return bytes(stream.getvalue().to_pybytes())


@dataclass(slots=True)
class Taken:
    """The kept part of an answer.

    Attributes:
        results: Over disjoint sets of slices.
        is_changing: Something was kept that holds more than is wanted: segments of this statement do not only come.
    """

    results: Sequence[KeptResult] = ()
    is_changing: bool = False

    @property
    def slices(self) -> frozenset[SliceKey]:
        """All of them."""
        return frozenset(key for one in self.results for key in one.slices)


@dataclass(slots=True)
class KeptCounts:
    """Counts of the use of kept results.

    Attributes:
        hits: Segments whose part of an answer was kept.
        misses: Segments that were read, though their parts might have been kept.
        size_bytes: Of all that is kept.
        results: That are kept.
    """

    hits: int = 0
    misses: int = 0
    size_bytes: int = 0
    results: int = 0


@dataclass(slots=True)
class KeptResults:
    """Partial results by statement and slices; those that were used last stay. Safe for threads.

    Args:
        bytes_max: Of all results together; 0: none is kept.
        entry_bytes_max: Of one result.
        rows_min: Of the segments of a statement that is worth it.
    """

    bytes_max: int = KEPT_BYTES
    entry_bytes_max: int = ENTRY_BYTES
    rows_min: int = KEPT_ROWS_MIN
    counts: KeptCounts = field(default_factory=KeptCounts)
    _results: OrderedDict[int, tuple[str, KeptResult]] = field(default_factory=OrderedDict)
    _numbers: dict[str, dict[int, KeptResult]] = field(default_factory=dict)
    _large: OrderedDict[str, None] = field(default_factory=OrderedDict)
    _next: count[int] = field(default_factory=count)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def is_large(self, key: str) -> bool:
        """Whether a result of the statement was too large to be kept."""
        with self._lock:
            return key in self._large

    def find(self, key: str, wanted: Collection[SliceKey]) -> Taken:
        """Return what is kept of the statement's answer over some slices; counts nothing."""
        with self._lock:
            return self._find(key, wanted)[0]

    def take(self, key: str, wanted: Collection[SliceKey]) -> Taken:
        """Return what is kept of the statement's answer over some slices."""
        with self._lock:
            taken, numbers = self._find(key, wanted)
            for number in numbers:
                self._results.move_to_end(number)
            hits = sum(len(one.slices) for one in taken.results)
            self.counts.hits += hits
            self.counts.misses += len(wanted) - hits
            return taken

    def keep(self, key: str, result: KeptResult) -> None:
        """Keep a result, unless it is too large."""
        size_bytes = result.size_bytes
        if size_bytes > min(self.entry_bytes_max, self.bytes_max):
            self.note_large(key)
            return
        with self._lock:
            known = self._numbers.setdefault(key, {})
            for number in [one for one, old in known.items() if old.slices <= result.slices]:
                self._drop(number)
            number = next(self._next)
            self._numbers.setdefault(key, {})[number] = result
            self._results[number] = key, result
            self.counts.size_bytes += size_bytes
            self.counts.results += 1
            while self.counts.size_bytes > self.bytes_max:
                self._drop(next(iter(self._results)))

    def note_large(self, key: str) -> None:
        """Note that the results of a statement are too large."""
        with self._lock:
            self._large[key] = None
            if len(self._large) > LARGE_MAX:
                self._large.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._results.clear()
            self._numbers.clear()
            self._large.clear()
            self.counts.size_bytes = self.counts.results = 0

    def _find(self, key: str, wanted: Collection[SliceKey]) -> tuple[Taken, list[int]]:
        left = set(wanted)
        everything = frozenset(left)
        taken, numbers, is_changing = list[KeptResult](), list[int](), False
        known = sorted(self._numbers.get(key, {}).items(), key=lambda one: -one[1].rows)
        for number, result in known:
            if result.slices <= left and len(taken) < TAKEN_MAX:
                taken.append(result)
                numbers.append(number)
                left -= result.slices
            is_changing |= not result.slices <= everything
        return Taken(taken, is_changing), numbers

    def _drop(self, number: int) -> None:
        key, result = self._results.pop(number)
        numbers = self._numbers[key]
        del numbers[number]
        if not numbers:
            del self._numbers[key]
        self.counts.size_bytes -= result.size_bytes
        self.counts.results -= 1


@dataclass(frozen=True, slots=True)
class WholeAnswer:
    """The answer of one statement over one set of slices.

    Attributes:
        table: The kept answer; None: it is not kept.
        rows: Of the segments.
        populates: Whether it may be kept.
    """

    kept: KeptResults
    key: str
    slices: frozenset[SliceKey]
    rows: int
    table: pa.Table | None
    populates: bool

    def held(
        self, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yield batches, and keep them once all have come, unless they are too large."""
        import pyarrow as pa

        held: list[pa.RecordBatch] | None = [] if self.populates else None
        size_bytes = 0
        for batch in batches:
            size_bytes += batch.nbytes
            if size_bytes > self.kept.entry_bytes_max:
                held = None
            if held is not None:
                held.append(batch)
            yield batch
        if held is not None:
            self.keep(pa.Table.from_batches(held, schema))

    def keep(self, table: pa.Table) -> None:
        """Keep a whole answer, unless it is too large or may not be kept."""
        if self.populates:
            self.kept.keep(self.key, kept_result(self.slices, table, self.rows))
