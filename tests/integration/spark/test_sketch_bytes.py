"""Spark reads the sketches that we write, and we read those that Spark writes: the same bytes, the same hashes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from carnac import sketches
from tests.support.estimates import count_quantiles, estimate_hll, estimate_theta

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_sketches_go_both_ways_and_merge(spark: SparkSession) -> None:
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

    rows = spark.range(500).select(F.col("id"), F.concat(F.lit("ü"), F.col("id")).alias("name"))
    theirs = rows.agg(
        F.hll_sketch_agg("name", F.lit(12)).alias("hll"),
        F.theta_sketch_agg("id", F.lit(12)).alias("theta"),
        F.kll_sketch_agg_double(F.col("id").cast("double")).alias("quantiles"),
    ).collect()[0]
    hll, theta, quantiles = bytes(theirs.hll), bytes(theirs.theta), bytes(theirs.quantiles)
    our_hll = sketches.build_hll(f"ü{i}" for i in range(250, 750))
    our_theta = sketches.build_theta(range(250, 750))
    assert estimate_hll(sketches.merge_hll([hll, our_hll])) == pytest.approx(750, rel=0.03)
    assert estimate_theta(sketches.intersect_theta([theta, our_theta])) == 250
    assert (
        count_quantiles(sketches.merge_quantiles([quantiles, sketches.build_quantiles(range(500))]))
        == 1000
    )
    ours = spark.createDataFrame(
        [(our_hll, our_theta, sketches.build_quantiles(range(1001)))],
        "hll binary, theta binary, quantiles binary",
    )
    found = ours.select(
        F.hll_sketch_estimate("hll"),
        F.theta_sketch_estimate("theta"),
        F.kll_sketch_get_quantile_double("quantiles", F.lit(0.5)),
    ).collect()[0]
    assert found[0] == pytest.approx(500, rel=0.02)
    assert found[1] == 500
    assert found[2] == pytest.approx(500, rel=0.05)
