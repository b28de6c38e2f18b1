"""Stores whose time chunks are far coarser than they should be."""

from __future__ import annotations

import pytest

from carnac.core.compaction.control.states import ChunkStatus
from carnac.core.compaction.plan.groups import CompactionGroup, CompactionTarget, GroupKind
from carnac.core.time.intervals import ETERNITY, Interval
from carnac.core.time.periods import DAY_MS, HOUR_MS
from carnac.jobs.compact import job as compact_job
from carnac.store.compacting.reports import GroupOutcome
from tests.compactions import is_settled
from tests.unit.overlord.compactor.controlled import SPEC, Desk, counts
from tests.unit.store.events import START_MS, append, read

YEARS = -56 * 366 * 24
"""In hours: some rows have a bad timestamp, near 1970."""


def spec(granularity: str) -> dict[str, object]:
    return {**SPEC, "granularitySpec": {"segmentGranularity": granularity}}


@pytest.mark.parametrize("granularity", ["minute", "hour", "day"])
def test_one_chunk_of_all_times_with_a_bad_timestamp_is_cut_in_one_commit(
    service: Desk, granularity: str
) -> None:
    append(service.store, (1, YEARS), (2, 0), (3, 1), (4, 1), (5, 30), granularity="all")
    before = read(service.store)
    assert [chunk.interval for chunk in service.store.chunks("events")] == [ETERNITY]
    service.service.put_spec(spec(granularity))
    assert service.settle() < 10
    assert read(service.store) == before
    assert service.store.head().revision == 2
    chunks = [chunk.interval for chunk in service.store.chunks("events")]
    length_ms = {"minute": 60_000, "hour": HOUR_MS, "day": DAY_MS}[granularity]
    assert {one.duration_ms for one in chunks} == {length_ms}
    assert len(chunks) == (3 if granularity == "day" else 4)
    states = service.service.status("events").states["events"]
    assert [state.chunk for state in states] == chunks
    assert {state.status for state in states} == {ChunkStatus.STABLE}
    assert all(state.rewritten_bytes for state in states)
    assert is_settled(service.controller)
    assert service.settle() == 0


@pytest.mark.slow
def test_what_is_appended_to_it_meanwhile_is_cut_in_its_turn(service: Desk) -> None:
    append(service.store, (1, YEARS), (2, 0), granularity="all")
    service.service.put_spec(spec("hour"))
    service.controller.run_round()
    append(service.store, (3, 100), (4, YEARS + 7), granularity="all")
    before = read(service.store)
    service.settle()
    assert read(service.store) == before
    assert max(counts(service.store)) <= 2
    assert {one.interval.duration_ms for one in service.store.chunks("events")} == {HOUR_MS}
    assert is_settled(service.controller)


def test_what_was_cut_beside_what_is_too_new_is_not_remembered_as_it_was(service: Desk) -> None:
    append(service.store, (1, YEARS), (2, 0), (3, 40), (4, 50), granularity="all")
    service.service.put_spec({**spec("hour"), "skipOffsetFromLatest": "P1D"})
    service.settle()
    chunks = [chunk.interval for chunk in service.store.chunks("events")]
    assert [one.duration_ms for one in chunks[:-1]] == [HOUR_MS, HOUR_MS]
    assert chunks[-1].end_ms == ETERNITY.end_ms
    states = service.service.status("events").states["events"]
    assert [(state.chunk, state.status) for state in states] == [
        (one, ChunkStatus.STABLE) for one in chunks[:-1]
    ]
    assert service.settle() == 0
    append(service.store, (5, 90), granularity="all")
    service.settle()
    assert len(service.store.chunks("events")) == 5


def test_more_chunks_than_a_group_may_have_are_refused_in_one_sentence(
    service: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compact_job, "CHUNKS_MAX", 2)
    append(service.store, (1, YEARS), (2, 0), (3, 1), granularity="all")
    group = CompactionGroup(
        group_id="g",
        datasource="events",
        kind=GroupKind.MAJOR,
        interval=Interval(START_MS + YEARS * HOUR_MS, START_MS + DAY_MS),
        target=CompactionTarget(segment_granularity="HOUR"),
    )
    (report,) = service.store.compact([group]).groups
    assert report.outcome is GroupOutcome.FAILED
    assert report.error is not None
    assert report.error.message == (
        "group g would make more than 2 time chunks of HOUR at once; compact events to a coarser "
        "segmentGranularity first, and then to this one"
    )
    assert counts(service.store) == [1]
