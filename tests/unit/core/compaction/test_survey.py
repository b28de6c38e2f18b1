"""What a survey knows of the chunks of a datasource: of which ones, for how long, and what becomes of them."""

from __future__ import annotations

from collections.abc import Iterable

from carnac.core.compaction.control.states import RETRY_FIRST_MS, ChunkStatus, ChunkSummary
from carnac.core.compaction.control.survey import Survey
from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.core.compaction.plan.inputs import PlanSegment
from carnac.core.compaction.plan.settings import CompactionSettings
from carnac.core.compaction.plan.target_periods import plan_target_periods
from carnac.core.time.intervals import Interval
from tests.compactions import CHEAP, DAY_MS, HOUR_MS

SETTINGS = CompactionSettings(
    target=CompactionTarget(target_bytes=1000, segment_granularity="DAY"), cost=CHEAP
)
STRETCHES = plan_target_periods(SETTINGS, 0)
DAYS = [Interval(n * DAY_MS, (n + 1) * DAY_MS) for n in range(4)]


def segment(name: str, start_ms: int, end_ms: int, chunk: Interval | None = None) -> PlanSegment:
    return PlanSegment(
        segment_id=name, start_ms=start_ms, end_ms=end_ms, size_bytes=10, rows=10, chunk=chunk
    )


def small_ones(day: Interval, count: int = 4) -> list[PlanSegment]:
    return [segment(f"{day.start_ms}-{n}", day.start_ms, day.end_ms, day) for n in range(count)]


def seen(*days: Interval) -> list[ChunkSummary]:
    return [ChunkSummary(day, 7, 4, SETTINGS.target) for day in days]


def surveyed(days: Iterable[Interval]) -> Survey:
    """A survey that has found each of the days unstable."""
    days = list(days)
    survey = Survey("events", SETTINGS)
    found = survey.analyse(
        seen(*days), [one for day in days for one in small_ones(day)], STRETCHES, now_ms=0
    )
    assert [(one.chunk, one.status) for one in found] == [
        (day, ChunkStatus.UNSTABLE) for day in days
    ]
    return survey


def test_chunks_that_nobody_asks_about_are_not_judged_with_those_that_are_due() -> None:
    """Their segments come along, where one of them reaches into a chunk that is due."""
    survey = Survey("events", SETTINGS)
    long = segment("long", 0, 2 * DAY_MS)
    (found,) = survey.analyse(seen(DAYS[0]), [*small_ones(DAYS[0]), long], STRETCHES, now_ms=0)
    assert found.chunk == DAYS[0]
    assert set(survey.states) == {DAYS[0]}


def test_what_is_known_of_a_time_is_what_is_known_of_all_chunks_that_it_touches() -> None:
    known = [DAYS[0], DAYS[1], DAYS[3]]
    survey = surveyed(known)
    for start_h in range(0, 5 * 24, 5):
        for hours in (1, 24, 60):
            asked = Interval(start_h * HOUR_MS, (start_h + hours) * HOUR_MS)
            assert survey.known_in(asked) == [one for one in known if one.overlaps(asked)]


def test_a_chunk_without_an_opinion_is_compacted_with_a_neighbour_that_shares_a_segment() -> None:
    survey = Survey("events", SETTINGS)
    long = segment("long", 0, 2 * DAY_MS)
    first, second = survey.analyse(
        seen(*DAYS[:2]),
        [*small_ones(DAYS[0], 9), long, *small_ones(DAYS[1], 1)],
        STRETCHES,
        now_ms=0,
    )
    assert (first.status, second.status) == (ChunkStatus.UNSTABLE, ChunkStatus.STABLE)
    (task,) = survey.plan(revision=7).added
    assert task.chunks == (DAYS[0], DAYS[1])


def test_what_arrives_ends_no_rest_and_what_is_rewritten_ends_all_failures() -> None:
    survey, day = surveyed(DAYS[:1]), DAYS[0]
    arrived = survey.states[day].arrived_bytes
    survey.fail({day: "disk full"}, now_ms=0)
    (failed,) = survey.fail({day: "disk full"}, now_ms=0)
    assert (failed.failures, failed.retry_at_ms) == (2, 2 * RETRY_FIRST_MS)
    survey.note_bytes(day, arrived=5)
    assert survey.resting() == [failed._replace(arrived_bytes=arrived + 5)]
    survey.note_bytes(day, rewritten=7)
    assert survey.states[day] == failed._replace(
        failures=0, retry_at_ms=0, arrived_bytes=arrived + 5, rewritten_bytes=7
    )
    assert survey.resting() == []
    (again,) = survey.fail({day: "disk full"}, now_ms=0)
    assert (again.failures, again.reason) == (1, "failed once: disk full")


def test_of_chunks_that_are_dropped_nothing_is_known_any_more() -> None:
    survey = surveyed(DAYS[:2])
    survey.defer([DAYS[0]])
    survey.fail({DAYS[1]: "disk full"}, now_ms=0)
    assert (survey.has_deferred, len(survey.resting())) == (True, 1)
    gone = survey.drop(DAYS[:2])
    assert [(one.chunk, one.status) for one in gone] == [
        (day, ChunkStatus.EMPTY) for day in DAYS[:2]
    ]
    assert (survey.deferred(), survey.resting(), survey.known_in(Interval(0, 9 * DAY_MS))) == (
        [],
        [],
        [],
    )
    assert not survey.has_deferred
    assert survey.plan(revision=8).added == []


def test_what_is_taken_up_again_is_due_and_deferred_no_more() -> None:
    survey = surveyed(DAYS[:3])
    survey.defer(DAYS[:3])
    assert survey.find_due(seen(*DAYS[:3]), now_ms=0) == []
    again = survey.retake(2)
    assert again == DAYS[:2], "the earlier of those that are equally urgent"
    assert [one.chunk for one in survey.deferred()] == [DAYS[2]]
    assert [one.chunk for one in survey.find_due(seen(*DAYS[:3]), now_ms=0)] == again
