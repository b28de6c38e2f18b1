"""A commit of which the database does not say whether it is there: its publisher is told so, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import apsw
import psycopg
import pytest

from carnac.errors import Unavailable
from carnac.metadata import open_metadata
from carnac.unbroken import LEDGER
from tests.contract.conftest import Store
from tests.logs import append_of, day, segment
from tests.support.clock import FakeClock, SequentialIds

END_OTHERS = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


@pytest.fixture(autouse=True)
def _ledger() -> Iterator[None]:
    before = LEDGER.is_unclear
    LEDGER.is_unclear = False
    yield
    LEDGER.is_unclear = before


@pytest.fixture
def broken(metadata_url: str, store: Store) -> Iterator[Store]:
    """A store whose connection breaks when it commits."""
    assert store.head().revision == 0

    def end(statement: str) -> None:
        if statement != "COMMIT":
            return
        if metadata_url.startswith("sqlite"):
            raise apsw.IOError("disk I/O error")
        with psycopg.connect(metadata_url, autocommit=True) as link:
            link.execute(END_OTHERS)

    with closing(
        open_metadata(metadata_url, clock=FakeClock(), ids=SequentialIds("b-"), on_statement=end)
    ) as one:
        yield one


@pytest.mark.parametrize(
    ("batch", "advice"),
    [
        ((None, None), r": carnac log says which; retry only if it is not$"),
        (("w", "17"), r": retry under the same writer and batch \(w, 17\)$"),
        (("w", None), ": retry with the same offset range of writer w$"),
    ],
    ids=["of no batch", "of a batch", "of an offset range"],
)
def test_its_publisher_is_told_what_to_do(
    broken: Store, batch: tuple[str | None, str | None], advice: str
) -> None:
    published = len(LEDGER.revisions)
    writer, number = batch
    offsets = {"s": "1"} if writer is not None and number is None else {}
    publication = replace(
        append_of(segment("a", day(1))), writer=writer, batch=number, offsets=offsets
    )
    with pytest.raises(Unavailable, match=f"the commit may be published or not{advice}"):
        broken.publish(publication)
    assert (len(LEDGER.revisions), LEDGER.is_unclear) == (published, True)
