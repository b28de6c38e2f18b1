"""The part of a metadata store on SQL that keeps specs and states of compaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from carnac.metadata.sql import specs as sql
from carnac.metadata.transactions import SqlTransactions

if TYPE_CHECKING:
    from carnac.core.compaction.control.states import ChunkState
    from carnac.metadata.session import Session


class CompactionRecords(SqlTransactions):
    """Specs and states. Losing the states costs an analysis, and the counts of bytes; nothing else."""

    def compaction_specs(self) -> Mapping[str, str]:
        """Return how datasources are to be compacted, as JSON text, by name."""
        with self._read() as session:
            return {row[0]: row[1] for row in session.rows(sql.SPECS)}

    def put_compaction_spec(self, datasource: str, spec: str | None) -> None:
        """Set how a datasource is to be compacted; None: not at all, and its states are forgotten. Idempotent."""
        now_ms = self._clock.now_ms()

        def work(session: Session) -> None:
            if spec is None:
                session.run(sql.REMOVE_SPEC, datasource=datasource)
                session.run(sql.REMOVE_STATES, datasource=datasource)
            else:
                session.run(sql.PUT_SPEC, datasource=datasource, spec=spec, changed_at_ms=now_ms)

        self._write(work)

    def compaction_states(self, datasource: str) -> tuple[ChunkState, ...]:
        """Return what is known of the chunks of a datasource, in order of time."""
        from carnac.metadata.records.compaction_rows import STATES

        with self._read() as session:
            return tuple(map(STATES.value, session.rows(sql.STATES, datasource=datasource)))

    def put_compaction_states(self, datasource: str, states: Iterable[ChunkState]) -> None:
        """Keep states, each in place of the one of the same chunk; those of chunks without segments are forgotten."""
        from carnac.metadata.records.compaction_rows import STATES, is_gone

        known = list(states)
        puts = [
            {"datasource": datasource, **STATES.row(state)} for state in known if not is_gone(state)
        ]
        gone = [state.chunk for state in known if is_gone(state)]

        def work(session: Session) -> None:
            session.run_many(sql.PUT_STATE, puts)
            for chunk in gone:
                session.run(
                    sql.REMOVE_STATE,
                    datasource=datasource,
                    start_ms=chunk.start_ms,
                    end_ms=chunk.end_ms,
                )

        if known:
            self._write(work)
