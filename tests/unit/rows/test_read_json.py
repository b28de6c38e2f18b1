"""JSON lines as they come: odd bytes, odd lines, nested paths."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard

from carnac.core.time.intervals import Interval, interval_set, parse_instant
from carnac.errors import Invalid
from carnac.rows.normalise.timestamps import REASON_MISSING
from carnac.rows.read import lines
from carnac.rows.read.inputs import InputFile
from carnac.rows.read.json import REASON_MALFORMED, REASON_NOT_OBJECT
from carnac.rows.read.lines import REASON_TOO_LONG, REASON_UTF8
from carnac.specs.ingest.inputs import FlattenSpec, JsonFormat
from carnac.specs.ingest.schema import TimestampSpec
from tests.unit.rows.loading import inline, load_bytes, load_files, shape

XS = {"x": "string"}
WIKITICKER = Path(__file__).parents[4] / "shared/data/wikiticker-2015-09-12-sampled.json.gz"


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ('{"t":1', REASON_MALFORMED),
        ('{"t":1}}', REASON_MALFORMED),
        ('{"t":1} {"t":2}', REASON_MALFORMED),
        ("{'t':1}", REASON_MALFORMED),
        ('{"t":1,"x":"\t"}', REASON_MALFORMED),
        ('{"t":1,"x":"\\ud800"}', REASON_MALFORMED),
        ("plain text", REASON_MALFORMED),
        ("[1]", REASON_NOT_OBJECT),
        ("5", REASON_NOT_OBJECT),
        ("null", REASON_NOT_OBJECT),
        ('"t"', REASON_NOT_OBJECT),
        ("{}", REASON_MISSING),
        ('{"T":1}', REASON_MISSING),
    ],
)
def test_line_that_is_no_row(raw: str, reason: str) -> None:
    found = load_bytes(f'{{"t":1}}\n{raw}\r\n{{"t":2}}', XS)
    assert found.rejected == [(2, 8, raw, reason)]
    assert found.column("__time") == [1, 2]


def test_broken_utf8_is_escaped_and_its_neighbours_stay() -> None:
    found = load_bytes(b'{"t":1,"x":"\xc3\xa9"}\n{"t":2,"x":"\xc3"}\n{"t":3}\n\xff\n', XS)
    assert found.column("x") == ["é", None]
    assert found.rejected == [
        (2, 17, '{"t":2,"x":"\\xc3"}', REASON_UTF8),
        (4, 41, "\\xff", REASON_UTF8),
    ]


@pytest.mark.parametrize(
    ("data", "times"),
    [
        (b"", []),
        (b"\n", []),
        (b"\r\n \t\n\n", []),
        (b'{"t":1}', [1]),
        (b'{"t":1}\n', [1]),
        (b'\xef\xbb\xbf{"t":1}\r\n{"t":2}\r\n', [1, 2]),
        (b"\xef\xbb\xbf", []),
        (b'\n\n  {"t":1}  \n\n', [1]),
        (b'{"t":1,}', [1]),
        (b'{"t":1,"t":2}', [1]),
    ],
)
def test_ends_of_lines_and_files(data: bytes, times: list[int]) -> None:
    found = load_bytes(data, XS)
    assert (found.column("__time"), found.rejected) == (times, [])
    assert found.counts.rows_read == len(times)


def test_lines_and_offsets_over_many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "BLOCK_BYTES", 7)
    rows = [json.dumps({"t": at, "x": "y" * (at % 9)}) for at in range(50)]
    rows[20], rows[40] = "bad", ""
    text = "\n".join(rows)
    found = load_bytes(text, XS)
    assert found.column("__time") == [at for at in range(50) if at not in {20, 40}]
    assert found.rejected == [(21, text.index("bad"), "bad", REASON_MALFORMED)]


def test_line_that_is_too_long_is_cut_and_the_next_one_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lines, "MAX_RECORD_BYTES", 100)
    monkeypatch.setattr(lines, "MAX_RAW_BYTES", 10)
    monkeypatch.setattr(lines, "BLOCK_BYTES", 64)
    data = '{"t":1}\n{"t":2,"x":"' + "y" * 500 + '"}\n{"t":3}\n'
    found = load_bytes(data, XS)
    assert found.column("__time") == [1, 3]
    assert found.rejected == [(2, 8, '{"t":2,"x"', REASON_TOO_LONG)]


def test_utf16_is_one_clear_error() -> None:
    with pytest.raises(Invalid, match=r"input file inline: is UTF-16; convert it to UTF-8"):
        load_bytes('{"t":1}'.encode("utf-16"), XS)


def test_nested_paths() -> None:
    flatten = FlattenSpec.model_validate(
        {
            "useFieldDiscovery": False,
            "fields": [
                "x",
                {"type": "root", "name": "y", "expr": "z.z"},
                {"type": "path", "name": "deep", "expr": "$.a.b[1].c"},
                {"type": "path", "name": "odd", "expr": "$['a b'][\"c'd\"]"},
                {"type": "path", "name": "t", "expr": "$.meta.time"},
                {"type": "path", "name": "all", "expr": "$.a"},
                {"type": "path", "name": "n", "expr": "$.a.n"},
            ],
        }
    )
    row = {
        "x": "X",
        "z.z": "Z",
        "hidden": "h",
        "meta": {"time": 5},
        "a b": {"c'd": "odd"},
        "a": {"b": [0, {"c": "C"}], "n": "7"},
    }
    kinds = {"x": "string", "y": "string", "deep": "string", "odd": "string", "all": "json"}
    found = load_bytes(
        json.dumps(row) + '\n{"meta":{"time":6},"a":5}\n{"t":7}\n{"meta":{"time":8},"a":{"n":"q"}}',
        {**kinds, "n": "long", "hidden": "string"},
        file_format=JsonFormat(flatten=flatten),
    )
    first, second = found.rows
    assert first == {
        "__time": 5,
        "x": "X",
        "y": "Z",
        "deep": "C",
        "odd": "odd",
        "all": '{"b":[0,{"c":"C"}],"n":"7"}',
        "n": 7,
        "hidden": None,
    }
    assert second == {**dict.fromkeys(first), "__time": 6, "all": "5"}
    assert found.reasons == [REASON_MISSING, "not a long: n"]


def test_fields_with_odd_names() -> None:
    names = ['a"b', "a'b", "a.b", "$.a", "a b", "é", "__carnac_x", "f0", "j", "select", "a\\b"]
    names += ["*", "**", "a\tb", "a\nb", "a\x1b[31mb", "\x01"]
    row = {name: str(at) for at, name in enumerate(names)}
    found = load_bytes(json.dumps({"t": 1, **row}), dict.fromkeys(names, "string"))
    assert found.rows == [{"__time": 1, **row}]
    # the exact pass reads them too
    bad = json.dumps({"t": 1, **row, "n": "x"})
    assert load_bytes(bad, {**dict.fromkeys(names, "string"), "n": "long"}).reasons == [
        "not a long: n"
    ]
    listed = json.dumps({"t": 1, **{name: ["[", str(at)][1:] for at, name in enumerate(names)}})
    assert load_bytes(listed, dict.fromkeys(names, "string")).rows == [{"__time": 1, **row}]


def test_rows_outside_of_the_intervals_are_thrown_away_and_counted() -> None:
    within = interval_set([Interval(2, 4), Interval(7, 8)])
    data = "\n".join(f'{{"t":{at}}}' for at in range(10)) + "\nbad"
    found = load_bytes(data, {}, within=within)
    assert found.column("__time") == [2, 3, 7]
    assert (found.counts.rows_thrown_away, found.counts.rows_rejected) == (7, 1)
    assert load_bytes(data, {}, within=interval_set([])).counts.rows_thrown_away == 10


ZSTD = zstandard.ZstdCompressor()


@pytest.mark.parametrize(
    ("suffix", "packed"),
    [
        ("", b'{"t":1}\n{"t":2}\n'),
        (".gz", gzip.compress(b'{"t":1}\n{"t":2}\n', mtime=0)),
        (".gz", gzip.compress(b'{"t":1}\n{"t"', mtime=0) + gzip.compress(b":2}\n", mtime=0)),
        (".zst", ZSTD.compress(b'{"t":1}\n{"t":2}\n')),
        (".zst", ZSTD.compress(b'{"t":1}\n{"') + ZSTD.compress(b't":2}\n')),
        (".gz", gzip.compress(b"", mtime=0) + gzip.compress(b'{"t":1}\n{"t":2}\n', mtime=0)),
    ],
)
def test_compressed_files_also_of_several_members(
    tmp_path: Path, suffix: str, packed: bytes
) -> None:
    assert load_path(tmp_path, f"a.jsonl{suffix}", packed) == [1, 2]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("truncated.gz", gzip.compress(b'{"t":1}\n' * 1000, mtime=0)[:-12]),
        ("plain.gz", b'{"t":1}\n'),
        ("truncated.zst", ZSTD.compress(b'{"t":1}\n' * 1000)[:-4]),
        ("plain.zst", b'{"t":1}\n'),
        ("tail.gz", gzip.compress(b'{"t":1}\n', mtime=0) + b"garbage"),
    ],
)
def test_damaged_compression_is_one_error_that_names_the_file(
    tmp_path: Path, name: str, data: bytes
) -> None:
    with pytest.raises(Invalid, match=rf"input file .*{name} cannot be read: "):
        load_path(tmp_path, name, data)


def load_path(folder: Path, name: str, data: bytes) -> list[int]:
    path = folder / name
    path.write_bytes(data)
    compression = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix)
    file = InputFile(url=str(path), size_bytes=len(data), compression=compression)  # type: ignore[arg-type]
    return load_files([file], shape({}), file_format=JsonFormat()).column("__time")


@pytest.mark.parametrize("size", [3_000, 30_000])
def test_deep_wide_and_long_documents(size: int) -> None:
    rows = [
        '{"t":1,"x":' + "[" * size + "]" * size + "}",
        '{"t":2,"x":' + '{"a":' * size + "1" + "}" * size + "}",
        json.dumps({"t": 3, **{f"k{at}": at for at in range(size)}, "x": "z"}),
        '{"t":4,"x":' + "9" * size + "}",
        json.dumps({"t": 5, "x": "y" * 300 * size}),
    ]
    found = load_bytes("\n".join(rows), {"x": "string", f"k{size - 1}": "long"})
    assert found.counts.rows_read == 5
    assert found.counts.rows_parsed >= 3
    assert (
        dict(zip(found.column("__time"), found.column(f"k{size - 1}"), strict=True))[3] == size - 1
    )
    assert max(len(text or "") for text in found.column("x")) == 300 * size


def test_several_files_of_one_task() -> None:
    files = [inline('{"t":1}\nbad'), inline(""), inline('\xa0\n{"t":2}')]
    found = load_files(files, shape({}), file_format=JsonFormat())
    assert found.column("__time") == [1, 2]
    assert found.rejected == [(1, 0, "\xa0", REASON_MALFORMED), (2, 8, "bad", REASON_MALFORMED)]


@pytest.mark.slow
@pytest.mark.skipif(not WIKITICKER.exists(), reason=f"{WIKITICKER.name} is not on this machine")
def test_a_day_of_wikipedia() -> None:
    kinds = {
        "channel": "string",
        "cityName": "string",
        "comment": "string",
        "isRobot": "string",
        "metroCode": "long",
        "page": "string",
        "delta": "long",
        "added": "double",
        "deleted": "long",
    }
    file = InputFile(url=str(WIKITICKER), size_bytes=WIKITICKER.stat().st_size, compression="gzip")
    found = load_files(
        [file], shape(kinds), file_format=JsonFormat(), timestamp=TimestampSpec(column="time")
    )
    with gzip.open(WIKITICKER, "rt", encoding="utf-8") as source:
        rows = [json.loads(line) for line in source]
    assert len(found.rows) == len(rows) == 39244
    for name in ("channel", "cityName", "comment", "page", "delta", "deleted", "metroCode"):
        assert sorted(found.column(name), key=repr) == sorted((r[name] for r in rows), key=repr)
    assert sum(found.column("added")) == sum(row["added"] for row in rows)
    assert found.column("isRobot").count("true") == sum(row["isRobot"] for row in rows)
    times = sorted(parse_instant(row["time"]) for row in rows)
    assert sorted(found.column("__time")) == times


@pytest.mark.slow
def test_reading_lines_imports_no_pandas() -> None:
    """It would cost every new Python worker of Spark about half a second."""
    program = (
        "import sys\n"
        "from tests.unit.rows.loading import load_bytes\n"
        'load_bytes(\'{"t":1,"x":"a"}\\nbad\\n\\xff\', {"x": "string"})\n'
        "sys.exit('pandas' in sys.modules)\n"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize("first", ["7", '"7"', "7.0", '" 7 "'])
def test_of_a_field_that_is_there_twice_the_first_counts(first: str) -> None:
    line = f'{{"t": 1, "n": {first}, "n": 8, "a": "x", "a": [1, 2], "a": "y"}}'
    (row,) = load_bytes(line, {"n": "long", "a": "string"}).rows
    assert (row["n"], row["a"]) == (7, "x")
