"""A pipeline into an empty deep storage, on the one Spark of the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from carnac.clock import RandomIds, SystemClock
from carnac.jobs.pipeline import SparkPipeline
from carnac.ports import DeepStorage
from carnac.spark.session import SparkHolder
from carnac.specs.ingest.spec import IngestSpec
from carnac.store import Store
from tests.support.stores import open_local_store
from tests.unit.store.events import fast_folder

MakeSpec = Callable[..., IngestSpec]


@pytest.fixture
def deep_storage(tmp_path: Path) -> Path:
    return tmp_path / "deep"


@pytest.fixture
def pipeline(spark_holder: SparkHolder, deep_storage: Path) -> SparkPipeline:
    return SparkPipeline(
        output_url=deep_storage.as_uri(), clock=SystemClock(), ids=RandomIds(), spark=spark_holder
    )


class SharedSpark(SparkPipeline):
    """On the one Spark of the run, which outlives the store."""

    def close(self) -> None:
        """Leave Spark running."""


@contextmanager
def store_on(holder: SparkHolder) -> Iterator[Store]:
    """Yield a new store whose jobs run on the one Spark of the run."""
    clock, new_ids = SystemClock(), RandomIds()

    def make(storage: DeepStorage) -> SharedSpark:
        url = Path(str(storage.local_path("x"))).parent.as_uri()
        return SharedSpark(output_url=url, clock=clock, ids=new_ids, spark=holder)

    with (
        fast_folder() as folder,
        open_local_store(Path(folder), clock=clock, ids=new_ids, pipeline=make) as store,
    ):
        yield store


@pytest.fixture
def spark_store(spark_holder: SparkHolder) -> Iterator[Store]:
    """A store of the test's own."""
    with store_on(spark_holder) as store:
        yield store


@pytest.fixture(scope="module")
def module_store(spark_holder: SparkHolder) -> Iterator[Store]:
    """A store of the module's tests."""
    with store_on(spark_holder) as store:
        yield store


@pytest.fixture
def make_spec(tmp_path: Path) -> MakeSpec:
    """Make a spec of input text, a frame or paths, and further fields."""

    def make(text: str | None = None, **fields: object) -> IngestSpec:
        block: dict[str, object] = {
            "datasource": "events",
            "timestamp": {"column": "t"},
            "dimensions": ["d", {"name": "n", "type": "long"}],
        }
        if text is not None:
            path = tmp_path / "input" / f"{len(list(tmp_path.glob('input/*')))}.json"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            block["input"] = {"type": "files", "paths": [str(path)]}
        block.update(fields)
        granularity = block.get("granularity", {})
        assert isinstance(granularity, Mapping)
        block["granularity"] = {"segmentGranularity": "day", **granularity}
        return IngestSpec.model_validate(block)

    return make
