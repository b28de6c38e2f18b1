"""A function of Druid's SQL that is not here is refused with the form that does it, and that form runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import carnac
from carnac import Store
from carnac.errors import Invalid
from carnac.query.dialect import druid
from carnac.query.functions import NAMES
from carnac.specs.druid.sql_functions import FORMS

ROWS = [
    {
        "t": "2024-03-04T09:10:00Z",
        "page": "Menhir",
        "added": 3,
        "tags": ["a", "b"],
        "doc": {"a": [1]},
    },
    {"t": "2024-03-04T10:00:00Z", "page": "Dolmen", "added": 5, "tags": ["c"], "doc": {"a": [2]}},
]
SPEC: dict[str, Any] = {
    "dataSource": "edits",
    "timestampSpec": {"column": "t"},
    "dimensions": [
        "page",
        {"name": "added", "type": "long"},
        {"name": "tags", "type": "array<string>"},
        {"name": "doc", "type": "json"},
    ],
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    place: Path = tmp_path_factory.mktemp("store")
    with carnac.open(place, create=True) as opened:
        opened.append("edits", ROWS, spec=SPEC)
        opened.set_lookup("pages", {"Menhir": "a stone"})
        opened.set_lookup("numbers", {"3": "three", "n/a": "none"})
        yield opened


@pytest.mark.parametrize("name", FORMS)
def test_a_function_of_druid_is_refused_by_the_form_that_does_it(store: Store, name: str) -> None:
    with pytest.raises(Invalid) as caught:
        store.sql(f"SELECT {name.upper()}() FROM edits")
    what = "not here with these arguments" if druid.is_here(name) else "not here"
    assert caught.value.message == (
        f"function {name.upper()} of Druid's SQL is {what}; write {FORMS[name]}"
    )


@pytest.mark.parametrize(
    "form", sorted({one for text in FORMS.values() for one in text.split(", or ")})
)
def test_every_form_runs(store: Store, form: str) -> None:
    if form.startswith("a join with"):
        form = "max(v)"
    source = "edits LEFT JOIN lookup.pages ON k = page"
    assert store.sql(f"SELECT {form} AS x FROM {source}").rows()


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ("time_ceil", ["2024-03-04T10:00:00", "2024-03-04T10:00:00"]),
        ("lookup", [None, "a stone"]),
    ],
)
def test_forms_give_what_druid_gives(store: Store, form: str, value: list[object]) -> None:
    sql = FORMS[form].split(", or ")[0]
    found = [row["x"] for row in store.sql(f"SELECT {sql} AS x FROM edits ORDER BY page").rows()]
    shown = [
        one.strftime("%Y-%m-%dT%H:%M:%S") if hasattr(one, "strftime") else one for one in found
    ]
    assert shown == value


@pytest.mark.parametrize("name", ["k", "v", "pages"])
@pytest.mark.parametrize("call", ["LOOKUP({0}, 'pages')", "LOOKUP(t.{0}, 'pages', {0})"])
def test_a_key_is_the_caller_s_whatever_it_is_called(store: Store, name: str, call: str) -> None:
    called = call.format(name)
    sql = f"SELECT {called} AS found FROM (SELECT page AS {name} FROM edits) t GROUP BY {called}"
    found = {row["found"] for row in store.sql(sql).rows()}
    assert found == {"a stone", "Dolmen" if "t." in call else None}


def test_a_key_that_is_a_number_is_looked_up_as_a_text(store: Store) -> None:
    found = store.sql("SELECT added, LOOKUP(added, 'numbers') AS x FROM edits").rows()
    assert {row["x"] for row in found if row["added"] == 3} == {"three"}


def test_a_plan_with_a_lookup_can_be_printed(store: Store) -> None:
    plan = store.sql("EXPLAIN SELECT LOOKUP(page, 'pages') AS found FROM edits").rows()
    assert all(str(row["plan"]).isprintable() for row in plan)


def test_a_list_is_no_key(store: Store) -> None:
    with pytest.raises(Invalid, match=r"VARCHAR\[\]"):
        store.sql("SELECT LOOKUP(tags, 'pages') AS found FROM edits")


def test_a_wrong_number_of_arguments_is_told_with_the_right_one(store: Store) -> None:
    for call, said in {
        "MV_SLICE(page, 1)": "MV_SLICE takes 3 arguments, not 2",
        "Parse_Long(page, 16, 2)": "PARSE_LONG takes 1 or 2 arguments, not 3",
        "LATEST()": "LATEST takes 1 or 2 arguments, not 0",
        "TO_JSON_STRING(page, added)": "TO_JSON_STRING takes 1 argument, not 2",
    }.items():
        with pytest.raises(Invalid) as caught:
            store.sql(f"SELECT {call} FROM edits")
        assert caught.value.message == f"function {said}"


def test_each_that_looks_at_its_arguments_has_a_form_for_others() -> None:
    looking = {name for name in druid._NAMES if not druid.argument_counts(name)}
    assert looking - NAMES - druid.PRINTED.keys() <= FORMS.keys()
