"""Partitions of topics, and which offsets of them are to be read.

The position of a stream is that of a writer in the log (`core.log.positions`): its name is the supervisor's, a source
is a partition, an offset the number of the next message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from zlib import crc32

from carnac.errors import Invalid


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.number}"


class Bounds(NamedTuple):
    """The messages that a partition holds: from `earliest`, up to `latest`, which is yet to come."""

    earliest: int
    latest: int


class Start(NamedTuple):
    """Where reading of a partition begins.

    Attributes:
        position: Of the log, as the next range has to name it; None: there is none.
        offset: Of the first message to read.
        lost: Messages between them that are not there any more.
    """

    position: int | None
    offset: int
    lost: int = 0


def parse_partition(source: str) -> Partition:
    """Return the partition that a source of the log names.

    Raises:
        Invalid: It names none.
    """
    topic, _, number = source.rpartition("/")
    if not topic or not number.isdecimal():
        raise Invalid(f"'{source}' is no partition; write topic/number", source=source)
    return Partition(topic, int(number))


def parse_position(reached: Mapping[str, str]) -> dict[Partition, int]:
    """Return the offsets of a position, by partition; sources of other kinds are left out."""
    found: dict[Partition, int] = {}
    for source, offset in reached.items():
        topic, _, number = source.rpartition("/")
        if topic and number.isdecimal() and offset.isdecimal():
            found[Partition(topic, int(number))] = int(offset)
    return found


def position_texts(offsets: Mapping[Partition, int]) -> dict[str, str]:
    """Return offsets as the log keeps them."""
    return {str(partition): str(offset) for partition, offset in offsets.items()}


def group_of(partition: Partition, groups: int, *, is_pattern: bool) -> int:
    """Return which of so many tasks reads a partition; of several topics each begins with another one."""
    first = crc32(partition.topic.encode()) if is_pattern else 0
    return (first + partition.number) % groups


def find_start(
    partition: Partition,
    position: int | None,
    bounds: Bounds,
    *,
    resets: bool,
    use_earliest: bool = True,
) -> Start:
    """Return where reading of a partition begins; one that was found later is read from its earliest message.

    Args:
        position: Of the log; None: it has none.
        resets: Go on where the position is not in the partition any more.
        use_earliest: Where that is then: at the earliest message, else after the latest one.

    Raises:
        Invalid: The position is not in the partition any more.
    """
    if position is None:
        return Start(None, bounds.earliest)
    if bounds.earliest <= position <= bounds.latest:
        return Start(position, position)
    offset = bounds.earliest if use_earliest else bounds.latest
    if resets:
        return Start(position, offset, max(0, offset - position))
    if position < bounds.earliest:
        count = bounds.earliest - position
        raise Invalid(
            f"{count:,} messages of {partition}, offsets {position} to {bounds.earliest - 1}, are gone from Kafka "
            "before they were read; to go on with those that are there, reset the supervisor (carnac supervisor "
            "reset), or set resetOffsetAutomatically in its tuningConfig",
            source=str(partition),
            lost=count,
        )
    raise Invalid(
        f"{partition} ends at offset {bounds.latest}, and its position is {position}: the topic was made anew, or the "
        "position was set beyond its end; to read it from its beginning, reset the supervisor (carnac supervisor "
        "reset), or set resetOffsetAutomatically in its tuningConfig",
        source=str(partition),
        lost=0,
    )


def lag_of(
    position: Mapping[Partition, int], bounds: Mapping[Partition, Bounds], *, use_earliest: bool
) -> dict[Partition, int]:
    """Return how many messages of each partition are not published yet."""
    is_new = not position and not use_earliest
    return {
        partition: 0
        if is_new
        else max(0, one.latest - max(one.earliest, position.get(partition, one.earliest)))
        for partition, one in bounds.items()
    }


def with_changes(
    position: Mapping[Partition, int], wanted: Mapping[Partition, int | None]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return start and end of the range that sets a position; None: forget the partition."""
    start = {str(one): str(position[one]) for one in wanted if one in position}
    end = {str(one): "" if offset is None else str(offset) for one, offset in wanted.items()}
    return start, end
