"""Values of what a statement leaves open: by place, and by name."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from carnac.bootstrap.store import open_store
from carnac.errors import Invalid
from carnac.store import Store
from tests.e2e.cli import make_store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Any:
    place: Path = make_store(tmp_path_factory.mktemp("parameters") / "store")
    with open_store(place) as opened:
        yield opened


BY_NAME = "SELECT count(*) AS n FROM flights WHERE carrier = $carrier AND delay < $most OR $carrier IS NULL"
BY_PLACE = "SELECT count(*) AS n FROM flights WHERE carrier = $1 AND delay < $2 OR $1 IS NULL"


def test_names_and_places_ask_the_same(store: Store) -> None:
    by_name = store.sql(BY_NAME, parameters={"most": 210, "carrier": "AA"}).rows()
    assert by_name == store.sql(BY_PLACE, parameters=["AA", 210]).rows() == [{"n": 6}]
    assert store.sql("SELECT $b AS b, $a AS a", parameters={"a": 1, "b": None}).rows() == [
        {"b": None, "a": 1}
    ]


def test_times_by_name_leave_segments_out(store: Store) -> None:
    text = "SELECT count(*) AS n FROM flights WHERE __time >= $since"
    found = store.sql(text, parameters={"since": "2013-01-03"})
    assert (found.rows(), found.segments_read) == ([{"n": 5}], 1)


def test_exports_take_names_too(store: Store) -> None:
    target = io.BytesIO()
    store.export("SELECT $word AS word", target, format="csv", parameters={"word": "a,b"})
    assert target.getvalue() == b'word\n"a,b"\n'


@pytest.mark.parametrize(
    ("text", "parameters", "words"),
    [
        ("SELECT $n", {}, "the statement has $n, and no value of that name was given"),
        ("SELECT $count", {"cuont": 1}, "no value of that name was given; did you mean 'cuont'?"),
        ("SELECT $n", {"n": 1, "m": 2}, "'m' is no parameter of the statement; its parameters are $n"),
        ("SELECT 1", {"m": 2}, "'m' is no parameter of the statement; its parameters are none"),
        ("SELECT $n", [1], "the statement has $n, whose value is given by name: parameters={'n': …}, --param n=…"),
        ("SELECT ?", {"n": 1}, "the statement has parameters without names, ? or $1; their values are given in a list"),
        ("SELECT ?, ?", [1], "the statement has 2 parameters, and 1 value was given; give one for each"),
        ("SELECT 1", [1], "the statement has 0 parameters, and 1 value was given; give one for each"),
        ("SELECT ?", 5, "sql(parameters=…) takes a list, or a mapping by name, not 5"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_one_sentence(
    store: Store, text: str, parameters: Any, words: str
) -> None:
    with pytest.raises(Invalid) as refused:
        store.sql(text, parameters=parameters)
    assert words in refused.value.message
