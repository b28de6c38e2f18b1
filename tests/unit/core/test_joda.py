"""Joda's patterns as strptime directives."""

from __future__ import annotations

import pytest

from carnac.core.druid.joda import Token, has_offset, parse_pattern, to_strptime
from carnac.errors import Invalid
from carnac.specs.ingest.schema import TimestampSpec

PATTERNS = [
    ("yyyy-MM-dd HH:mm:ss", "%Y-%m-%d %H:%M:%S"),
    ("YYYY-MM-dd'T'HH:mm:ss.SSS", "%Y-%m-%dT%H:%M:%S.%g"),
    ("dd/MMM/yyyy:HH:mm:ss Z", "%d/%b/%Y:%H:%M:%S %z"),
    ("EEE, d MMM yy hh:mm a", "%a, %d %b %y %I:%M %p"),
    ("yyyy-MM-dd'T'HH:mm:ssZZ", "%Y-%m-%dT%H:%M:%S%z"),
    ("EEEE MMMM d yyyy", "%A %B %d %Y"),
    ("yyyyMMdd", "%Y%m%d"),
    ("yyyy-DDD HH'h'", "%Y-%j %Hh"),
    ("HH 'o''clock' yyyy", "%H o'clock %Y"),
    ("yyyy[MM]", "%Y[%m]"),
    ("yyyy-MM-dd'T'HH'Z", "%Y-%m-%dT%HZ"),  # left open, as Turnilo has it
    ("yyyy 'at ''", "%Y at '"),
    ("yyyy'", "%Y"),
]


@pytest.mark.parametrize(("joda", "strptime"), PATTERNS, ids=[p[0] for p in PATTERNS])
def test_patterns_carry_over(joda: str, strptime: str) -> None:
    assert to_strptime(joda) == strptime


def test_quoted_letters_are_no_offset() -> None:
    assert has_offset("HH Z")
    assert not has_offset("HH 'Z'")


def test_tokens() -> None:
    assert parse_pattern("yy''M") == (Token("year", 2), Token("text", 0, "'"), Token("month", 1))


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (
            "yyyy-QQ",
            "pattern 'yyyy-QQ' has the letter 'Q', which stands for nothing that can be read; "
            "put text into single quotes",
        ),
        ("'text'", "pattern ''text'' has no letters that stand for a time"),
        ("", "pattern '' has no letters that stand for a time"),
    ],
)
def test_what_is_no_pattern(pattern: str, message: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_pattern(pattern)
    assert caught.value.message == message


def test_weeks_are_those_of_iso() -> None:
    assert to_strptime("xxxx-'W'ww-e") == "%G-W%V-%u"


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("yyyy-'W'ww", "mixes years with weeks"),
        ("xxxx-MM", "mixes years with weeks"),
        ("xxxx", "mixes years with weeks"),
        ("yyyy e", "mixes years with weeks"),
        ("MM-dd HH:mm", "has no year, so it names no time"),
        ("yyyy-MM-dd HH:mm a", "has H beside a; write h for"),
        ("xx-'W'ww", "has a part that cannot be read: weekyear"),
        ("yyyy-MM-dd kk", "has a part that cannot be read: clock_hour"),
    ],
)
def test_patterns_that_no_time_can_be_read_by_are_wrong_in_a_spec(
    pattern: str, message: str
) -> None:
    """They passed the check of a spec, and failed the load or rejected each row of it."""
    for read in (to_strptime, lambda text: TimestampSpec(column="t", format=text)):
        with pytest.raises(ValueError if read is not to_strptime else Invalid) as caught:
            read(pattern)
        assert f"pattern '{pattern}' {message}" in str(caught.value)
