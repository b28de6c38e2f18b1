"""A pipeline into an empty deep storage, on the one Spark of the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from carnac.clock import RandomIds, SystemClock
from carnac.pipeline.pipeline import SparkPipeline
from carnac.pipeline.session import SparkHolder
from carnac.specs.ingest import IngestSpec

MakeSpec = Callable[..., IngestSpec]


@pytest.fixture
def deep_storage(tmp_path: Path) -> Path:
    return tmp_path / "deep"


@pytest.fixture
def pipeline(spark_holder: SparkHolder, deep_storage: Path) -> SparkPipeline:
    return SparkPipeline(
        output_url=deep_storage.as_uri(), clock=SystemClock(), ids=RandomIds(), spark=spark_holder
    )


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
