"""A supervisor, and what is known of it at a moment."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from carnac.core.streams.partitions import Partition
from carnac.core.streams.supervisors import Standing, SupervisorVersion
from carnac.core.tasks.model import Task
from carnac.overlord.supervisors.stream import StreamState
from carnac.specs.supervisors.kafka import KafkaSupervisor


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorView:
    """A supervisor with its tasks, position and stream.

    Attributes:
        groups: The tasks of each of its groups, newest first.
        counts: Counts of rows that running tasks have read so far, by task and Druid's names.
        position: Offset to read next, by partition, from the log.
        stream: State of the stream in Kafka.
    """

    version: SupervisorVersion
    supervisor: KafkaSupervisor
    groups: Mapping[str, Sequence[Task]]
    counts: Mapping[str, Mapping[str, int]]
    position: Mapping[Partition, int]
    stream: StreamState
    standing: Standing

    @property
    def spec(self) -> Mapping[str, Any]:
        """The spec, as it was posted."""
        found: Mapping[str, Any] = json.loads(self.version.spec)
        return found

    @property
    def live(self) -> Sequence[tuple[int, Task]]:
        """The tasks that are not over, each with its group."""
        newest = [(group, tasks[0]) for group, tasks in enumerate(self.groups.values()) if tasks]
        return [(group, task) for group, task in newest if not task.state.is_over]
