"""Publications that share a transaction, and transactions that follow one another: as one by one in the oracle.

A group reads little of what it has written itself, and a transaction little of what the one before it left: both know
it. What they know must be what is there. On PostgreSQL plain appends are statements that decide by themselves.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import LiteralString, cast

import hypothesis.strategies as st
import psycopg
import pytest
from hypothesis import given

from carnac.core.log.appending import plan_append
from carnac.core.log.commits import Publication
from carnac.core.log.publishing import plan_any
from carnac.core.segments.segment import Segment
from carnac.core.time.intervals import Interval
from carnac.errors import CarnacError
from carnac.metadata import open_metadata
from carnac.metadata.publish.queue import Job, commit_group
from carnac.metadata.publish.writer import prepare, write_publication
from carnac.metadata.sql.columns import TABLES
from carnac.metadata.store import MetadataStore
from carnac.ports import LeaseKind
from tests.logs import append_of, day, folding, replacement, segment
from tests.support.clock import DEFAULT_START_MS, FakeClock, SequentialIds
from tests.support.databases import lay_database
from tests.support.log_oracle import LogOracle
from tests.support.postgresql import PostgreSQLServer
from tests.unit.store.events import fast_folder

DAYS = 4
OTHER_MS = 1_000
"""Of the clock, between two commits: so that a new major version is another one."""

steps = st.lists(
    st.tuples(st.sampled_from("aaaaaaabbcrdfhslkn"), st.integers(0, 2**32)), min_size=1, max_size=30
)


class Writer:
    """Makes publications by what the oracle shows, and publishes each there at once."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.oracle = LogOracle(clock=self.clock, ids=SequentialIds())
        self._made = 0
        self._stale: list[Publication] = []
        self._done: list[Publication] = []

    def next(self, kind: str, seed: int, lease_ids: Sequence[str]) -> Publication:
        """Return a publication; the letters of `steps` say of which kind."""
        rng = random.Random(seed)
        if kind == "n" and self._stale:
            return self._stale.pop(0)
        if kind == "b" and self._done:
            return rng.choice(self._done)
        one = self._new(kind, rng, lease_ids)
        if kind == "s":  # it waits, and something else is published first
            self._stale.append(one)
            one = self._new("a", rng, lease_ids)
        self._done.append(one)
        return one

    def _new(self, kind: str, rng: random.Random, lease_ids: Sequence[str]) -> Publication:
        where = day(1 + rng.randrange(DAYS))
        if kind in "rs":
            return replacement(self.oracle, where, self._segment(where))
        if kind == "d":
            return replacement(self.oracle, where)
        if kind == "f":
            names = [one.segment.segment_id for one in self.oracle.visible("events")]
            chosen = tuple(sorted({rng.choice(names) for _ in range(2)})) if names else ()
            if chosen:
                return folding(self.oracle, chosen, self._segment(where))
        if kind == "c":
            return append_of(self._segment("2013-01-01/2013-01-03", chunk="2013-01-01/2013-02-01"))
        if kind == "h":  # some hours, of two days or beside those that the day has
            return append_of(self._segment(span_of(rng)))
        more: dict[str, str] = {"writer": "w", "batch": str(self._made)} if kind != "k" else {}
        if kind == "l":
            more["lease_id"] = rng.choice([*lease_ids, "nobody's"])
        adds = [self._segment(where) for _ in range(rng.choice([1, 1, 1, 3]))]
        return replace_fields(append_of(*adds), more)

    def _segment(self, span: str, *, chunk: str | None = None) -> Segment:
        self._made += 1
        return segment(f"s{self._made}", span, chunk=chunk)


def replace_fields(publication: Publication, more: dict[str, str]) -> Publication:
    return Publication(kind=publication.kind, changes=publication.changes, **more)


def outcome_of(found: object) -> object:
    """Return what a caller sees of a result or an error."""
    if isinstance(found, CarnacError):
        return type(found), found.message.partition(":")[0]  # what follows is the database's
    return found


@contextmanager
def sql_store(clock: FakeClock) -> Iterator[MetadataStore]:
    with fast_folder() as name:
        url = lay_database(Path(name) / "metadata.db", created_at_ms=DEFAULT_START_MS)
        store = open_metadata(url, clock=clock, ids=SequentialIds())
        assert isinstance(store, MetadataStore)
        try:
            yield store
        finally:
            store.close()


def run_group(store: MetadataStore, group: list[tuple[Publication, int]]) -> list[object]:
    """Publish all in one transaction, each at its time; return results and errors."""
    jobs = [job_of(store, one, lambda at_ms=at_ms: at_ms) for one, at_ms in group]
    commit_group(store._database, jobs)
    return [job.error if job.error is not None else job.result for job in jobs]


def job_of(store: MetadataStore, one: Publication, now_ms: Callable[[], int]) -> Job:
    encoded, plain = prepare(one, now_ms, is_far=store._database.is_far)
    return Job(lambda session: write_publication(session, one, encoded, now_ms()), one, plain=plain)


@given(steps=steps, size=st.integers(1, 8))
def test_a_group_does_what_its_publications_do_one_after_another(
    steps: list[tuple[str, int]], size: int
) -> None:
    writer = Writer()
    with sql_store(writer.clock) as store:
        run_steps(writer, store, steps, size)


@pytest.fixture(scope="module")
def far_url(postgresql_server: PostgreSQLServer) -> str:
    """A store on PostgreSQL; who uses it empties it."""
    url = postgresql_server.create_database("groups")
    open_metadata(url, clock=FakeClock(), ids=SequentialIds()).close()
    return url


@pytest.mark.sql
@given(steps=steps, size=st.integers(1, 4))
def test_so_does_one_whose_statements_decide_by_themselves(
    far_url: str, steps: list[tuple[str, int]], size: int
) -> None:
    with psycopg.connect(far_url) as link:
        link.execute(cast("LiteralString", f"TRUNCATE {', '.join(TABLES)}"))
        link.execute("INSERT INTO origin VALUES (1, %s, 'shared')", [DEFAULT_START_MS])
    writer = Writer()
    chunks = [("a", seed) for seed in range(2 * DAYS)]  # which most appends find
    with closing(open_metadata(far_url, clock=writer.clock, ids=SequentialIds())) as store:
        run_steps(writer, store, chunks + steps, size)


def run_steps(
    writer: Writer, store: MetadataStore, steps: list[tuple[str, int]], size: int
) -> None:
    """Publish in groups of a size, and compare with the oracle after each, and the whole log in the end."""
    leases = [
        [one.acquire_lease(LeaseKind.WRITER, holder="w", ttl_ms=10**9).lease_id for _ in range(3)]
        for one in (writer.oracle, store)
    ]
    assert leases[0] == leases[1]
    group: list[tuple[Publication, int]] = []
    expected: list[object] = []
    for number, (kind, seed) in enumerate(steps):
        one = writer.next(kind, seed, leases[0])
        writer.clock.advance_ms(OTHER_MS)
        group.append((one, writer.clock.now_ms()))
        try:
            expected.append(writer.oracle.publish(one))
        except CarnacError as error:
            expected.append(error)
        if len(group) == size or number == len(steps) - 1:
            found = run_group(store, group)
            assert [*map(outcome_of, found)] == [*map(outcome_of, expected)]
            group, expected = [], []
    assert store.changes(after=0) == writer.oracle.changes(after=0)
    assert store.visible("events") == writer.oracle.visible("events")
    assert store.chunks("events") == writer.oracle.chunks("events")
    assert store.leases() == writer.oracle.leases()
    assert store.check() == ()


@given(steps=steps, seed=st.integers(0, 2**32))
def test_a_plain_append_is_planned_as_any_publication_is(
    steps: list[tuple[str, int]], seed: int
) -> None:
    writer = Writer()
    for kind, step_seed in steps:
        one = writer.next(kind, step_seed, ())
        writer.clock.advance_ms(OTHER_MS)
        try:
            writer.oracle.publish(one)
        except CarnacError:
            continue
    rng, view = random.Random(seed), writer.oracle
    adds = [
        segment(f"t{number}", span_of(rng), chunk=rng.choice([None, "2013-01-01/2013-02-01"]))
        for number in range(rng.randrange(1, 5))
    ]
    one = append_of(*adds)
    at = {"revision": writer.oracle.head().revision + 1, "at_ms": writer.clock.now_ms()}
    simple = plan_append(view, one, **at)
    if simple is not None:
        assert simple == plan_any(view, one, **at)
    homes = {chunk.interval for chunk in writer.oracle.chunks("events")}
    fits = all(add.chunk in homes and add.chunk.contains(add.span) for add in adds)
    assert (simple is not None) == fits


def span_of(rng: random.Random) -> str:
    """A few hours, within a day and across midnight."""
    start_ms = Interval(1_356_998_400_000, 1_356_998_400_001).start_ms  # 2013-01-01
    first = start_ms + rng.randrange(DAYS * 24 - 6) * 3_600_000
    return str(Interval(first, first + rng.randrange(1, 6) * 3_600_000))
