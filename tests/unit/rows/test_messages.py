"""Messages as records: each is a row, or rejected with its offset, whatever is in it."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from carnac.rows.read.csv import REASON_QUOTES, CsvReader, Header
from carnac.rows.read.lines import REASON_UTF8
from carnac.rows.read.messages import HeldMessages, MessageLines, MessageReader, Messages
from carnac.specs.ingest.inputs import CsvFormat

CSV = CsvFormat(columns=("a", "b"))
FIRST = 100


def source(*values: bytes) -> HeldMessages:
    return HeldMessages(Messages(values, range(FIRST, FIRST + len(values))))


def json_records(*values: bytes) -> tuple[list[tuple[int, bytes]], MessageReader]:
    reader = MessageReader(source(*values))
    found = []
    for records in reader:
        start = 0
        for end, offset in zip(records.ends.tolist(), records.offsets.tolist(), strict=True):
            found.append((offset, records.data[start:end]))
            start = end
    return found, reader


def test_a_message_is_an_object_over_lines_or_an_object_a_line() -> None:
    found, reader = json_records(b'{"a":\n 1}', b'{"a": 1}\n\n{"a": 2}\n', b"", b'{"a": 3}')
    assert found == [
        (100, b'{"a":\n 1}'),
        (101, b'{"a": 1}'),
        (101, b'{"a": 2}'),
        (102, b""),
        (103, b'{"a": 3}'),
    ]
    assert (reader.count, reader.rejects) == (5, [])


def test_what_is_no_text_is_rejected_with_its_offset() -> None:
    found, reader = json_records(b"{}", b"\xff", "{é}".encode())
    assert [offset for offset, _ in found] == [100, 102]
    (reject,) = reader.rejects
    assert (reject.line, reject.byte_offset, reject.raw, reject.reason) == (
        None,
        101,
        "\\xff",
        REASON_UTF8,
    )


def test_halves_of_a_character_in_two_messages_are_no_text() -> None:
    whole = "{é}".encode()
    found, reader = json_records(b"{}", whole[:2], whole[2:], b"")
    assert [offset for offset, _ in found] == [100, 103]
    assert [one.byte_offset for one in reader.rejects] == [101, 102]


@given(st.lists(st.binary(max_size=12)))
def test_every_message_is_a_record_or_rejected(values: list[bytes]) -> None:
    found, reader = json_records(*values)
    offsets = [offset for offset, _ in found] + [one.byte_offset for one in reader.rejects]
    assert sorted(set(offsets)) == list(range(FIRST, FIRST + len(values)))
    assert len(offsets) == reader.count


def csv_rows(*values: bytes) -> tuple[list[tuple[int, str, str]], list[tuple[int | None, str]]]:
    lines = MessageLines(source(*values), CSV)
    reader = CsvReader(lines, "kafka:t/0", CSV, Header("kafka:t/0", CSV))
    found = []
    for records, table in reader.tables():
        offsets = lines.placed(records).offsets.tolist()
        cells = [column.to_pylist() for column in table.columns]
        found += list(zip(offsets, *cells, strict=True))
    rejects = lines.all_rejects(reader.records.rejects)
    return found, [(one.byte_offset, one.reason) for one in rejects]


def test_a_message_of_csv_is_a_row_or_some_and_takes_no_other_in() -> None:
    found, rejects = csv_rows(b"1,x", b'2,"y\nz"', b'3,"open', b"4,a\n5,b\n", b"6", b'7,5" pipe')
    assert found == [
        (100, "1", "x"),
        (101, "2", "y\nz"),
        (103, "4", "a"),
        (103, "5", "b"),
        (105, "7", '5" pipe'),
    ]
    assert rejects == [(102, REASON_QUOTES), (104, "wrong number of fields")]


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=8)))
def test_each_line_of_csv_is_a_row_or_rejected(texts: list[str]) -> None:
    values = [f"{number},{text}".encode() for number, text in enumerate(texts)]
    found, rejects = csv_rows(*values)
    offsets = [offset for offset, *_ in found] + [offset for offset, _ in rejects]
    assert sorted(offsets, key=lambda one: one or 0) == list(range(FIRST, FIRST + len(values)))


def test_numbers_stay_as_they_are_written() -> None:
    found, _ = json_records(json.dumps({"a": 1 << 60}).encode())
    assert json.loads(found[0][1]) == {"a": 1 << 60}
