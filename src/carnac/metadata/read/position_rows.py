"""Positions of writers, from the rows that keep them."""

from __future__ import annotations

from collections.abc import Mapping

from carnac.core.log.positions import SourcePosition
from carnac.metadata.session import Row, Session
from carnac.metadata.sql import statements as s


def position_of(row: Row) -> SourcePosition:
    """Return the position of a row with the columns of `positions`."""
    writer, source, offset, before, revision, at_ms = row
    return SourcePosition(
        writer=writer, source=source, offset=offset, before=before, revision=revision, at_ms=at_ms
    )


def load_positions(session: Session, writer: str) -> Mapping[str, SourcePosition]:
    """Return the positions of a writer, by source."""
    found = sorted(map(position_of, session.rows(s.FIND_POSITIONS, writer=writer)), key=_by_name)
    return {one.source: one for one in found}


def load_all_positions(session: Session) -> tuple[SourcePosition, ...]:
    """Return the positions of all writers, by writer and source."""
    return tuple(sorted(map(position_of, session.rows(s.POSITIONS)), key=_by_name))


def _by_name(position: SourcePosition) -> tuple[str, str]:
    return position.writer, position.source
