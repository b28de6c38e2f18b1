"""The keys of a task's context for the task itself. Those for locks are in `core.locks.choice`.

`priority` is Druid's; `slots`, `retries`, `retryDelayMs` and `longestRetryDelayMs` are ours: Druid tries once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from carnac.core.locks.choice import choose_lock, default_priority, parse_lock_context
from carnac.core.tasks.model import DEFAULT_RETRY, RetryPolicy
from carnac.errors import Invalid

SPARK_CONF_KEY = "sparkConf"
"""Spark settings for the driver of the task's attempts, over those of the service."""
SLOTS_MAX = 1_000
RETRIES_MAX = 100
DELAY_MAX_MS = 7 * 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskContext:
    """How a task is dispatched, and tried again."""

    priority: int
    slots: int
    retry: RetryPolicy


def parse_task_context(
    task_type: str, context: Mapping[str, object], *, is_append: bool | None
) -> TaskContext:
    """Return what a context says of the task; other keys do not matter.

    Args:
        is_append: Whether it adds rows and takes none away; None: it takes no locks.

    Raises:
        Invalid: A value is of the wrong kind, also one that is about locks or Spark, or the lock type does not fit the
            task.
    """
    spark_conf_of(context)
    locks = parse_lock_context(context)
    if is_append is not None:
        choose_lock(locks, is_append=is_append)
    return TaskContext(
        priority=default_priority(task_type) if locks.priority is None else locks.priority,
        slots=_whole(context, "slots", 1, SLOTS_MAX, 1),
        retry=RetryPolicy(
            limit=_whole(context, "retries", 0, RETRIES_MAX, DEFAULT_RETRY.limit),
            delay_ms=_whole(context, "retryDelayMs", 0, DELAY_MAX_MS, DEFAULT_RETRY.delay_ms),
            longest_delay_ms=_whole(
                context, "longestRetryDelayMs", 0, DELAY_MAX_MS, DEFAULT_RETRY.longest_delay_ms
            ),
        ),
    )


def spark_conf_of(context: Mapping[str, object]) -> dict[str, str]:
    """Return the settings of Spark in a context, by name.

    Raises:
        Invalid: They are no object of texts.
    """
    conf = context.get(SPARK_CONF_KEY)
    if conf is None:
        return {}
    if not isinstance(conf, dict) or not all(isinstance(value, str) for value in conf.values()):
        raise Invalid(
            f"'{SPARK_CONF_KEY}' of a task's context must be an object of texts",
            setting=SPARK_CONF_KEY,
        )
    return conf


def _whole(context: Mapping[str, object], name: str, low: int, high: int, default: int) -> int:
    value = context.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise Invalid(
            f"'{name}' of a task's context is {value!r}; it must be a whole number from {low} to {high}",
            setting=name,
        )
    return value
