"""Every way of a rewrite refuses every mistake: rows that are lost, doubled, altered, mis-timed or mixed up.

Mistakes are made where the rows of a way pass: in the writer of segments, in the part files between two halves, in what
Spark's plan hands on. The same rewrite without a mistake holds, so it is the mistake that is refused.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carnac.core.compaction.plan.groups import CompactionTarget, Partitioning
from carnac.core.log.laws import conserves
from carnac.core.segments.segment import ColumnType, Metric, MetricKind, Segment
from carnac.core.time.intervals import Interval, IntervalSet
from carnac.errors import Corrupt
from carnac.jobs.compact.conservation import prove
from carnac.jobs.compact.filter import KEPT_COLUMN, PASSED_COLUMN, SEEN_COLUMN, _cut, _read
from carnac.jobs.compact.parts import Scattered, ScatterTask, scatter
from carnac.jobs.compact.scatter import Gathered, GatherTask, ScatterJob, gather, rewrite_in_task
from carnac.jobs.compact.shape import plan_input_groups
from carnac.jobs.compact.task import MakeWriter
from carnac.ports import SegmentInput
from carnac.rows.segment_writer import SegmentWriter
from carnac.spark.progress import Tally
from carnac.spark.tasks import Attempt
from tests.unit.jobs.faulty_writer import Mistake, alter, double, lose, swap, writer_with
from tests.unit.jobs.rewrite_cases import (
    AMPLE,
    CHUNK,
    HOUR_MS,
    ROLLUP,
    TINY,
    TYPES,
    group_task,
    raw_row,
    rolled_row,
    write_raw,
    write_rolled,
)
from tests.unit.store.events import fast_folder

pytestmark = pytest.mark.usefixtures("shared_connection")

CLIP = IntervalSet((Interval(0, 5 * HOUR_MS), Interval(6 * HOUR_MS, CHUNK.end_ms)))
RANGES = Partitioning(kind="range", dimensions=("d", "n"))
HASHED = Partitioning(kind="hashed", buckets=3)
COUNT = Metric(name="count", kind=MetricKind.COUNT, input=None, type=ColumnType.LONG)
SUM = Metric(name="n", kind=MetricKind.SUM, input="n", type=ColumnType.LONG)


class Mishap:
    """A mistake that is made once, with the first rows that it changes."""

    def __init__(self, mistake: Mistake) -> None:
        self._mistake = mistake
        self.is_made = False

    def __call__(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if self.is_made or not rows:
            return rows
        wrong = self._mistake(rows)
        self.is_made = sorted(map(repr, wrong)) != sorted(map(repr, rows))
        return wrong


def spoil_part(mishap: Mishap, path: str) -> None:
    """Let a part file hold other rows than were put into it."""
    before = pa.ipc.open_file(path).read_all()
    after = pa.Table.from_pylist(mishap(before.to_pylist()), before.schema)
    with pa.ipc.new_file(path, after.schema) as file:
        file.write_table(after)


@dataclass(frozen=True)
class Here:
    """Runs the halves of a rewrite that tasks share, one after the other, where it is called.

    Attributes:
        parts: Spoils part files.
        handed_on: Spoils rows that Spark's plan hands on.
    """

    make_writer: MakeWriter = SegmentWriter
    parts: Mishap | None = None
    handed_on: Mishap | None = None
    attempt: Attempt = field(default_factory=lambda: Attempt(0, Tally(None)))

    def scatter(self, tasks: Sequence[ScatterTask]) -> list[Scattered]:
        """Run the first half; as Spark's plan does, where a condition keeps what has an even hour."""
        if tasks[0].unit.condition is not None:
            return self._spoiled([_cut(task, self._judged(task), self.attempt) for task in tasks])
        return self._spoiled([scatter(task, self.attempt) for task in tasks])

    def gather(self, tasks: Sequence[GatherTask]) -> list[Gathered]:
        """Run the second half."""
        return [gather(task, self.attempt, make_writer=self.make_writer) for task in tasks]

    def _judged(self, task: ScatterTask) -> Iterator[pa.RecordBatch]:
        for batch in _read(task):
            rows = batch.drop_columns([PASSED_COLUMN])
            judged = [{**row, KEPT_COLUMN: is_kept(row["__time"])} for row in rows.to_pylist()]
            schema = rows.schema.append(pa.field(KEPT_COLUMN, pa.bool_()))
            handed_on = judged if self.handed_on is None else self.handed_on(judged)
            yield pa.RecordBatch.from_pylist(handed_on, schema)

    def _spoiled(self, scattered: list[Scattered]) -> list[Scattered]:
        for one in scattered:
            for part in one.parts:
                if self.parts is not None:
                    spoil_part(self.parts, part.path)
        return scattered


@dataclass(frozen=True)
class Way:
    """How a rewrite is run.

    Attributes:
        cores: Of a rewrite that tasks share; 0: one task does it all.
    """

    memory_bytes: int = AMPLE
    cores: int = 0


WAYS = {
    "in memory": Way(),
    "staged": Way(memory_bytes=TINY),
    "range by range": Way(memory_bytes=TINY, cores=1),
    "shared out": Way(memory_bytes=1 << 17, cores=2),
}
TARGETS: dict[str, dict[str, Any]] = {
    "plain": {},
    "cut": {"target_rows": 40, "sort_by": ("d", "n")},
    "ranges": {"target_rows": 10, "partitioning": RANGES},
    "hashed": {"target_rows": 40, "partitioning": HASHED},
    "truncated": {"query_granularity": "HOUR", "dimensions": ("d", "n"), "allow_lossy": True},
    "rolled up": {
        "dimensions": ("d",),
        "metrics": (COUNT, SUM),
        "query_granularity": "HOUR",
        "allow_lossy": True,
    },
}
FILTER = {"filter": "hour(__time) % 2 = 0", "allow_lossy": True}


@dataclass(frozen=True)
class Group:
    """What is rewritten, and where to."""

    folder: Path
    inputs: tuple[SegmentInput, ...]
    target: CompactionTarget

    def holds(self, way: Way, here: Here) -> bool:
        """Whether the rewrite ends with a proof that holds."""
        (input_group,) = plan_input_groups(self.inputs, self.target)
        task = group_task(self.folder, input_group, self.target, memory_bytes=way.memory_bytes)
        try:
            if way.cores:
                staging_url = str(self.folder / "staging")
                halves = here.scatter, here.gather
                done = ScatterJob(task, *halves, staging_url=staging_url, cores=way.cores).run()
            else:
                done = rewrite_in_task(task, here.attempt, make_writer=here.make_writer)
        except Corrupt:
            return False
        return conserves(prove([done.went_in], [done.came_out]))


def mistakes(altered: str, swapped: str, types: Mapping[str, ColumnType]) -> dict[str, Mistake]:
    """A mistake of each kind."""
    return {
        "lose": lose(1),
        "double": double(0),
        "alter": partial(alter_one, altered, types[altered]),
        "mis-time": partial(alter_one, "__time", ColumnType.LONG),
        "swap": partial(swap_unlike, swapped),
    }


def lose_the_end(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lose what says how many rows there were."""
    return [row for row in rows if row[SEEN_COLUMN] is None]


@dataclass(frozen=True)
class Case:
    """How a group is rewritten, what it becomes, and which columns mistakes are about."""

    way: str
    wanted: str
    altered: str
    swapped: str

    def mistakes(self, types: Mapping[str, ColumnType]) -> dict[str, Mistake]:
        """A mistake of each kind."""
        return mistakes(self.altered, self.swapped, types)


def alter_one(column: str, kind: ColumnType, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Change the first value that can be changed: not NaN, nor what is infinite."""
    tries = (alter(place, column, kind)(rows) for place in range(len(rows)))
    return next((wrong for wrong in tries if repr(wrong) != repr(rows)), rows)


def swap_unlike(column: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Let the first row exchange its value with the first that has another one."""
    others = [place for place, row in enumerate(rows) if repr(row[column]) != repr(rows[0][column])]
    return swap(0, others[0], column)(rows) if others else rows


def check(
    group: Group, way: Way, make_here: Callable[[Mishap], Here], made: Mapping[str, Mistake]
) -> None:
    """Check that each mistake is made and refused, and nothing else is."""
    right = Mishap(list)
    assert group.holds(way, make_here(right))
    for name, mistake in made.items():
        mishap = Mishap(mistake)
        is_held = group.holds(way, make_here(mishap))
        assert mishap.is_made, name
        assert not is_held, name


def is_kept(time: datetime | None) -> bool:
    """As `FILTER` says, in Python."""
    return time is not None and time.hour % 2 == 0


def in_writer(mishap: Mishap) -> Here:
    """Make the mistake in the writer of segments."""
    return Here(make_writer=writer_with(mishap, always=True))


def in_parts(mishap: Mishap) -> Here:
    """Make the mistake in the part files between the halves."""
    return Here(parts=mishap)


def in_spark(mishap: Mishap) -> Here:
    """Make the mistake in what Spark's plan hands on."""
    return Here(handed_on=mishap)


def shown(segments: Sequence[Segment]) -> tuple[SegmentInput, ...]:
    """Return segments as inputs that are wholly visible."""
    return tuple(SegmentInput(segment=one, visible=IntervalSet((one.span,))) for one in segments)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with fast_folder() as name:
        yield Path(name)


@pytest.fixture(scope="module")
def raw(folder: Path) -> tuple[SegmentInput, ...]:
    rng = random.Random(1)
    return shown(write_raw(folder, [[raw_row(rng) for _ in range(40)] for _ in range(2)], "raw"))


@pytest.fixture(scope="module")
def rolled(folder: Path) -> tuple[SegmentInput, ...]:
    rng = random.Random(2)
    groups = [[rolled_row(rng) for _ in range(40)] for _ in range(2)]
    return shown(write_rolled(folder, groups, "rolled"))


@pytest.mark.parametrize(
    "case",
    [
        Case("in memory", "cut", "n", "tags"),
        Case("in memory", "ranges", "x", "__time"),
        Case("staged", "hashed", "b", "d"),
        Case("staged", "truncated", "d", "__time"),
        Case("range by range", "cut", "tags", "x"),
        Case("range by range", "truncated", "n", "d"),
        Case("shared out", "ranges", "d", "b"),
        Case("shared out", "hashed", "x", "n"),
    ],
    ids=lambda case: f"{case.way}, {case.wanted}",
)
def test_no_mistake_of_the_writer_with_raw_rows(
    folder: Path, raw: tuple[SegmentInput, ...], case: Case
) -> None:
    inputs = tuple(replace(one, visible=CLIP) for one in raw)
    group = Group(folder, inputs, CompactionTarget(**TARGETS[case.wanted]))
    check(group, WAYS[case.way], in_writer, case.mistakes(TYPES))


@pytest.mark.parametrize(
    "case",
    [
        Case("staged", "hashed", "users", "sum"),
        Case("staged", "truncated", "dsum", "d"),
        Case("shared out", "ranges", "first", "sizes"),
        Case("shared out", "truncated", "count", "pages"),
    ],
    ids=lambda case: f"{case.way}, {case.wanted}",
)
def test_no_mistake_of_the_writer_with_rolled_up_rows(
    folder: Path, rolled: tuple[SegmentInput, ...], case: Case
) -> None:
    group = Group(folder, rolled, CompactionTarget(**TARGETS[case.wanted]))
    check(group, WAYS[case.way], in_writer, case.mistakes(dict(ROLLUP.segment_columns)))


@settings(max_examples=min(40, settings().max_examples))  # one takes some 20 ms
@given(
    places=st.tuples(st.integers(0, 79), st.integers(0, 79)),
    column=st.sampled_from(["__time", *TYPES]),
    kind=st.sampled_from(["lose", "double", "alter", "swap"]),
    way=st.sampled_from(["in memory", "staged"]),
)
def test_what_is_refused_is_what_is_wrong(
    folder: Path,
    raw: tuple[SegmentInput, ...],
    *,
    places: tuple[int, int],
    column: str,
    kind: str,
    way: str,
) -> None:
    place, other = places
    mishap = Mishap(
        {
            "lose": lose(place),
            "double": double(place),
            "alter": alter(place, column, TYPES.get(column, ColumnType.LONG)),
            "swap": swap(place, other, column),
        }[kind]
    )
    group = Group(folder, raw, CompactionTarget())
    assert group.holds(WAYS[way], in_writer(mishap)) != mishap.is_made


@pytest.mark.parametrize("column", ["__time", *dict(ROLLUP.segment_columns)])
def test_no_column_of_rolled_up_rows_is_altered_or_mixed_up(
    folder: Path, rolled: tuple[SegmentInput, ...], column: str
) -> None:
    types = {"__time": ColumnType.LONG, **dict(ROLLUP.segment_columns)}
    every = mistakes(column, column, types)
    made = {kind: every[kind] for kind in ("alter", "swap")}
    check(Group(folder, rolled, CompactionTarget()), WAYS["staged"], in_writer, made)
    assert not list((folder / "store" / "out").glob(".*"))


@pytest.mark.slow
@pytest.mark.parametrize("way", ["staged", "shared out"])
def test_no_mistake_of_the_writer_with_rows_that_it_rolls_up(
    folder: Path, raw: tuple[SegmentInput, ...], way: str
) -> None:
    group = Group(folder, raw, CompactionTarget(**TARGETS["rolled up"]))
    check(group, WAYS[way], in_writer, mistakes("n", "count", TYPES))


@pytest.mark.parametrize(
    "case",
    [
        Case("range by range", "cut", "x", "tags"),
        Case("shared out", "ranges", "b", "x"),
        Case("shared out", "hashed", "tags", "__time"),
        Case("shared out", "truncated", "n", "d"),
    ],
    ids=lambda case: f"{case.way}, {case.wanted}",
)
def test_no_mistake_of_part_files_with_raw_rows(
    folder: Path, raw: tuple[SegmentInput, ...], case: Case
) -> None:
    group = Group(folder, raw, CompactionTarget(**TARGETS[case.wanted]))
    check(group, WAYS[case.way], in_parts, case.mistakes(TYPES))


@pytest.mark.parametrize(("altered", "swapped"), [("count", "sum"), ("dsum", "n"), ("n", "dsum")])
def test_no_mistake_of_part_files_with_rolled_up_rows(
    folder: Path, rolled: tuple[SegmentInput, ...], altered: str, swapped: str
) -> None:
    """What is linear in them is proved: keys, numbers of rows, sums."""
    group = Group(folder, rolled, CompactionTarget(**TARGETS["truncated"]))
    made = mistakes(altered, swapped, dict(ROLLUP.segment_columns))
    check(group, WAYS["shared out"], in_parts, made)


@pytest.mark.parametrize("wanted", ["plain", "truncated"])
@pytest.mark.parametrize("visible", [None, CLIP], ids=["whole", "clipped"])
def test_no_mistake_of_what_spark_hands_on(
    folder: Path, raw: tuple[SegmentInput, ...], wanted: str, visible: IntervalSet | None
) -> None:
    inputs = tuple(replace(one, visible=visible or one.visible) for one in raw)
    group = Group(folder, inputs, CompactionTarget(**{**TARGETS[wanted], **FILTER}))
    made = {**mistakes("x", "d", TYPES), "lose the end": lose_the_end}
    check(group, WAYS["shared out"], in_spark, made)
