"""What the metadata store keeps for compaction: specs of datasources, and states of chunks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from carnac.core.compaction.control.states import ChunkState


class CompactionRecords(Protocol):
    """Specs and states. Losing the states costs an analysis, and the counts of bytes; nothing else."""

    def compaction_specs(self) -> Mapping[str, str]:
        """Return how datasources are to be compacted, as JSON text, by name."""
        ...

    def put_compaction_spec(self, datasource: str, spec: str | None) -> None:
        """Set how a datasource is to be compacted; None: not at all, and its states are forgotten. Idempotent."""
        ...

    def compaction_states(self, datasource: str) -> tuple[ChunkState, ...]:
        """Return what is known of the chunks of a datasource, in order of time."""
        ...

    def put_compaction_states(self, datasource: str, states: Iterable[ChunkState]) -> None:
        """Keep states, each in place of the one of the same chunk; those of chunks without segments are forgotten."""
        ...
