from __future__ import annotations

import json
from dataclasses import dataclass
from typing import NamedTuple

import pytest

from carnac.core.json_form import to_json
from carnac.core.log.commits import CommitKind
from carnac.core.segments.version import IdRanges, SegmentVersion
from carnac.core.time.intervals import interval_set, parse_interval
from carnac.ports import Lease, LeaseKind

DAY = parse_interval("2013-01-01/P1D")


def test_instants_are_iso_and_lose_their_unit_durations_keep_it() -> None:
    @dataclass
    class Sample:
        at_ms: int
        created_at_ms: int | None
        eta_ms: int
        size_bytes: int

    assert to_json(Sample(at_ms=0, created_at_ms=None, eta_ms=5, size_bytes=7)) == {
        "at": "1970-01-01T00:00:00.000Z",
        "created_at": None,
        "eta_ms": 5,
        "size_bytes": 7,
    }


def test_a_named_tuple_is_an_object() -> None:
    class Sample(NamedTuple):
        name: str
        at_ms: int

    assert to_json([Sample("x", 0), ("y", 1)]) == [
        {"name": "x", "at": "1970-01-01T00:00:00.000Z"},
        ["y", 1],
    ]


def test_a_record_becomes_plain_json() -> None:
    lease = Lease(
        lease_id="x",
        kind=LeaseKind.READER,
        revision=3,
        holder="h",
        acquired_at_ms=1,
        expires_at_ms=2,
        ttl_ms=1,
    )
    block = to_json(lease)
    assert json.loads(json.dumps(block)) == block
    assert isinstance(block, dict)
    assert block["kind"] == "reader"
    assert block["expires_at"] == "1970-01-01T00:00:00.002Z"


def test_the_words_of_the_core() -> None:
    assert to_json(DAY) == "2013-01-01T00:00:00.000Z/2013-01-02T00:00:00.000Z"
    assert to_json(interval_set([DAY])) == [str(DAY)]
    assert to_json(SegmentVersion(0, 2)) == "1970-01-01T00:00:00.000Z_2"
    assert to_json(IdRanges(((0, 3), (5, 5)))) == "0-3,5"
    assert to_json({CommitKind.APPEND: (1, None)}) == {"append": [1, None]}


def test_what_has_no_form_is_refused() -> None:
    with pytest.raises(TypeError, match="object has no JSON form"):
        to_json(object())
