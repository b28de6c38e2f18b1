"""How far a writer has read its sources: moved with its rows, and only from where it is."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from carnac.core.log.commits import Change, CommitKind, Publication
from carnac.core.log.positions import Move, check_tiling
from carnac.errors import Conflict, Invalid
from carnac.metadata.sql.dialects import statement
from tests.contract.conftest import Store
from tests.logs import append, day, segment
from tests.support.clock import FakeClock


def reading(
    start: dict[str, str], end: dict[str, str], *ids: str, writer: str | None = "w"
) -> Publication:
    adds = tuple(segment(one, day(1)) for one in ids)
    return Publication(
        kind=CommitKind.APPEND,
        changes=(Change(datasource="events", adds=adds),) if adds else (),
        writer=writer,
        after=start,
        offsets=end,
    )


def offsets(store: Store, writer: str = "w") -> dict[str, str]:
    return {name: one.offset for name, one in store.position(writer).items()}


def change(store: Store, *texts: str) -> None:
    for text in texts:
        store._write(lambda session, text=text: session.run(statement(text)))


def assert_tiles(store: Store) -> None:
    check_tiling(
        Move(one.revision, one.writer, one.after, one.offsets)
        for one in store.changes(after=0)
        if one.writer is not None and one.offsets
    )
    assert store.check() == ()


def test_nobody_has_read_anything(store: Store) -> None:
    assert store.position("w") == {}
    assert store.positions() == ()


def test_a_position_moves_with_its_rows(store: Store, clock: FakeClock) -> None:
    store.publish(reading({}, {"a": "3", "b": "1"}, "s1"))
    clock.advance_ms(5)
    second = store.publish(reading({"a": "3"}, {"a": "7"}, "s2"))
    assert offsets(store) == {"a": "7", "b": "1"}
    moved = store.position("w")["a"]
    assert (moved.before, moved.revision, moved.at_ms) == ("3", 2, second.at_ms)
    assert store.positions() == tuple(store.position("w").values())
    assert store.count_visible("events") == 2
    found = store.commit(2)
    assert (found.writer, found.batch) == ("w", None)
    assert (found.after, found.offsets) == ({"a": "3"}, {"a": "7"})
    assert store.log()[0].after == {"a": "3"}
    assert_tiles(store)


def test_a_range_from_elsewhere_says_who_moved_the_position(store: Store) -> None:
    store.publish(reading({}, {"a": "3"}, "s1"))
    store.publish(reading({"a": "3"}, {"a": "7"}, "s2"))
    for start, end in [({"a": "3"}, "9"), ({}, "9"), ({"a": "8"}, "9"), ({}, "7")]:
        with pytest.raises(Conflict) as refused:
            store.publish(reading(start, {"a": end}, "s3"))
        assert "commit 2 moved writer 'w' in 'a' from 3 to 7" in refused.value.message
        assert refused.value.ids == {"writer": "w", "source": "a", "commit": 2}
    with pytest.raises(Conflict, match="has no position in 'b', and this range starts from 1"):
        store.publish(reading({"b": "1"}, {"b": "2"}, "s3"))
    assert store.head().revision == 2
    assert store.count_visible("events") == 2
    assert_tiles(store)


def test_a_source_that_is_only_required_stays(store: Store) -> None:
    store.publish(reading({}, {"a": "3", "b": "1"}, "s1"))
    store.publish(reading({"a": "3", "b": "1"}, {"a": "4"}, "s2"))
    assert offsets(store) == {"a": "4", "b": "1"}
    with pytest.raises(Conflict, match="in 'b' from nowhere to 1"):
        store.publish(reading({"a": "4", "b": "2"}, {"a": "5"}))


def test_the_same_range_again_is_the_first_commit(store: Store) -> None:
    store.publish(reading({}, {"a": "1", "b": "1"}, "s1"))
    append(store, segment("x", day(2)))
    store.publish(reading({"a": "1"}, {"a": "2"}, "s2"))
    again = store.publish(reading({"a": "1"}, {"a": "2"}, "s3"))
    assert (again.is_replay, again.revision, again.commit) == (True, 3, None)
    with pytest.raises(Conflict):  # two commits have moved them
        store.publish(reading({}, {"a": "2", "b": "1"}, "s3"))
    with pytest.raises(Conflict):
        store.publish(reading({}, {"b": "2"}, "s3"))
    assert store.count_visible("events") == 3
    assert_tiles(store)


def test_a_commit_without_rows_moves_a_position_and_may_stay(store: Store) -> None:
    store.publish(reading({}, {"a": "1"}))
    store.publish(reading({"a": "1"}, {"a": "1"}))
    assert [one.revision for one in store.log()] == [2, 1]
    assert store.position("w")["a"].revision == 2
    assert_tiles(store)


def test_a_position_is_forgotten_and_begun_again(store: Store) -> None:
    store.publish(reading({}, {"a": "5", "b": "6"}, "s1"))
    store.publish(reading({"a": "5"}, {"a": ""}))
    assert offsets(store) == {"b": "6"}
    assert store.check() == ()
    store.publish(reading({}, {"a": "2"}, "s2"))
    assert offsets(store) == {"a": "2", "b": "6"}
    assert_tiles(store)


def test_writers_do_not_meet(store: Store) -> None:
    store.publish(reading({}, {"a": "1"}, "s1"))
    store.publish(reading({}, {"a": "9"}, "s2", writer="v"))
    assert [(one.writer, one.offset) for one in store.positions()] == [("v", "9"), ("w", "1")]
    assert_tiles(store)


def test_of_many_that_read_the_same_one_is_published(store: Store) -> None:
    """In one transaction of the queue, too: each sees what the one before it did."""
    store.publish(reading({}, {"a": "0"}))

    def race(number: int) -> bool:
        try:
            store.publish(reading({"a": "0"}, {"a": f"{number + 1}"}, f"s{number}"))
        except Conflict:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(race, range(16)))
    assert won.count(True) == 1
    assert offsets(store) == {"a": f"{won.index(True) + 1}"}
    assert store.count_visible("events") == 1
    assert_tiles(store)


def test_trimming_history_keeps_positions(store: Store) -> None:
    store.publish(reading({}, {"a": "1", "b": "1"}, "s1"))
    store.publish(reading({"a": "1"}, {"a": "2"}, "s2"))
    store.publish(reading({"b": "1"}, {"b": ""}))
    append(store, segment("x", day(2)))
    store.trim(keep=lambda heads: {heads[-1].revision}, dry_run=False)
    assert [one.revision for one in store.changes(after=3)] == [4]
    assert offsets(store) == {"a": "2"}
    assert store.check() == ()
    again = store.publish(reading({"a": "1"}, {"a": "2"}, "s3"))
    assert (again.is_replay, again.revision) == (True, 2)
    with pytest.raises(Conflict, match="commit 2 moved"):
        store.publish(reading({"a": "1"}, {"a": "3"}, "s3"))


def test_offsets_are_of_somebody(store: Store) -> None:
    with pytest.raises(Invalid, match="name the writer"):
        store.publish(reading({}, {"a": "1"}, writer=None))
    with pytest.raises(Invalid, match="a writer or a batch but not both"):
        store.publish(Publication(kind=CommitKind.APPEND, writer="w"))


def test_a_batch_with_offsets_is_known_by_both(store: Store) -> None:
    first = Publication(kind=CommitKind.APPEND, writer="w", batch="1", offsets={"a": "1"}, after={})
    store.publish(first)
    assert store.publish(first).is_replay
    assert store.find_batch("w", "1") == 1


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE positions SET reached = '3'",
        "UPDATE positions SET revision = 1, reached = '1', came_from = ''",
        "DELETE FROM positions",
        "INSERT INTO positions VALUES ('w', 'b', '1', '', 1, 0)",
    ],
)
def test_the_check_finds_positions_that_the_log_does_not_tell(store: Store, damage: str) -> None:
    store.publish(reading({}, {"a": "1"}))
    store.publish(reading({"a": "1"}, {"a": "2"}))
    assert store.check() == ()
    change(store, damage)
    (found,) = store.check()
    assert "writer 'w' stands in" in found
    change(store, "DELETE FROM positions", "DELETE FROM commits")


def test_the_check_finds_ranges_that_do_not_tile(store: Store) -> None:
    store.publish(reading({}, {"a": "1"}))
    store.publish(reading({"a": "1"}, {"a": "2"}))
    damage = (
        'UPDATE commits SET details = replace(details, \'"a":"1"\', \'"a":"5"\') WHERE revision = 2'
    )
    change(store, damage)
    (found,) = store.check()
    assert found.startswith("PO-1 does not hold: commit 2 of writer 'w' starts in 'a' from 5")
    change(store, "DELETE FROM positions", "DELETE FROM commits")
