"""Specs before anything is run: what only Spark can say of them."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from carnac.bootstrap.spark import make_spark

if TYPE_CHECKING:
    from carnac.config import Settings
    from carnac.specs.ingest.spec import IngestSpec


def check_with_spark(spec: IngestSpec, settings: Settings) -> None:
    """Let Spark, as the settings say, read the expressions of a spec.

    Raises:
        Invalid: One is not an expression.
        Unavailable: Spark does not start.
    """
    from carnac.jobs.ingest.spark_rows import check_expressions

    with closing(make_spark(settings)) as spark:
        check_expressions(spark, spec)
