"""Connections for reading: kept, lent, taken back whatever happened, closed."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import apsw
import pytest

from carnac.errors import Unavailable
from carnac.metadata.backends.reader_pool import KEPT, LENT, ReaderPool


class Opened:
    """Opens connections and remembers them."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "some.db"
        self.connections: list[apsw.Connection] = []

    def __call__(self) -> apsw.Connection:
        made = apsw.Connection(str(self._path))
        self.connections.append(made)
        return made

    def still_open(self) -> int:
        return sum(map(is_open, self.connections))


def is_open(connection: apsw.Connection) -> bool:
    try:
        connection.execute("SELECT 1")
    except apsw.ConnectionClosedError:
        return False
    return True


def sound(connection: apsw.Connection) -> None:
    """Find nothing wrong with a connection."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    return Opened(tmp_path)


def test_a_connection_is_lent_again(opened: Opened) -> None:
    pool = ReaderPool(opened, sound)
    for _ in range(3):
        with pool.lend() as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
    assert len(opened.connections) == 1
    pool.close()
    assert opened.still_open() == 0


def test_what_a_read_left_open_is_rolled_back(opened: Opened) -> None:
    pool = ReaderPool(opened, sound)
    with pytest.raises(apsw.Error), pool.lend() as connection:
        connection.execute("BEGIN; SELECT nothing")
    with pool.lend() as again:
        assert again is connection
        assert not again.in_transaction
    pool.close()


def test_only_so_many_are_lent_and_only_so_many_kept(opened: Opened) -> None:
    pool = ReaderPool(opened, sound, wait_s=0.01)
    with ExitStack() as lent:
        for _ in range(LENT):
            lent.enter_context(pool.lend())
        with pytest.raises(Unavailable, match="in use"), pool.lend():
            pass
    assert opened.still_open() == KEPT
    with pool.lend():
        assert len(opened.connections) == LENT
    pool.close()
    assert opened.still_open() == 0


def test_one_that_is_lent_while_the_pool_closes_is_closed_when_it_comes_back(
    opened: Opened,
) -> None:
    pool = ReaderPool(opened, sound)
    with pool.lend() as connection:
        pool.close()
        assert is_open(connection)
    assert not is_open(connection)


def test_one_that_has_died_meanwhile_is_not_lent_again(opened: Opened) -> None:
    pool = ReaderPool(opened, sound, is_alive=is_open)
    with pool.lend() as connection:
        pass
    connection.close()
    with pool.lend() as another:
        assert is_open(another)
    assert len(opened.connections) == 2
    pool.close()
