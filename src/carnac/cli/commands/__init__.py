"""The commands. Importing this package adds them to the application, in the order of the help page."""

# ruff: noqa: I001

from __future__ import annotations

from carnac.cli.app import app

# The order is that of the help page.
from carnac.cli.commands import (
    demo,
    stores,
    writing,
    specs,
    quarantine,
    queries,
    contents,
    lookups,
    picture,
    history,
    upkeep,
    compact,
    compaction,
    compaction_simulation,
    locks,
    task,
    overlord,
    doctor,
    balance,
)

__all__ = [
    "app",
    "balance",
    "compact",
    "compaction",
    "compaction_simulation",
    "contents",
    "demo",
    "doctor",
    "history",
    "locks",
    "lookups",
    "overlord",
    "picture",
    "quarantine",
    "queries",
    "specs",
    "stores",
    "task",
    "upkeep",
    "writing",
]
