"""Input from an object store: found, copied, read, and the copies deleted."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

import carnac
from carnac.errors import NotFound, Unavailable
from carnac.rows.read.inputs import resolve_input
from carnac.specs.ingest.inputs import FilesInput
from tests.support.object_store import named_object_store
from tests.unit.rows.loading import load_files, shape

pytestmark = pytest.mark.http


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Start an S3 that the environment names, as it would name a real one."""
    with named_object_store(monkeypatch) as files:
        files.makedirs("events", exist_ok=True)
        files.pipe("events/2013/a.jsonl", b'{"t":1,"x":"a"}\nbad\n')
        files.pipe("events/2013/b.jsonl.gz", gzip.compress(b'{"t":2,"x":"b"}\n'))
        files.pipe("events/2014/c.jsonl", b'{"t":3,"x":"c"}\n')
        files.pipe("events/2013/_SUCCESS", b"")
        yield "s3://events"


@pytest.mark.parametrize(
    ("pattern", "times"),
    [("2013", [1, 2]), ("*/*.jsonl", [1, 3]), ("**/*.gz", [2]), ("", [1, 2, 3])],
)
def test_files_of_a_bucket(bucket: str, tmp_path: Path, pattern: str, times: list[int]) -> None:
    found = resolve_input(FilesInput(paths=(f"{bucket}/{pattern}",)))
    assert all(file.url.startswith("s3://events/") and file.size_bytes for file in found.files)
    loaded = load_files(
        found.files, shape({"x": "string"}), file_format=found.format, scratch_dir=str(tmp_path)
    )
    assert loaded.column("__time") == times
    assert len(loaded.rejected) == times.count(1)
    assert list(tmp_path.iterdir()) == [], "copies are deleted"


def test_a_store_is_made_over_a_bucket_that_is_there(bucket: str, tmp_path: Path) -> None:
    place, options = str(tmp_path / "store"), {"create": True}
    with pytest.raises(
        NotFound, match="s3://no-such-bucket/x: the specified bucket does not exist; make it"
    ):
        carnac.open(place, deep_storage="s3://no-such-bucket/x", **options)
    with pytest.raises(NotFound, match="there is no store"):
        carnac.open(place)
    with carnac.open(place, deep_storage=f"{bucket}/x", **options) as store:
        assert [one.path for one in store.deep_storage.list_files("")] == ["carnac-store"]


def test_nothing_there(bucket: str) -> None:
    for path in (f"{bucket}/2012", f"{bucket}/*.csv", "s3://no-such-bucket/x"):
        with pytest.raises(NotFound, match=f"no input file matches '{path}'".replace("*", r"\*")):
            resolve_input(FilesInput(paths=(path,)))


def test_store_that_does_not_answer(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import s3fs

    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    s3fs.S3FileSystem.clear_instance_cache()
    with pytest.raises(Unavailable, match=r"listing s3://events/2013 failed: "):
        resolve_input(FilesInput(paths=(f"{bucket}/2013",)))
