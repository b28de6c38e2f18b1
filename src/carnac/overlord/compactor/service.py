"""The service of compaction: specs of datasources, plans with reasons, and status."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from carnac.core.arguments import checked
from carnac.core.compaction.control.progress import Progress, Tally, progress_of
from carnac.core.compaction.control.states import ChunkState, standing_of
from carnac.core.compaction.plan.inputs import plan_segments
from carnac.core.compaction.plan.planning import (
    CompactionPlan,
    end_of,
    note_absent,
    plan_compaction,
)
from carnac.core.compaction.plan.settings import CompactionSettings
from carnac.core.compaction.plan.target_periods import first_instant_skipped
from carnac.core.locks.model import Lock, LockState, is_due
from carnac.core.locks.waits import picture
from carnac.core.segments.schema import find_kept_apart
from carnac.core.time.granularity import parse_granularity
from carnac.core.time.intervals import (
    Interval,
    IntervalSet,
    interval_set,
    parse_interval,
    time_text,
)
from carnac.errors import Invalid, NotFound
from carnac.overlord.compactor.status import is_silent, read_status
from carnac.ports import Clock
from carnac.ports.closing import Closing
from carnac.specs.compaction.spec import CompactionSpec, load_compaction

if TYPE_CHECKING:
    from carnac.metadata.store import MetadataStore


TASK_TYPE = "compact"
BLOCKERS_SHOWN_MAX = 3


def find_waits(
    metadata: MetadataStore, datasource: str, chunks: Iterable[Interval], *, now_ms: int
) -> Mapping[Interval, str]:
    """Return what tasks of compaction wait for, by the chunks that their requests overlap, as phrases."""
    waits = [
        one
        for one in picture(metadata.locks(datasource))
        if one.waits_for
        and one.lock.state is LockState.WAITING
        and _is_compaction(metadata, one.lock)
    ]
    return {
        chunk: "; ".join(
            f"task {_task_of(one.lock)} has waited since {_at(one.lock.requested_at_ms)} for "
            f"{_blockers(one.waits_for, now_ms)}, and gives up at {_at(one.lock.waits_until_ms)}"
            for one in waits
            if one.lock.interval.overlaps(chunk)
        )
        for chunk in chunks
        if any(one.lock.interval.overlaps(chunk) for one in waits)
    }


def _is_compaction(metadata: MetadataStore, lock: Lock) -> bool:
    task = metadata.find_task(_task_of(lock))
    return task is not None and task.type == TASK_TYPE


def _task_of(lock: Lock) -> str:
    """Return the task of the attempt that has, or wants, a lock."""
    return lock.task_id.rpartition("/")[0] or lock.task_id


def _blockers(locks: tuple[Lock, ...], now_ms: int) -> str:
    shown = " and ".join(_blocker(one, now_ms) for one in locks[:BLOCKERS_SHOWN_MAX])
    rest = len(locks) - BLOCKERS_SHOWN_MAX
    return shown if rest <= 0 else f"{shown} and {rest} more (carnac locks lists them)"


def _blocker(lock: Lock, now_ms: int) -> str:
    named = f"lock {lock.lock_id} of task {_task_of(lock)}"
    if lock.state is LockState.WAITING:
        return f"{named}, which waits before it"
    since = _at(lock.requested_at_ms if lock.granted_at_ms is None else lock.granted_at_ms)
    end_ms = lock.heartbeat_at_ms + lock.lease_ms
    lease = "its lease ended at" if is_due(lock, now_ms) else "without a sign of life it ends at"
    return f"{named}, held since {since} ({lease} {_at(end_ms)})"


def _at(at_ms: int) -> str:
    """Return a time to the second."""
    return time_text(at_ms // 1000 * 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionStatus:
    """How compaction goes.

    Attributes:
        states: Known states of chunks, by datasource.
        controller: Status that the controller has written down last, and whether it `is_silent`: it had work, and gives
            no sign of life, as after SIGKILL. None if no controller has written one.
    """

    states: Mapping[str, Sequence[ChunkState]]
    controller: Mapping[str, Any] | None


@checked
class CompactionService(Closing):
    """Answers over one store. Use it in a `with` block, or call `close`."""

    def __init__(self, metadata: MetadataStore, clock: Clock) -> None:
        self._metadata = metadata
        self._clock = clock

    def close(self) -> None:
        """Release connections. Idempotent."""
        self._metadata.close()

    def specs(self) -> Mapping[str, CompactionSpec]:
        """Return how datasources are compacted by themselves, by name."""
        found = self._metadata.compaction_specs()
        return {name: load_compaction(text) for name, text in found.items()}

    def put_spec(self, source: str | Mapping[str, object] | CompactionSpec) -> CompactionSpec:
        """Set how a datasource is compacted by itself.

        Raises:
            Invalid: The spec is wrong; one sentence that names every problem with its place.
        """
        spec = source if isinstance(source, CompactionSpec) else load_compaction(source)
        text = json.dumps(spec.to_json_dict(), separators=(",", ":"))
        self._metadata.put_compaction_spec(spec.datasource, text)
        return spec

    def remove_spec(self, datasource: str) -> None:
        """End the automatic compaction of a datasource.

        Raises:
            NotFound: The datasource is not compacted automatically.
        """
        self.check_spec(datasource)
        self._metadata.put_compaction_spec(datasource, None)

    def check_spec(self, datasource: str) -> None:
        """Check that a datasource is compacted automatically.

        Raises:
            NotFound: The datasource is not compacted automatically, or does not exist.
        """
        names = self._metadata.compaction_specs()
        if datasource not in names:
            self._metadata.require_datasource(datasource)
            there = f"there are {', '.join(names)}" if names else "there are none"
            raise NotFound(
                f"datasource '{datasource}' has no compaction spec; {there}: set one with carnac compaction set",
                datasource=datasource,
            )

    def has_rows(self, datasource: str) -> bool:
        """Whether there is such a datasource now."""
        return self._metadata.count_visible(datasource) > 0

    def notes_of(self, spec: CompactionSpec) -> Sequence[str]:
        """Return what is probably a mistake in a spec, as the segments that there are show, one sentence each."""
        visible = self._metadata.visible(
            spec.datasource, revision=self._metadata.head().revision, intervals=None
        )
        return note_absent(plan_segments(visible), spec.to_settings(), spec.filter_columns())

    def spec_of(self, datasource: str) -> CompactionSpec:
        """Return how a datasource is compacted; the default if nothing is set."""
        text = self._metadata.compaction_specs().get(datasource)
        return load_compaction({"dataSource": datasource} if text is None else text)

    def plan(
        self,
        datasource: str,
        *,
        interval: Interval | None = None,
        spec: CompactionSpec | None = None,
    ) -> CompactionPlan:
        """Return what would be done now, and why.

        Args:
            interval: Only chunks that lie in it are compacted.
            spec: In place of what is set.

        Raises:
            NotFound: There is no such datasource.
        """
        spec = spec or self.spec_of(datasource)
        settings = spec.to_settings()
        head = self._metadata.head()
        reach = None if interval is None else IntervalSet((_widened(interval, settings),))
        visible = self._metadata.visible(datasource, revision=head.revision, intervals=reach)
        if not visible:
            self._metadata.require_datasource(datasource)
        states = self._metadata.compaction_states(datasource)
        return plan_compaction(
            datasource,
            plan_segments(
                visible,
                find_kept_apart(self._metadata.schemas(datasource, revision=head.revision)),
            ),
            settings,
            now_ms=self._clock.now_ms(),
            revision=head.revision,
            within=None if interval is None else IntervalSet((interval,)),
            histories={state.chunk: state for state in states},
            standings={
                **self._standings(datasource, states),
                **find_waits(
                    self._metadata,
                    datasource,
                    {state.chunk for state in states} | {item.entry.chunk for item in visible},
                    now_ms=self._clock.now_ms(),
                ),
            },
            filter_columns=spec.filter_columns(),
            latest_ms=self._latest_ms(datasource, head.revision)
            if interval is not None and settings.skip_offset is not None
            else None,
        )

    def _standings(self, datasource: str, states: Sequence[ChunkState]) -> Mapping[Interval, str]:
        """Return what the controller makes of chunks, where their scores do not say it."""
        now_ms = self._clock.now_ms()
        found = {
            state.chunk: words
            for state in states
            if (words := standing_of(state, now_ms=now_ms)) is not None
        }
        told = read_status(self._metadata)
        if told is None:
            return found
        rest = "; but its controller gives no sign of life" if is_silent(told, now_ms) else ""
        for one in told["running"]:
            if one.get("datasource") != datasource:
                continue
            since = time_text(one["started_ms"] // 1000 * 1000)
            taken = interval_set(map(parse_interval, one["intervals"]))
            for state in states:
                if taken.contains(state.chunk):
                    found[state.chunk] = f"task {one['run']} is at work on it since {since}{rest}"
        return found

    def status(self, datasource: str | None = None) -> CompactionStatus:
        """Return how compaction goes, of one datasource or of all.

        Raises:
            NotFound: The datasource has no spec.
        """
        if datasource is not None:
            self.check_spec(datasource)
        wanted = list(self._metadata.compaction_specs()) if datasource is None else [datasource]
        told = read_status(self._metadata)
        if told is not None:
            told = {**told, "is_silent": is_silent(told, self._clock.now_ms())}
        return CompactionStatus(
            states={name: self._metadata.compaction_states(name) for name in wanted},
            controller=told,
        )

    def progress(self, datasource: str) -> Progress:
        """Return how much of a datasource that is compacted by itself waits, is done and is too new.

        Raises:
            NotFound: The datasource has no spec.
        """
        self.check_spec(datasource)
        visible = self._metadata.visible(datasource, revision=self._metadata.head().revision)
        chunks: dict[Interval, Tally] = {}
        for item in visible:
            found = chunks.get(item.entry.chunk, Tally(chunks=1))
            chunks[item.entry.chunk] = found.plus(Tally(item.segment.size_bytes, 1))
        return progress_of(
            chunks,
            self._metadata.compaction_states(datasource),
            skip_from_ms=first_instant_skipped(
                self.spec_of(datasource).to_settings(), end_of(plan_segments(visible))
            ),
        )

    def _latest_ms(self, datasource: str, revision: int) -> int | None:
        """Return where the newest data of a datasource end, wherever a plan looks."""
        return end_of(plan_segments(self._metadata.visible(datasource, revision=revision)))


def _widened(interval: Interval, settings: CompactionSettings) -> Interval:
    """Return the interval with all chunks that overlap it, whole, whichever age rule they are under."""
    start_ms, end_ms = interval.start_ms, interval.end_ms
    for target in (settings.target, *(rule.target for rule in settings.age_rules)):
        if target.segment_granularity is None:
            continue
        cut = parse_granularity(target.segment_granularity)
        try:
            whole = cut.buckets_over(interval)
        except Invalid:
            continue  # it reaches beyond the years that there are
        start_ms, end_ms = min(start_ms, whole.start_ms), max(end_ms, whole.end_ms)
    return Interval(start_ms, end_ms)
