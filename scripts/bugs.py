"""Bugs that are planted on purpose, in the real code by its names: a simulator is worth what it finds of them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from carnac.bootstrap.simulated.run import Verdict, run
from carnac.core.time.intervals import IntervalSet


@dataclass(frozen=True, slots=True)
class Bug:
    """A mistake that somebody could make.

    Attributes:
        name: Name for users.
        text: The mistake as a phrase.
        module, path: A module of Carnac, and the name in it, with dots, of the object to replace.
        make: Returns the object that takes the place of the real one.
        needs: Processes that must be there: `servers`, `overlords`; empty: none.
    """

    name: str
    text: str
    module: str
    path: str
    make: Callable[[Any], Any]
    needs: str = ""


def _always(value: Any) -> Callable[[Any], Any]:
    return lambda _real: lambda *_args, **_named: value


def _acknowledged_unheard(real: Any) -> Any:
    def publish(self: Any, publication: Any) -> Any:
        from carnac.errors import Unavailable
        from carnac.ports import Published

        try:
            return real(self, publication)
        except Unavailable:
            head = self._metadata.head()
            return Published(revision=head.revision, at_ms=head.at_ms, is_replay=False, commit=None)

    return publish


def _files_of_any_failure(real: Any) -> Any:
    @contextmanager
    def until_published(self: Any, segments: Any) -> Iterator[None]:
        from carnac.errors import Unavailable

        with real(self, segments):
            try:
                yield
            except Unavailable:
                self._remove_files(segments)
                raise

    return until_published


def _mostly(real: Any) -> Any:
    """Return what does nothing each seventh time, and says nothing."""
    calls = 0

    def sometimes(*args: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        return None if calls % 7 == 0 else real(*args, **named)

    return sometimes


def _loses_an_output(real: Any) -> Any:
    def result_of(written: Any) -> Any:
        found = real(written)
        return replace(found, segments=found.segments[1:])

    return result_of


def _never_reopens(real: Any) -> Any:
    def reopen(self: Any, request: Any, member: Any, error: Any) -> None:
        real(self, request, member, error)
        for piece in request.slices:
            self._open.pop((request.view, piece.segment.segment_id))

    return reopen


def _whole_segments(real: Any) -> Any:
    return lambda shown, covers: tuple(
        replace(one, within=None, expected=shown[one.segment_id][1]) for one in real(shown, covers)
    )


def _twice(real: Any) -> Any:
    def gathered(self: Any, plan: Any) -> Any:
        answers, is_whole = real(self, plan)
        return {view: [*tables, *tables] for view, tables in answers.items()}, is_whole

    return gathered


def _half_a_restore(real: Any) -> Any:
    def plan_revert(*args: Any, **named: Any) -> Any:
        found = real(*args, **named)
        changes = tuple(replace(one, restores=one.restores[1:]) for one in found.changes)
        return replace(found, changes=changes)

    return plan_revert


def _forgets_drops(real: Any) -> Any:
    return lambda shown, covers: real(shown, covers)[1:]


def _any_surplus(_real: Any) -> Any:
    def unload_surplus(state: Any, _floor: int) -> Any:
        from carnac.core.rollout.model import Surplus

        return tuple(
            Surplus(server_id=server.server_id, segment_id=one, why="there is a copy elsewhere")
            for server in state.historicals
            for one in sorted(server.loaded)[:1]
        ), {}

    return unload_surplus


def _unsynced(real: Any) -> Any:
    def append(self: Any, lines: Any) -> None:
        module: Any = importlib.import_module("carnac.historical.journal")

        class Lazy:
            def __getattr__(self, name: str) -> Any:
                return getattr(disk, name)

            def fdatasync(self, _handle: int) -> None:
                pass

        disk, module.os = module.os, Lazy()
        try:
            real(self, lines)
        finally:
            module.os = disk

    return append


def _still_announced(real: Any) -> Any:
    def visible(self: Any, name: str, intervals: Any) -> Any:
        now = real(self, name, intervals)
        known = {one.segment.segment_id for one in now}
        before = self._metadata.visible(
            name, revision=max(0, self.revision - 1), intervals=intervals
        )
        return [*now, *(one for one in before if one.segment.segment_id not in known)]

    return visible


def _believes_the_future(_real: Any) -> Any:
    return lambda heartbeat_at_ms, lease_ms, at_ms: at_ms - heartbeat_at_ms >= lease_ms


def _hears_no_reader(real: Any) -> Any:
    return lambda *args, **named: real(*args, **{**named, "oldest_lease": None})


def _called_complete(real: Any) -> Any:
    def conclude(self: Any) -> None:
        real(self)
        self.reach = replace(self.reach, is_complete=True)

    return conclude


BUGS = (
    Bug(
        "fence-unchecked",
        "a publish does not look whether the locks that it names are held",
        "carnac.core.log.publishing",
        "_check_fences",
        _always(None),
        "overlords",
    ),
    Bug(
        "clock-believed",
        "a leader whose last sign of life is from the future is believed to live until then",
        "carnac.core.tasks.leadership",
        "is_over",
        _believes_the_future,
        "overlords",
    ),
    Bug(
        "revert-beside",
        "a revert brings back what came back before, beside what it was rewritten into",
        "carnac.core.log.publishing",
        "_require_unmoved",
        _always(None),
    ),
    Bug(
        "readers-unheard",
        "garbage collection does not ask which revisions are read",
        "carnac.metadata.read.retention",
        "plan_kept",
        _hears_no_reader,
    ),
    Bug(
        "partial-is-complete",
        "an answer says that it is complete, whatever is missing",
        "carnac.broker.distributed",
        "DistributedExecution._conclude",
        _called_complete,
        "servers",
    ),
    Bug(
        "last-copy-dropped",
        "a coordinator takes copies for surplus without looking whether there is another one",
        "carnac.core.rollout.deciding",
        "_unload_surplus",
        _any_surplus,
        "servers",
    ),
    Bug(
        "early-unload",
        "what the newest revision does not need is unloaded while brokers read older ones",
        "carnac.core.rollout.lives",
        "SegmentLives.is_needed",
        _always(value=False),
        "servers",
    ),
    Bug(
        "journal-unsynced",
        "a historical acknowledges orders before they are on its disk",
        "carnac.historical.journal",
        "Journal.append",
        _unsynced,
        "servers",
    ),
    Bug(
        "lock-granted-twice",
        "the lockbox grants a lock whatever others hold there",
        "carnac.core.locks.draft",
        "may_share",
        _always(value=True),
        "overlords",
    ),
    Bug(
        "replaced-still-announced",
        "a broker goes on reading what servers announce still and the log has replaced",
        "carnac.store.querying",
        "RevisionCatalog.visible",
        _still_announced,
        "servers",
    ),
    Bug(
        "batch-forgotten",
        "a publish does not look whether its batch was published before",
        "carnac.metadata.publish.writer",
        "_find_batch",
        _always(None),
    ),
    Bug(
        "writers-without-lease",
        "files without a record go, whoever is writing them",
        "carnac.store.upkeep.maintenance",
        "Maintenance._suspects",
        lambda _real: lambda self, _now_ms: list(self._deep_storage.list_files("segments")),
    ),
    Bug(
        "file-times-believed",
        "files without a record go by the clock of deep storage, which may be behind that of their writer",
        "carnac.store.upkeep.maintenance",
        "_begun_at_ms",
        _always(0),
    ),
    Bug(
        "lost-lease-publishes",
        "a writer that lost its lease may publish",
        "carnac.metadata.publish.writer",
        "check_lease",
        _always(None),
    ),
    Bug(
        "unheard-is-done",
        "a commit whose answer is lost counts as done",
        "carnac.store.writing.writer",
        "Writer._publish",
        _acknowledged_unheard,
    ),
    Bug(
        "unheard-is-undone",
        "the files of a commit whose answer is lost are removed",
        "carnac.store.writing.writer",
        "Writer._files_until_published",
        _files_of_any_failure,
    ),
    Bug(
        "half-a-delete",
        "a delete leaves out the first of its segments",
        "carnac.store.writing.writer",
        "drops_of",
        _forgets_drops,
    ),
    Bug(
        "inputs-unchecked",
        "a replacement, a delete or a compaction does not ask whether its inputs are what it read",
        "carnac.core.log.publishing",
        "_require_visible",
        _always(None),
    ),
    Bug(
        "commit-forgotten",
        "some transactions are acknowledged and never committed",
        "carnac.metadata.session",
        "Session.commit",
        _mostly,
    ),
    Bug(
        "output-lost",
        "a compaction publishes all of its outputs but the first, after they were proved",
        "carnac.jobs.compact.job",
        "result_of",
        _loses_an_output,
    ),
    Bug(
        "clip-forgotten",
        "a historical reads all of a segment that shows only a part",
        "carnac.query.scans",
        "_clip_sql",
        _always("true"),
        "servers",
    ),
    Bug(
        "carved-chunk-forgotten",
        "a new major version leaves out what the segments of its chunks still show",
        "carnac.core.log.publishing",
        "Draft.remaining",
        _always(IntervalSet()),
    ),
    Bug(
        "lost-leaf-forgotten",
        "what a historical did not answer is asked of no other one, and not missed",
        "carnac.broker.scatter",
        "Scatter._reopen",
        _never_reopens,
        "servers",
    ),
    Bug(
        "two-revisions",
        "a broker plans on one revision and looks its segments up in the newest",
        "carnac.store.querying",
        "RevisionCatalog.visible",
        lambda _real: (
            lambda self, name, intervals: self._metadata.visible(name, intervals=intervals)
        ),
        "servers",
    ),
    Bug(
        "half-a-revert",
        "a revert leaves the first segment that it should bring back out of sight",
        "carnac.store.history",
        "plan_revert",
        _half_a_restore,
    ),
    Bug(
        "orphans-kept",
        "files of writers that died are never removed",
        "carnac.store.upkeep.maintenance",
        "Maintenance._without_record",
        lambda _real: lambda _self, _suspects: iter(()),
    ),
    Bug(
        "delete-of-whole-segments",
        "a delete takes whole segments out of sight where it should take a part of them",
        "carnac.store.writing.writer",
        "drops_of",
        _whole_segments,
    ),
    Bug(
        "replace-beside",
        "a replacement leaves what it replaces in sight",
        "carnac.store.writing.writer",
        "Writer._covers",
        _always(IntervalSet()),
    ),
    Bug(
        "parts-twice",
        "a broker merges what each historical has sent twice",
        "carnac.broker.distributed",
        "DistributedExecution._gathered",
        _twice,
        "servers",
    ),
    Bug(
        "one-revision-behind",
        "a broker looks its segments up in the revision before the one that it names",
        "carnac.store.querying",
        "RevisionCatalog.visible",
        lambda _real: (
            lambda self, name, intervals: self._metadata.visible(
                name, revision=max(0, self.revision - 1), intervals=intervals
            )
        ),
        "servers",
    ),
)


def run_with(bug: Bug, seed: int, *, steps: int) -> Verdict:
    """Let a cluster live with a bug in its code; exactly the services that the bug needs are there."""
    with planted(bug):
        return run(
            seed,
            steps=steps,
            has_servers=bug.needs == "servers",
            has_overlords=bug.needs == "overlords",
        )


@contextmanager
def planted(bug: Bug) -> Iterator[None]:
    """Have a bug in the code until the block ends."""
    owner: Any = importlib.import_module(bug.module)
    *way, name = bug.path.split(".")
    for step in way:
        owner = getattr(owner, step)
    real = owner.__dict__[name]
    setattr(owner, name, bug.make(real))
    try:
        yield
    finally:
        setattr(owner, name, real)
