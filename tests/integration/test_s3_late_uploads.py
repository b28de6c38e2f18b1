"""Files that appear in an object store after they were removed: uploads of a task that was killed, which end later."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from carnac.bootstrap.store import open_store
from carnac.config import Settings
from carnac.jobs.ingest.write_pass import remove_others
from tests.support.clock import FakeClock, SequentialIds
from tests.support.object_store import run_object_store
from tests.unit.store.events import NOW_MS

pytestmark = pytest.mark.http
FOLDER = "segments/events/job-1"
LATE = f"{FOLDER}/late.parquet"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An S3 that the environment names, and a client of its own: what it uploads no listing of ours has seen."""
    import boto3
    import s3fs

    with run_object_store() as url:
        for name, value in {
            "AWS_ENDPOINT_URL": url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
        }.items():
            monkeypatch.setenv(name, value)
        s3fs.S3FileSystem.clear_instance_cache()
        client = boto3.client("s3", endpoint_url=url)
        client.create_bucket(Bucket="shelf")
        yield client
        s3fs.S3FileSystem.clear_instance_cache()


def test_what_is_uploaded_after_its_removal_is_found_and_collected(
    bucket: Any, tmp_path: Path
) -> None:
    clock = FakeClock(NOW_MS)
    settings = Settings(store=str(tmp_path / "store"), deep_storage="s3://shelf/store")
    with open_store(create=True, settings=settings, clock=clock, ids=SequentialIds()) as store:
        bucket.put_object(Bucket="shelf", Key=f"store/{FOLDER}/first.parquet", Body=b"12345")
        assert remove_others("s3://shelf/store", FOLDER, ()) == 5, "it was killed: cleared up"
        assert [one.kind for one in store.verify()] == []
        bucket.put_object(Bucket="shelf", Key=f"store/{LATE}", Body=b"1234567")
        (finding,) = store.verify()
        assert (finding.kind, finding.path) == ("orphan", LATE)
        (planned,) = store.gc(dry_run=True).actions
        assert (planned.path, planned.action, planned.size_bytes) == (LATE, "delete", 7)
        assert store.gc().actions == (planned,)
        assert list(store.verify()) == []
        bucket.put_object(Bucket="shelf", Key=f"store/{LATE}", Body=b"123")
        assert remove_others("s3://shelf/store", FOLDER, ()) == 3, "no listing is remembered"
        bucket.put_object(Bucket="shelf", Key=f"store/{LATE}", Body=b"123")
        assert len(store.gc().actions) == 1
