"""The part of a metadata store on SQL that keeps specs of supervisors, and how far writers have read their sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from carnac.core.texts import check_name
from carnac.metadata.read.reader import load_all_positions, load_positions
from carnac.metadata.sql import specs as sql
from carnac.metadata.transactions import SqlTransactions

if TYPE_CHECKING:
    from carnac.core.log.positions import SourcePosition
    from carnac.core.streams.supervisors import SupervisorVersion
    from carnac.metadata.session import Session

VERSIONS_KEPT = 100
"""Of each supervisor."""


class StreamRecords(SqlTransactions):
    """Specs of supervisors, those that were in force among them, and positions, which publishing moves."""

    def position(self, writer: str) -> Mapping[str, SourcePosition]:
        """Return how far a writer has read each of its sources; empty if it has read none."""
        with self._read() as session:
            return load_positions(session, writer)

    def positions(self) -> tuple[SourcePosition, ...]:
        """Return how far all writers have read their sources, by writer and source."""
        with self._read() as session:
            return load_all_positions(session)

    def supervisors(self) -> tuple[SupervisorVersion, ...]:
        """Return what is in force, by id; one that was terminated is among them as such."""
        with self._read() as session:
            return tuple(_version(row) for row in session.rows(sql.SUPERVISORS))

    def now_ms(self) -> int:
        """Return the time by which what is kept here is dated."""
        return self._clock.now_ms()

    def supervisor_history(self) -> tuple[SupervisorVersion, ...]:
        """Return what was set, the newest first, `VERSIONS_KEPT` of each."""
        with self._read() as session:
            return tuple(_version(row) for row in session.rows(sql.SUPERVISOR_HISTORY))

    def put_supervisor(self, supervisor_id: str, spec: str) -> SupervisorVersion:
        """Set the spec of a supervisor; an empty one: there is none any more."""
        check_name(supervisor_id, "the id of a supervisor")
        now_ms = self._clock.now_ms()

        def work(session: Session) -> SupervisorVersion:
            row = session.row(sql.LAST_SUPERVISOR)
            number = 1 + (0 if row is None or row[0] is None else int(row[0]))
            values = {"supervisor_id": supervisor_id, "spec": spec, "at_ms": now_ms}
            session.run(sql.INSERT_SUPERVISOR, number=number, **values)
            session.run(sql.FORGET_SUPERVISORS, supervisor_id=supervisor_id, kept=VERSIONS_KEPT)
            return _version((number, supervisor_id, spec, now_ms))

        return self._write(work)


def _version(row: tuple[int, str, str, int]) -> SupervisorVersion:
    from carnac.core.streams.supervisors import SupervisorVersion

    number, supervisor_id, spec, at_ms = row
    return SupervisorVersion(number=number, supervisor_id=supervisor_id, spec=spec, at_ms=at_ms)
