"""From the input of a spec to files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from carnac.core.streams.partitions import Partition
from carnac.errors import CarnacError, Invalid, NotFound, Unavailable
from carnac.rows.read.inputs import (
    InputFile,
    ResolvedInput,
    local_file,
    resolve_input,
)
from carnac.rows.read.message_ranges import MessageRange
from carnac.rows.read.ranges import MIN_SPLIT_BYTES, split_files
from carnac.specs.ingest.inputs import CsvFormat, FilesInput, InlineInput, JsonFormat, ParquetFormat


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in (
        "a.jsonl",
        "b.jsonl.gz",
        "deep/c.json.zst",
        "deep/er/d.ndjson",
        "deep/.hidden.jsonl",
        "deep/_SUCCESS",
        "deep/_temporary/e.jsonl",
        "other/f.csv",
        "other/g.tsv",
        "odd/h.bin",
        "odd/i.jsonl.bz2",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * len(name))
    return tmp_path


def names(found: ResolvedInput, root: Path) -> list[str]:
    return [str(Path(file.url).relative_to(root)) for file in found.files]


def resolve(root: Path, *patterns: str, **options: Any) -> ResolvedInput:
    return resolve_input(FilesInput(paths=tuple(f"{root}/{one}" for one in patterns), **options))


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["a.jsonl"], ["a.jsonl"]),
        (["*.jsonl*"], ["a.jsonl", "b.jsonl.gz"]),
        (["deep"], ["deep/c.json.zst", "deep/er/d.ndjson"]),
        (["deep/"], ["deep/c.json.zst", "deep/er/d.ndjson"]),
        (["**/*.ndjson"], ["deep/er/d.ndjson"]),
        (["de*"], ["deep/c.json.zst", "deep/er/d.ndjson"]),
        (["deep", "a.jsonl", "*.jsonl"], ["a.jsonl", "deep/c.json.zst", "deep/er/d.ndjson"]),
        (["[ab].jsonl*"], ["a.jsonl", "b.jsonl.gz"]),
        (["deep/.hidden.jsonl"], ["deep/.hidden.jsonl"]),
        (["**/*.jsonl"], ["a.jsonl"]),
        (["deep/_temporary/*.jsonl"], ["deep/_temporary/e.jsonl"]),
        (["deep/.h*.jsonl", "**/_temp*/*"], ["deep/.hidden.jsonl", "deep/_temporary/e.jsonl"]),
    ],
)
def test_paths_globs_and_directories(tree: Path, patterns: list[str], expected: list[str]) -> None:
    found = resolve(tree, *patterns)
    assert names(found, tree) == expected
    assert found.format == JsonFormat()


def test_what_is_known_of_a_file(tree: Path) -> None:
    (plain, packed) = resolve(tree, "*.jsonl*").files
    assert (plain.size_bytes, plain.compression, plain.read_bytes) == (7, None, 7)
    assert (packed.size_bytes, packed.compression) == (10, "gzip")


def test_filter_of_names_in_directories(tree: Path) -> None:
    assert names(resolve(tree, "deep", filter="*.ndjson"), tree) == ["deep/er/d.ndjson"]
    with pytest.raises(NotFound, match=r"no input file matches '.*deep' with names like \*\.csv"):
        resolve(tree, "deep", filter="*.csv")


@pytest.mark.parametrize("pattern", ["no.jsonl", "*.parquet", "none/**/*.jsonl"])
def test_nothing_matches(tree: Path, pattern: str) -> None:
    with pytest.raises(NotFound) as caught:
        resolve(tree, "a.jsonl", pattern)
    assert caught.value.message == f"no input file matches '{tree}/{pattern}'"


def test_file_urls_and_relative_paths(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    assert names(resolve_input(FilesInput(paths=("deep/er",))), tree) == ["deep/er/d.ndjson"]
    odd = tree / "a b#c.jsonl"
    odd.write_text("{}")
    assert names(resolve_input(FilesInput(paths=(odd.as_uri(),))), tree) == ["a b#c.jsonl"]
    assert names(resolve_input(FilesInput(paths=("a b#c.jsonl",))), tree) == ["a b#c.jsonl"]


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        (["other"], r"several formats: csv \(.*f\.csv\), tsv \(.*g\.tsv\); ingest each by itself"),
        (["a.jsonl", "other/f.csv"], r"several formats: csv \(.*f\.csv\), json \(.*a\.jsonl\)"),
        (["odd/h.bin"], r"the name of .*h\.bin does not say its format; give inputFormat"),
        (["odd/i.jsonl.bz2"], r"i\.jsonl\.bz2 is compressed in a way that Carnac does not read"),
    ],
)
def test_formats_that_cannot_be_told(tree: Path, patterns: list[str], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        resolve(tree, *patterns)


def test_a_given_format_decides(tree: Path) -> None:
    found = resolve(tree, "odd/h.bin", "other", format=CsvFormat(columns=("a",)))
    assert found.format == CsvFormat(columns=("a",))
    assert len(found.files) == 3


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_file_that_may_not_be_read(tree: Path) -> None:
    (tree / "a.jsonl").chmod(0)
    with pytest.raises(Invalid, match=r"input file .*a\.jsonl cannot be read: Permission denied"):
        resolve(tree, "a.jsonl")


def test_inline_data() -> None:
    found = resolve_input(InlineInput(data="é\n"))
    assert found.files == (InputFile(url="inline:", size_bytes=3, data="é\n".encode()),)


def test_large_plain_files_of_lines_are_cut_into_ranges() -> None:
    size = 5 * MIN_SPLIT_BYTES
    plain = InputFile(url="a", size_bytes=size)
    pieces = split_files([plain], JsonFormat(), max_bytes=2 * MIN_SPLIT_BYTES)
    assert [(piece.start_byte, piece.end_byte) for piece in pieces] == [
        (0, size // 3),
        (size // 3, 2 * size // 3),
        (2 * size // 3, None),
    ]
    assert sum(piece.read_bytes for piece in pieces) == size


def test_files_that_stay_whole() -> None:
    size = 9 * MIN_SPLIT_BYTES
    packed = InputFile(url="a.gz", size_bytes=size, compression="gzip")
    small = InputFile(url="b", size_bytes=MIN_SPLIT_BYTES)
    plain = InputFile(url="c", size_bytes=size)
    assert split_files([packed, small], JsonFormat(), max_bytes=1) == (packed, small)
    read = MessageRange(
        partition=Partition("clicks", 0), start=0, end=9, envelope=None, properties={}
    )
    stream = InputFile(url="kafka:clicks/0", size_bytes=1 << 30, messages=read)
    assert split_files([stream], JsonFormat(), max_bytes=1) == (stream,)
    for whole in (CsvFormat(columns=("a",)), ParquetFormat()):
        assert split_files([plain], whole, max_bytes=1) == (plain,)


def test_remote_files_are_copied_and_deleted(tmp_path: Path) -> None:
    import fsspec

    fsspec.filesystem("memory").pipe("/bucket/in/a.jsonl", b"{}\n")
    fsspec.filesystem("memory").pipe("/bucket/in/_SUCCESS", b"")
    fsspec.filesystem("memory").pipe("/bucket/in/_temporary/0/c.jsonl", b"{}\n")
    fsspec.filesystem("memory").pipe("/bucket/in/deep/b.jsonl", b"{}\n{}\n")
    for pattern in ("memory://bucket/in", "memory://bucket/in/**/*.jsonl", "memory://bucket/i*"):
        found = resolve_input(FilesInput(paths=(pattern,)))
        assert [(file.url, file.size_bytes) for file in found.files] == [
            ("memory:///bucket/in/a.jsonl", 3),
            ("memory:///bucket/in/deep/b.jsonl", 6),
        ], pattern
    with local_file(found.files[1], str(tmp_path / "scratch")) as path:
        assert path.read_bytes() == b"{}\n{}\n"
    assert list((tmp_path / "scratch").iterdir()) == []
    with pytest.raises(NotFound, match="no input file matches 'memory://bucket/out'"):
        resolve_input(FilesInput(paths=("memory://bucket/out",)))


def test_remote_file_that_went_away(tmp_path: Path) -> None:
    gone = InputFile(url="memory:///bucket/gone.jsonl", size_bytes=3)
    with (
        pytest.raises(NotFound, match=r"gone\.jsonl does not exist any more"),
        local_file(gone, str(tmp_path)),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "url",
    [
        "nosuch://bucket/a.jsonl",
        "s3:///",
        "http://localhost:1/a.jsonl",
        "HTTPS://example.org/a.jsonl",
        "ftp://localhost:1/a.jsonl",
        "hdfs://localhost:1/a.jsonl",
    ],
)
def test_url_that_cannot_be_opened_is_one_clear_error(url: str) -> None:
    with pytest.raises((Invalid, NotFound, Unavailable)) as caught:
        resolve_input(FilesInput(paths=(url,)))
    assert isinstance(caught.value, CarnacError)
    assert "\n" not in caught.value.message


def test_what_cannot_be_read_twice_is_refused(tmp_path: Path) -> None:
    """Whoever opened a pipe would wait for somebody who writes into it."""
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/null")):
        with pytest.raises(Invalid, match="is a pipe or a device"):
            resolve_input(FilesInput(paths=[str(path)]))


def test_a_folder_that_goes_while_it_is_looked_through_is_not_there(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was an internal error."""
    (tree / "gone").mkdir()
    scan = os.scandir

    def scan_late(folder: str | os.PathLike[str]) -> object:
        if Path(folder).name == "gone":
            Path(folder).rmdir()
        return scan(folder)

    monkeypatch.setattr(os, "scandir", scan_late)
    source = FilesInput(paths=(str(tree),), filter="*.jsonl")
    assert [Path(one.url).name for one in resolve_input(source).files] == ["a.jsonl"]
