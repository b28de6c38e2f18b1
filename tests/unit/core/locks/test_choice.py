"""Which lock a task asks for."""

from __future__ import annotations

import pytest

from carnac.core.locks.choice import (
    LockContext,
    choose_lock,
    default_priority,
    parse_lock_context,
)
from carnac.core.locks.model import LockGranularity, LockType
from carnac.errors import Invalid

CHUNK, SEGMENT = LockGranularity.TIME_CHUNK, LockGranularity.SEGMENT


def choose(context: LockContext, **named: bool | None) -> tuple[LockGranularity, LockType]:
    is_append = bool(named.pop("is_append", False))
    choice = choose_lock(context, is_append=is_append, **named)  # type: ignore[arg-type]
    return choice.granularity, choice.type


def test_with_nothing_said_nobody_waits_for_other_people_s_work() -> None:
    assert choose(LockContext(), is_append=True) == (CHUNK, LockType.APPEND)
    assert choose(LockContext()) == (SEGMENT, LockType.REPLACE)
    assert choose(LockContext(), changes_granularity=True) == (CHUNK, LockType.REPLACE)


def test_forced_time_chunk_locks_are_the_classic_mode() -> None:
    forced = LockContext(force_time_chunk_lock=True)
    assert choose(forced, is_append=True) == (CHUNK, LockType.EXCLUSIVE)
    assert choose(forced) == (CHUNK, LockType.EXCLUSIVE)


def test_exclusive_without_force_is_the_segment_lock_of_the_proposal() -> None:
    segment = LockContext(lock_type=LockType.EXCLUSIVE)
    assert choose(segment, is_append=True) == (SEGMENT, LockType.EXCLUSIVE)
    assert choose(segment) == (SEGMENT, LockType.EXCLUSIVE)
    assert choose(segment, changes_granularity=True) == (CHUNK, LockType.EXCLUSIVE)


def test_what_the_task_says_wins_over_the_service() -> None:
    assert choose(LockContext(), force_time_chunk_lock=True) == (CHUNK, LockType.EXCLUSIVE)
    says_no = LockContext(force_time_chunk_lock=False)
    assert choose(says_no, force_time_chunk_lock=True) == (SEGMENT, LockType.REPLACE)


def test_a_type_that_does_not_fit_is_invalid() -> None:
    with pytest.raises(Invalid, match="REPLACE"):
        choose(LockContext(lock_type=LockType.REPLACE), is_append=True)
    for kind in (LockType.APPEND, LockType.SHARED):
        with pytest.raises(Invalid, match=kind.name):
            choose(LockContext(lock_type=kind))


@pytest.mark.parametrize(
    ("task_type", "priority"),
    [("index_kafka", 75), ("index_parallel", 50), ("compact", 25), ("kill", 0), ("no such", 0)],
)
def test_default_priorities_are_those_of_the_source(task_type: str, priority: int) -> None:
    assert default_priority(task_type) == priority


def test_the_context_is_druid_s() -> None:
    assert parse_lock_context({}) == LockContext()
    said = {
        "forceTimeChunkLock": False,
        "taskLockType": "append",
        "priority": 80,
        "taskLockTimeout": 0,
        "useLineageBasedSegmentAllocation": True,
    }
    assert parse_lock_context(said) == LockContext(
        force_time_chunk_lock=False, lock_type=LockType.APPEND, priority=80, timeout_ms=0
    )
    assert LockContext().timeout_ms == 300_000


@pytest.mark.parametrize(
    "said",
    [
        {"forceTimeChunkLock": "yes"},
        {"taskLockType": "WEAK"},
        {"priority": "high"},
        {"priority": True},
        {"taskLockTimeout": -1},
    ],
)
def test_values_of_the_wrong_kind_are_invalid(said: dict[str, object]) -> None:
    with pytest.raises(Invalid, match=next(iter(said))):
        parse_lock_context(said)
