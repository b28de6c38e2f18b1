"""A leaf's answer, put together from kept results and rows that are read now, which are kept in their turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from carnac.query.hours import with_scans
from carnac.query.keeping.store import KeptResults, Taken, kept_result
from carnac.query.scans import rows_in

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from carnac.core.answers.receipts import SliceKey
    from carnac.ports.queries import Keeping, LeafSlice
    from carnac.query.keeping.pieces import Piece
    from carnac.query.running.query import Select

BLOCKS_MAX = 8
BLOCK_ROWS = 250_000
"""Minimum number of rows in the segments of a block."""
BLOCK_COLUMN = "__carnac_block"


def keys_of(slices: Sequence[LeafSlice]) -> list[SliceKey]:
    """Return the keys of slices, by which kept results know them."""
    return [(one.segment.segment_id, one.clip) for one in slices]


@dataclass(slots=True)
class _Block:
    """Slices that are read now, whose result is kept as one.

    Attributes:
        slices: Slices that the result is of.
        read: Those in which its rows are looked for.
        held: Its rows so far; None: they are too many to be kept.
    """

    piece: Piece
    slices: Sequence[LeafSlice]
    read: Sequence[LeafSlice]
    held: list[pa.RecordBatch] | None = field(default_factory=list)
    size_bytes: int = 0


class KeptLeaf:
    """One leaf's answer while it is put together. For one thread.

    Args:
        pieces: The slices by the statements that they are asked; one at least.
        keeping: Whether kept results are used, and new ones kept.
        splits: Whether rows that are read may be kept in several parts.

    Attributes:
        hits: Number of slices whose part was kept.
    """

    def __init__(
        self, kept: KeptResults, pieces: Sequence[Piece], keeping: Keeping, *, splits: bool
    ) -> None:
        self._kept = kept
        self._keeps = keeping.populate
        self._splits = splits
        self._tables: list[pa.Table] = []
        self._blocks: list[_Block] = []
        self.hits = 0
        for piece in pieces:
            self._take(piece, uses=keeping.use)

    def _take(self, piece: Piece, *, uses: bool) -> None:
        taken = self._kept.take(piece.key, keys_of(piece.slices)) if uses else Taken()
        self._tables += [one.table for one in taken.results]
        known = taken.slices
        self.hits += len(known)
        keys = keys_of(piece.slices)
        left = [one for one, key in zip(piece.slices, keys, strict=True) if key not in known]
        if left:
            parts = blocks_of(left) if taken.is_changing and self._splits else [left]
            self._blocks += [_Block(piece, part, part) for part in parts]

    @property
    def read(self) -> list[LeafSlice]:
        """Slices that are to be read."""
        return [one for block in self._blocks for one in block.read]

    def narrow(self, narrowed: Callable[[Sequence[LeafSlice]], Sequence[LeafSlice]]) -> None:
        """Read what matters alone; what is kept is still of all slices.

        Args:
            narrowed: Returns those of some slices, clipped, in which all rows are that their answer needs.
        """
        for block in self._blocks:
            block.read = narrowed(block.read)

    def statement(self, cursor: duckdb.DuckDBPyConnection, select: Select, view: str) -> str:
        """Return the one statement that reads what is to be read, which is something.

        Args:
            view: The name of what is selected in the statement.
        """
        asked = [
            with_scans(cursor, one.piece.sql, {view: partial(select, one.read)})
            for one in self._blocks
        ]
        if len(asked) == 1:
            return asked[0]
        return " UNION ALL ".join(
            f"SELECT *, {place} AS {BLOCK_COLUMN} FROM ({one})" for place, one in enumerate(asked)
        )

    def answer(
        self, schema: pa.Schema | None, batches: Iterator[pa.RecordBatch]
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Return the answer: the kept rows, then those that are read, which are kept once all of them have come.

        Args:
            schema: Of the batches that the statement of `statement` gives; None: there was none.
        """
        if self._tables:
            wanted = self._tables[0].schema
        elif schema is None:
            raise AssertionError("a leaf statement reads something, or something is kept")
        else:
            wanted = schema.remove(len(schema) - 1) if len(self._blocks) > 1 else schema
        return wanted, self._rows(wanted, batches)

    def _rows(
        self, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        for table in self._tables:
            yield from table.rename_columns(schema.names).cast(schema).to_batches()
        for batch in batches:
            if len(self._blocks) > 1:
                bare = batch.select(range(batch.num_columns - 1)).rename_columns(schema.names)
                self._hold_parts(bare, batch.column(batch.num_columns - 1))
            else:
                bare = batch.rename_columns(schema.names)
                self._hold(self._blocks[0], bare)
            yield bare
        self._keep(schema)

    def _hold_parts(self, batch: pa.RecordBatch, numbers: pa.Array) -> None:
        import pyarrow.compute as pc

        for place in pc.unique(numbers).to_pylist():
            block = self._blocks[place]
            if block.held is not None:
                self._hold(block, batch.filter(pc.equal(numbers, place)))

    def _hold(self, block: _Block, batch: pa.RecordBatch) -> None:
        if block.held is None or not self._keeps:
            return
        block.size_bytes += batch.nbytes
        block.held.append(batch)
        if block.size_bytes > self._kept.entry_bytes_max:
            block.held = None
            self._kept.note_large(block.piece.key)

    def _keep(self, schema: pa.Schema) -> None:
        import pyarrow as pa

        for block in self._blocks:
            if block.held is None or not self._keeps:
                continue
            table = pa.Table.from_batches(block.held, schema).combine_chunks()
            slices = frozenset(keys_of(block.slices))
            self._kept.keep(block.piece.key, kept_result(slices, table, rows_in(block.slices)))


def blocks_of(slices: Sequence[LeafSlice]) -> list[list[LeafSlice]]:
    """Return slices in a few blocks, one after the other in time: a change in one leaves the others as they are."""
    ordered = sorted(slices, key=lambda one: (one.segment.chunk.start_ms, one.segment.segment_id))
    total = rows_in(ordered)
    count = max(1, min(BLOCKS_MAX, total // BLOCK_ROWS))
    blocks: list[list[LeafSlice]] = [[]]
    done, before = 0, None
    for one in ordered:
        is_new = one.segment.chunk.start_ms != before
        if blocks[-1] and is_new and done * count >= total * len(blocks):
            blocks.append([])
        blocks[-1].append(one)
        done, before = done + one.segment.rows, one.segment.chunk.start_ms
    return blocks
