"""Reads of a simulation share a transaction until the next commit, and no longer."""

from __future__ import annotations

from contextlib import closing

from carnac.metadata.backends.temporary import TemporarySqliteDatabase
from carnac.metadata.sql import statements as s
from carnac.simulation.cluster.database import SharedDatabase


def test_a_reader_sees_what_was_committed_before_it_began() -> None:
    real = TemporarySqliteDatabase(created_at_ms=0, store_id="simulated")
    with closing(SharedDatabase(real)) as database:
        with database.read() as first, database.read() as second:
            assert first is second
            before = first.rows(s.SETTINGS)
            with database.write() as session:
                session.run_many(s.PUT_SETTING, [{"name": "a", "value": "b"}])
                database.forget()
                session.commit()
            with database.read() as third:
                assert ("a", "b") in third.rows(s.SETTINGS)
            assert first.rows(s.SETTINGS) == before
        with database.read() as fourth:
            assert fourth is third
