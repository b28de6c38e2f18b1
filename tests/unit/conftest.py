"""What the tests of jobs and rows share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from carnac.rows.duck import one_connection


@pytest.fixture(scope="module")
def shared_connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One connection of DuckDB for what a module does with rows, as the tasks of a job share one."""
    with one_connection(temp_dir=str(tmp_path_factory.mktemp("spill")), memory_bytes=1 << 30):
        yield
