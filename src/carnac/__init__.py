"""Carnac: an event store for teams who run Spark.

Events live in datasources, cut into time chunks of immutable Parquet segments. Every change is
one commit in one log, so every query reads one revision of the whole store.

    import carnac

    with carnac.open("events", create=True) as store:
        store.ingest({"dataSource": "edits", "input": "edits/*.json.gz"})
        store.sql("SELECT count(*) AS n FROM edits").rows()

What is listed in `__all__` is imported when it is first used: `import carnac` itself takes no time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from carnac.bootstrap.compaction import open_compaction
    from carnac.bootstrap.store import open_store as open  # noqa: A004 - carnac.open is how a store is opened
    from carnac.bootstrap.tasks import open_tasks
    from carnac.core.compaction.plan.groups import CompactionTarget
    from carnac.core.log.positions import OffsetRange
    from carnac.core.time.intervals import Interval
    from carnac.errors import (
        AllRejected,
        CarnacError,
        Conflict,
        Corrupt,
        DiskFull,
        Invalid,
        NotFound,
        ReadOnly,
        Revoked,
        Unavailable,
    )
    from carnac.overlord import TaskService
    from carnac.overlord.compactor.service import CompactionService
    from carnac.specs.ingest.spec import IngestSpec
    from carnac.store import Store

__version__ = "0.1.0"

__all__ = [
    "AllRejected",
    "CarnacError",
    "CompactionService",
    "CompactionTarget",
    "Conflict",
    "Corrupt",
    "DiskFull",
    "IngestSpec",
    "Interval",
    "Invalid",
    "NotFound",
    "OffsetRange",
    "ReadOnly",
    "Revoked",
    "Store",
    "TaskService",
    "Unavailable",
    "open",
    "open_compaction",
    "open_tasks",
]

_PLACES = {
    "open": ("carnac.bootstrap.store", "open_store"),
    "open_tasks": ("carnac.bootstrap.tasks", "open_tasks"),
    "open_compaction": ("carnac.bootstrap.compaction", "open_compaction"),
    "CompactionTarget": ("carnac.core.compaction.plan.groups", "CompactionTarget"),
    "CompactionService": ("carnac.overlord.compactor.service", "CompactionService"),
    "TaskService": ("carnac.overlord", "TaskService"),
    "Store": ("carnac.store", "Store"),
    "OffsetRange": ("carnac.core.log.positions", "OffsetRange"),
    "Interval": ("carnac.core.time.intervals", "Interval"),
    "IngestSpec": ("carnac.specs.ingest.spec", "IngestSpec"),
    **{
        name: ("carnac.errors", name)
        for name in (
            "AllRejected",
            "CarnacError",
            "Conflict",
            "Corrupt",
            "DiskFull",
            "Invalid",
            "NotFound",
            "ReadOnly",
            "Revoked",
            "Unavailable",
        )
    },
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for."""
    if name not in _PLACES:
        raise AttributeError(f"module 'carnac' has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _PLACES[name]
    value: object = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
