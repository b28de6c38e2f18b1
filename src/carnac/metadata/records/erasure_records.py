"""The part of a metadata store on SQL that erases rows from history (`ErasureRecords`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from carnac.core.log.erasing import ErasedFile
from carnac.core.log.mentions import Mentions
from carnac.core.segments.record import load_segment
from carnac.metadata.database import translated
from carnac.metadata.read.reader import find_datasource
from carnac.metadata.sql import erasing as sql
from carnac.metadata.sql import queries as q
from carnac.metadata.sql.erasing import EDITION_SETTING
from carnac.metadata.transactions import SqlTransactions

if TYPE_CHECKING:
    from carnac.core.log.erasing import Erasure
    from carnac.core.segments.segment import Segment
    from carnac.core.time.intervals import IntervalSet
    from carnac.metadata.session import Session
    from carnac.ports import Published


class ErasureRecords(SqlTransactions):
    """Segments that only history names, erasures, and files that wait for readers. Safe for threads and processes.

    Attributes:
        edition: The newest erasure that this process knows of, a revision; 0: none. What it has read of a revision
            counts for one edition. Who asks for an earlier revision sees erasures first.
    """

    edition = 0

    def see_erasures(self) -> None:
        """Look for erasures of other processes."""
        with self._read() as session:
            self._see_erasures(session)

    def _see_erasures(self, session: Session) -> None:
        row = session.row(sql.NEWEST, name=EDITION_SETTING)
        if row is not None:
            self.edition = max(self.edition, int(row[0]))

    def oldest_revision(self) -> int:
        """Return the oldest retained revision; 0: there is no commit."""
        with self._read() as session:
            row = session.row(q.OLDEST)
            return 0 if row is None or row[0] is None else int(row[0])

    def unshown_segments(self, datasource: str) -> Sequence[Segment]:
        """Return the segments that earlier revisions show and the newest one does not."""
        with self._read() as session:
            found = find_datasource(session, datasource)
            if found is None:
                return []
            return [load_segment(row[0]) for row in session.rows(sql.UNSHOWN, datasource_id=found)]

    def erase(self, erasure: Erasure) -> Published:
        """Put segments into the place of others in all of history, in one transaction, or change nothing.

        The files of those that are named no more are in `erased_files` from then on.

        Raises:
            Conflict: One of them is visible again, or a segment is there that was not searched.
            NotFound: There is no such datasource.
            Revoked: The erasure's lease is gone.
        """
        from carnac.metadata.publish.erasing import write_erasure

        published = self._write(
            lambda session: write_erasure(session, erasure, self._clock.now_ms())
        )
        self.see_erasures()
        return published

    def erased_files(self) -> tuple[ErasedFile, ...]:
        """Return the files of erased segments that are not deleted yet, oldest erasure first."""
        with self._read() as session:
            return tuple(
                ErasedFile(path=row[0], revision=row[1], at_ms=row[2])
                for row in session.rows(sql.FILES)
            )

    def forget_erased_files(self, paths: Iterable[str]) -> None:
        """Forget files that are deleted."""
        gone = list(paths)
        if gone:
            self._write(lambda session: session.run(sql.FORGET_FILES, paths=session.array(gone)))

    def is_quoted(self, datasource: str, texts: Sequence[str], spans: IntervalSet) -> bool:
        """Whether a message or a bound is there that an erasure takes out: see `Erasure`."""
        from carnac.metadata.publish.erasing import find_quotes

        with self._read() as session:
            found = find_datasource(session, datasource)
            return found is not None and any(find_quotes(session, found, texts, spans))

    def count_mentions(self, texts: Sequence[str]) -> Mapping[str, int]:
        """Return how many records of each kind hold one of the texts; kinds with none are left out."""
        mentions = Mentions(texts)
        with self._read() as session:
            counts = {
                kind: sum(any(map(mentions.is_in, row)) for row in session.stream(query))
                for kind, query in sql.MENTIONS.items()
            }
        return {kind: count for kind, count in counts.items() if count}

    def purge(self) -> bool:
        """Write the database anew, without what was deleted from it; return whether nothing of that is left.

        Writers wait meanwhile. PostgreSQL overwrites deleted rows when it needs their room, and nothing is done there.
        """
        with translated(self._database):
            return self._database.purge()
