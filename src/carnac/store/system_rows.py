"""Rows of the tables of `sys`: segments of a revision; servers and tasks as they are now, whatever the revision."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from carnac.core.log.identifiers import identifier_of, shard_spec, version_text
from carnac.core.time.intervals import format_ms
from carnac.ports.serving import Held, Role
from carnac.ports.tasks import TaskFilter

if TYPE_CHECKING:
    from carnac.core.log.entries import VisibleSegment
    from carnac.core.time.intervals import Interval
    from carnac.metadata.store import MetadataStore
    from carnac.ports import Catalog

LEADING = (Role.OVERLORD, Role.COORDINATOR)
"""Roles in which one process leads."""
TASKS_MAX = 10_000
"""Number of the newest tasks that are shown."""
TASKS_LOOKED_AT = 20
"""Newest tasks of a supervisor by which it is judged."""
NO_PORT = -1


@dataclass(frozen=True, slots=True)
class SystemRows:
    """The sources of the tables of `sys`.

    Args:
        held: Segments that historicals have loaded, by server; None: historicals were not asked.
    """

    catalog: Catalog
    metadata: MetadataStore
    held: Mapping[str, Held] | None

    def of(self, table: str) -> Iterator[Sequence[object]]:
        """Yield the rows of a table, in the order of its columns (`SYSTEM_TABLES`)."""
        rows = {
            "segments": self._segments,
            "server_segments": self._server_segments,
            "servers": self._servers,
            "supervisors": self._supervisors,
            "tasks": self._tasks,
        }.get(table)
        yield from () if rows is None else rows()

    def _segments(self) -> Iterator[Sequence[object]]:
        copies = None
        if self.held is not None:
            copies = Counter(one for held in self.held.values() for one in held.segment_ids)
        for datasource in sorted(self.catalog.datasource_names()):
            items = self.catalog.visible(datasource, None)
            partitions = Counter(item.entry.chunk for item in items)
            for item in items:
                yield _segment(datasource, item, partitions, copies)

    def _server_segments(self) -> Iterator[Sequence[object]]:
        names = {
            item.segment.segment_id: identifier_of(datasource, item.entry)
            for datasource in self.catalog.datasource_names()
            for item in self.catalog.visible(datasource, None)
        }
        for server in self.metadata.servers():
            held = (self.held or {}).get(server.server_id, Held())
            for segment_id in sorted(held.segment_ids):
                if segment_id in names:
                    yield (_address(server.url)[0], names[segment_id])

    def _servers(self) -> Iterator[Sequence[object]]:
        leaders = {role: self.metadata.leader(role) for role in LEADING}
        urls = {role: one.url for role, one in leaders.items() if one is not None and one.lease_ms}
        servers = self.metadata.servers()
        for server in servers:
            yield (
                *_place(server.url, server.role),
                server.tier or None,
                None if self.held is None else self.held.get(server.server_id, Held()).used_bytes,
                server.capacity_bytes,
                int(urls.get(server.role) == server.url) if server.role in LEADING else None,
                format_ms(server.started_at_ms),
                *(None, None),  # which version it is, and labels, are not written down
            )
        known = {(server.role, server.url) for server in servers}
        for role, url in urls.items():  # an overlord is known as a leader alone
            if url and (role, url) not in known:
                yield (*_place(url, role), None, None, None, 1, None, None, None)

    def _supervisors(self) -> Iterator[Sequence[object]]:
        from carnac.core.redaction import show_submitted
        from carnac.core.streams.supervisors import group_ids, judge
        from carnac.specs.supervisors.kafka import load_supervisor

        for version in self.metadata.supervisors():
            if version.is_terminated:
                continue
            spec = json.loads(version.spec)
            supervisor = load_supervisor(spec)
            if not self.catalog.datasources.matches(supervisor.datasource):
                continue
            standing = judge(
                is_suspended=supervisor.is_suspended,
                groups={
                    name: self.metadata.tasks(TaskFilter(group_id=name), limit=TASKS_LOOKED_AT)
                    for name in group_ids(version, supervisor.tasks)
                },
                stream_error=None,  # it is not asked
                now_ms=self.metadata.now_ms(),
            )
            yield (
                version.supervisor_id,
                supervisor.datasource,
                str(standing.state),
                standing.detailed,
                int(standing.state.is_healthy),
                "kafka",
                supervisor.topic,
                int(supervisor.is_suspended),
                _json(show_submitted(spec)),
            )

    def _tasks(self) -> Iterator[Sequence[object]]:
        from carnac.core.tasks.statuses import duration_ms, runner_code_of, status_of

        for task in self.metadata.tasks(limit=TASKS_MAX):
            if not self.catalog.datasources.matches(task.datasource):
                continue
            created = format_ms(task.created_at_ms)
            yield (
                task.task_id,
                task.group_id,
                task.type,
                task.datasource,
                created,
                created,
                status_of(task),
                runner_code_of(task),
                duration_ms(task),
                None,
                None,
                NO_PORT,
                NO_PORT,
                task.error,
            )


def _segment(
    datasource: str,
    item: VisibleSegment,
    partitions: Mapping[Interval, int],
    copies: Mapping[str, int] | None,
) -> Sequence[object]:
    segment, entry = item.segment, item.entry
    metrics = [] if segment.rollup is None else [one.name for one in segment.rollup.metrics]
    dimensions = [one.name for one in segment.columns if one.name not in metrics]
    return (
        identifier_of(datasource, entry),
        datasource,
        format_ms(entry.chunk.start_ms),
        format_ms(entry.chunk.end_ms),
        segment.size_bytes,
        version_text(entry.version),
        entry.partition_id,
        None if copies is None else copies.get(segment.segment_id, 0),
        segment.rows,
        *(1, 1, 1, 0, 0),  # segments of the revision are active, and can be read wherever they are
        _json(shard_spec(entry, partitions[entry.chunk])),
        _json(dimensions),
        _json(metrics),
        None,
        None,
    )


def _address(url: str) -> tuple[str, str | None, int]:
    """Return the name, host and port by which a server is known."""
    parts = urlsplit(url)
    port = parts.port or NO_PORT
    return f"{parts.hostname}:{port}", parts.hostname, port


def _place(url: str, role: Role) -> Sequence[object]:
    """Return where a server is, and what it does."""
    return (*_address(url), NO_PORT, str(role))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
