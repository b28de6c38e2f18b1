"""One of a thing has no `s`, wherever people read of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import carnac
from carnac.core.words import (
    bytes_text,
    counted,
    first_of,
    parse_bytes,
    share_text,
    unique_names,
)

SOURCE = Path(carnac.__file__).parent
THINGS = "segment|datasource|row|time chunk|server|task|group"


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (12345, "12,345 rows")]
)
def test_a_number_agrees_with_its_word(number: int, text: str) -> None:
    assert counted(number, "row") == text


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("50000000000", 50_000_000_000),
        ("50GB", 50_000_000_000),
        (" 1.5 tb ", 1_500_000_000_000),
        ("512MiB", 512 << 20),
        ("8g", 8_000_000_000),
        ("0", 0),
        ("7B", 7),
    ],
)
def test_sizes_are_read_as_people_write_them(text: str, size_bytes: int) -> None:
    assert parse_bytes(text) == size_bytes
    assert parse_bytes(bytes_text(size_bytes)) == pytest.approx(size_bytes, rel=0.1)


@pytest.mark.parametrize("text", ["", "-5", "GB", "10 GBit", "1e9", "1.5.5GB", "9" * 21, "٣GB"])
def test_what_is_no_size_is_said(text: str) -> None:
    with pytest.raises(ValueError, match="is no size; write it like 50GB"):
        parse_bytes(text)


def test_pictures_and_commands_count_with_the_helper() -> None:
    by_hand = re.compile(rf"(:,|number_text\([^{{}}]*\))\}} (?:{THINGS})s\b(?!/)")
    found = [
        f"{path.relative_to(SOURCE)}: {match[0]}"
        for folder in ("console", "cli/commands")
        for path in sorted((SOURCE / folder).rglob("*.py"))
        for match in by_hand.finditer(path.read_text())
    ]
    assert found == [], "write counted(number, thing): there may be one only"


@pytest.mark.parametrize(
    ("most", "by", "text"),
    [(3, ", ", "a, b, c"), (2, ", ", "a, b and 1 more"), (1, " ", "a and 2 more")],
)
def test_of_many_names_the_first_are_said_and_how_many_are_not(
    most: int, by: str, text: str
) -> None:
    assert first_of(["a", "b", "c"], most, by=by) == text


def test_names_that_repeat_are_told_apart() -> None:
    assert unique_names(["a", "b", "a", "a_1", "a"]) == ["a", "b", "a_1", "a_1_1", "a_2"]


def test_shares_are_written_as_pages_write_them() -> None:
    assert [share_text(0.0871), share_text(0.4789, "+.1%"), share_text(0.1, ".0%")] == [
        "8.7 %",
        "+47.9 %",
        "10 %",
    ]
