"""What a caller hands over by mistake: one sentence at the door, not an error from within."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import carnac
from carnac.bootstrap.store import open_store
from carnac.errors import Invalid, NotFound
from carnac.store import Store
from tests.unit.store.events import append, hour, rows_of, spec

WRONG: dict[str, tuple[Callable[[Any], object], str]] = {
    "sql None": (lambda s: s.sql(None), r"^sql\(text=…\) takes a text, not None$"),
    "sql bytes": (lambda s: s.sql(b"SELECT 1"), r"^sql\(text=…\) takes a text, not b'SELECT 1'$"),
    "sql parameters": (
        lambda s: s.sql("SELECT ?", parameters=5),
        r"^sql\(parameters=…\) takes a list, or a mapping by name, not 5$",
    ),
    "sql one text": (
        lambda s: s.sql("SELECT ?", parameters="a"),
        r"^sql\(parameters=…\) takes a list, or a mapping by name, not 'a'$",
    ),
    "delete where": (
        lambda s: s.delete("events", where=5),
        r"^delete\(where=…\) takes a text, not 5$",
    ),
    "revert None": (
        lambda s: s.revert(None),
        r"^revert\(at=…\) takes a revision, a time or",
    ),
    "tag": (lambda s: s.tag(5), r"^tag\(name=…\) takes a text, not 5$"),
    "lookup": (lambda s: s.set_lookup("a", 5), r"^set_lookup\(mapping=…\) takes a mapping, not 5$"),
    "log limit": (
        lambda s: s.log(limit="x"),
        r"^log\(limit=…\) takes a whole number from 0 to 9223372036854775807, not 'x'$",
    ),
    "log below": (
        lambda s: s.log(limit=-1),
        r"^log\(limit=…\) takes a whole number from 0 to 9223372036854775807, not -1$",
    ),
    "log before": (lambda s: s.log(before="x"), r"^log\(before=…\) takes a whole number"),
    "changes": (lambda s: s.changes(after="x"), r"^changes\(after=…\) takes a whole number"),
    "changes limit": (
        lambda s: s.changes(after=0, limit=True),
        r"^changes\(limit=…\) takes a whole number",
    ),
    "pickle": (pickle.dumps, "^a store cannot be copied or pickled; open it by its name"),
    "copy": (copy.copy, "^a store cannot be copied or pickled"),
    "deepcopy": (copy.deepcopy, "^a store cannot be copied or pickled"),
}
OF_INTERVALS = (
    "segments",
    "late",
    "delete",
    "plan_compaction",
    "compact_interval",
    "clean",
    "kill",
)


@pytest.fixture
def filled(store: Store) -> Store:
    append(store, (1, 1))
    return store


@pytest.mark.parametrize("case", WRONG)
def test_a_value_of_a_wrong_type_is_one_sentence(filled: Store, case: str) -> None:
    call, message = WRONG[case]
    with pytest.raises(Invalid, match=message):
        call(filled)
    assert filled.head().revision == 1


@pytest.mark.parametrize("name", OF_INTERVALS)
@pytest.mark.parametrize("interval", [5, ("2013-01-01", "2013-01-02"), b"2013/2014"])
def test_what_is_no_interval_is_one_sentence(filled: Store, name: str, interval: Any) -> None:
    with pytest.raises(
        Invalid,
        match=rf"^{name}\(interval=…\) takes an interval \(a text like",
    ):
        getattr(filled, name)("events", interval=interval)
    assert filled.head().revision == 1


@pytest.mark.parametrize("store", [5, b"x", ["a"]])
@pytest.mark.parametrize("opener", [carnac.open, carnac.open_tasks, carnac.open_compaction])
def test_what_names_no_store_is_one_sentence(opener: Callable[..., object], store: object) -> None:
    with pytest.raises(Invalid, match=r"names no store; give a directory or a URL"):
        opener(store)


def test_settings_of_another_kind_are_one_sentence() -> None:
    with pytest.raises(Invalid, match=r"settings are a carnac\.config\.Settings, not int"):
        carnac.open("memory://", settings=5)  # type: ignore[arg-type]


def test_a_datasource_that_is_not_there_is_not_an_empty_one(filled: Store) -> None:
    for ask in (filled.segments, filled.chunks):
        with pytest.raises(NotFound, match=r"^there is no datasource 'nope'; there are events$"):
            ask("nope")
    with pytest.raises(
        NotFound, match=r"^there is no datasource 'events' at revision 0; there are none yet$"
    ):
        filled.segments("events", at=0)


def test_a_datasource_that_is_there_may_have_nothing_in_an_interval(filled: Store) -> None:
    assert list(filled.segments("events", interval="1990-01-01/1991-01-01")) == []
    filled.ingest(
        spec(mode="replace", intervals=("2013-10-22/2013-10-23",)), rows_of([(2, hour(1))])
    )
    assert len(filled.segments("events")) == len(filled.chunks("events")) == 1


SOURCES: dict[str, Callable[[str], object]] = {
    "plain": lambda file: {"dataSource": "events", "input": file, "timestampSpec": {"column": "t"}},
    "transforms": lambda file: {
        "dataSource": "events",
        "input": file,
        "timestampSpec": {"column": "t"},
        "transformSpec": {"transforms": [{"name": "u", "expression": "upper(id)"}]},
    },
    "statement": lambda file: (
        "INSERT INTO events SELECT TIME_PARSE(t) AS __time FROM TABLE(EXTERN("
        f"""'{{"type": "local", "files": ["{file}"]}}', '{{"type": "json"}}')) EXTEND (t VARCHAR) """
        "PARTITIONED BY DAY"
    ),
}


@pytest.mark.parametrize("source", SOURCES)
def test_an_input_that_is_not_there_is_told_before_spark_starts(
    tmp_path: Path, source: str
) -> None:
    """Here no Spark could start."""
    file = f"{tmp_path}/nothing.json"
    with (
        open_store(tmp_path / "store", create=True, spark_master="spark://127.0.0.1:1") as store,
        pytest.raises(NotFound, match=f"no input file matches '{file}'"),
    ):
        store.ingest(SOURCES[source](file))
