"""What goes over the wire comes back as it was; what somebody made up is Invalid, never anything else."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from carnac import errors
from carnac.core.segments.record import dump_segment
from carnac.core.segments.segment import Column, ColumnType, Segment
from carnac.core.time.intervals import MAX_MS, MIN_MS, Interval, IntervalSet, interval_set
from carnac.errors import Busy, CarnacError, Corrupt, Invalid, InvariantError, Unavailable
from carnac.flight import wire
from carnac.flight.failures import MESSAGE_MAX_BYTES, from_flight, to_flight
from carnac.ports.queries import Keeping, LeafRequest, LeafSlice
from carnac.ports.serving import Inventory

HEAD = wire.Head(version=wire.VERSION, server_id="server", store_id="store")
SEGMENT = Segment(
    segment_id="s1",
    datasource="events",
    chunk=Interval(0, 1000),
    path="segments/events/s1.parquet",
    size_bytes=10,
    rows=1,
    input_rows=1,
    min_time_ms=5,
    max_time_ms=5,
    columns=(Column(name="a", type=ColumnType.STRING, min_value="x", max_value="y"),),
    checksum="sha256:00",
)
CLIPS = st.none() | st.lists(
    st.tuples(st.integers(MIN_MS, MAX_MS - 1), st.integers(MIN_MS, MAX_MS - 1))
    .map(sorted)
    .map(lambda pair: Interval(pair[0], pair[1] + 1))
).map(interval_set)


def request(**more: object) -> LeafRequest:
    given: dict[str, object] = {
        "query_id": "q",
        "revision": 3,
        "sql": "SELECT 1",
        "view": "v",
        "columns": {"a": ColumnType.STRING, "b": ColumnType.STRING_ARRAY},
        "slices": [LeafSlice(segment=SEGMENT, clip=None)],
        **more,
    }
    return LeafRequest(**given)  # type: ignore[arg-type]


def sent(asked: LeafRequest) -> LeafRequest:
    return wire.read_run(wire.load(wire.RunAsked, wire.dump_run(asked, HEAD)))


@given(
    st.text(max_size=50),
    st.dictionaries(st.text(max_size=9), st.sampled_from(ColumnType), max_size=4),
    CLIPS,
    st.none() | st.integers(0, 2**40),
    st.booleans(),
)
def test_a_request_arrives_as_it_was(
    text: str,
    columns: dict[str, ColumnType],
    clip: IntervalSet | None,
    timeout: int | None,
    skips: bool,
) -> None:
    other = dataclasses.replace(SEGMENT, segment_id=text)
    asked = request(
        sql=text,
        query_id=text,
        columns=columns,
        slices=[LeafSlice(segment=SEGMENT, clip=clip), LeafSlice(segment=other, clip=None)],
        timeout_ms=timeout,
        skips_missing=skips,
        keeping=Keeping(use=skips, populate=timeout is None),
    )
    assert sent(asked) == asked


def test_small_tables_arrive_as_they_were() -> None:
    table = pa.table({"k": ["a", None], "v": pa.array([[1], []], pa.list_(pa.int64()))})
    empty = table.slice(0, 0)
    found = sent(request(tables={"t": table, "e": empty})).tables
    assert found == {"t": table, "e": empty}


def test_dictionaries_arrive_as_their_words_and_hide_nowhere() -> None:
    words = pa.array(["x", None, "x"]).dictionary_encode()
    assert sent(request(tables={"t": pa.table({"d": words})})).tables == {
        "t": pa.table({"d": ["x", None, "x"]})
    }
    inside = pa.table({"s": pa.StructArray.from_arrays([words], ["w"])})
    with pytest.raises(Invalid, match="has a dictionary inside"):
        sent(request(tables={"t": inside}))


TABLE = wire._dump_table(
    pa.table(
        {
            "word": ["a", "bb", None],
            "list": [[1], [], None],
            "dictionary": pa.array(["x", "y", "x"]).dictionary_encode(),
            "struct": [{"a": 1}, {"a": 2}, None],
        }
    )
)


@settings(max_examples=4 * settings.default.max_examples)
@given(
    st.lists(
        st.tuples(
            st.integers(0, len(TABLE) - 4),
            st.binary(min_size=1, max_size=1)
            | st.sampled_from([b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\0"]),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_a_damaged_table_is_invalid_or_can_be_read(spoiled: list[tuple[int, bytes]]) -> None:
    body = bytearray(TABLE)
    for place, found in spoiled:
        body[place : place + len(found)] = found
    try:
        table = wire._read_table("t", bytes(body))
    except Invalid:
        return
    table.to_pylist()


@pytest.mark.slow
def test_ten_thousand_segments_are_one_request() -> None:
    slices = [
        LeafSlice(segment=dataclasses.replace(SEGMENT, segment_id=f"s{i}"), clip=None)
        for i in range(10_000)
    ]
    assert sent(request(slices=slices)).slices == slices


BODY = wire.dump_run(request(tables={"t": pa.table({"k": ["a", "b"], "n": [1, 2]})}), HEAD)


@given(
    st.lists(st.tuples(st.integers(0, len(BODY) - 1), st.integers(0, 255)), max_size=8),
    st.integers(0, len(BODY)),
)
@example([], 0)
def test_damaged_requests_are_invalid_or_read(spoiled: list[tuple[int, int]], cut: int) -> None:
    body = bytearray(BODY)
    for place, value in spoiled:
        body[place] = value
    try:
        found = wire.read_run(wire.load(wire.RunAsked, bytes(body[: len(body) - cut])))
    except Invalid:
        return
    for table in found.tables.values():
        table.to_pylist()  # type: ignore[attr-defined]  # whatever passed can be read


@given(st.binary(max_size=300))
def test_made_up_bytes_are_invalid(body: bytes) -> None:
    for kind in (wire.RunAsked, wire.AssignAsked, wire.InventoryAsked, Inventory):
        with pytest.raises(Invalid, match="same version of Carnac"):
            wire.load(kind, body)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
FIELDS = msgspec.msgpack.decode(BODY)


@given(st.sampled_from(sorted(FIELDS)), JSON)
def test_any_value_of_any_field_is_invalid_or_read(name: str, value: object) -> None:
    body = msgspec.msgpack.encode({**FIELDS, name: value})
    with suppress(Invalid):
        wire.read_run(wire.load(wire.RunAsked, body))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"version": 3}, "has version 3, and this server speaks version 4"),
        ({"more": 1}, "unknown field"),
        ({"segments": [("{}", None)]}, "a segment that does not read"),
        ({"segments": [(dump_segment(SEGMENT), [(5, 4)])]}, "5"),
        (
            {"segments": [(dump_segment(SEGMENT), None)] * (wire.SEGMENTS_MAX + 1)},
            "segments; the most is",
        ),
        ({"sql": "x" * (wire.SQL_MAX_CHARS + 1)}, "characters of SQL; the most is"),
        ({"view": "x" * (wire.NAME_MAX_CHARS + 1)}, "characters of a name; the most is"),
        (
            {"tables": {f"t{i}": b"" for i in range(wire.TABLES_MAX + 1)}},
            "small tables; the most is",
        ),
        ({"tables": {"t": b"\xff" * 50}}, "'t' of a request is no Arrow stream"),
        ({"timeout_ms": -1}, "not negative"),
        ({"view": "v AS SELECT 1; DROP TABLE v; --"}, "is no name of a view"),
        ({"tables": {'t"; --': b""}}, "is no name of a view"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, object], sentence: str) -> None:
    body = msgspec.msgpack.encode({**FIELDS, **change})
    with pytest.raises(Invalid, match=sentence):
        wire.read_run(wire.load(wire.RunAsked, body))


def test_a_body_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "BODY_MAX_BYTES", 100)
    with pytest.raises(Invalid, match="too large; the most is 100"):
        wire.load(wire.RunAsked, BODY)


def over_the_wire(error: Exception) -> CarnacError:
    raised = to_flight(error, "a test")
    return from_flight(raised, url="grpc+tcp://x:1", server_id="s", timeout_s=1)


@pytest.mark.parametrize(
    "kind",
    sorted(
        {
            one
            for one in vars(errors).values()
            if isinstance(one, type) and issubclass(one, CarnacError) and one is not Busy
        },
        key=lambda one: one.__name__,
    ),
)
def test_every_kind_of_error_arrives_with_message_and_ids(kind: type[CarnacError]) -> None:
    found = over_the_wire(kind("something é is wrong", segment_id="s1", number=3))
    assert type(found) is kind
    assert (found.message, found.ids) == ("something é is wrong", {"segment_id": "s1", "number": 3})


def test_errors_of_a_kind_of_their_own_arrive_as_the_nearest_one() -> None:
    class Interrupted(Unavailable):
        pass

    assert type(over_the_wire(Interrupted("stop"))) is Unavailable
    busy = over_the_wire(Busy("later", retry_after_s=7, lane="x"))
    assert isinstance(busy, Busy)
    assert (busy.retry_after_s, busy.ids) == (7, {"lane": "x"})


def test_long_messages_and_odd_ids_fit_into_a_header(caplog: pytest.LogCaptureFixture) -> None:
    found = over_the_wire(Corrupt("b" + "é" * 9000 + "e", ids=["x" * 100] * 100))
    assert found.message.startswith("bé")
    assert found.message.endswith("ée")
    assert len(found.message.encode()) < MESSAGE_MAX_BYTES + 10
    assert found.ids == {}
    odd = over_the_wire(Invalid("no", where=Path("x")))
    assert odd.ids == {"where": "x"}
    bug = over_the_wire(KeyError("x"))
    assert type(bug) is InvariantError
    assert "a test failed at the server: KeyError" in bug.message
    assert "KeyError" in caplog.text


def test_a_record_is_written_and_read_once_while_it_stays_in_use() -> None:
    assert wire.text_of(SEGMENT) is wire.text_of(SEGMENT)
    (first,), (second,) = sent(request()).slices, sent(request()).slices
    assert first.segment is second.segment
    assert first.segment == SEGMENT


def test_another_segment_of_the_same_id_is_sent_as_it_is() -> None:
    other = dataclasses.replace(SEGMENT, rows=SEGMENT.rows + 1, input_rows=SEGMENT.rows + 1)
    for one in (SEGMENT, other, SEGMENT):
        (found,) = sent(request(slices=[LeafSlice(segment=one, clip=None)])).slices
        assert found.segment == one
