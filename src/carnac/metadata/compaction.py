"""Specs and states of compaction on SQL, and in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import TypeVar

from carnac.core.compaction.states import ChunkState, ChunkStatus
from carnac.core.intervals import Interval
from carnac.metadata.session import Row, Session
from carnac.metadata.texts import compaction as sql
from carnac.ports import Clock

T = TypeVar("T")


class SqlCompactionRecords(ABC):
    """What a store on SQL keeps for compaction."""

    _clock: Clock

    @abstractmethod
    def _read(self) -> AbstractContextManager[Session]: ...

    @abstractmethod
    def _write(self, work: Callable[[Session], T]) -> T: ...

    def compaction_specs(self) -> Mapping[str, str]:
        """Return how datasources are to be compacted, as JSON text, by name."""
        with self._read() as session:
            return {row[0]: row[1] for row in session.rows(sql.SPECS)}

    def put_compaction_spec(self, datasource: str, spec: str | None) -> None:
        """Set how a datasource is to be compacted; None: not at all."""
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
        with self._read() as session:
            return tuple(_state_of(row) for row in session.rows(sql.STATES, datasource=datasource))

    def put_compaction_states(self, datasource: str, states: Iterable[ChunkState]) -> None:
        """Keep states; those of chunks without segments are forgotten."""
        known = list(states)
        puts = [_row_of(datasource, state) for state in known if not _is_gone(state)]
        gone = [_key_of(datasource, state) for state in known if _is_gone(state)]

        def work(session: Session) -> None:
            session.run_many(sql.PUT_STATE, puts)
            for key in gone:
                session.run(sql.REMOVE_STATE, **key)

        if known:
            self._write(work)


class MemoryCompactionRecords:
    """What a store in memory keeps for compaction; guarded by the lock of the store that this is a part of."""

    _lock: AbstractContextManager[object]
    _compaction_specs: dict[str, str]
    _compaction_states: dict[str, dict[Interval, ChunkState]]

    def compaction_specs(self) -> Mapping[str, str]:
        """Return how datasources are to be compacted, as JSON text, by name."""
        with self._lock:
            return dict(sorted(self._compaction_specs.items()))

    def put_compaction_spec(self, datasource: str, spec: str | None) -> None:
        """Set how a datasource is to be compacted; None: not at all."""
        with self._lock:
            if spec is None:
                self._compaction_specs.pop(datasource, None)
                self._compaction_states.pop(datasource, None)
            else:
                self._compaction_specs[datasource] = spec

    def compaction_states(self, datasource: str) -> tuple[ChunkState, ...]:
        """Return what is known of the chunks of a datasource, in order of time."""
        with self._lock:
            known = self._compaction_states.get(datasource, {})
            return tuple(state for _, state in sorted(known.items()))

    def put_compaction_states(self, datasource: str, states: Iterable[ChunkState]) -> None:
        """Keep states; those of chunks without segments are forgotten."""
        with self._lock:
            known = self._compaction_states.setdefault(datasource, {})
            for state in states:
                if _is_gone(state):
                    known.pop(state.chunk, None)
                else:
                    known[state.chunk] = _rounded(state)


def _is_gone(state: ChunkState) -> bool:
    return state.status is ChunkStatus.EMPTY and not state.segments


def _rounded(state: ChunkState) -> ChunkState:
    """Return the state as a database gives it back."""
    row = _row_of("", state)
    names = sql.STATE_COLUMNS
    return _state_of(tuple(row[name] for name in names))


def _key_of(datasource: str, state: ChunkState) -> dict[str, object]:
    return {
        "datasource": datasource,
        "start_ms": state.chunk.start_ms,
        "end_ms": state.chunk.end_ms,
    }


def _row_of(datasource: str, state: ChunkState) -> dict[str, object]:
    return {
        **_key_of(datasource, state),
        "status": state.status.value,
        "revision": state.revision,
        "segments": state.segments,
        "judged_by": state.judged_by,
        "reason": state.reason,
        "priority_millionths": round(state.priority * 1_000_000),
        "cost": state.cost,
        "failures": state.failures,
        "retry_at_ms": state.retry_at_ms,
        "arrived_bytes": state.arrived_bytes,
        "rewritten_bytes": state.rewritten_bytes,
    }


def _state_of(row: Row) -> ChunkState:
    start_ms, end_ms, status, revision, segments, judged_by, reason, priority, *rest = row
    cost, failures, retry_at_ms, arrived_bytes, rewritten_bytes = rest
    return ChunkState(
        chunk=Interval(start_ms, end_ms),
        status=ChunkStatus(status),
        revision=revision,
        segments=segments,
        judged_by=judged_by,
        reason=reason,
        priority=priority / 1_000_000,
        cost=cost,
        failures=failures,
        retry_at_ms=retry_at_ms,
        arrived_bytes=arrived_bytes,
        rewritten_bytes=rewritten_bytes,
    )
