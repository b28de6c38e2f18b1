"""The Spark of a store or an overlord, as the settings say."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from carnac.config import NICENESS, Settings, reveal
from carnac.ports import Clock, DeepStorage, IdSource

if TYPE_CHECKING:
    from carnac.config import Settings
    from carnac.jobs.pipeline import SparkPipeline
    from carnac.spark.session import SparkHolder
    from carnac.specs.ingest.spec import IngestSpec


def make_spark_pipeline(
    deep_storage: DeepStorage,
    settings: Settings,
    clock: Clock,
    ids: IdSource,
    *,
    spark: SparkHolder | None = None,
    is_for_users: bool = False,
    tell: Callable[[str], None] | None = None,
) -> SparkPipeline:
    """Return the pipeline that runs data jobs on Spark, by the settings; the caller closes it.

    Args:
        spark: Spark that its owner stops; None: the pipeline has one of its own.
        is_for_users: Whether code of users may use the pipeline's own Spark.
        tell: Called with a message if its own Spark takes long to start; None: no message.
    """
    from carnac.jobs.pipeline import SparkPipeline

    if not is_for_users:
        from carnac.spark.without_pandas import keep_pandas_out

        keep_pandas_out()
    return SparkPipeline(
        output_url=deep_storage.url,
        clock=clock,
        ids=ids,
        spark=spark or make_spark(settings, is_for_users=is_for_users, tell=tell),
        is_lent=spark is not None,
        verify_reads=settings.verify_reads == "once",
    )


def make_spark(
    settings: Settings,
    *,
    is_for_users: bool = False,
    tell: Callable[[str], None] | None = None,
) -> SparkHolder:
    """Return a Spark that starts when it is first needed; the caller closes it.

    Args:
        is_for_users: Whether code of users may use it, too.
        tell: Called with a message if it takes long to start; None: no message.
    """
    from carnac.spark.session import SparkHolder, SparkSettings

    return SparkHolder(
        SparkSettings(
            master=settings.spark_master,
            remote=reveal(settings.spark_remote),
            config=settings.spark_conf.get_secret_value(),
            niceness=settings.spark_niceness or 0,
            is_for_users=is_for_users,
        ),
        tell=tell,
    )


def giving_way(settings: Settings) -> Settings:
    """Return the settings for work that nobody waits for: unless they say otherwise, its Spark gives way to others."""
    if settings.spark_niceness is not None:
        return settings
    return settings.model_copy(update={"spark_niceness": NICENESS})


def write_notice(text: str) -> None:
    """Write a line on standard error, if there is one: a program without a terminal may have none."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"carnac: {text}\n")
        sys.stderr.flush()


def check_with_spark(spec: IngestSpec, settings: Settings, tell: Callable[[str], None]) -> None:
    """Let Spark, as the settings say, read the expressions of a spec.

    Args:
        tell: Called with a message if it takes long to start.

    Raises:
        Invalid: A text is not an expression.
        Unavailable: Spark does not start.
    """
    from carnac.jobs.ingest.spark_rows import check_expressions

    with closing(make_spark(settings, tell=tell)) as spark:
        check_expressions(spark, spec)
