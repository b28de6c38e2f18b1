"""One archive of Java classes for the whole run: a Spark of a test's own starts sooner with it, and takes less work.

`carnac prepare` makes it, for the first process whose tests need it; the others start Spark without it meanwhile.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from dataclasses import astuple
from pathlib import Path

from tests.e2e.cli import Ran, run_process

CACHES = "XDG_CACHE_HOME"
"""Where Carnac looks for it: a folder of the run's own, so that what a user has prepared changes no test."""
TESTS_MIN = 12
"""Tests that start a Spark of their own, some several times, from which on it is worth its making."""
PREPARE_TIMEOUT_S = 600
"""For a machine that is busy with other things."""


def prepare_once(*, is_patient: bool) -> Ran | None:
    """Run `carnac prepare` if nobody has in this run; return what it said.

    Args:
        is_patient: Wait for a process that is at it; else None is returned then.
    """
    caches = Path(os.environ[CACHES])
    said = caches / "prepared.json"
    with (caches / "prepare.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if is_patient else fcntl.LOCK_NB))
        except BlockingIOError:
            return None
        if not said.exists():
            said.write_text(json.dumps(astuple(_prepare(caches))))
        return Ran(*json.loads(said.read_text()))


def with_archive(caches: Path) -> Path:
    """Return a cache folder of a test's own in which Spark finds the run's archive, if there is one already."""
    folder = caches / "carnac"
    folder.mkdir(parents=True)
    for archive in (Path(os.environ[CACHES]) / "carnac").glob("*.jsa"):
        (folder / archive.name).symlink_to(archive)
    return caches


def _prepare(caches: Path) -> Ran:
    try:
        return run_process(["prepare", "--json"], cwd=caches, timeout=PREPARE_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        return Ran(-1, "", str(error))
