"""Positions of writers as a dict, with which tests compare the table of a metadata store."""

from __future__ import annotations

from collections.abc import Mapping

from carnac.core.log.commits import Commit, Publication
from carnac.core.log.positions import SourcePosition, decide_replay, require_writer
from carnac.ports import Published


class PositionOracle:
    """How far writers have read, by writer and source."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], SourcePosition] = {}

    def position(self, writer: str) -> Mapping[str, SourcePosition]:
        return {one.source: one for one in self.positions() if one.writer == writer}

    def positions(self) -> tuple[SourcePosition, ...]:
        return tuple(self._held[key] for key in sorted(self._held))

    def find_replay(self, publication: Publication) -> Published | None:
        if not publication.offsets and not publication.after:
            return None
        require_writer(publication.writer, publication.after, publication.offsets)
        writer = publication.writer or ""
        done = decide_replay(writer, publication.after, publication.offsets, self.position(writer))
        if done is None:
            return None
        at_ms = next(one.at_ms for one in self.positions() if one.revision == done)
        return Published(revision=done, at_ms=at_ms, is_replay=True, commit=None)

    def move_positions(self, commit: Commit) -> None:
        for source, offset in commit.offsets.items():
            assert commit.writer is not None
            self._held.pop((commit.writer, source), None)
            if offset:
                self._held[commit.writer, source] = SourcePosition(
                    writer=commit.writer,
                    source=source,
                    offset=offset,
                    before=commit.after.get(source, ""),
                    revision=commit.revision,
                    at_ms=commit.at_ms,
                )
