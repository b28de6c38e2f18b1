"""The logs of drivers: in a folder of their user's own, the newest of them."""

from __future__ import annotations

import os
from pathlib import Path

from carnac.spark.session import LOGS_MAX, make_log


def test_a_log_is_where_its_user_alone_reads_and_old_ones_go(tmp_path: Path) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    for number in range(LOGS_MAX + 5):
        path = make_log(environ, number)
        path.write_text("x")
        os.utime(path, (number, number))
    assert path.parent == tmp_path / "carnac" / "logs"
    assert path.parent.stat().st_mode & 0o777 == 0o700
    kept = {path.name for path in path.parent.iterdir()}
    assert kept == {f"spark-{number}.log" for number in range(5, LOGS_MAX + 5)}


def test_without_a_place_for_it_a_log_has_a_folder_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "carnac").write_text("in the way")
    path = make_log({"XDG_CACHE_HOME": str(tmp_path)}, 7)
    assert path.parent.stat().st_mode & 0o777 == 0o700
    path.parent.rmdir()
