"""Specs, tasks and names that nobody means well with: taken as they are, or refused in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from carnac.cli.charts import make_chart
from carnac.console.html import embed_json
from carnac.errors import CarnacError, Invalid
from carnac.specs.compaction.spec import load_compaction
from carnac.specs.load import load_spec, parse_text
from carnac.specs.tasks.spec import load_task
from carnac.store import Store
from tests.hostile import DEEP, texts, values
from tests.support.clock import FakeClock, SequentialIds
from tests.support.stores import open_local_store
from tests.unit.store.events import NOW_MS, START_MS

NATIVE: dict[str, Any] = {
    "dataSource": "w",
    "input": "a.json",
    "timestampSpec": {"column": "t"},
    "dimensionsSpec": {"dimensions": ["a"]},
    "metricsSpec": [{"type": "longSum", "name": "n", "fieldName": "n"}],
    "transformSpec": {"filter": {"type": "selector", "dimension": "a", "value": "x"}},
    "granularitySpec": {"segmentGranularity": "day"},
}
DRUID: dict[str, Any] = {
    "type": "index_parallel",
    "spec": {
        "dataSchema": {key: NATIVE[key] for key in NATIVE if key != "input"},
        "ioConfig": {
            "type": "index_parallel",
            "inputSource": {"type": "local", "baseDir": "a", "filter": "*"},
            "inputFormat": {"type": "json"},
        },
        "tuningConfig": {"type": "index_parallel", "partitionsSpec": {"type": "dynamic"}},
    },
}
COMPACT = {
    "type": "compact",
    "dataSource": "w",
    "ioConfig": {"inputSpec": {"type": "interval", "interval": "2013/2014"}},
    "context": {"priority": 1},
}
DELETE = {"type": "delete", "dataSource": "w", "interval": "2013/2014", "where": "a = 1"}
AUTO = {"dataSource": "w", "skipOffsetFromLatest": "P1D", "tuningConfig": {}}
Load = Callable[[Any], object]
DOORS: dict[str, tuple[Load, Mapping[str, Any]]] = {
    "native": (load_spec, NATIVE),
    "druid": (load_spec, DRUID),
    "compact task": (load_task, COMPACT),
    "delete task": (load_task, DELETE),
    "index task": (load_task, DRUID),
    "compaction": (load_compaction, AUTO),
}


def places_of(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The places inside of a value."""
    inner = (
        value.items() if isinstance(value, dict)
        else enumerate(value) if isinstance(value, list) else ()
    )  # fmt: skip
    return [path, *(place for key, item in inner for place in places_of(item, (*path, key)))]


def put(value: Any, path: tuple[Any, ...], new: object) -> Any:
    """The value with something else at a place."""
    if not path:
        return new
    if isinstance(value, list):
        return [
            put(item, path[1:], new) if at == path[0] else item for at, item in enumerate(value)
        ]
    return {**value, path[0]: put(value[path[0]], path[1:], new)}


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
@given(data=st.data())
def test_a_hostile_spec_is_read_or_refused_in_a_sentence(door: str, data: st.DataObject) -> None:
    load, block = DOORS[door]
    path = data.draw(st.sampled_from(places_of(block)[1:]))
    try:
        load(put(block, path, data.draw(values)))
    except Invalid as refused:
        check_sentence(refused)


@given(text=texts | st.text(alphabet="{}[]:,-&*!|>'\"#% \n\tab01.<~?@`", max_size=40))
@example(text="!!python/object/apply:os.system [id]")
@example(text="? {a: b}\n: c")
@example(text="[" * DEEP)
def test_a_hostile_text_is_read_or_refused_in_a_sentence(text: str) -> None:
    try:
        parse_text(text)
    except Invalid as refused:
        check_sentence(refused)


def check_sentence(refused: CarnacError) -> None:
    assert "\n" not in refused.message.replace("\\n", "")
    assert len(refused.message) < 20_000
    refused.message.encode()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("hostile")
    with open_local_store(folder, clock=FakeClock(NOW_MS), ids=SequentialIds()) as opened:
        yield opened


@given(names=st.tuples(*(st.just("w") | texts for _ in range(5))))
@example(names=("</script>", '"', "</script>", "'; --", "\u2028"))
def test_a_name_goes_the_whole_way_or_is_refused_at_the_door(
    names: tuple[str, str, str, str, str], store: Store
) -> None:
    datasource, column, tag, writer, message = names
    before = store.head().revision
    batch = f"b{before}"
    spec = {
        "dataSource": datasource,
        "input": {"type": "frame", "frame": "arrow"},
        "timestampSpec": {"column": "__t", "format": "millis"},
        "granularitySpec": {"segmentGranularity": "day", "queryGranularity": "none"},
        "writer": writer,
        "batch": batch,
    }
    rows = pa.table({"__t": [START_MS], column: ["x"]}) if _is_text(column) else None
    if rows is None:
        return
    try:
        store.ingest(spec, rows, message=message)
    except CarnacError as refused:
        check_sentence(refused)
        assert store.head().revision == before
        return
    assert datasource in {one.name for one in store.datasources()}
    quoted = ['"' + name.replace('"', '""') + '"' for name in (column, datasource)]
    assert "x" in store.sql(f"SELECT {quoted[0]} FROM {quoted[1]}").arrow()[0].to_pylist()
    assert store.log(limit=1)[0].message == message
    embed_json(make_chart(store, datasource))
    try:
        store.tag(tag)
    except CarnacError as refused:
        check_sentence(refused)
    else:
        assert tag in {one.name for one in store.tags()}
        assert store.resolve(tag).revision == store.head().revision


def _is_text(text: str) -> bool:
    try:
        return bool(text.encode())
    except UnicodeEncodeError:
        return False
