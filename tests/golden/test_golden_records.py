"""Records that older versions wrote are read.

The files in `records/` were written by the version that introduced their format. They are never written anew: a change
that cannot read them needs a new `recordFormat` and an upgrade.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from carnac.core.log import records
from carnac.core.segments import record as segment_records
from tests.unit.core.test_records import DELETION_PROOF, PROOF, SEGMENTS

GOLDEN = Path(__file__).parent / "records"


@pytest.mark.parametrize("name", SEGMENTS)
def test_golden_segments_are_read(name: str) -> None:
    text = (GOLDEN / f"{name}.v1.json").read_text(encoding="utf-8")
    assert (
        segment_records.load_segment(text)
        == segment_records.load_stored_segment(text)
        == SEGMENTS[name]
    )
    assert json.loads(segment_records.dump_segment(SEGMENTS[name])) == json.loads(text)


def test_golden_commit_details_are_read() -> None:
    text = (GOLDEN / "commit-details.v1.json").read_text(encoding="utf-8")
    found = records.load_commit_details(text)
    offsets, after, lookups, proof = found
    assert not after
    assert dict(offsets) == {"topic/0": "42"}
    assert list(lookups.items()) == [("codes", True), ("ancient", False)]
    assert proof is not None
    assert math.isnan(proof.sums_in["delta"])
    assert repr(proof) == repr(PROOF)
    again = records.dump_commit_details(found)
    assert json.loads(again) == json.loads(text)


def test_golden_details_of_a_deletion_are_read() -> None:
    text = (GOLDEN / "commit-details-deletion.v1.json").read_text(encoding="utf-8")
    details = records.CommitDetails({}, {}, {}, DELETION_PROOF)
    assert records.load_commit_details(text) == details
    assert json.loads(records.dump_commit_details(details)) == json.loads(text)
