"""SQLite plans a statement once, whatever its parameters are."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import apsw

from carnac.clock import RandomIds, SystemClock
from carnac.metadata import open_metadata
from carnac.metadata.backends.sqlite_driver import connect
from carnac.metadata.session import SQLITE, Session
from carnac.metadata.sql import statements


def test_a_statement_is_prepared_once_though_its_parameters_bound_a_range(tmp_path: Path) -> None:
    path = tmp_path / "metadata.db"
    open_metadata(f"sqlite:///{path}", clock=SystemClock(), ids=RandomIds()).close()
    planned: list[object] = []

    def note(*what: object) -> int:
        planned.append(what)
        return apsw.SQLITE_OK

    with closing(connect(path, ())) as connection:
        connection.authorizer = note  # asked about all that a statement reads, when it is prepared
        session = Session(connection, SQLITE)
        session.rows(statements.CHUNKS_LIVE_OVER, datasource_id=1, start_ms=0, end_ms=1)
        once = len(planned)
        session.rows(statements.CHUNKS_LIVE_OVER, datasource_id=1, start_ms=1, end_ms=2)
    assert len(planned) == once > 0
