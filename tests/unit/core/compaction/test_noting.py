"""Columns that settings name and no segment has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from carnac.core.compaction.plan.groups import CompactionTarget, Partitioning
from carnac.core.compaction.plan.inputs import PlanSegment, SegmentLayout
from carnac.core.compaction.plan.planning import note_absent
from carnac.core.compaction.plan.settings import CompactionSettings
from carnac.core.segments.segment import ColumnType, Metric, MetricKind
from tests.compactions import SUM, raw, rolled_up

RAW = raw("page", "user")
ROLLED_UP = rolled_up(replace(SUM, name="n"))


def metric(name: str, of: str | None) -> Metric:
    return Metric(name=name, kind=MetricKind.SUM, input=of, type=ColumnType.LONG)


def notes(target: CompactionTarget, *layouts: SegmentLayout, **named: str) -> list[str]:
    segments = [
        PlanSegment(
            segment_id=str(at), start_ms=at, end_ms=at + 1, size_bytes=1, rows=1, layout=layout
        )
        for at, layout in enumerate(layouts or (RAW, ROLLED_UP))
    ]
    columns = {target.filter or "": tuple(named.values())}
    return list(note_absent(segments, CompactionSettings(target=target), columns))


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (
            CompactionTarget(partitioning=Partitioning(kind="range", dimensions=("page", "pag"))),
            "dimension 'pag', which the spec partitions by: it counts as null in every row; is the",
        ),
        (
            CompactionTarget(dimensions=("usr",), allow_lossy=True),
            "dimension 'usr', which dimensionsSpec keeps: all others are left out; is the name right?",
        ),
        (
            CompactionTarget(sort_by=("page", "n", "__time", "pages")),
            "column 'pages', which sortBy names: no row is sorted by it; is the name right?",
        ),
        (
            CompactionTarget(metrics=(metric("s", "n"), metric("c", None)), allow_lossy=True),
            "column 'n', which metric 's' is made of; is the name right?",
        ),
    ],
)
def test_one_sentence_says_what_is_absent(target: CompactionTarget, words: str) -> None:
    (note,) = notes(target)
    assert words in note


def test_a_filter_is_asked_of_what_it_has_not_seen_yet() -> None:
    target = CompactionTarget(filter="usr = 'a'", allow_lossy=True)
    (note,) = notes(target, a="usr", b="page", c="__time")
    assert "column 'usr', which the filter names: it counts as null in every row" in note
    passed = raw("page", filtered_by="usr = 'a'")
    assert notes(target, passed, a="usr") == [], "the column may have been left out since"


def test_nothing_is_said_of_what_is_there() -> None:
    target = CompactionTarget(
        partitioning=Partitioning(kind="range", dimensions=("page",)),
        dimensions=("page", "user"),
        sort_by=("user", "s"),
        metrics=(metric("s", "user"),),
        allow_lossy=True,
    )
    assert notes(target) == []
