"""Where reading of a partition begins, whose it is, how far behind it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carnac.core.streams.partitions import (
    Bounds,
    Partition,
    Start,
    find_start,
    group_of,
    lag_of,
    parse_partition,
    parse_position,
    position_texts,
    with_changes,
)
from carnac.errors import Invalid

ZERO, ONE = Partition("a/b", 0), Partition("a/b", 1)
OFFSETS = st.integers(0, 1 << 40)
PARTITIONS = st.builds(Partition, st.text(min_size=1, max_size=9), st.integers(0, 999))


@given(st.dictionaries(PARTITIONS, OFFSETS))
def test_a_position_is_what_was_written_down(offsets: dict[Partition, int]) -> None:
    assert parse_position(position_texts(offsets)) == offsets
    assert all(parse_partition(str(one)) == one for one in offsets)


def test_sources_of_others_are_no_partitions() -> None:
    assert parse_position({"rate": "7", "t/x": "1", "t/1": '{"a": 1}', "/1": "1"}) == {}
    with pytest.raises(Invalid, match="'t' is no partition; write topic/number"):
        parse_partition("t")


@pytest.mark.parametrize(
    ("position", "start"),
    [(None, Start(None, 10)), (10, Start(10, 10)), (15, Start(15, 15)), (20, Start(20, 20))],
)
def test_reading_begins_at_the_position_or_at_what_there_is(
    position: int | None, start: Start
) -> None:
    assert find_start(ZERO, position, Bounds(10, 20), resets=False) == start


def test_messages_that_are_gone_are_counted_and_told() -> None:
    with pytest.raises(Invalid, match=r"7 messages of a/b/0, offsets 3 to 9, are gone .*reset"):
        find_start(ZERO, 3, Bounds(10, 20), resets=False)
    assert find_start(ZERO, 3, Bounds(10, 20), resets=True) == Start(3, 10, lost=7)
    at_end = find_start(ZERO, 3, Bounds(10, 20), resets=True, use_earliest=False)
    assert at_end == Start(3, 20, lost=17)


def test_a_topic_that_was_made_anew_is_told() -> None:
    with pytest.raises(Invalid, match=r"ends at offset 2, and its position is 3: .* made anew"):
        find_start(ZERO, 3, Bounds(0, 2), resets=False)
    assert find_start(ZERO, 3, Bounds(0, 2), resets=True) == Start(3, 0)


@given(PARTITIONS, st.integers(1, 20), st.booleans())
def test_a_partition_is_of_one_group(partition: Partition, groups: int, is_pattern: bool) -> None:
    assert group_of(partition, groups, is_pattern=is_pattern) in range(groups)


def test_partitions_of_a_topic_are_spread_evenly() -> None:
    groups = [group_of(Partition("t", n), 3, is_pattern=False) for n in range(6)]
    assert groups == [0, 1, 2, 0, 1, 2]


def test_what_is_not_published_is_lag() -> None:
    bounds = {ZERO: Bounds(5, 20), ONE: Bounds(0, 4)}
    assert lag_of({ZERO: 15}, bounds, use_earliest=True) == {ZERO: 5, ONE: 4}
    assert lag_of({ZERO: 2}, bounds, use_earliest=True) == {ZERO: 15, ONE: 4}
    assert lag_of({}, bounds, use_earliest=False) == {ZERO: 0, ONE: 0}


def test_a_reset_is_a_range_from_what_there_is() -> None:
    position = {ZERO: 5}
    assert with_changes(position, {ZERO: None}) == ({"a/b/0": "5"}, {"a/b/0": ""})
    assert with_changes(position, {ZERO: 9, ONE: 1}) == (
        {"a/b/0": "5"},
        {"a/b/0": "9", "a/b/1": "1"},
    )
