"""The tables of docs/concepts/timeline.md are run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

from carnac.core.log.entries import Entry
from carnac.core.segments.version import parse_id_ranges
from carnac.core.time.intervals import ETERNITY, Interval, parse_instant, parse_interval
from tests.support.laws.timeline import check_timeline
from tests.support.timeline import Visibility
from tests.support.told_timelines import Told
from tests.timelines import entry, hours

PAGE = Path(__file__).resolve().parents[3] / "docs" / "concepts" / "timeline.md"
CHUNK = hours(0, 1)


def tables() -> list[list[list[str]]]:
    """The tables of the page, each a list of rows of cells, without the line under the header."""
    found = re.findall(r"(?:^\|.*\|\n)+", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    rows = [[line.strip("|\n").split("|") for line in table.splitlines()] for table in found]
    return [
        [[cell.strip() for cell in row] for row in table if "---" not in row[0]] for table in rows
    ]


def table(*header: str) -> list[list[str]]:
    """The rows of the only table with these first headings."""
    found = [rows[1:] for rows in tables() if rows[0][: len(header)] == list(header)]
    assert len(found) == 1, header
    return found[0]


def at(text: str) -> int:
    return parse_instant(f"{text}:00" if "T" in text else text)


def interval(text: str) -> Interval:
    start, end = text.split("/")
    return Interval(at(start), at(end))


def test_one_chunk() -> None:
    entries: dict[str, Entry] = {}
    for name, minor, group, replaces in table("entry", "minor version"):
        entries[name] = entry(
            int(name) + 1,
            CHUNK,
            minor=int(minor),
            partition_id=int(name),
            group=parse_id_ranges(group),
            replaces=parse_id_ranges(replaces),
        )
    told = Told()
    rows = table("what happens", "visible")
    assert len(rows) > 10
    for what, *expected in rows:
        verb, *names = what.split()
        for name in names:
            act = {"announce": told.add, "lose": told.expect, "retire": told.retire}
            act[verb](entries[name])
        timeline = told.now()
        found = [
            " ".join(str(e.partition_id) for e in timeline.entries(visibility))
            for visibility in (
                Visibility.VISIBLE,
                Visibility.STANDBY,
                Visibility.OVERSHADOWED,
            )
        ]
        assert found == expected, what
        check_timeline(timeline)
        if what == "lose 5":
            (piece,) = timeline.lookup(ETERNITY, incomplete=True)
            assert [e.partition_id for e in piece.entries] == [0, 2, 4, 7]
            assert not piece.is_complete


def test_several_granularities() -> None:
    rows = table("entry", "chunk")
    entries = {
        name: entry(number, interval(chunk), major=int(major))
        for number, (name, chunk, major) in enumerate(rows, start=1)
    }
    names = {item.entry_id: name for name, item in entries.items()}
    told = Told()
    for what, shown in table("what happens", "what shows, in order of time"):
        verb, name = what.split()
        act = {"announce": told.add, "remove": told.remove}
        act[verb](entries[name])
        expected = [part.split() for part in shown.split(", ")]
        found = [
            (names[e.entry_id], piece.interval)
            for piece in told.now().lookup(parse_interval("2013-01-01/2014-01-01"))
            for e in piece.entries
        ]
        assert found == [(name, interval(text)) for name, text in expected]
