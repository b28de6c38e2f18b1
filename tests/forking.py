"""Processes that begin at once: forked from one that has read what they need, and nothing of the test's own."""

from __future__ import annotations

import multiprocessing

FORK = multiprocessing.get_context("forkserver")
FORK.set_forkserver_preload(
    [
        "carnac.cli.command_line",
        "carnac.cli.commands.history",
        "carnac.cli.commands.lookups",
        "carnac.cli.commands.writing",
        "carnac.metadata.backends.postgresql",
        "carnac.metadata.backends.sqlite",
        "carnac.jobs.compact.job",
        "carnac.specs.tasks.spec",
        "carnac.store.jobs",
        "duckdb",
        "psycopg",
        "tests.integration.clock_children",
        "tests.integration.command_children",
        "tests.integration.compaction_children",
        "tests.integration.lock_children",
        "tests.integration.metadata_children",
        "tests.integration.store.children",
    ]
)
"""There is one fork server in a process of the run, so all tests say here what their children need."""
