"""Receipts of answers, derived again; and what changed a number."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import carnac
from carnac.errors import Invalid, NotFound
from carnac.store.receipts import dump

SPEC = {
    "dataSource": "events",
    "timestampSpec": {"column": "__time", "format": "iso"},
    "dimensions": ["kind", {"name": "x", "type": "double"}, {"name": "n", "type": "long"}],
    "granularitySpec": {"segmentGranularity": "day", "queryGranularity": "none"},
}
"""To find one out takes ten times as long as an append."""
COUNT = "SELECT kind, count(*) AS c, sum(x) AS s FROM events GROUP BY kind"


def rows_of(day: int, count: int, kind: str = "a") -> list[dict[str, object]]:
    return [
        {
            "__time": f"2013-01-{day:02d}T00:00:{place:02d}Z",
            "kind": kind,
            "x": place / 3,
            "n": place,
        }
        for place in range(count)
    ]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[carnac.Store]:
    with carnac.open(tmp_path / "store", create=True) as store:
        store.append("events", rows_of(1, 5), spec=SPEC)
        store.append("events", rows_of(2, 7, "b"), spec=SPEC)
        yield store


def test_a_result_has_a_receipt_that_holds_later(store: carnac.Store) -> None:
    result = store.sql(COUNT)
    receipt = result.receipt
    assert (receipt.revision, receipt.rows) == (2, 2)
    assert receipt == store.receipt(COUNT)
    store.append("events", rows_of(3, 9), spec=SPEC)
    file = dump(receipt, COUNT, [])
    found = store.verify_receipt(file)
    assert found.is_verified
    assert found.derived == receipt
    again = store.sql(f"{COUNT} -- the same").receipt
    assert again.statement_digest == receipt.statement_digest
    assert again.segments_digest != receipt.segments_digest


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        ({"statement": COUNT.replace("sum", "max")}, "the statement"),
        ({"revision": 1}, "other segments"),
        ({"rows": 3}, "has 2 rows"),
        ({"segments_digest": "00"}, "other segments"),
        ({"parameters": [1], "statement": f"{COUNT} HAVING count(*) > ?"}, "parameters"),
    ],
)
def test_a_receipt_that_does_not_hold_says_why(
    store: carnac.Store, changes: dict[str, Any], finding: str
) -> None:
    file = json.loads(dump(store.receipt(COUNT), COUNT, []))
    found = store.verify_receipt(json.dumps(file | changes))
    assert not found.is_verified
    assert any(finding in one for one in found.findings)


def test_what_cannot_be_compared_is_said(store: carnac.Store) -> None:
    text = "SELECT count(*) AS c, now() AS t FROM events"
    found = store.verify_receipt(dump(store.receipt(text), text, []))
    assert found.is_verified
    assert "time or on chance" in found.notes[0]
    unread = json.loads(dump(store.receipt(COUNT), COUNT, [])) | {"rows": None, "rows_digest": None}
    assert "not read to its end" in store.verify_receipt(json.dumps(unread)).notes[0]
    old = json.loads(dump(store.receipt(COUNT), COUNT, [])) | {"rows_digest": "0.9:abc"}
    assert "form 0.9" in store.verify_receipt(json.dumps(old)).notes[0]


def test_parameters_by_place_and_by_name(store: carnac.Store) -> None:
    for text, values in (
        ("SELECT count(*) FROM events WHERE n > ?", [2]),
        ("SELECT count(*) FROM events WHERE n > $least", {"least": 2}),
    ):
        receipt = store.sql(text, parameters=values).receipt
        assert store.verify_receipt(dump(receipt, text, values)).is_verified


@pytest.mark.parametrize("text", ["[]", "{}", '{"statement": "SELECT 1"}', "nothing"])
def test_what_is_no_receipt_is_refused(store: carnac.Store, text: str) -> None:
    with pytest.raises(Invalid):
        store.verify_receipt(text)


def test_a_revision_that_is_not_kept_is_named(store: carnac.Store) -> None:
    file = json.loads(dump(store.receipt(COUNT), COUNT, [])) | {"revision": 77}
    with pytest.raises(NotFound, match="77"):
        store.verify_receipt(json.dumps(file))


def test_counts_and_sums_are_found_from_segments_alone(store: carnac.Store) -> None:
    store.append("events", rows_of(3, 4), spec=SPEC)
    store.append("others", rows_of(3, 4))
    store.delete("events", interval="2013-01-02/2013-01-03")
    found = store.why("SELECT count(*) AS c, sum(n) AS s FROM events", 1)
    assert "alone" in found.way
    assert [(one.commit.revision, one.deltas) for one in found.changes] == [
        (2, {(): [7, 21]}),
        (3, {(): [4, 6]}),
        (5, {(): [-7, -21]}),
    ]
    assert (found.before, found.after) == ({(): [5, 10]}, {(): [9, 16]})
    assert found.commits == 3
    narrowed = store.why("SELECT count(*) AS c FROM events WHERE kind = ?", 1, 3, parameters=["a"])
    assert [(one.commit.revision, one.deltas) for one in narrowed.changes] == [(3, {(): [4]})]


def test_groups_have_changes_of_their_own(store: carnac.Store) -> None:
    found = store.why("SELECT kind, count(*) AS c FROM events GROUP BY kind", 0)
    assert found.groups == ["kind"]
    assert [one.deltas for one in found.changes] == [{("a",): [5]}, {("b",): [7]}]


def test_other_numbers_are_found_by_running_at_each_revision(store: carnac.Store) -> None:
    found = store.why("SELECT max(n) AS m, min(n) - 1 AS a FROM events", 1)
    assert "each revision" in found.way
    assert [(one.commit.revision, one.deltas) for one in found.changes] == [(2, {(): [2, 0]})]
    lookups = "SELECT count(*) AS c FROM events e JOIN lookup.names l ON l.k = e.kind"
    store.set_lookup("names", {})
    store.set_lookup("names", {"a": "Ann"})
    found = store.why(lookups, 3)
    assert [(one.commit.revision, one.deltas) for one in found.changes] == [(4, {(): [5]})]


@pytest.mark.parametrize("number", ["max(n)", "sum(n)"])
def test_a_datasource_that_is_gone_for_a_while_counts_as_nothing(
    store: carnac.Store, number: str
) -> None:
    text = f"SELECT {number} AS m FROM events"
    value = next(iter(store.sql(text).rows()[0].values()))
    store.delete("events", interval="2013-01-01/2014-01-01")
    store.revert(3)
    gone, whole = store.why(text, 2, 3), store.why(text, 2)
    assert (gone.before[()], gone.after) == ([value], {})
    assert [(one.commit.revision, one.deltas) for one in gone.changes] == [(3, {(): [-value]})]
    assert [one.deltas for one in whole.changes] == [{(): [-value]}, {(): [value]}]
    with pytest.raises(NotFound, match="at revision 4"):
        store.why("SELECT count(*) FROM nothing", 2)


def test_a_part_of_a_segment_counts_as_it_is_seen(store: carnac.Store) -> None:
    """A segment is carved: its entry goes, and one that shows less comes."""
    store.delete("events", interval="2013-01-01T00:00:02Z/2013-01-01T00:00:04Z")
    found = store.why("SELECT count(*) AS c, sum(n) AS s FROM events", 2)
    assert [one.deltas for one in found.changes] == [{(): [-2, -5]}]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT kind FROM events LIMIT 1",
        "SELECT n FROM events",
        "SELECT now(), count(*) FROM events",
    ],
)
def test_why_wants_numbers(store: carnac.Store, text: str) -> None:
    with pytest.raises(Invalid):
        store.why(text, 1)


def test_why_wants_revisions_in_order(store: carnac.Store) -> None:
    with pytest.raises(Invalid, match="later than"):
        store.why(COUNT, 2, 1)


@pytest.mark.slow
@settings(max_examples=max(5, min(15, settings().max_examples // 3)))
@given(st.lists(st.tuples(st.integers(1, 4), st.booleans(), st.integers(1, 5)), max_size=6))
def test_changes_add_up(steps: list[tuple[int, bool, int]]) -> None:
    """Whatever was appended and deleted: the changes are all that is different, and none is none."""
    with (
        tempfile.TemporaryDirectory() as folder,
        carnac.open(Path(folder) / "store", create=True) as store,
    ):
        store.append("events", rows_of(1, 3), spec=SPEC)
        for day, is_append, count in steps:
            if is_append:
                store.append("events", rows_of(day, count), spec=SPEC)
            elif is_there(store):
                store.delete("events", interval=f"2013-01-{day:02d}/2013-01-{day + 1:02d}")
        if is_there(store):
            found = store.why("SELECT count(*) AS c, sum(n) AS s FROM events", 0)
            assert "alone" in found.way
            for place in range(2):
                total = sum(one.deltas[()][place] for one in found.changes)
                assert total == found.after[()][place]


def is_there(store: carnac.Store) -> bool:
    return any(one.name == "events" for one in store.datasources())
