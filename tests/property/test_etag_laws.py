"""An ETag changes exactly when the answer could: over random histories, asked of a broker at every revision."""

from __future__ import annotations

import tempfile
from contextlib import closing
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import carnac
from carnac.bootstrap.serving.broker import open_broker
from carnac.broker import Broker
from carnac.clock import StoreClock
from carnac.config import SecretUrl, Settings
from carnac.errors import CarnacError, NotFound
from carnac.ports.answers import ANYBODY, Statement

DAYS = (1, 2, 3)
Days = frozenset[tuple[str, int]]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A statement, and all that its answer could depend on: days, columns beside n and kind, the lookup."""

    sql: str
    days: Days = frozenset()
    reads_all_columns: bool = False
    reads_lookup: bool = False


def days_of(datasource: str, *days: int) -> Days:
    return frozenset((datasource, day) for day in days)


IN_DAY_2 = "__time >= TIMESTAMP '2013-01-02' AND __time < TIMESTAMP '2013-01-03'"
STATEMENTS = (
    Asked(sql="SELECT count(*) AS c, sum(n) AS s FROM events", days=days_of("events", *DAYS)),
    Asked(sql=f"SELECT kind, n FROM events WHERE {IN_DAY_2}", days=days_of("events", 2)),
    Asked(sql="SELECT sum(n) AS s FROM events WHERE kind = 'b'", days=days_of("events", *DAYS)),
    Asked(
        sql=f"SELECT count(*) AS c FROM events WHERE NOT ({IN_DAY_2}) UNION ALL SELECT count(*) FROM others",
        days=days_of("events", 1, 3) | days_of("others", *DAYS),
    ),
    Asked(
        sql=f"SELECT v, n FROM events JOIN lookup.names ON k = kind WHERE {IN_DAY_2}",
        days=days_of("events", 2),
        reads_lookup=True,
    ),
    Asked(
        sql=f"SELECT * FROM events WHERE {IN_DAY_2}",
        days=days_of("events", 2),
        reads_all_columns=True,
    ),
    Asked(sql="SELECT k, v FROM lookup.names", reads_lookup=True),
)


@dataclass(frozen=True, kw_only=True)
class Change:
    """A commit: rows more, with a new column or not, half of a day less, a lookup, or the newest one undone."""

    what: str
    datasource: str
    day: int
    kind: str

    def could_change(self, asked: Asked) -> bool:
        if self.what == "lookup":
            return asked.reads_lookup
        has_columns = self.what == "new column" and asked.reads_all_columns
        return (self.datasource, self.day) in asked.days or has_columns

    def publish(self, store: carnac.Store, number: int) -> None:
        if self.what == "lookup":
            store.set_lookup("names", {"a": self.kind, "b": f"{self.day}"})
        elif self.what == "delete":
            start = f"2013-01-0{self.day}"
            store.delete(self.datasource, interval=f"{start}T00:00:00Z/{start}T12:00:00Z")
        else:
            more = {f"c{number}": number} if self.what == "new column" else {}
            store.append(self.datasource, day_rows(self.day, self.kind, number, **more))


def day_rows(day: int, kind: str, n: int, **more: object) -> list[dict[str, object]]:
    return [
        {"__time": f"2013-01-0{day}T{hour}:00:00Z", "kind": kind, "n": n, **more}
        for hour in ("06", "18")
    ]


CHANGES = st.builds(
    Change,
    what=st.sampled_from(["append", "append", "delete", "lookup", "new column", "undone"]),
    datasource=st.sampled_from(["events", "events", "others"]),
    day=st.sampled_from(DAYS),
    kind=st.sampled_from(["a", "b"]),
)


@pytest.mark.slow
@settings(max_examples=max(3, settings().max_examples // 5))  # one takes some 300 ms
@given(st.lists(CHANGES, min_size=1, max_size=6))
def test_an_etag_changes_exactly_when_the_answer_could(changes: list[Change]) -> None:
    with tempfile.TemporaryDirectory() as folder, carnac.open(folder, create=True) as store:
        for datasource in ("events", "others"):
            store.append(datasource, [row for day in DAYS for row in day_rows(day, "a", 0)])
        store.set_lookup("names", {"a": "Ann"})
        place = Settings(store=SecretUrl(folder), query_threads=1)
        with open_broker(place, StoreClock()) as broker:
            told = [ask(broker.queries, one, store.head().revision) for one in STATEMENTS]
            known = [{etag: rows} for etag, rows in told]
            done: list[tuple[Change, int]] = []
            for number, change in enumerate(changes, start=1):
                made = publish(store, change, number, done)
                if made is None:
                    continue
                revision = store.head().revision
                before, told = told, [ask(broker.queries, one, revision) for one in STATEMENTS]
                for asked, old, (etag, rows), seen in zip(
                    STATEMENTS, before, told, known, strict=True
                ):
                    assert made.could_change(asked) or etag == old[0], (made, asked.sql)
                    assert seen.setdefault(etag, rows) == rows, (made, asked.sql)


def publish(
    store: carnac.Store, change: Change, number: int, done: list[tuple[Change, int]]
) -> Change | None:
    """Publish a change; return what it touches: that of the commit which it undoes, None if it changes nothing.

    Args:
        done: Changes that are not undone yet, with their revisions; an undoing is none of them.
    """
    head = store.head().revision
    is_undoing = change.what == "undone"
    try:
        if is_undoing:
            if not done:
                return None
            change, revision = done.pop()
            store.revert(revision)
        else:
            change.publish(store, number)
    except CarnacError:  # of a part that is empty already, or a lookup, which has no way back
        return None
    if store.head().revision == head:
        return None
    if not is_undoing:
        done.append((change, store.head().revision))
    return change


def ask(queries: Broker, asked: Asked, revision: int) -> tuple[str, list[str]]:
    """Return the ETag and the rows, in one order, of a statement at a revision."""
    try:
        answer = queries.run(Statement(client=ANYBODY, sql=asked.sql, query_id="q", at=revision))
    except NotFound as error:  # all rows of a datasource were deleted
        return error.message, []
    assert answer is not None
    with closing(answer):
        rows = [str(row) for batch in answer.batches() for row in batch.to_pylist()]  # type: ignore[attr-defined]
        return answer.facts.etag, sorted(rows)
