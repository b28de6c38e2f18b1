"""Clients of a store: they append, replace, delete, revert, read, collect garbage, and know what they want."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

from carnac.bootstrap.simulated.audit import NUMBER, rows_of
from carnac.core.time.intervals import Interval
from carnac.errors import CarnacError, Conflict, Invalid, NotFound, Revoked, Unavailable
from carnac.simulation.cluster.oracle import OP, Row, Wanted

if TYPE_CHECKING:
    from collections.abc import Callable

    from carnac.bootstrap.simulated.world import Host, World
    from carnac.store import Store

DATASOURCES = ("clicks", "views")
HOUR_MS = 3_600_000
START_MS = 1_699_999_200_000
"""A whole hour: the first that has rows."""
HOURS = 4
GRANULARITY = {"segmentGranularity": "hour", "queryGranularity": "none"}
SPEC: dict[str, object] = {
    "timestampSpec": {"column": "t", "format": "millis"},
    "dimensionsSpec": {"dimensions": [{"type": "long", "name": NUMBER}]},
    "granularitySpec": GRANULARITY,
}
LOOK_BACK = 6
"""How many of the newest commits may be undone."""
TWICE = 0.1
"""Share of the appends that a second process begins, too, as where somebody starts a producer that lives."""
TWICE_WITHIN_MS = 40
FINAL = (Conflict, Invalid, NotFound, Revoked)
"""Errors after which a writer knows that nothing was done."""


class Script:
    """The work of one client, which outlives its process: it continues where it was.

    Attributes:
        left: Number of actions that are left.
        pending: Append that is not acknowledged; it is done again under its batch until it is.
        planned: Steps that it does next.
        latest: Latest append of its own.
    """

    def __init__(self, world: World, name: str, seed: str, count: int) -> None:
        self.world, self.name = world, name
        self.rng = random.Random(seed)  # noqa: S311 - a simulation
        self.left = count
        self.pending: Wanted | None = None
        self.planned: list[Callable[[Store], object]] = []
        self.latest: Wanted | None = None

    @property
    def is_over(self) -> bool:
        """Whether it has done all."""
        return self.left <= 0 and self.pending is None and not self.planned


class WritingScript(Script):
    """A client that writes."""

    def run(self, host: Host) -> None:
        """Write until all is done."""
        store = host.open_store()
        while not self.is_over:
            host.kernel.pause(0, 9_000 if self.world.faults.is_on else 500)
            self.turn(store)

    def turn(self, store: Store) -> None:
        """Do one thing, or the pending one again."""
        if self.pending is not None:
            self._append(store, self.pending)
            return
        if self.planned:
            self._go_on(store)
            return
        self.left -= 1
        rng = self.rng
        chosen = rng.choices(
            (
                self._new_append,
                self._replace,
                self._delete,
                self._delete_where,
                self._revert,
                self._tag,
                self._delete_and_undo,
            ),
            weights=self.world.swarm.verbs,
        )[0]
        chosen(store)

    # ------------------------------------------------------------------------------------------------ what it does

    def _span(self) -> Interval:
        first = self.rng.randrange(HOURS * 2)
        length = self.rng.choice((1, 1, 2, 4))
        half_ms = HOUR_MS // 2
        return Interval(START_MS + first * half_ms, START_MS + (first + length) * half_ms)

    def _rows(self, within: Interval | None = None) -> tuple[Row, ...]:
        made = []
        for _ in range(self.rng.randint(1, 4)):
            span = within or Interval(START_MS, START_MS + HOURS * HOUR_MS)
            self.world.last_number += 1
            at_ms = self.rng.randrange(span.start_ms, span.end_ms)
            made.append(Row(self.world.last_number, at_ms))
        return tuple(made)

    def _new_append(self, store: Store) -> None:
        one = self.world.auditor.oracle.want(
            "append", self.rng.choice(DATASOURCES), rows=self._rows()
        )
        self.pending = one
        if self.rng.random() < TWICE:
            self.world.launch(
                f"{self.name} again", lambda host: self._is_appended(host.open_store(), one)
            )
            self.world.kernel.pause(0, TWICE_WITHIN_MS)
        self._append(store, one)

    def _append(self, store: Store, one: Wanted) -> None:
        if self._is_appended(store, one):
            self.pending, self.latest = None, one

    def _is_appended(self, store: Store, one: Wanted) -> bool:
        """Append under a batch; return whether that is acknowledged."""
        try:
            done = store.append(
                one.datasource,
                frame_of(one.rows),
                spec={"dataSource": one.datasource, **SPEC},
                writer=self.name,
                batch=f"{one.number}",
                message=f"{OP}{one.number}",
            )
        except (Unavailable, Revoked) as error:
            self._note(one, error)
            return False
        except CarnacError as error:
            self.world.kernel.violate("appends", f"append {one.number} failed: {error.message}")
            return False
        one.acknowledged = done.revision
        self._note(one, None)
        return True

    def _replace(self, store: Store) -> None:
        span = Interval(
            START_MS + (hour := self.rng.randrange(HOURS)) * HOUR_MS,
            START_MS + (hour + 1) * HOUR_MS,
        )
        one = self.world.auditor.oracle.want(
            "replace", self.rng.choice(DATASOURCES), rows=self._rows(span), within=span
        )
        block = {**GRANULARITY, "intervals": [str(span)]}
        spec = {
            **SPEC,
            "dataSource": one.datasource,
            "mode": "replace",
            "granularitySpec": block,
            "input": {"type": "frame", "frame": "arrow"},
            "writer": self.name,
            "batch": f"{one.number}",
        }
        self._once(
            one,
            lambda: store.ingest(spec, frame_of(one.rows), message=f"{OP}{one.number}").revision,
        )

    def _delete(self, store: Store) -> None:
        span = self._span()
        one = self.world.auditor.oracle.want("delete", self.rng.choice(DATASOURCES), within=span)
        self._once(
            one,
            lambda: (
                store.delete(one.datasource, interval=span, message=f"{OP}{one.number}").revision
            ),
        )

    def _delete_where(self, store: Store) -> None:
        remainder = self.rng.randrange(3)
        self._delete_rows(
            store,
            self.rng.choice(DATASOURCES),
            lambda row: row.number % 3 == remainder,
            f"{NUMBER} % 3 = {remainder}",
        )

    def _delete_rows(
        self, store: Store, name: str, hits: Callable[[Row], bool], where: str
    ) -> Wanted:
        everything = Interval(START_MS, START_MS + HOURS * HOUR_MS)
        one = self.world.auditor.oracle.want("delete", name, within=everything, hits=hits)
        self._once(
            one,
            lambda: store.delete(one.datasource, where=where, message=f"{OP}{one.number}").revision,
        )
        return one

    def _revert(self, store: Store) -> None:
        try:
            log = store.log(limit=LOOK_BACK)
            if log:
                store.revert(self.rng.choice(log).revision)
        except CarnacError as error:
            self.world.kernel.note(f"revert: {type(error).__name__}")

    def _delete_and_undo(self, store: Store) -> None:
        """Delete what it has appended, undo that, and undo it once more when what came back was rewritten."""
        if self.latest is None:
            self._new_append(store)
            return
        rows, self.latest = self.latest, None
        numbers = {row.number for row in rows.rows}
        listed = ", ".join(map(str, sorted(numbers)))
        one = self._delete_rows(
            store, rows.datasource, lambda row: row.number in numbers, f"{NUMBER} IN ({listed})"
        )
        revision = one.acknowledged
        if revision is not None:
            undo: Callable[[Store], object] = lambda store: store.revert(revision)  # noqa: E731
            self.planned = [undo, lambda store: store.compact_interval(one.datasource), undo]

    def _go_on(self, store: Store) -> None:
        """Do the step that is planned next; a step that may not have been done is done again."""
        step = self.planned[0]
        try:
            step(store)
        except Unavailable as error:
            self.world.kernel.note(f"planned: {type(error).__name__}")
            return
        except CarnacError as error:
            self.world.kernel.note(f"planned: {type(error).__name__}")
        if self.planned[:1] == [
            step
        ]:  # not so if this process stood still, and another one has done it
            self.planned.pop(0)

    def _tag(self, store: Store) -> None:
        try:
            store.tag(self.name, at=store.head().revision)
        except CarnacError as error:
            self.world.kernel.note(f"tag: {type(error).__name__}")

    def _once(self, one: Wanted, do: Callable[[], int | None]) -> None:
        """Do something that is not tried again."""
        try:
            one.acknowledged = do()
        except FINAL as error:
            one.is_refused = one.revision is None
            if one.revision is not None:
                self.world.kernel.violate(
                    "truth",
                    f"{one.kind} {one.number} was refused ({error.message}), and is in the log",
                )
            self._note(one, error)
        except CarnacError as error:
            self._note(one, error)
        else:
            self._note(one, None)

    def _note(self, one: Wanted, error: CarnacError | None) -> None:
        told = f"at {one.acknowledged}" if error is None else type(error).__name__
        self.world.kernel.note(f"{one.kind} {one.number} of {one.datasource}: {told}")


class ReadingScript(Script):
    """A client that reads whole revisions, file by file and slowly."""

    def run(self, host: Host) -> None:
        """Read until all is done."""
        store = host.open_store()
        while not self.is_over:
            host.kernel.pause(0, 12_000 if self.world.faults.is_on else 500)
            self.left -= 1
            self._read(store, host)

    def _read(self, store: Store, host: Host) -> None:
        name = self.rng.choice(DATASOURCES)
        is_old = self.rng.random() < 0.3
        try:
            at = max(0, store.head().revision - self.rng.randint(1, 3)) if is_old else None
            with host.leases_of(store).reading(at) as reading:
                self._read_at(host, name, reading)
        except CarnacError as error:
            self.world.kernel.note(f"reading {name}: {type(error).__name__}")

    def _read_at(self, host: Host, name: str, reading: object) -> None:
        revision = reading.head.revision  # type: ignore[attr-defined]
        found: Counter[int] = Counter()
        try:
            for one in host.metadata.visible(name, revision=revision):
                if self.world.faults.is_on:
                    host.kernel.pause(0, 9_000 * self.world.swarm.patience)
                data = host.read_whole(one.segment)
                clip = one.entry.clip
                found.update(
                    number for number, at in rows_of(data) if clip is None or clip.holds(at)
                )
        except (NotFound, FileNotFoundError) as error:
            if reading.is_held():  # type: ignore[attr-defined]
                self.world.kernel.violate(
                    "leases", f"revision {revision} of {name} is held by a reader, and {error}"
                )
            return
        wanted = self.world.auditor.oracle.sum_of(name, revision)
        if (len(found), sum(found)) != (wanted.rows, wanted.total):
            self.world.kernel.violate(
                "answers",
                f"{name} at revision {revision} has {wanted.rows} rows; {len(found)} were read",
            )
        self.world.kernel.note(f"read {name} at {revision}: {len(found)} rows")


class CleaningScript(Script):
    """A process that collects garbage again and again."""

    def run(self, host: Host) -> None:
        """Collect for ever."""
        store = host.open_store()
        while True:
            host.kernel.pause(2_000, 20_000)
            try:
                report = store.gc()
                self.world.kernel.note(f"garbage: {len(report.actions)} files looked at")
            except CarnacError as error:
                self.world.kernel.note(f"garbage: {type(error).__name__}")


class CompactingScript(Script):
    """A process that rewrites what is there, whether it needs it or not."""

    def run(self, host: Host) -> None:
        """Compact until all is done."""
        store = host.open_store()
        while not self.is_over:
            host.kernel.pause(2_000, 30_000 if self.world.faults.is_on else 3_000)
            self.left -= 1
            name = self.rng.choice(DATASOURCES)
            try:
                done = store.compact_interval(name, segments=self._some(store, name))
                ends = ", ".join(f"{one.outcome}" for one in done.groups)
                self.world.kernel.note(f"compacted {name}: {ends}")
            except CarnacError as error:
                self.world.kernel.note(f"compaction of {name}: {type(error).__name__}")

    def _some(self, store: Store, name: str) -> list[str] | None:
        """Return some segments of one time chunk; None: all chunks are rewritten whole."""
        if self.rng.random() < 0.4:
            return None
        seen = list(store.segments(name))
        if not seen:
            return None
        chunk = self.rng.choice(seen).entry.chunk
        within = sorted({one.segment.segment_id for one in seen if one.entry.chunk == chunk})
        return self.rng.sample(within, min(len(within), 3))


def frame_of(rows: tuple[Row, ...]) -> list[dict[str, object]]:
    """Return rows as they are appended."""
    return [{"t": row.at_ms, NUMBER: row.number} for row in rows]
