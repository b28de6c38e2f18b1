"""What a store, commits, segments and plans look like at a prompt and in a notebook: short, and nobody's markup."""

from __future__ import annotations

import re

import pytest

from carnac.core.compaction.plan.groups import CompactionGroup, GroupKind
from carnac.core.showing import ROWS_MAX, Listing, Shown
from carnac.core.time.intervals import Interval, parse_interval
from carnac.ports import Tag
from carnac.store import Store
from tests.unit.store.events import append

SCRIPT = "<script>alert(1)</script>\nand more"


@pytest.fixture
def filled(store: Store) -> Store:
    append(store, (1, 0), (2, 1))
    store.set_lookup("names", {"a": "b"}, message=SCRIPT)
    store.tag("good")
    return store


def test_a_store_says_where_it_is_and_shows_what_it_has(filled: Store) -> None:
    assert re.fullmatch(r"<Store: files (file://)?/.+>", repr(filled))
    page = filled._repr_html_()
    assert "<th>revision</th><td>2</td>" in page
    assert "<td>events</td>" in page


def test_a_store_that_is_closed_is_shown_none_the_less(filled: Store) -> None:
    filled.close()
    assert "<th>files</th>" in filled._repr_html_()


def test_commits_are_one_short_line_without_markup_or_control(filled: Store) -> None:
    lookup, appended = filled.log()
    assert re.fullmatch(
        r"<CommitSummary: revision 1, kind append, published \S+Z?, datasource events, new rows 2>",
        repr(appended),
    )
    assert repr(lookup).endswith(r"message <script>alert(1)</script>\nand more>")
    for page in (lookup._repr_html_(), filled.show()._repr_html_(), filled.log()._repr_html_()):
        assert "<script>" not in page
        assert "&lt;script&gt;" in page


def test_segments_say_what_they_hold(filled: Store) -> None:
    (found,) = filled.segments("events")
    assert repr(found.segment).startswith(
        f"<Segment: segment {found.segment.segment_id}, datasource events, time 2013-"
    )
    assert "rows 2, size " in repr(found)
    assert "partition 0, added by 1" in repr(found)


def test_lists_are_tables_in_a_notebook(filled: Store) -> None:
    for found in (
        filled.log(),
        filled.segments("events"),
        filled.chunks("events"),
        filled.tags(),
        filled.datasources(),
    ):
        page = found._repr_html_()  # type: ignore[attr-defined]
        assert page.count("<tr>") == 1 + len(found)
    many = Listing(Tag(name=f"t{n}", revision=n, created_at_ms=0) for n in range(30))
    assert many._repr_html_().count("<tr>") == 1 + ROWS_MAX
    assert "the first 20 of 30" in many._repr_html_()
    assert many[0] == Tag(name="t0", revision=0, created_at_ms=0)


def test_plans_say_what_they_would_do(filled: Store) -> None:
    group = CompactionGroup("g", "events", GroupKind.MAJOR, parse_interval("2013-10/P1M"))
    assert (
        repr(group)
        == "<CompactionGroup: group g, kind major, interval 2013-10-01/2013-11-01, segments all>"
    )
    assert "<th>interval</th><td>2013-10-01/2013-11-01</td>" in group._repr_html_()
    report = filled.compact(filled.plan_compaction("events"))
    assert repr(report).startswith("<CompactionReport: groups 1, ")
    assert "<th>outcome</th>" in report._repr_html_()


def test_intervals_are_iso_8601_wherever_they_are_shown() -> None:
    assert repr(Interval(0, 3_600_000)) == "<Interval 1970-01-01/1970-01-01T01:00Z>"


def test_long_texts_are_cut() -> None:
    class Long(Shown):
        def _facts(self) -> dict[str, str]:
            return {"text": "x" * 500, "nothing": ""}

    assert repr(Long()) == f"<Long: text {'x' * 59}…>"
    assert f"<td>{'x' * 199}…</td>" in Long()._repr_html_()
