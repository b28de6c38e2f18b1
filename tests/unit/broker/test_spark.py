"""Statements for Spark that are refused before anything is planned."""

from __future__ import annotations

from typing import Any, cast

import pytest

from carnac.broker.spark import SparkExecutor
from carnac.errors import Invalid
from carnac.ports.answers import ANYBODY, Engine, OnMissing, Statement


@pytest.mark.parametrize("missing", [OnMissing.PREVIOUS, OnMissing.PARTIAL])
def test_spark_answers_from_everything_or_fails(missing: OnMissing) -> None:
    unneeded = cast("Any", None)
    executor = SparkExecutor(engine=unneeded, runner=unneeded, planned=unneeded, catalog=unneeded)
    asked = Statement(
        client=ANYBODY, sql="SELECT 1", query_id="q", engine=Engine.SPARK, on_missing=missing
    )
    with pytest.raises(Invalid, match=f"^onMissing {missing} .* leave onMissing out$"):
        executor.open(asked, timeout_ms=0)
