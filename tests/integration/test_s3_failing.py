"""An object store that denies, breaks off or is gone: told as that, never as damage or as a bug."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import carnac
from carnac.errors import Corrupt, Unavailable
from carnac.jobs.compact.read import segment_file
from carnac.spark.failures import of_task
from carnac.store import Store
from tests.support.object_store import Front, named_object_store, run_front

pytestmark = [pytest.mark.http, pytest.mark.slow]
BUCKET = "failing"
ROWS = [{"t": "2024-01-01T00:00:00Z", "id": 1}]


@pytest.fixture
def front(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Front]:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with (
        named_object_store(monkeypatch) as files,
        run_front(os.environ["AWS_ENDPOINT_URL"]) as front,
    ):
        files.makedirs(BUCKET, exist_ok=True)
        monkeypatch.setenv("AWS_ENDPOINT_URL", front.url)
        files.clear_instance_cache()
        yield front


@pytest.fixture
def store(front: Front, tmp_path: Path) -> Iterator[Store]:
    url = f"s3://{BUCKET}/{tmp_path.name}"
    with carnac.open(tmp_path / "events", create=True, deep_storage=url) as store:
        store.append("events", ROWS)
        yield store


@pytest.mark.parametrize("fault", ["denied", "closed", "cut"])
def test_what_it_does_not_answer_is_to_be_retried(front: Front, store: Store, fault: str) -> None:
    [shown] = store.segments("events")
    front.fault = fault  # type: ignore[assignment]
    with pytest.raises(Unavailable):
        store.sql("SELECT * FROM events")
    with pytest.raises(Unavailable), segment_file(store.deep_storage.url, shown.segment):
        pass
    if fault != "cut":
        with pytest.raises(Unavailable, match="cannot be written"):
            store.append("events", ROWS)
    front.fault = None
    assert store.sql("SELECT id FROM events").rows() == [{"id": 1}]
    assert list(store.verify()) == []


def test_a_bucket_that_is_gone_is_away_and_a_file_that_is_gone_is_damage(store: Store) -> None:
    [shown] = store.segments("events")
    store.deep_storage.delete(shown.segment.path)
    reading = segment_file(store.deep_storage.url, shown.segment)
    with pytest.raises(Corrupt, match="is not there"):
        store.sql("SELECT * FROM events")
    with pytest.raises(Corrupt, match="is not there"), reading:
        pass
    assert [one.kind for one in store.verify()] == ["missing"]
    store.deep_storage.delete("carnac-store")
    reading = segment_file(store.deep_storage.url, shown.segment)
    with pytest.raises(Unavailable, match="mount it, or put its files back"):
        store.sql("SELECT * FROM events")
    with pytest.raises(Unavailable, match="mount it, or put its files back"), reading:
        pass
    with pytest.raises(Unavailable, match="mount it, or put its files back"):
        store.gc()
    with pytest.raises(Unavailable, match="mount it, or put its files back"):
        list(store.verify())


def test_a_task_of_spark_that_gets_no_answer_may_be_tried_again(front: Front, store: Store) -> None:
    import s3fs

    front.fault = "closed"
    files = s3fs.S3FileSystem(skip_instance_cache=True)
    with pytest.raises(Exception, match="closed") as caught:
        files.cat_file(f"{BUCKET}/x.parquet")
    assert not isinstance(caught.value, OSError)
    assert isinstance(of_task(caught.value), Unavailable)


def test_a_wrong_setting_of_its_client_is_told(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "localhost:9000")  # without http://
    with carnac.open(tmp_path / "events") as other:
        for work in (other.gc, lambda: other.sql("SELECT * FROM events")):
            with pytest.raises(Unavailable, match="Invalid endpoint: localhost:9000"):
                work()
