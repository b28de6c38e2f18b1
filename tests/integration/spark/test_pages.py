"""What pages tell people to run on Spark is run, and does what they say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from carnac.errors import Unavailable
from carnac.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CONCEPTS = Path(__file__).resolve().parents[3] / "docs" / "concepts"
HLL_OF_ONE = "AgEHDAMIAQDIPO8F"


def block(page: str, heading: str, language: str) -> str:
    """Return the first block of a language below a heading of a page."""
    text = (CONCEPTS / page).read_text(encoding="utf-8").partition(f"\n{heading}\n")[2]
    found = re.search(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_a_batch_of_a_stream_that_comes_again_changes_nothing(
    spark_store: Store, spark: SparkSession, tmp_path: Path
) -> None:
    source, checkpoint = tmp_path / "source", tmp_path / "checkpoint"
    source.mkdir()

    for number in range(2):
        line = {"time": f"2024-01-01T0{number}:00:00Z", "page": str(number)}
        (source / f"{number}.json").write_text(json.dumps(line) + "\n")

    def run_stream() -> None:
        files = spark.readStream.schema("time string, page string")
        events = files.option("maxFilesPerTrigger", 1).json(str(source))
        code = block("ingestion.md", "### With a checkpoint of your own", "python")
        names: dict[str, Any] = {
            "store": spark_store,
            "events": events,
            "checkpoint": str(checkpoint),
        }
        exec(code.replace(".start()", ".trigger(availableNow=True).start()"), names)
        assert names["query"].awaitTermination(60)

    run_stream()
    assert spark_store.head().revision == 2
    for left in (checkpoint / "commits").glob("*1*"):  # as if it had died before it noted the end
        left.unlink()
    run_stream()
    pages = spark_store.sql("SELECT page FROM clicks ORDER BY page").rows()
    assert [row["page"] for row in pages] == ["0", "1"]
    assert spark_store.head().revision == 2


def test_a_stream_of_the_page_goes_on_from_the_log(spark_store: Store, spark: SparkSession) -> None:
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 3).load()
    events = rate.selectExpr(
        "date_format(timestamp, \"yyyy-MM-dd'T'HH:mm:ss'Z'\") AS time", "value"
    )
    code = block("ingestion.md", "## From a stream", "python")
    names: dict[str, Any] = {"store": spark_store}
    for last in (2, 4):
        names["events"] = events.selectExpr(
            "time", f"IF(value < {3 * last}, value, raise_error('end')) AS page"
        )
        with pytest.raises(Unavailable, match="end"):
            exec(code, names)
        assert spark_store.head().revision == last
    pages = spark_store.sql("SELECT CAST(page AS BIGINT) AS page FROM clicks ORDER BY 1").rows()
    assert [row["page"] for row in pages] == list(range(12))


def test_rows_that_druid_gives_out_are_ingested_with_the_spec_of_the_page(
    spark_store: Store, tmp_path: Path
) -> None:
    line = {"__time": "2015-09-12T00:46:58.771Z", "channel": "#en", "page": "Menhir", "delta": -3}
    lines = [
        {**line, "count": 3, "added": 36, "users": HLL_OF_ONE},
        {**line, "count": 1, "added": 4},
    ]
    folder = tmp_path / "wikipedia"
    folder.mkdir()
    (folder / "rows.json").write_text("".join(f"{json.dumps(one)}\n" for one in lines))
    spec = yaml.safe_load(block("druid.md", "## Moving a datasource", "yaml"))
    spark_store.ingest({**spec, "input": str(folder)})
    (row,) = spark_store.sql(
        "SELECT __time::VARCHAR AS t, channel, delta, count, added, hll_estimate(users) AS users FROM wikipedia"
    ).rows()
    assert row == {
        "t": "2015-09-12 00:46:00+00",
        "channel": "#en",
        "delta": -3,
        "count": 4,
        "added": 40,
        "users": 1.0,
    }
