"""Regular expressions in Spark SQL: those that no engine reads are told before Spark starts."""

from __future__ import annotations

import pytest

from carnac.specs.ingest.transforms import find_mistake


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("page RLIKE '['", "'['|unterminated character set|1"),
        ("added > 1 AND page not regexp 'a(b' OR added < 0", "'a(b'|missing ), unterminated subpattern|2"),
        ('page RLIKE "*a"', "'*a'|nothing to repeat|1"),
        (r"page RLIKE 'a\\'", r"'a\\'|bad escape (end of pattern)|2"),
        (r"page RLIKE '\('", "'('|missing ), unterminated subpattern|1"),
        ("rlike(page, 'a)')", "'a)'|unbalanced parenthesis|2"),
        ("regexp_extract(concat(page, 'x)', upper(page)), '[a', 1)", "'[a'|unterminated character set|1"),
        ("split(page, '[')[0]", "'['|unterminated character set|1"),
        ("transform(tags, x -> regexp_replace(x, 'a(', ''))", "'a('|missing ), unterminated subpattern|2"),
    ],
)  # fmt: skip
def test_what_is_no_regular_expression_is_told(text: str, wanted: str) -> None:
    pattern, why, place = wanted.split("|")
    assert (
        find_mistake(text) == f"{pattern} is not a regular expression: {why}, at character {place}"
    )


@pytest.mark.parametrize(
    "text",
    [
        "page RLIKE '^[a-z]+$'",
        r"page RLIKE '\\d+\\('",
        r"page RLIKE '\u005b'",
        "page RLIKE r'['",
        "page RLIKE '[' || 'a]'",
        "page RLIKE '[' 'a]'",
        "page RLIKE pattern",
        "page LIKE '['",
        "replace(page, '[', '(')",
        "regexp_replace(page, 'a', '[')",
        "split(page)",
        "rlike = '['",
        r"page RLIKE '\\Q[\\E'",
    ],
)
def test_what_java_may_read_is_left_to_it(text: str) -> None:
    assert find_mistake(text) is None
