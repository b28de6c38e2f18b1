"""The rows of leaf statements: read from files as far as they are not kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from carnac.query.hours import with_scans
from carnac.query.keeping.leaf import KeptLeaf, keys_of
from carnac.query.keeping.pieces import Piece, pieces_of
from carnac.query.keeping.store import KeptResults
from carnac.query.results import run
from carnac.query.running.query import ScanFiles
from carnac.query.scans import rows_in

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.ports.queries import Keeping, LeafFiles, LeafRequest, LeafSlice
    from carnac.query.distributed.leaves import CheckedLeaf
    from carnac.query.distributed.sizes import AnswerSize
    from carnac.query.newest import TimeEdge
    from carnac.query.planning import Scan
    from carnac.query.running.query import RunningQuery


@dataclass(frozen=True, slots=True)
class LeafRows:
    """The rows that a leaf statement gives.

    Attributes:
        hits: Slices whose part of them was kept.
    """

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    hits: int


@dataclass(frozen=True, slots=True)
class LeafTask:
    """A leaf statement that is to run.

    Attributes:
        edge: The end of time whose rows alone it needs; None: it needs others.
        scan: Scan that it reads.
        pieces: Pieces of the scan whose results are taken and kept; empty: none.
        size: Of its answer.
    """

    request: LeafRequest
    edge: TimeEdge | None
    scan: Scan
    pieces: Sequence[Piece]
    size: AnswerSize


@dataclass(frozen=True, slots=True)
class LeafRunner:
    """Runs leaf statements.

    Attributes:
        kept: Results of them that are kept.
    """

    files: ScanFiles
    kept: KeptResults

    def may(self, keeping: Keeping) -> bool:
        """Whether results are taken or kept at all."""
        return bool(self.kept.bytes_max) and (keeping.use or keeping.populate)

    def task(
        self, query: RunningQuery, request: LeafRequest, leaf: CheckedLeaf, scan: Scan
    ) -> LeafTask:
        """Return what is to be done for a request, over the slices of a scan."""
        pieces: Sequence[Piece] = []
        rows_min = max(1, self.kept.rows_min)
        if self.may(request.keeping) and rows_in(scan.slices) >= rows_min:
            pieces = pieces_of(query.cursor, request, leaf, scan.slices)
        return LeafTask(request, leaf.edge, scan, pieces, leaf.size)

    def count_kept(self, task: LeafTask) -> int:
        """Return of how many slices partial results would be taken, as of now."""
        if not task.request.keeping.use:
            return 0
        known = (self.kept.find(one.key, keys_of(one.slices)) for one in task.pieces)
        return sum(len(one.slices) for one in known)

    @contextmanager
    def rows(
        self, query: RunningQuery, task: LeafTask, files: LeafFiles | None
    ) -> Iterator[LeafRows]:
        """Run a leaf statement; give its rows, which are taken before the block ends.

        Args:
            files: Where they are; None: in deep storage.
        """
        scan, edge = task.scan, task.edge
        is_small = task.size.is_small(scan.slices)

        def narrowed(slices: Sequence[LeafSlice]) -> Sequence[LeafSlice]:
            return self.files.narrowed(replace(scan, slices=slices), edge, query, files).slices

        if not task.pieces:
            read = replace(scan, slices=narrowed(scan.slices))
            with self.files.finding(read, query, files) as select:
                selects = {scan.view: partial(select, read.slices)}
                sql = with_scans(query.cursor, task.request.sql, selects)
                schema, batches = run(query.cursor, sql, is_small=is_small)
                with closing(batches):
                    yield LeafRows(schema, batches, 0)
            return
        answer = KeptLeaf(self.kept, task.pieces, task.request.keeping, splits=edge is None)
        if not answer.read:
            yield LeafRows(*answer.answer(None, iter(())), answer.hits)
            return
        answer.narrow(narrowed)
        with self.files.finding(replace(scan, slices=answer.read), query, files) as select:
            sql = answer.statement(query.cursor, select, scan.view)
            schema, batches = run(query.cursor, sql, is_small=is_small)
            with closing(batches):
                yield LeafRows(*answer.answer(schema, batches), answer.hits)
