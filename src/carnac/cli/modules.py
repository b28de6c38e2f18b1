"""The commands of each module, known before any module is loaded."""

from __future__ import annotations

MODULES: dict[str, tuple[str, ...]] = {
    "demo": ("demo",),
    "stores": ("init",),
    "writing": ("append", "ingest", "revert", "delete", "drop"),
    "erasing": ("erase",),
    "specs": ("spec",),
    "streams": ("streams",),
    "quarantine": ("quarantine",),
    "queries": ("sql",),
    "receipts": ("receipt", "why"),
    "contents": ("datasources", "segments", "chunks"),
    "late": ("late",),
    "lookups": ("lookups",),
    "picture": ("picture",),
    "history": ("log", "show", "diff", "tag", "tags"),
    "upkeep": ("gc", "verify", "backup"),
    "compacting.compact": ("compact",),
    "compacting.control": ("compaction",),
    "compacting.simulation": ("compaction",),
    "running.serve": ("serve",),
    "running.overlord": ("overlord",),
    "running.task": ("task",),
    "running.supervisor": ("supervisor",),
    "running.locks": ("locks",),
    "users": ("users",),
    "doctor": ("doctor", "version"),
    "prepare": ("prepare",),
    "cluster.servers": ("servers",),
    "cluster.rules": ("rules",),
    "balancing.simulation": ("balance",),
    "balancing.plan": ("balance",),
    "balancing.picture": ("balance",),
    "simulate": ("simulate",),
}
"""Module below `carnac.cli.commands` → the first words of its commands, in the order of the help page."""
