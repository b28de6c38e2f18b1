from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from scripts.in_memory import (
    NEW_S,
    PREFIX,
    available_bytes,
    folder_in_memory,
    held,
    is_fit,
    remove_deserted,
)


def test_the_folder_is_there_and_goes(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 9 kB\nMemAvailable:    2048 kB\nMemFree: 1 kB\n")
    with folder_in_memory(1 << 20, memory=tmp_path, meminfo=meminfo) as folder:
        assert folder is not None
        assert folder.parent == tmp_path
        assert folder.stat().st_mode & 0o777 == 0o711
        (folder / "file").touch()
    assert list(tmp_path.iterdir()) == [meminfo]


def test_tests_do_with_the_disk_where_memory_is_short_or_unknown(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemAvailable:    2048 kB\n")
    assert available_bytes(meminfo) == 2 << 20
    for needed_bytes, where in [((1 << 20) + 1, meminfo), (1, tmp_path / "none"), (1, tmp_path)]:
        with folder_in_memory(needed_bytes, memory=tmp_path, meminfo=where) as folder:
            assert folder is None


def test_what_a_killed_run_has_left_goes_and_what_another_holds_stays(tmp_path: Path) -> None:
    left, in_use, new = (tmp_path / f"{PREFIX}{name}" for name in ("left", "in_use", "new"))
    for folder in (left, in_use, new):
        (folder / "pytest-of-me").mkdir(parents=True)
    later_s = new.stat().st_mtime + NEW_S + 1
    with held(in_use) as is_ours:
        assert is_ours
        remove_deserted(tmp_path)
        assert sorted(tmp_path.iterdir()) == sorted([left, in_use, new])
        os.utime(new, (later_s, later_s))
        remove_deserted(tmp_path, now_s=later_s)
        assert sorted(tmp_path.iterdir()) == sorted([in_use, new])
    remove_deserted(tmp_path, now_s=later_s)
    assert list(tmp_path.iterdir()) == [new]


def test_a_file_system_without_room_or_that_is_not_there_is_not_fit(tmp_path: Path) -> None:
    assert is_fit(tmp_path, 1)
    assert not is_fit(tmp_path, 1 << 60)
    assert not is_fit(tmp_path / "none", 1)


@pytest.mark.skipif(not hasattr(os, "ST_NOEXEC"), reason="this system does not say what may run")
def test_where_no_program_may_run_is_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_NOEXEC))
    assert not is_fit(tmp_path, 1)
