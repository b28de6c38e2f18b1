"""Keeping a store clean and honest: garbage collection and verification."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from carnac.core.ids import bears_mark, time_of
from carnac.core.log.erasing import may_read
from carnac.core.log.retention import RetentionRules, plan_retention
from carnac.core.segments.segment import Segment, safe_name
from carnac.core.time.intervals import Interval, format_ms
from carnac.core.timeline import find_disagreements
from carnac.core.words import counted
from carnac.errors import DiskFull
from carnac.ports import Clock, DeepStorage, Head, LeaseKind, StoredFile, TrashedSegment, TrimReport
from carnac.ports.loops import until_stopped
from carnac.ports.storage import require_there
from carnac.store.upkeep.owner import require_own
from carnac.store.upkeep.tables import table_garbage
from carnac.store.upkeep.verifying import VERIFY_PAGE, Finding, find_fault

if TYPE_CHECKING:
    from carnac.config import Settings
    from carnac.metadata.store import MetadataStore

SEGMENTS_PREFIX = "segments"
STAGING_PREFIX = "staging"
QUARANTINE_PREFIX = "quarantine"
ROWS_PREFIX = "results"
CLOCK_SKEW_MS = 60_000
"""How much older than its lease a writer's file may look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GcAction:
    """The decision of garbage collection about one file, with its reason.

    Attributes:
        path: Path of the file, relative to the root of deep storage.
        size_bytes: Size of the file.
        action: `trash`, `delete` or `keep`.
        reason: Reason, as a phrase.
    """

    path: str
    size_bytes: int
    action: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GcReport:
    """Outcome of a garbage collection; with `is_dry_run`, of one that was not carried out.

    Attributes:
        is_dry_run: Whether nothing was done.
        revisions_kept: Number of revisions that are readable afterwards.
        revisions_trimmed: Number of revisions that were forgotten.
        batches_forgotten: Number of `(writer, batch)` that are not known any more; one that comes again is appended
            anew.
        actions: Actions, one for each file that was looked at.
    """

    is_dry_run: bool
    revisions_kept: int
    revisions_trimmed: int
    actions: tuple[GcAction, ...]
    batches_forgotten: int = 0

    @property
    def deleted_bytes(self) -> int:
        """Bytes freed."""
        return sum(action.size_bytes for action in self.actions if action.action == "delete")


class Maintenance:
    """Garbage collection and verification of a store."""

    def __init__(
        self,
        metadata: MetadataStore,
        deep_storage: DeepStorage,
        clock: Clock,
        settings: Settings,
    ) -> None:
        self._metadata = metadata
        self._deep_storage = deep_storage
        self._clock = clock
        self._settings = settings

    def collect_garbage(
        self, *, dry_run: bool, is_stopping: Callable[[], bool] | None = None
    ) -> GcReport:
        """Trim history by the retention rules, and delete files that nothing names.

        A file goes in two phases: first its record is marked as trash, and only after the trash period is the file
        deleted. Files without any record (of writers that crashed) go when they are older than the safety period and
        than every live writer's lease, by deep storage's clock and by the writer's own; rejected rows, and those of
        asynchronous statements, when they are older than their periods; files of Iceberg's tables that are of no kept
        revision when they are older than the safety period. It may stop anywhere, run twice at once, and
        run beside readers and writers. On a full disk, where the metadata store cannot write, it deletes first what
        is due already.

        Args:
            is_stopping: Asked before each file; None: never. Once it says so, the rest is left to the next time.

        Raises:
            DiskFull: And nothing was due yet.
            Unavailable: Deep storage is away. Invalid: It is another store's, so files without a record are left.
        """
        now_ms = self._clock.now_ms()
        # The order matters. Files first: later ones are not in the list. Leases second: whose lease is not there
        # now has ended. The trim sweeps ended leases, so their publishes are refused from then on; those that were
        # not have a record by the time that records are read.
        suspects = self._suspects(now_ms)
        settings = self._settings
        old_quarantine = self._older(QUARANTINE_PREFIX, now_ms - settings.quarantine_period_ms)
        old_rows = self._older(ROWS_PREFIX, now_ms - settings.query_async_retention_ms)
        old_ms = now_ms - settings.safety_period_ms

        def delete_what_is_doomed() -> int:
            due = [found.segment.path for found in self._due_trash(now_ms)]
            strays = [*self._without_record(suspects), *old_quarantine, *old_rows]
            self._require_own(strays)
            due += [file.path for file in strays]
            for path in due:
                self._deep_storage.delete(path)
            return len(due)

        report = self._trim(now_ms, dry_run=dry_run, make_room=delete_what_is_doomed)
        emptied = self._empty_trash(now_ms, dry_run=dry_run, is_stopping=is_stopping)
        told = self._told_of(report, emptied)
        orphans = [file for file in self._without_record(suspects) if file.path not in told]
        unneeded = list(table_garbage(self._metadata, self._deep_storage, old_ms=old_ms))
        self._require_own([*orphans, *old_quarantine, *old_rows, *unneeded])
        actions = [*told.values(), *self.delete_erased(dry_run=dry_run, is_stopping=is_stopping)]
        for files, reason in (
            (orphans, "no record names it since"),
            (old_quarantine, "rejected rows of"),
            (old_rows, "rows of a statement, kept since"),
            (unneeded, "no kept revision needs this part of a table, of"),
        ):
            actions += self._delete(until_stopped(files, is_stopping), reason, dry_run=dry_run)
        return GcReport(
            is_dry_run=dry_run,
            revisions_kept=report.revisions_kept,
            revisions_trimmed=report.revisions_trimmed,
            actions=tuple(actions),
            batches_forgotten=report.batches_forgotten,
        )

    def _told_of(self, report: TrimReport, emptied: Sequence[GcAction]) -> dict[str, GcAction]:
        """Return what becomes of segments that are not visible now, by path: the last of what is true of each."""
        told = {one.path: one for one in self._kept_actions(report.reasons)}
        told.update((one.path, one) for one in emptied if one.action == "keep")
        told.update(
            (segment.path, _action(segment, "trash", "no retained revision, tag or lease names it"))
            for segment in report.trashed
        )
        told.update((one.path, one) for one in emptied if one.action == "delete")
        return told

    def _require_own(self, strays: Sequence[StoredFile]) -> None:
        """Refuse to delete what this store has no record of where another store may have one."""
        if strays:
            require_own(self._deep_storage, self._metadata.store_id)

    def delete_erased(
        self, *, dry_run: bool, is_stopping: Callable[[], bool] | None = None
    ) -> list[GcAction]:
        """Delete the files of erased segments that no reader holds who came before the erasure.

        One who stays for longer than the trash period is waited for no longer: the file is missing then, and what it
        reads is told so.
        """
        now_ms, gone = self._clock.now_ms(), []
        readers = [one for one in self._metadata.leases() if one.kind is LeaseKind.READER]
        actions: list[GcAction] = []
        for file in until_stopped(self._metadata.erased_files(), is_stopping):
            since = f"erased by commit {file.revision} {format_ms(file.at_ms)}"
            holders = [
                one.holder
                for one in readers
                if may_read(file, revision=one.revision, acquired_at_ms=one.acquired_at_ms)
            ]
            if holders and file.at_ms > now_ms - self._settings.trash_period_ms:
                reason = f"{since}, and {holders[0]} may be reading it"
                actions.append(GcAction(path=file.path, size_bytes=0, action="keep", reason=reason))
                continue
            actions.append(GcAction(path=file.path, size_bytes=0, action="delete", reason=since))
            if not dry_run:
                self._deep_storage.delete(file.path)
                gone.append(file.path)
        self._metadata.forget_erased_files(gone)
        return actions

    def kill(self, datasource: str, interval: Interval | None) -> GcReport:
        """Delete the unused segments of a datasource for good, without waiting for the trash period.

        Unused are those that no retained revision, tag or reader's lease names: history is trimmed by its rules first.

        Args:
            interval: Only segments whose time chunk lies inside; None: all.
        """
        now_ms = self._clock.now_ms()

        def delete_unused() -> int:
            unused = self._unused(datasource, interval)
            for segment in unused:
                self._deep_storage.delete(segment.path)
            return len(unused)

        report = self._trim(now_ms, dry_run=False, make_room=delete_unused)
        unused = self._unused(datasource, interval)
        for segment in unused:
            self._deep_storage.delete(segment.path)
        self._metadata.forget_segments(segment.segment_id for segment in unused)
        return GcReport(
            is_dry_run=False,
            revisions_kept=report.revisions_kept,
            revisions_trimmed=report.revisions_trimmed,
            actions=tuple(
                _action(segment, "delete", "unused, and killed by request") for segment in unused
            ),
        )

    def verify(self, *, on_progress: Callable[[int, int], None] | None = None) -> Iterator[Finding]:
        """Check every segment that a retained revision names, hold the timeline against the log, and look for orphans.

        Every file must be there, with the recorded size, checksum and number of rows. The versions and update groups of
        live entries must show what the log shows. No file without a record may be older than the safety period.
        Segments in the trash belong to no revision any more and are not looked at.

        Raises:
            Unavailable: Deep storage is away, or does not answer.
        """
        require_there(self._deep_storage)
        suspects = self._suspects(self._clock.now_ms())
        known = self._metadata.known_paths()
        trash = {found.segment.path for found in self._metadata.trashed()}
        total, done, after = len(known) - len(trash), 0, ""
        while page := self._metadata.segments(after=after, limit=VERIFY_PAGE):
            after = page[-1].segment_id
            for segment in page:
                finding = find_fault(self._metadata, self._deep_storage, segment)
                if finding is not None:
                    yield finding
                done += 1
                if on_progress is not None:
                    on_progress(done, max(done, total))
        yield from self._disagreements()
        for file in self._without_record(suspects):
            yield Finding(
                kind="orphan", path=file.path, detail="no record names it; `carnac gc` removes it"
            )

    def _disagreements(self) -> Iterator[Finding]:
        for datasource in self._metadata.datasources():
            visible = self._metadata.visible(datasource.name)
            paths = {one.entry.entry_id: one.segment.path for one in visible}
            for entry, detail in find_disagreements(one.entry for one in visible):
                yield Finding(kind="entry", path=paths[entry.entry_id], detail=detail)

    def _trim(self, now_ms: int, *, dry_run: bool, make_room: Callable[[], int]) -> TrimReport:
        """Forget what no rule keeps.

        Args:
            make_room: Deletes files, without the metadata store having to write; returns how many.
        """
        require_there(self._deep_storage)  # else the records of files go that stay

        def keep(heads: Sequence[Head]) -> set[int]:
            revisions = [(head.revision, head.at_ms) for head in heads]
            settings = self._settings
            rules = RetentionRules(
                age_ms=settings.retention_age_ms,
                count=settings.retention_count,
                daily=settings.retention_daily,
            )
            return set(plan_retention(revisions, rules, now_ms=now_ms))

        def trim() -> TrimReport:
            before_ms = now_ms - self._settings.batch_retention_ms
            return self._metadata.trim(keep=keep, dry_run=dry_run, batches_before_ms=before_ms)

        try:
            return trim()
        except DiskFull as error:
            full, cause = error.message.partition(";")[0], error
        made = make_room()
        if made:
            with suppress(DiskFull):
                return trim()
        outcome = (
            f"and to delete {counted(made, 'file')} of garbage was not enough"
            if made
            else "and nothing may be deleted before that is written down"
        )
        raise DiskFull(
            f"{full}, {outcome}: make a megabyte of room there, then collect garbage again"
        ) from cause

    def _unused(self, datasource: str, interval: Interval | None) -> list[Segment]:
        return [
            found.segment
            for found in self._metadata.trashed()
            if found.segment.datasource == datasource
            and (interval is None or interval.contains(found.segment.chunk))
        ]

    def _due_trash(self, now_ms: int) -> list[TrashedSegment]:
        limit_ms = now_ms - self._settings.trash_period_ms
        return [found for found in self._metadata.trashed() if found.trashed_at_ms <= limit_ms]

    def _kept_actions(self, reasons: Mapping[str, str]) -> Iterator[GcAction]:
        for segment_id, reason in sorted(reasons.items()):
            segment = self._metadata.find_segment(segment_id)
            if segment is not None:
                yield _action(segment, "keep", reason)

    def _empty_trash(
        self, now_ms: int, *, dry_run: bool, is_stopping: Callable[[], bool] | None
    ) -> list[GcAction]:
        actions: list[GcAction] = []
        gone: list[str] = []
        for trashed in until_stopped(self._metadata.trashed(), is_stopping):
            since = format_ms(trashed.trashed_at_ms)
            if trashed.trashed_at_ms > now_ms - self._settings.trash_period_ms:
                actions.append(_action(trashed.segment, "keep", f"in the trash since {since}"))
                continue
            reason = f"in the trash since {since}, which is long enough"
            actions.append(_action(trashed.segment, "delete", reason))
            if not dry_run:
                self._deep_storage.delete(trashed.segment.path)
                gone.append(trashed.segment.segment_id)
        if gone:  # files first: a record without a file is deleted again, a file without a record would be unknown
            self._metadata.forget_segments(gone)
        return actions

    def _delete(
        self, files: Iterable[StoredFile], reason: str, *, dry_run: bool
    ) -> Iterator[GcAction]:
        for file in files:
            yield GcAction(
                path=file.path,
                size_bytes=file.size_bytes,
                action="delete",
                reason=f"{reason} {format_ms(file.modified_at_ms)}",
            )
            if not dry_run:
                self._deep_storage.delete(file.path)

    def _older(self, prefix: str, limit_ms: int) -> list[StoredFile]:
        files = self._deep_storage.list_files(prefix)
        return [file for file in files if file.modified_at_ms < limit_ms]

    def _suspects(self, now_ms: int) -> list[StoredFile]:
        """Return the files that are old enough to be garbage, if no record names them.

        Deep storage's clock may be behind the one of the leases, by any time: files of a live writer look older than
        its lease then. But the writer makes the ids in their paths, after the id of its lease and by the same clock.
        """
        limit_ms = now_ms - self._settings.safety_period_ms
        old = [
            file
            for prefix in (SEGMENTS_PREFIX, STAGING_PREFIX)
            for file in self._deep_storage.list_files(prefix)
            if file.modified_at_ms < limit_ms
        ]
        writers = [one for one in self._metadata.leases() if one.kind is LeaseKind.WRITER]
        horizon_ms = min((one.acquired_at_ms - CLOCK_SKEW_MS for one in writers), default=limit_ms)
        ids_ms = [at_ms for one in writers if (at_ms := time_of(one.lease_id)) is not None]
        begun_ms = min(ids_ms, default=None)
        return [
            file
            for file in old
            if file.modified_at_ms < horizon_ms
            and (begun_ms is None or _begun_at_ms(file.path) < begun_ms - CLOCK_SKEW_MS)
        ]

    def _without_record(self, suspects: Sequence[StoredFile]) -> Iterator[StoredFile]:
        known = self._metadata.known_paths() if suspects else frozenset()
        return (file for file in suspects if file.path not in known)


def _begun_at_ms(path: str) -> int:
    """Return the latest time of the ids in a path of a writer, epoch milliseconds by its clock; 0: there are none."""
    parts = PurePosixPath(path).parts
    # a datasource may be called anything
    below = parts[2:] if parts[0] == SEGMENTS_PREFIX else parts[1:]
    return max((time_of(part) or 0 for part in below), default=0)


def _action(segment: Segment, action: str, reason: str) -> GcAction:
    return GcAction(path=segment.path, size_bytes=segment.size_bytes, action=action, reason=reason)


def remove_leftovers(
    metadata: MetadataStore, deep_storage: DeepStorage, datasource: str, mark: str
) -> tuple[StoredFile, ...]:
    """Delete the files of an attempt that no commit has ever named; return them.

    The attempt must have lost its right to publish before. So it will publish no more, and files that it has published
    have a record. Files that it writes from now on, if it lives, are left to garbage collection.
    """
    removed: list[StoredFile] = []
    for file in _files_of(deep_storage, datasource, mark):
        segment = metadata.find_segment(PurePosixPath(file.path).stem)
        if segment is None or segment.path != file.path:
            deep_storage.delete(file.path)
            removed.append(file)
    return tuple(removed)


def _files_of(deep_storage: DeepStorage, datasource: str, mark: str) -> Iterator[StoredFile]:
    is_its = bears_mark(mark)
    for folder in (f"{SEGMENTS_PREFIX}/{safe_name(datasource)}", STAGING_PREFIX):
        yield from [file for file in deep_storage.list_files(folder) if is_its(file.path)]
