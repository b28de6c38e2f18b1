"""The part of a metadata store on SQL that says how far writers have read their sources; publishing moves them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from carnac.metadata.read.reader import load_all_positions, load_positions
from carnac.metadata.transactions import SqlTransactions

if TYPE_CHECKING:
    from carnac.core.log.positions import SourcePosition


class PositionRecords(SqlTransactions):
    """Positions. They outlive the commits that moved them."""

    def position(self, writer: str) -> Mapping[str, SourcePosition]:
        """Return how far a writer has read each of its sources; empty if it has read none."""
        with self._read() as session:
            return load_positions(session, writer)

    def positions(self) -> tuple[SourcePosition, ...]:
        """Return how far all writers have read their sources, by writer and source."""
        with self._read() as session:
            return load_all_positions(session)
