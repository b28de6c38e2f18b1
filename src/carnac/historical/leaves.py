"""Leaf statements that run: which files each reads, what it reports, and how it is stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from carnac.core.segments.segment import Segment
from carnac.errors import Cancelled, CarnacError, Corrupt, Invalid, NotFound, Unavailable, gravest
from carnac.historical.cold import ColdFile, open_cold
from carnac.historical.shelf import Item, Shelf, status_of_own
from carnac.ports import DeepStorage
from carnac.ports.queries import LeafFiles, LeafReport, LeafRequest
from carnac.ports.segment_files import blocks_of, damaged, find_damage
from carnac.ports.threads import GRACE_MS, note_left

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.query.engine import QueryEngine
    from carnac.query.intact import IntactFiles

Located = tuple[Segment, Path]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where files of segments are looked for.

    Attributes:
        shelf: Files of held segments.
        storage: All other files.
        checks: Checks of files on a disk; None: their sizes are trusted.
        mistrust: Takes the item of a held file that is damaged.
    """

    shelf: Shelf
    storage: DeepStorage
    checks: IntactFiles | None
    mistrust: Callable[[Item], None]


@dataclass(slots=True)
class _Found:
    """The files found for a request."""

    places: dict[str, Path] = field(default_factory=dict)
    held: list[str] = field(default_factory=list)
    cold: list[ColdFile] = field(default_factory=list)
    cold_ids: set[str] = field(default_factory=set)
    failed: dict[str, CarnacError] = field(default_factory=dict)


class Leaf:
    """One leaf statement: an iterator over its `pyarrow.RecordBatch`es, to be closed. `close` may come from any thread.

    Attributes:
        report: Complete when the batches are exhausted.
    """

    def __init__(
        self,
        request: LeafRequest,
        sources: Sources,
        engine: QueryEngine,
        server_id: str,
        on_end: Callable[[Leaf], None],
    ) -> None:
        self.request = request
        self.report = LeafReport(server_id=server_id)
        self._sources = sources
        self._engine = engine
        self._on_end = on_end
        self._stop = threading.Event()
        self._mutex = threading.Lock()
        self._is_over = False
        self._found = _Found()
        self._told = LeafReport()
        self._batches: Iterator[object] = iter(())
        self._first: object | None = None

    def begin(self) -> None:
        """Find the files and run up to the first batch.

        Raises:
            Invalid, NotFound, Corrupt, Unavailable: As `SegmentServer.run`; it is over then.
        """
        try:
            with self._mutex:
                if not self.request.is_explained:
                    self._locate()
                files = LeafFiles(places=self._found.places, remote=open_cold(self._found.cold))
                self._note_failures()
                self._batches, self._told = self._engine.run_leaf(self._readable(), files)
                self._first = next(self._batches)
        except BaseException as error:
            told = self._explained(error)
            self.close()
            if told is error:
                raise
            raise told from error

    def __iter__(self) -> Leaf:
        """Return itself."""
        return self

    def __next__(self) -> object:
        """Return the next batch."""
        try:
            with self._mutex:
                if self._first is not None:
                    batch, self._first = self._first, None
                else:
                    batch = next(self._batches, None)
                if batch is not None:
                    self.report.rows += cast("pa.RecordBatch", batch).num_rows
                    return batch
                self._complete()
        except BaseException as error:
            told = self._explained(error)
            self.close()
            if told is error:
                raise
            raise told from error
        self.close()
        raise StopIteration

    def stop(self) -> None:
        """Let it end soon, from any thread; its batches end with Cancelled or Unavailable."""
        self._stop.set()

    def close(self) -> None:
        """End it and let go of its files; a thread in a step that cannot be stopped does so after it. Idempotent."""
        self._stop.set()
        if not self._mutex.acquire(timeout=GRACE_MS / 1000):
            note_left()
            return
        try:
            if self._is_over:
                return
            self._is_over = True
            close = getattr(self._batches, "close", None)
            if close is not None:
                close()
            self._first = None
            for file in self._found.cold:
                file.error = None
            self._sources.shelf.let_go(self._found.held)
        finally:
            self._mutex.release()
        self._on_end(self)

    def __del__(self) -> None:
        """Let go of the files of a statement that nobody reads to its end."""
        self._stop.set()
        if not self._is_over:
            self._sources.shelf.abandon(self._found.held)

    def _locate(self) -> None:
        segments = {piece.segment.segment_id: piece.segment for piece in self.request.slices}
        if len(segments) < len(self.request.slices):
            raise Invalid("a leaf request names each segment once; write all of its clip there")
        unknown: list[tuple[Item | None, Located]] = []
        for segment in segments.values():
            if (found := self._hold(segment)) is not None:
                item, is_intact = found
                held = self._sources.shelf.place_of(segment.segment_id)
                self._found.places[segment.segment_id] = held
                if not is_intact:
                    unknown.append((item, (segment, held)))
            elif (place := self._sources.storage.local_path(segment.path)) is not None:
                self._found.cold_ids.add(segment.segment_id)
                self._found.places[segment.segment_id] = place
                unknown.append((None, (segment, place)))
            else:
                self._read_cold(segment)
        self._check(unknown)

    def _hold(self, segment: Segment) -> tuple[Item, bool] | None:
        """Keep the file of a segment that is held, and say whether it is the one that was checked.

        None: it is not held, or not as the request's record says.
        """
        shelf = self._sources.shelf
        item = shelf.hold(segment.segment_id)
        if item is None:
            return None
        self._found.held.append(segment.segment_id)
        record = item.record
        if (record.checksum, record.size_bytes) != (segment.checksum, segment.size_bytes):
            return None
        try:
            status = status_of_own(shelf.place_of(segment.segment_id))
            if status.st_size == record.size_bytes:
                return item, item.is_intact(status)
        except OSError:
            pass
        self._sources.mistrust(item)
        return None

    def _check(self, unknown: Sequence[tuple[Item | None, Located]]) -> None:
        """Read files that this process reads for the first time; those that are damaged are not read here."""
        if self._sources.checks is None or not unknown:
            return
        try:
            wrong = self._sources.checks.find_damaged([one for _, one in unknown], self._stop)
        except Unavailable as error:
            cold = [segment.segment_id for item, (segment, _) in unknown if item is None]
            if self._stop.is_set() or not cold:
                raise
            for segment_id in cold:
                del self._found.places[segment_id]
                self._found.failed[segment_id] = error
            self._check([one for one in unknown if one[0] is not None])
            return
        details = {segment.segment_id: detail for (segment, _), detail in wrong}
        right = [item for item, (one, _) in unknown if item and one.segment_id not in details]
        with suppress(Unavailable):  # they are believed now, and checked again after a restart
            self._sources.shelf.know(right)
        for item, (segment, _) in unknown:
            detail = details.get(segment.segment_id)
            if detail is None:
                continue
            del self._found.places[segment.segment_id]
            if item is not None:
                self._sources.mistrust(item)
                self._read_elsewhere(segment)
            else:
                self._found.failed[segment.segment_id] = damaged(segment, detail)

    def _read_elsewhere(self, segment: Segment) -> None:
        """Read a segment from deep storage after all."""
        place = self._sources.storage.local_path(segment.path)
        if place is None:
            self._read_cold(segment)
            return
        self._found.cold_ids.add(segment.segment_id)
        checks = self._sources.checks
        if checks is not None:
            for _, detail in checks.find_damaged([(segment, place)], self._stop):
                self._found.failed[segment.segment_id] = damaged(segment, detail)
                return
        self._found.places[segment.segment_id] = place

    def _read_cold(self, segment: Segment) -> None:
        self._found.cold_ids.add(segment.segment_id)
        self._found.cold.append(ColdFile(self._sources.storage, segment, self._stop))

    def _note_failures(self) -> None:
        """Report segments that cannot be read as missing, or refuse to go on without them."""
        failed = self._found.failed
        for file in self._found.cold:
            if file.error is not None:
                failed[file.segment.segment_id] = file.error
        if failed and not (self.request.skips_missing and all(map(_is_missing, failed.values()))):
            raise gravest(failed.values())
        self.report.missing = {segment_id: error.message for segment_id, error in failed.items()}
        self.report.damaged = sorted(
            one for one, error in failed.items() if isinstance(error, Corrupt)
        )

    def _readable(self) -> LeafRequest:
        failed = self._found.failed
        if not failed:
            return self.request
        kept = [one for one in self.request.slices if one.segment.segment_id not in failed]
        return replace(self.request, slices=kept)

    def _complete(self) -> None:
        """Take over what the engine reports.

        Raises:
            Cancelled: It was closed by another thread before it had come to its end.
        """
        if self.report.is_whole:
            return
        if not self._told.is_whole:
            raise Cancelled("a leaf statement was stopped in the middle of its answer")
        self.report.slices = self._told.slices
        self.report.missing = {**self._told.missing, **self.report.missing}
        self.report.cold = len(self._found.cold_ids - self._found.failed.keys())
        self.report.kept = self._told.kept
        self.report.is_whole = True

    def _explained(self, error: BaseException) -> BaseException:
        """Return what has really gone wrong where an engine says in its own words that a file could not be read."""
        if isinstance(error, Unavailable | KeyboardInterrupt | SystemExit):
            return self._of_cold(error)
        told = self._of_cold(error)
        if told is not error or isinstance(error, NotFound):
            return told
        with suppress(CarnacError):
            for file in self._found.cold:
                if file.has_rows_read and (wrong := self._damage_of(file.segment)) is not None:
                    return wrong
        return error

    def _of_cold(self, error: BaseException) -> BaseException:
        errors = [file.error for file in self._found.cold if file.error is not None]
        return gravest(errors) if errors else error

    def _damage_of(self, segment: Segment) -> Corrupt | None:
        with self._sources.storage.open_read(segment.path) as file:
            damage = find_damage(segment, blocks_of(file))
        return None if damage is None else damaged(segment, damage.detail)


def _is_missing(error: CarnacError) -> bool:
    return isinstance(error, NotFound | Corrupt | Unavailable)
