"""A regular expression that cannot be read is one clear sentence, wherever in a statement it stands."""

from __future__ import annotations

import pytest

from carnac.errors import Invalid
from carnac.query import QueryEngine
from tests.support.segments import MemoryCatalog


@pytest.mark.parametrize(
    ("condition", "wrong"),
    [
        ("regexp_matches(carrier, '[')", "missing ] in ["),
        ("regexp_matches(carrier, 'a(b')", "missing ) in a(b"),
        ("REGEXP_LIKE(carrier, 'a)')", "unexpected ) in a)"),
        ("regexp_matches(carrier, lower('*A'))", "no argument for repetition operator in *"),
        ("carrier SIMILAR TO 'a**'", "bad repetition operator in **"),
        ("regexp_extract(carrier, '(?=a)') = ''", "invalid perl operator in (?="),
        ("regexp_replace(carrier, 'a\\', '') = ''", "trailing \\"),
        ("regexp_matches(carrier, CASE WHEN delay > 5 THEN '[' END)", "missing ] in ["),
    ],
)
def test_it_is_told(
    engine: QueryEngine, catalog: MemoryCatalog, condition: str, wrong: str
) -> None:
    with pytest.raises(Invalid) as caught:
        engine.run_query(f"SELECT count(*) FROM flights WHERE {condition}", catalog)
    assert caught.value.message == f"a regular expression cannot be read: {wrong}"
