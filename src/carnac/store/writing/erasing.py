"""Erasing rows from every revision: a deletion of what is visible, then of what only history names.

The deletion rewrites the segments that the newest revision shows, those included of which only hidden rows match. Then
the segments that earlier revisions show are rewritten, and named in place of the old ones (`core.log.erasing`). Each
rewrite counts and hashes the rows that it read, wrote and left out. What others publish meanwhile is searched too: an
attempt ends well only if every segment was searched that is there then. Files without a reader go at once; what else
may hold the rows is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from carnac.core.iceberg.groups import folder_of
from carnac.core.log.commits import CommitKind, Publication
from carnac.core.log.erasing import Erased, Erasure
from carnac.core.segments.schema import unite_columns
from carnac.core.segments.segment import ColumnType, safe_name
from carnac.core.showing import Shown
from carnac.core.time.intervals import Interval, format_ms, interval_set
from carnac.core.words import counted, number_text
from carnac.errors import CarnacError, Conflict
from carnac.ports import SegmentInput
from carnac.store.upkeep.maintenance import (
    QUARANTINE_PREFIX,
    ROWS_PREFIX,
    SEGMENTS_PREFIX,
    STAGING_PREFIX,
)
from carnac.store.writing import deleting
from carnac.store.writing.shown import shown_whole

if TYPE_CHECKING:
    from carnac.core.segments.segment import Segment
    from carnac.jobs.pipeline import SparkPipeline
    from carnac.metadata.store import MetadataStore
    from carnac.ports import Clock, DeepStorage, SegmentRewrite
    from carnac.query.engine import QueryEngine
    from carnac.store.leases import LeaseKeeper
    from carnac.store.upkeep.maintenance import Maintenance
    from carnac.store.writing.outcome import WriteOutcome
    from carnac.store.writing.writer import ProgressListener, Writer

Columns: TypeAlias = Mapping[str, ColumnType]

ATTEMPTS_MAX = 10
"""How often an erasure begins anew because others changed what it reads."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ErasureReport(Shown):
    """The certificate of an erasure.

    Attributes:
        datasource: Its name.
        store_id: Of the store, the same wherever it is opened.
        at_ms: When it was over, epoch milliseconds, UTC.
        deleted_revision: Commit that took the rows out of the newest revision; None: it showed none.
        revision: Commit that took them out of all earlier ones; None: none showed any.
        rows_erased: Rows that were left out of files. A row counts once for each file that held it.
        segments_searched: Segments that were read.
        segments_rewritten: Segments of which history names what is left.
        segments_removed: Segments of which no row is left.
        files_deleted: Files with such rows that are gone, those of earlier erasures included.
        files_waiting: Files with such rows that readers hold who came before; `gc` deletes them.
        left: What else may hold the rows, a sentence each.
    """

    datasource: str
    store_id: str
    at_ms: int
    deleted_revision: int | None
    revision: int | None
    rows_erased: int
    segments_searched: int
    segments_rewritten: int
    segments_removed: int
    files_deleted: int
    files_waiting: tuple[str, ...]
    left: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """Whether nothing is known that still holds the rows."""
        return not self.files_waiting and not self.left

    def _facts(self) -> Mapping[str, str]:
        return {
            "datasource": self.datasource,
            "rows erased": number_text(self.rows_erased),
            "segments": (
                f"{number_text(self.segments_rewritten)} rewritten, "
                f"{number_text(self.segments_removed)} removed"
            ),
            "revision": f"{self.revision or self.deleted_revision or 'none'}",
            "complete": "yes" if self.is_complete else "no",
        }


class Eraser:
    """Erases rows of one store."""

    def __init__(
        self,
        metadata: MetadataStore,
        deep_storage: DeepStorage,
        leases: LeaseKeeper,
        clock: Clock,
        *,
        pipeline: Callable[[], SparkPipeline],
        engine: Callable[[], QueryEngine],
        writer: Writer,
        maintenance: Maintenance,
    ) -> None:
        self._metadata = metadata
        self._deep_storage = deep_storage
        self._pipeline = pipeline
        self._engine = engine
        self._leases = leases
        self._clock = clock
        self._writer = writer
        self._maintenance = maintenance

    def segments(self, datasource: str) -> tuple[int, int]:
        """Return how many segments an erasure would read: those that are visible, and those that only history names.

        Raises:
            NotFound: No revision has such a datasource.
        """
        past = self._past(datasource)
        return self._metadata.count_visible(datasource), len(past)

    def check(self, datasource: str, where: str) -> None:
        """Refuse what is no condition over the columns that the datasource has or had.

        Raises:
            Invalid: It is none.
            NotFound: No revision has such a datasource.
        """
        self._pipeline().read_condition(where, self._columns(datasource))

    def _columns(self, datasource: str) -> Columns:
        schemas = [*self._metadata.schemas(datasource)]
        return unite_columns([*schemas, *(one.columns for one in self._past(datasource))])

    def erase(
        self,
        datasource: str,
        where: str,
        *,
        message: str,
        on_progress: ProgressListener | None,
    ) -> ErasureReport:
        """Erase the rows for which a condition is true from all revisions: see `Store.erase`."""
        texts = (where.strip(), *self._pipeline().read_condition(where, self._columns(datasource)))
        asked, found = _Asked(datasource, where, texts, message, on_progress), _Found()
        self._kill_unused(datasource)  # what is trimmed need not be rewritten
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                self._erase_visible(asked, found)
                self._erase_past(asked, found)
                break
            except Conflict:
                if attempt == ATTEMPTS_MAX:
                    raise
        self._kill_unused(datasource)
        self._remove_lists(datasource)
        is_purged = self._metadata.purge()
        deleted = self._maintenance.delete_erased(dry_run=False)
        return ErasureReport(
            datasource=datasource,
            store_id=self._metadata.store_id,
            at_ms=self._clock.now_ms(),
            deleted_revision=found.deleted_revision,
            revision=found.revision,
            rows_erased=found.rows,
            segments_searched=found.searched,
            segments_rewritten=found.rewritten,
            segments_removed=found.removed,
            files_deleted=sum(one.action == "delete" for one in deleted),
            files_waiting=tuple(one.path for one in deleted if one.action == "keep"),
            left=tuple(self._left(asked, is_purged=is_purged)),
        )

    def _kill_unused(self, datasource: str) -> None:
        self._leases.release_idle()
        self._maintenance.kill(datasource, None)

    def _erase_visible(self, asked: _Asked, found: _Found) -> None:
        """Publish a deletion; the segments that it drops are named by history alone then."""
        with self._leases.reading(None) as reading, self._leases.writing() as lease:
            base = reading.head.revision
            visible = shown_whole(self._metadata, asked.datasource, base, None)
            inputs = [
                SegmentInput(segment=segment, visible=shown) for segment, shown in visible.values()
            ]
            rewrites = self._rewritten(asked, inputs, found)
            if not rewrites:
                return
            granularity = self._writer.segment_granularity(asked.datasource)
            publication = Publication(
                kind=CommitKind.DELETE,
                changes=(deleting.change_of(asked.datasource, rewrites, granularity),),
                base_revision=base,
                message=asked.message or "delete, for an erasure",
                proof=deleting.proof_of(rewrites),
                lease_id=lease.lease_id,
            )
            outcome: WriteOutcome = self._writer.publish_rewrites(publication, rewrites, None)
            found.deleted_revision = outcome.revision
            found.clean.update(one.segment_id for one in publication.changes[0].adds)

    def _erase_past(self, asked: _Asked, found: _Found) -> None:
        """Have history name segments without the rows, once those that came into sight meanwhile are searched too."""
        oldest = self._metadata.oldest_revision()
        with self._leases.reading(oldest), self._leases.writing() as lease:
            rewrites: dict[str, SegmentRewrite] = {}
            try:
                base = self._search_all(asked, found, rewrites)
                spans = interval_set(found.spans)
                # without a rewrite no segment of this state has such rows, so none that is made of them has
                if rewrites or self._metadata.is_quoted(asked.datasource, asked.texts, spans):
                    erased = [_erased(one) for one in rewrites.values()]
                    published = self._metadata.erase(
                        Erasure(
                            datasource=asked.datasource,
                            segments=tuple(erased),
                            searched=found.clean,
                            base_revision=base,
                            spans=spans,
                            texts=asked.texts,
                            message=asked.message,
                            lease_id=lease.lease_id,
                        )
                    )
                    found.add(published.revision, [*rewrites.values()])
            finally:
                self._remove_unnamed(_erased(one).new for one in rewrites.values())
            self._engine().forget_files(rewrites)

    def _search_all(self, asked: _Asked, found: _Found, rewrites: dict[str, SegmentRewrite]) -> int:
        """Rewrite by id what holds such rows, until nothing has come meanwhile; return the revision of that state."""
        base = 0
        for _ in range(ATTEMPTS_MAX):
            with self._metadata.one_state():
                base = self._metadata.head().revision
                past = self._metadata.unshown_segments(asked.datasource)  # none: all was trimmed
                visible = shown_whole(self._metadata, asked.datasource, base, None)
            segments = [*past, *(segment for segment, _ in visible.values())]
            known = found.clean | rewrites.keys()
            inputs = [SegmentInput.whole(one) for one in segments if one.segment_id not in known]
            if not inputs:
                break
            done = self._rewritten(asked, inputs, found)
            rewrites.update({one.source.segment.segment_id: one for one in done})
        return base

    def _rewritten(
        self, asked: _Asked, inputs: Iterable[SegmentInput], found: _Found
    ) -> Sequence[SegmentRewrite]:
        """Rewrite the segments that hold such rows, among those that are not known to hold none."""
        unknown = [one for one in inputs if one.segment.segment_id not in found.clean]
        if not unknown:
            return ()
        rewrites = self._pipeline().run_delete_where(
            asked.datasource,
            unknown,
            asked.where,
            columns=self._columns(asked.datasource),
            searches_hidden=True,
            on_progress=asked.on_progress,
        )
        found.note(unknown, rewrites)
        return rewrites

    def _past(self, datasource: str) -> Sequence[Segment]:
        past = self._metadata.unshown_segments(datasource)
        if not past:
            self._metadata.require_datasource(datasource)
        return past

    def _remove_unnamed(self, segments: Iterable[Segment | None]) -> None:
        """Remove the files that no revision names, since the erasure failed or theirs was trimmed meanwhile."""
        for segment in segments:
            # a file that is left is an orphan, which garbage collection removes
            with suppress(CarnacError):
                if segment is not None and self._metadata.find_segment(segment.segment_id) is None:
                    self._deep_storage.delete(segment.path)

    def _remove_lists(self, datasource: str) -> None:
        """Remove what Iceberg's clients read of the table; it is written again when it is asked for."""
        for file in self._deep_storage.list_files(folder_of(datasource)):
            self._deep_storage.delete(file.path)

    def _left(self, asked: _Asked, *, is_purged: bool) -> Iterator[str]:
        """Yield what may hold the rows and was not searched, or cannot be changed."""
        name = safe_name(asked.datasource)
        rejected = list(self._deep_storage.list_files(f"{QUARANTINE_PREFIX}/{name}"))
        if rejected:
            yield (
                f"{counted(len(rejected), 'file')} of rejected rows of {asked.datasource}, as they came; look with: "
                "carnac quarantine"
            )
        results = list(self._deep_storage.list_files(ROWS_PREFIX))
        if results:
            yield f"{counted(len(results), 'file')} of rows of asynchronous statements; gc deletes them in time"
        staged = list(self._deep_storage.list_files(STAGING_PREFIX))
        if staged:
            yield (
                f"{counted(len(staged), 'file')} of rows on their way into segments, of writers at work or that "
                "crashed; gc deletes them in time"
            )
        known = self._metadata.known_paths()
        orphans = [
            one
            for one in self._deep_storage.list_files(f"{SEGMENTS_PREFIX}/{name}")
            if one.path not in known
        ]
        if orphans:
            newest = format_ms(max(one.modified_at_ms for one in orphans))
            yield (
                f"{counted(len(orphans), 'file')} that no revision names, of writers at work or that crashed, the "
                f"newest of {newest}; gc deletes them in time"
            )
        for kind, count in self._metadata.count_mentions(asked.texts).items():
            yield f"{kind}: {number_text(count)} hold a text of the condition"
        if not is_purged:
            yield "free pages of the metadata store, which its database overwrites in time"


def _erased(rewrite: SegmentRewrite) -> Erased:
    new = next(iter(deleting.what_is_left(rewrite)), None)
    return Erased(old=rewrite.source.segment, new=new)


class _Asked(NamedTuple):
    """The rows to erase."""

    datasource: str
    where: str
    texts: tuple[str, ...]
    message: str
    on_progress: ProgressListener | None


@dataclass(slots=True)
class _Found:
    """What an erasure's attempts found; a deletion's rows are those of its segments, which history names then.

    Attributes:
        clean: Ids of segments without such rows. A file never changes, so they need not be searched again.
        spans: Of the segments that held such rows.
    """

    deleted_revision: int | None = None
    revision: int | None = None
    rows: int = 0
    searched: int = 0
    rewritten: int = 0
    removed: int = 0
    clean: set[str] = field(default_factory=set)
    spans: list[Interval] = field(default_factory=list)

    def note(self, inputs: Sequence[SegmentInput], rewrites: Sequence[SegmentRewrite]) -> None:
        held = {one.source.segment.segment_id: one.source.segment.span for one in rewrites}
        self.searched += len(inputs)
        self.clean.update({one.segment.segment_id for one in inputs} - held.keys())
        self.spans.extend(held.values())

    def add(self, revision: int, rewrites: Sequence[SegmentRewrite]) -> None:
        self.revision = revision
        self.rows += sum(one.proof.rows_deleted for one in rewrites)
        self.rewritten += sum(bool(one.replacements) for one in rewrites)
        self.removed += sum(not one.replacements for one in rewrites)
