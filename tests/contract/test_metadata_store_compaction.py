"""One behaviour for every metadata store: how datasources are compacted, and what is known of their chunks."""

from __future__ import annotations

from carnac.core.compaction.control.states import ChunkState, ChunkStatus
from carnac.core.time.intervals import parse_interval
from tests.contract.conftest import Store

STATE = ChunkState(
    chunk=parse_interval("2013-01-02/2013-01-03"),
    status=ChunkStatus.UNSTABLE,
    revision=7,
    segments=12,
    judged_by="3f",
    reason="12 segments where 1 would do",
    priority=0.75,
    cost=1 << 40,
    failures=2,
    retry_at_ms=99,
    arrived_bytes=1 << 50,
    rewritten_bytes=3,
)


def test_specs_are_kept_changed_and_removed(store: Store) -> None:
    assert store.compaction_specs() == {}
    store.put_compaction_spec("events", '{"dataSource": "events"}')
    store.put_compaction_spec("clicks", "{}")
    store.put_compaction_spec("clicks", '{"slack": 2}')
    assert list(store.compaction_specs().items()) == [
        ("clicks", '{"slack": 2}'),
        ("events", '{"dataSource": "events"}'),
    ]
    store.put_compaction_spec("events", None)
    store.put_compaction_spec("events", None)
    assert list(store.compaction_specs()) == ["clicks"]


def test_states_come_back_as_they_were(store: Store) -> None:
    earlier = STATE._replace(chunk=parse_interval("2013-01-01/2013-01-02"), failures=0)
    store.put_compaction_states("events", [STATE, earlier])
    assert store.compaction_states("events") == (earlier, STATE)
    assert store.compaction_states("clicks") == ()


def test_a_state_takes_the_place_of_the_one_before(store: Store) -> None:
    store.put_compaction_states("events", [STATE])
    stable = STATE._replace(status=ChunkStatus.STABLE, revision=8, priority=0.0)
    store.put_compaction_states("events", [stable])
    assert store.compaction_states("events") == (stable,)


def test_chunks_without_segments_are_forgotten_and_empty_buckets_are_not(store: Store) -> None:
    store.put_compaction_states("events", [STATE])
    bucket = STATE._replace(status=ChunkStatus.EMPTY)
    store.put_compaction_states("events", [bucket])
    assert store.compaction_states("events") == (bucket,)
    store.put_compaction_states("events", [bucket._replace(segments=0)])
    assert store.compaction_states("events") == ()
    store.put_compaction_states("events", [])


def test_who_is_compacted_no_more_is_forgotten(store: Store) -> None:
    store.put_compaction_spec("events", "{}")
    store.put_compaction_states("events", [STATE])
    store.put_compaction_spec("events", None)
    assert store.compaction_states("events") == ()
