"""Values of prepared statements, by their types in Java."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from carnac.api.avatica.parameters import parse_typed
from carnac.errors import Invalid

MS = 1_577_934_245_678
MOMENT = datetime(2020, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "sent", "value"),
    [
        ("STRING", "a", "a"),
        ("LONG", 1 << 40, 1 << 40),
        ("PRIMITIVE_INT", 3, 3),
        ("BYTE", 3, 3),
        ("PRIMITIVE_DOUBLE", 2.5, 2.5),
        ("FLOAT", 1, 1.0),
        ("BOOLEAN", True, True),
        ("NUMBER", 12.5, Decimal("12.5")),
        ("JAVA_SQL_TIMESTAMP", MS, MOMENT),
        ("JAVA_UTIL_DATE", MS, MOMENT),
        ("JAVA_SQL_DATE", 18_263, date(2020, 1, 2)),
        ("ARRAY", ["a", None], ["a", None]),
        ("OBJECT", None, None),
    ],
)
def test_values_of_every_type(kind: str, sent: object, value: object) -> None:
    assert parse_typed([{"type": kind, "value": sent}], None) == [value]


def test_times_of_day_are_those_of_the_zone() -> None:
    zone = ZoneInfo("America/New_York")
    found = parse_typed([{"type": "JAVA_SQL_TIMESTAMP", "value": MS}], zone)
    assert found == [MOMENT.replace(tzinfo=zone)]
    assert parse_typed(None, zone) == []


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        ({"a": 1}, "parameterValues must be a list"),
        ([None], "parameter 1 has no value: set one, or null"),
        ([7], "parameter 1 must be an object"),
        ([{"type": "BYTE_STRING", "value": "AA=="}], "parameter 1 is of a type that no statement"),
        ([{"type": ["x"], "value": 1}], "parameter 1 is of a type that no statement"),
        ([{"type": "LONG", "value": "x"}], "parameter 1 is no BIGINT"),
        ([{"type": "JAVA_SQL_DATE", "value": 10**12}], "parameter 1 is no DATE"),
    ],
)
def test_what_is_wrong_is_told(sent: object, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        parse_typed(sent, None)


def test_a_time_beyond_all_years_is_told() -> None:
    last = int(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()) * 1000
    with pytest.raises(Invalid, match="beyond all years"):
        parse_typed([{"type": "JAVA_SQL_TIMESTAMP", "value": last}], ZoneInfo("America/New_York"))
