from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carnac.cli.output import Output
from carnac.cli.tables import (
    Column,
    format_seconds,
    interval_text,
    render_table,
    short_ms,
    text_width,
)
from carnac.core.time.intervals import MAX_MS, MIN_MS, Interval, parse_instant, parse_interval

TEXT = Column("name")
NUMBER = Column("n", is_number=True)


def test_numbers_are_right_aligned_and_trailing_spaces_are_not_written() -> None:
    assert render_table([TEXT, NUMBER, TEXT], [["a", "1", "x"], ["bcd", "1234", ""]]) == [
        "name     n  name",
        "────  ────  ────",
        "a        1  x",
        "bcd   1234",
    ]


def test_an_empty_table_has_its_titles() -> None:
    assert render_table([TEXT, NUMBER], []) == ["name  n", "────  ─"]


def test_text_columns_are_cut_to_the_terminal_and_numbers_are_not() -> None:
    lines = render_table([TEXT, NUMBER], [["x" * 100, "1234567890"]], width=30)
    assert lines[2] == "x" * 17 + "…  1234567890"
    assert all(text_width(line) <= 30 for line in lines)


def test_times_are_never_cut() -> None:
    columns = [Column("time", is_whole=True), TEXT]
    lines = render_table(columns, [["2013-01-01 00:00:00", "x" * 40]], width=40)
    assert lines[2] == f"2013-01-01 00:00:00  {'x' * 18}…"


def test_wide_and_combining_characters_count_as_the_terminal_shows_them() -> None:
    assert text_width("日本") == 4
    assert text_width("e\u0301") == 1
    lines = render_table([TEXT, NUMBER], [["日本", "1"], ["abcd", "2"]])
    assert lines[2:] == ["日本  1", "abcd  2"]


def test_titles_are_shown_as_a_terminal_may_get_them() -> None:
    titles = [Column("a\x1b[31mb"), Column("c\nd")]
    assert render_table(titles, [["x" * 50, "y"]], width=30)[0] == r"a\x1b[31mb                c\nd"


def test_prose_is_broken_at_blanks_and_never_cut() -> None:
    said = "restore them from a backup, or end all processes of the store first"
    columns = [Column("check"), Column("found", is_prose=True)]
    assert render_table(columns, [["pages", said], ["disk", ""]], width=47) == [
        "check  found",
        "─────  " + "─" * 40,
        "pages  restore them from a backup, or end all",
        "       processes of the store first",
        "disk",
    ]


def test_prose_without_room_stands_below_its_row() -> None:
    columns = [Column("time", is_whole=True), NUMBER, Column("message", is_prose=True)]
    rows = [["2024-01-01 00:00:00", "1", "a word " * 6], ["2024-01-01 00:00:01", "2", ""]]
    assert render_table(columns, rows, width=34) == [
        "time                 n",
        "───────────────────  ─",
        "2024-01-01 00:00:00  1",
        "    a word a word a word a word a",
        "    word a word",
        "2024-01-01 00:00:01  2",
    ]
    assert len(render_table(columns, rows)) == 4


@given(st.text(), st.integers(0, 90))
def test_no_word_of_prose_is_lost(said: str, width: int) -> None:
    lines = render_table([NUMBER, Column("said", is_prose=True)], [["1", said]], width=width)
    whole = render_table([NUMBER, TEXT], [["1", said]])
    assert "".join(lines[2:]).replace(" ", "") == whole[2].replace(" ", "")
    assert all(text_width(line) <= max(width, 12) for line in lines)


@given(
    st.lists(st.tuples(st.text(), st.text()), max_size=5), st.one_of(st.none(), st.integers(20, 60))
)
def test_every_row_is_one_printable_line(rows: list[tuple[str, str]], width: int | None) -> None:
    lines = render_table([TEXT, TEXT], rows, width=width)
    assert len(lines) == 2 + len(rows)
    assert all(line.isprintable() for line in lines)
    if width is not None:
        assert all(text_width(line) <= max(width, 8 + 2 + 8) for line in lines)


def test_a_row_that_a_terminal_is_too_narrow_for_is_shown_value_by_value(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    columns, row = (
        [Column(f"column {n}") for n in range(9)],
        [f"value {n} is long" for n in range(9)],
    )
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    Output().table(columns, [row, row], is_folded=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["row 1", "column 0  value 0 is long", "column 1  value 1 is long"]
    assert (len(lines), lines[10]) == (20, "row 2")
    Output().table(columns[:2], [row[:2]], is_folded=True)
    assert capsys.readouterr().out.splitlines()[0].split() == ["column", "0", "column", "1"]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    Output().table(columns, [row], is_folded=True)
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_seconds() -> None:
    assert [format_seconds(s) for s in (0.004, 9.994, 12.34, 59.96, 185.2)] == [
        "0.00 s",
        "9.99 s",
        "12.3 s",
        "60.0 s",
        "3 min 5 s",
    ]


@pytest.mark.parametrize(
    ("instant", "text"),
    [
        ("2013-02-01", "2013-02-01"),
        ("2013-02-01T05:30", "2013-02-01 05:30"),
        ("2013-02-01T05:30:07", "2013-02-01 05:30:07"),
        ("2013-02-01T05:30:07.250", "2013-02-01 05:30:07.250"),
    ],
)
def test_instants_are_as_short_as_exact(instant: str, text: str) -> None:
    assert short_ms(parse_instant(instant)) == text


def test_whole_days_and_the_ends_of_time() -> None:
    assert interval_text(parse_interval("2013-02-01/P1D")) == "2013-02-01/2013-02-02"
    assert (
        interval_text(parse_interval("2013-02-01T05:30/PT1H"))
        == "2013-02-01T05:30Z/2013-02-01T06:30Z"
    )
    assert interval_text(parse_interval("2013-02-01/P1M")) == "2013-02-01/2013-03-01"
    assert interval_text(Interval(MIN_MS, MAX_MS)) == "0001-01-01/10000-01-01"
    assert interval_text(parse_interval("0001-01-01/P1D")) == "0001-01-01/0001-01-02"
