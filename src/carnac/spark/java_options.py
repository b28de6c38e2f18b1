"""Options of the Java that runs Spark's driver; in local mode it runs the tasks, too."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
"""Spark's setting for options of the driver's Java."""
COMPILES_LATE = "-XX:CompileThresholdScaling=10"
"""Java compiles what has run ten times as often as it waits for by itself.

Most of the processor time of a driver that hands out tasks went to compiling code that never ran often enough to gain
by it. Loops over rows reach the higher number in milliseconds.
"""


def with_option(config: Mapping[str, str], option: str) -> dict[str, str]:
    """Return Spark's settings with an option before the others: of two alike, Java takes the last."""
    options = f"{shlex.quote(option)} {config.get(JAVA_OPTIONS, '')}".strip()
    return {**config, JAVA_OPTIONS: options}
