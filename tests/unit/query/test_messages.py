"""DuckDB's errors: what is missing on this machine is not told as damage of the store."""

from __future__ import annotations

import duckdb
import pytest

from carnac.errors import CarnacError, Corrupt, Unavailable
from carnac.query.messages import _storage_failure


@pytest.mark.parametrize(
    ("said", "kind"),
    [("Too many open files", Unavailable), ("Permission denied", Corrupt)],
)
def test_too_many_open_files_are_no_damage(said: str, kind: type[CarnacError]) -> None:
    error = duckdb.IOException(f'IO Error: Cannot open file "/x/a.parquet": {said}')
    found = _storage_failure(str(error))
    assert type(found) is kind
    assert said in found.message
