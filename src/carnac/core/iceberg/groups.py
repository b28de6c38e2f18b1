"""Groups of files that one manifest names: those of a time chunk, or of chunks beside each other, by their partitions.

A group is named by a digest of all that its manifests say. So files that a commit leaves as they are keep their
manifests, and no manifest has to be read.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from carnac.core.iceberg.avro import to_text
from carnac.core.log.entries import Entry, VisibleSegment, visible_of
from carnac.core.segments.segment import Segment, safe_name
from carnac.core.time.intervals import Interval, IntervalSet
from carnac.core.time.periods import DAY_MS, HOUR_MS, split_month

FOLDER = "iceberg"
"""In deep storage; all files of Iceberg's are below it, each datasource's in a folder of its own."""
LISTS = "lists"
METADATA = "metadata"
"""Folders of files that begin with the revision that they are of."""
MANIFESTS = "manifests"
DELETES = "deletes"
FORMAT = 2
"""Of what the files hold; raised with each change, so that no file is taken for another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A way to partition by time.

    Attributes:
        number: Its id in the table.
        transform: Iceberg's name; empty: none.
        length_ms: Of a partition.
    """

    number: int
    transform: str
    length_ms: int

    @property
    def field_id(self) -> int:
        """Iceberg counts fields of partitions from 1000 on."""
        return 999 + self.number

    @property
    def field_name(self) -> str:
        """No column is called so."""
        return f"__carnac_{self.transform}"


WHOLE = Spec(number=0, transform="", length_ms=0)
DAY = Spec(number=1, transform="day", length_ms=DAY_MS)
HOUR = Spec(number=2, transform="hour", length_ms=HOUR_MS)
SPECS = (WHOLE, DAY, HOUR)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A segment file as a table has it.

    Attributes:
        hidden: Instants of its rows that are not in sight.
        revision: Of the last commit that entered it.
    """

    segment: Segment
    hidden: IntervalSet
    revision: int

    def partition_of(self, spec: Spec) -> int | None:
        """Return the number of its partition; None if there is none."""
        return self.segment.min_time_ms // spec.length_ms if spec.length_ms else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Files that one manifest names, and another one what is deleted in them.

    Attributes:
        name: Of the manifests; says all that they hold.
    """

    name: str
    spec: Spec
    files: tuple[DataFile, ...]

    @property
    def clipped(self) -> tuple[DataFile, ...]:
        """Those of which a part is not in sight."""
        return tuple(one for one in self.files if one.hidden)


def files_of(entries: Iterable[VisibleSegment]) -> list[tuple[DataFile, Interval]]:
    """Return each segment once, with the first of its time chunks."""
    segments: dict[str, Segment] = {}
    found: dict[str, list[Entry]] = defaultdict(list)
    for item in entries:
        segments[item.entry.segment_id] = item.segment
        found[item.entry.segment_id].append(item.entry)
    return [
        (
            DataFile(
                segment=segments[segment_id],
                hidden=IntervalSet((some[0].span,)).minus(visible_of(some)),
                revision=max(entry.added_revision for entry in some),
            ),
            some[0].chunk,
        )
        for segment_id, some in found.items()
    ]


def plan_groups(
    files: Iterable[tuple[DataFile, Interval]], *, root: str, writer: str
) -> tuple[Group, ...]:
    """Return the groups of a state of a datasource, in order of time.

    Chunks of an hour are put together by days, those of a day by months, longer ones by years. So an append to today
    leaves the manifests of other months as they are.

    Args:
        files: In order of time chunk and partition id.
        root: Where deep storage is, as clients open it.
        writer: Name and version of what writes files of deleted positions.
    """
    members: dict[tuple[int, int, int], list[DataFile]] = {}
    for file, chunk in files:
        spec = _spec_of(file, chunk)
        members.setdefault((*_bucket_of(chunk), spec.number), []).append(file)
    return tuple(
        Group(
            name=digest([FORMAT, root, writer, key[2], [_facts(one) for one in some]]),
            spec=SPECS[key[2]],
            files=tuple(some),
        )
        for key, some in members.items()
    )


def state_of(groups: Sequence[Group]) -> str:
    """Return a name that tells a state of a datasource from all others."""
    return digest([FORMAT, *(one.name for one in groups)])


def folder_of(datasource: str) -> str:
    """Return where the files of a datasource's table are."""
    return f"{FOLDER}/{safe_name(datasource)}"


def positions_path(folder: str, file: DataFile, writer: str) -> str:
    """Return the path of the file that holds the positions of hidden rows."""
    return f"{folder}/{DELETES}/{digest([FORMAT, writer, _facts(file)])}.parquet"


def revision_of(path: str) -> int | None:
    """Return the revision that a file is of; None if it is of none alone."""
    *_, kind, name = path.split("/")
    number = name.partition("-")[0]
    return int(number) if kind in {LISTS, METADATA} and number.isdecimal() else None


def _spec_of(file: DataFile, chunk: Interval) -> Spec:
    """Return the finest spec of which chunk and file lie in one partition."""
    span = file.segment.span
    for spec in (HOUR, DAY):
        if len({one // spec.length_ms for one in _ends(chunk) + _ends(span)}) == 1:
            return spec
    return WHOLE


def _ends(interval: Interval) -> list[int]:
    return [interval.start_ms, interval.end_ms - 1]


def _bucket_of(chunk: Interval) -> tuple[int, int]:
    length_ms = chunk.end_ms - chunk.start_ms
    if length_ms <= HOUR_MS:
        return 0, chunk.start_ms // DAY_MS
    month = split_month(chunk.start_ms)[0]
    return (1, month) if length_ms <= DAY_MS else (2, month // 12)


def _facts(file: DataFile) -> list[object]:
    hidden = [[one.start_ms, one.end_ms] for one in file.hidden]
    return [file.segment.segment_id, file.segment.path, file.revision, hidden]


def digest(facts: list[object]) -> str:
    """Return a name that no other facts have."""
    return hashlib.blake2b(to_text(facts).encode(), digest_size=16).hexdigest()
