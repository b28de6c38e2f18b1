from __future__ import annotations

import json

import pytest

from carnac.core.compaction.plan.group_records import (
    group_from_json,
    group_to_json,
    target_from_json,
)
from carnac.core.compaction.plan.groups import (
    CompactionGroup,
    CompactionTarget,
    GroupKind,
    Partitioning,
)
from carnac.core.segments.segment import ColumnType, Metric, MetricKind
from carnac.core.time.intervals import Interval
from carnac.errors import Invalid

PLAIN = CompactionGroup(
    group_id="g1", datasource="events", kind=GroupKind.MAJOR, interval=Interval(0, 86_400_000)
)
FULL = CompactionGroup(
    group_id="g2",
    datasource="events",
    kind=GroupKind.MINOR,
    interval=Interval(-10, 10),
    segment_ids=("a", "b"),
    target=CompactionTarget(
        target_rows=7,
        target_bytes=8,
        partitioning=Partitioning(kind="hashed", dimensions=("d",), buckets=3),
        sort_by=("d", "__time"),
        segment_granularity="MONTH",
        query_granularity="HOUR",
        dimensions=("d",),
        metrics=(
            Metric(name="n", kind=MetricKind.COUNT, input=None, type=ColumnType.LONG),
            Metric(
                name="u",
                kind=MetricKind.HLL,
                input="user",
                type=ColumnType.HLL,
                params=(("lg_k", 12),),
                is_state=True,
            ),
        ),
        allow_lossy=True,
    ),
    rows=9,
    size_bytes=10,
    revision=11,
)


@pytest.mark.parametrize("group", [PLAIN, FULL], ids=["plain", "full"])
def test_a_group_survives_json(group: CompactionGroup) -> None:
    assert group_from_json(json.loads(json.dumps(group_to_json(group)))) == group


def test_parameters_of_a_metric_are_the_same_in_whatever_order_they_are_written() -> None:
    record = json.loads(json.dumps(group_to_json(FULL)))
    hll = record["target"]["metrics"][1]
    orders = [{"k": 8, "lg_k": 12}, {"lg_k": 12, "k": 8}]
    one, other = (
        group_from_json(
            {**record, "target": {**record["target"], "metrics": [{**hll, "params": params}]}}
        )
        for params in orders
    )
    assert one == other


def test_defaults_are_not_written() -> None:
    assert set(group_to_json(PLAIN)) == {"id", "dataSource", "kind", "interval"}


@pytest.mark.parametrize(
    "change", [{"kind": "huge"}, {"interval": [1]}, {"segmets": []}, {"target": {"rows": 1}}]
)
def test_what_is_written_wrongly_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(Invalid):
        group_from_json({**group_to_json(PLAIN), **change})
    with pytest.raises(Invalid):
        target_from_json({"partitioning": "hashed"})
