"""The part of a metadata store in memory that keeps specs and states of compaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import TypeVar

from carnac.core.compaction.control.states import ChunkState
from carnac.core.time.intervals import Interval
from carnac.metadata.compaction_rows import is_gone, rounded

T = TypeVar("T")


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
                if is_gone(state):
                    known.pop(state.chunk, None)
                else:
                    known[state.chunk] = rounded(state)
