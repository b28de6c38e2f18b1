"""One behaviour for every deep storage: local directory, S3 (moto's server), and what stands for one in tests."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from carnac.deep_storage import open_deep_storage
from carnac.errors import Invalid, NotFound, Unavailable
from carnac.ports import DeepStorage
from carnac.ports.far_files import storage_error
from tests.support.memory_storage import MemoryDeepStorage
from tests.support.object_store import run_object_store

KINDS = ["local", "memory", "fake", pytest.param("s3", marks=pytest.mark.http)]


@pytest.fixture(scope="module")
def s3_options() -> Iterator[dict[str, object]]:
    import boto3

    with run_object_store() as url:
        client = boto3.client(
            "s3",
            endpoint_url=url,
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )
        client.create_bucket(Bucket="shelf")
        yield {
            "key": "test",
            "secret": "test",
            "endpoint_url": url,
            "client_kwargs": {"region_name": "us-east-1"},
        }


@pytest.fixture(params=KINDS)
def storage(
    request: pytest.FixtureRequest, tmp_path: Path, record_property: Callable[[str, object], None]
) -> DeepStorage:
    if request.param == "local":
        return open_deep_storage(f"{tmp_path}/store")
    if request.param == "memory":
        return open_deep_storage("memory://")
    if request.param == "fake":
        return MemoryDeepStorage()
    name = "".join(c for c in request.node.name if c.isalnum())
    return open_deep_storage(f"s3://shelf/{name}", request.getfixturevalue("s3_options"))


def paths(storage: DeepStorage, prefix: str) -> list[str]:
    return [file.path for file in storage.list_files(prefix)]


def test_what_is_written_is_read_found_and_listed(storage: DeepStorage) -> None:
    before_ms = time.time() * 1000
    storage.write("segments/a/1.parquet", b"one")
    storage.write("segments/a/2.parquet", b"")
    with storage.open_read("segments/a/1.parquet") as file:
        assert file.read() == b"one"
    found = storage.find_file("segments/a/1.parquet")
    assert found is not None
    assert (found.path, found.size_bytes) == ("segments/a/1.parquet", 3)
    assert abs(found.modified_at_ms - before_ms) < 60_000
    assert list(storage.list_files("segments/a")) == [
        found,
        storage.find_file("segments/a/2.parquet"),
    ]


def test_reading_may_seek(storage: DeepStorage) -> None:
    storage.write("x", bytes(range(100)))
    with storage.open_read("x") as file:
        file.seek(90)
        assert file.read(5) == bytes(range(90, 95))


def test_ranges_are_read_as_they_are_asked_for(storage: DeepStorage) -> None:
    storage.write("x", bytes(range(100)))
    assert storage.read_range("x", 10, 13) == bytes([10, 11, 12])
    assert storage.read_range("x", 0, 100) == bytes(range(100))
    assert storage.read_range("x", 95, 200) == bytes(range(95, 100))
    assert storage.read_range("x", 7, 7) == b""
    with pytest.raises(NotFound, match="'no/such'"):
        storage.read_range("no/such", 0, 1)
    with pytest.raises(Invalid, match="not a path inside deep storage"):
        storage.read_range("../x", 0, 1)


def test_a_second_write_takes_the_place_of_the_first(storage: DeepStorage) -> None:
    storage.write("a/x", b"first")
    storage.write("a/x", b"second, longer")
    with storage.open_read("a/x") as file:
        assert file.read() == b"second, longer"
    assert paths(storage, "") == ["a/x"]


def test_what_is_missing_is_not_found(storage: DeepStorage) -> None:
    assert storage.find_file("no/such") is None
    with pytest.raises(NotFound, match="'no/such'"):
        storage.open_read("no/such")
    assert paths(storage, "no") == []
    storage.write("a/x", b"1")
    assert storage.find_file("a") is None
    assert storage.find_file("a/x/y") is None


def test_deleting_is_idempotent(storage: DeepStorage) -> None:
    storage.write("a/x", b"1")
    storage.delete("a/x")
    storage.delete("a/x")
    storage.delete("never/was")
    assert storage.find_file("a/x") is None
    assert paths(storage, "") == []


def test_listing_is_by_folder_and_in_order_of_path(storage: DeepStorage) -> None:
    names = ["b/2", "b/10", "a/z/1", "ab/1", "a-/x", "é/ü ?#%.x"]
    for name in names:
        storage.write(name, b".")
    assert paths(storage, "") == sorted(names)
    assert paths(storage, "a") == paths(storage, "a/") == ["a/z/1"]
    assert paths(storage, "b") == ["b/10", "b/2"]
    with storage.open_read("é/ü ?#%.x") as file:
        assert file.read() == b"."


@pytest.mark.parametrize(
    "path", ["", "/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a/.", "a\\b", "a\0"]
)
def test_a_path_cannot_leave_the_root(storage: DeepStorage, path: str) -> None:
    for action in (storage.open_read, storage.find_file, storage.delete, storage.local_path):
        with pytest.raises(Invalid, match="not a path inside deep storage"):
            action(path)
    with pytest.raises(Invalid, match="not a path inside deep storage"):
        storage.write(path, b"")


def test_readers_see_the_old_file_or_the_new_one_whole_or_an_error(storage: DeepStorage) -> None:
    bodies = [bytes([i]) * 100_000 for i in range(12)]
    storage.write("x", bodies[0])
    stop = threading.Event()
    seen: list[bytes] = []

    def read() -> None:
        while not stop.is_set():
            # an object store may refuse to go on with a file that was overwritten since it was opened
            with suppress(Unavailable), storage.open_read("x") as file:
                seen.append(file.read())

    reader = threading.Thread(target=read)
    reader.start()
    for body in bodies:
        storage.write("x", body)
    stop.set()
    reader.join()
    assert all(body in bodies for body in seen)


def test_local_paths_and_free_space_are_told_where_there_are_any(storage: DeepStorage) -> None:
    storage.write("a/x", b"here")
    local = storage.local_path("a/x")
    if storage.url.startswith("file:"):
        assert local is not None
        assert local.read_bytes() == b"here"
        assert (storage.free_bytes() or 0) > 0
    else:
        assert local is None
        assert storage.free_bytes() is None


def test_a_full_memory_storage_keeps_what_it_had() -> None:
    storage = MemoryDeepStorage(capacity_bytes=10)
    storage.write("a", b"12345678")
    with pytest.raises(Unavailable, match="is full"):
        storage.write("b", b"123")
    storage.write("a", b"1234567890")
    assert (paths(storage, ""), storage.free_bytes()) == (["a"], 0)


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    code = (
        "import resource, sys\n"
        "from carnac.deep_storage import open_deep_storage\n"
        "from carnac.errors import Unavailable\n"
        "storage = open_deep_storage(sys.argv[1])\n"
        "storage.write('a/x', b'old')\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n    storage.write('a/x', b'n' * 5000)\n"
        "except Unavailable as error:\n    print(error)\n"
        "print([file.path for file in storage.list_files('')], storage.open_read('a/x').read())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    message, rest = done.stdout.splitlines()
    assert "is full; free some space" in message
    assert rest == "['a/x'] b'old'"


def test_a_crash_while_writing_leaves_a_file_that_is_listed_as_an_orphan(tmp_path: Path) -> None:
    code = (
        "import os, sys, tempfile\n"
        "from carnac.deep_storage import open_deep_storage\n"
        "from carnac.durable import make_folders\n"
        "from pathlib import Path\nmake_folders(Path(sys.argv[1], 'a'))\n"
        "os.fsync = lambda handle: os._exit(9)\n"
        "open_deep_storage(sys.argv[1]).write('a/x', b'half')\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert done.returncode == 9
    storage = open_deep_storage(str(tmp_path))
    assert storage.find_file("a/x") is None
    (orphan,) = paths(storage, "a")
    assert orphan.startswith("a/.x.")
    storage.delete(orphan)
    assert paths(storage, "") == []


def test_a_folder_that_cannot_be_written_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises((Unavailable, NotFound), match="cannot write 'x'"):
        open_deep_storage(str(tmp_path / "file")).write("x", b"")
    error = storage_error(PermissionError(13, "Permission denied"), "write 'x'", "/r")
    assert str(error) == "cannot write 'x': deep storage /r answers: permission denied"


@pytest.mark.http
def test_a_missing_bucket_and_a_dead_endpoint_are_clear(s3_options: dict[str, object]) -> None:
    with pytest.raises((NotFound, Unavailable), match="cannot write 'x'"):
        open_deep_storage("s3://no-such-bucket/x", s3_options).write("x", b"")
    dead = {
        **s3_options,
        "endpoint_url": "http://127.0.0.1:1",
        "config_kwargs": {"retries": {"max_attempts": 0}, "connect_timeout": 1},
    }
    with pytest.raises(Unavailable, match="deep storage s3://shelf answers"):
        open_deep_storage("s3://shelf", dead).write("x", b"")


def test_the_url_chooses_the_kind(tmp_path: Path) -> None:
    assert open_deep_storage(str(tmp_path)).url == tmp_path.as_uri()
    spaced = tmp_path / "with space"
    storage = open_deep_storage(spaced.as_uri())
    storage.write("x", b"")
    assert (spaced / "x").exists()
    for url in ("s3://", "", "nonsense://host/x"):
        with pytest.raises(Invalid):
            open_deep_storage(url)


def test_opening_a_local_directory_imports_no_object_store_client() -> None:
    code = (
        "import sys; from carnac.deep_storage import open_deep_storage; open_deep_storage('/nowhere')\n"
        "print([m for m in ('fsspec', 'botocore', 'pyarrow', 'duckdb') if m in sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )
