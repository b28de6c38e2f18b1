"""A backup is taken as `docs/concepts/operating.md` says, beside writers and garbage collection, and is whole."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from carnac.bootstrap.backup import back_up
from carnac.errors import Corrupt
from carnac.store import Store
from tests.support.clock import FakeClock
from tests.unit.store.conftest import OpenStore
from tests.unit.store.events import append, hour, ids, rows_of, spec

PAGE = Path(__file__).resolve().parents[3] / "docs" / "concepts" / "operating.md"
TRASH_MS = 60_000


def steps() -> tuple[str, str]:
    """The page's commands that copy the metadata and the files."""
    text = PAGE.read_text(encoding="utf-8").partition("## Backup")[2]
    found = re.search(r"```sh\n(.*?)```", text, re.DOTALL)
    assert found is not None
    lines = found[1].splitlines()
    first, second = (next(one for one in lines if f"# {number}." in one) for number in (1, 2))
    return first, second


def run(line: str, cwd: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path}
    subprocess.run(["sh", "-e", "-c", line], cwd=cwd, env=env, check=True, timeout=60)


@pytest.fixture
def working(open_store: OpenStore, folder: Path) -> Store:
    return open_store(folder=folder / "events", settings={"trash_period_ms": TRASH_MS})


class TestABackup:
    def test_is_not_mixed_with_the_log_of_a_file_that_a_killed_process_left(
        self, working: Store, open_store: OpenStore, folder: Path
    ) -> None:
        append(working, (1, 1))
        place, kept = folder / "events" / "metadata.db", folder / "kept.db"
        back_up(str(folder / "events"), kept)
        append(working, (2, 1))
        crashed = folder / "crashed"
        shutil.copytree(folder / "events", crashed)  # with the log, as after SIGKILL
        log = crashed / f"{place.name}-wal"
        assert log.stat().st_size
        shutil.copyfile(kept, crashed / place.name)
        for _ in range(2):
            with pytest.raises(Corrupt, match=r"remove metadata\.db-wal and metadata\.db-shm"):
                open_store(folder=crashed)
        assert (crashed / place.name).read_bytes() == kept.read_bytes()
        log.unlink()
        (crashed / f"{place.name}-shm").unlink()
        with open_store(folder=crashed) as restored:
            assert ids(restored) == [1]
            append(restored, (3, 1))
            assert ids(restored) == [1, 3]

    @pytest.mark.slow
    def test_has_all_that_was_published_before_it_and_can_be_written_to(
        self, working: Store, open_store: OpenStore, folder: Path, clock: FakeClock
    ) -> None:
        append(working, (1, 1), (2, 30))
        working.tag("kept")
        append(working, (3, 1))
        (folder / "backup").mkdir()
        metadata, files = steps()
        run(metadata, folder)
        meanwhile = spec(mode="replace")
        working.ingest(meanwhile, rows_of([(9, hour(1))]))  # takes rows 1 and 3 out of sight
        working.untag("kept")
        clock.advance_ms(1)
        assert working.gc().revisions_trimmed == 2
        clock.advance_ms(TRASH_MS - 1)
        working.gc()
        run(files, folder)
        clock.advance_ms(1)
        assert [one.action for one in working.gc().actions].count("delete") == 2
        with open_store(folder=folder / "backup") as restored:
            assert [one.kind for one in restored.verify()] == ["orphan"]  # what came later
            assert (ids(restored), ids(restored, "kept")) == ([1, 2, 3], [1, 2])
            append(restored, (4, 2))
            assert ids(restored) == [1, 2, 3, 4]
        assert ids(working) == [2, 9]

    @pytest.mark.slow
    def test_of_files_first_would_lack_what_is_published_between_the_two(
        self, working: Store, open_store: OpenStore, folder: Path
    ) -> None:
        append(working, (1, 1))
        (folder / "backup").mkdir()
        metadata, files = steps()
        run(files, folder)
        append(working, (2, 1))
        run(metadata, folder)
        with open_store(folder=folder / "backup") as restored:
            assert [one.kind for one in restored.verify()] == ["missing"]
