"""The events of the cluster, step by step, while it is queried `RATE_PER_S` times a second."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from carnac.cli.demo.cluster.checks import Judged, judge
from carnac.cli.demo.cluster.load import Load
from carnac.cli.demo.cluster.processes import Servers, opened_in, wait_until
from carnac.cli.demo.cluster.watching import Watch
from carnac.cli.demo.flights import DATASOURCE, load_flights, make_spec, of_month
from carnac.cli.tables import number_text
from carnac.core.compaction.plan.groups import CompactionTarget
from carnac.ports.serving import Role

if TYPE_CHECKING:
    import pyarrow as pa

    from carnac.cli.session import Session
    from carnac.console.cluster import ClusterStory
    from carnac.metadata.store import MetadataStore
    from carnac.store import Store

HISTORICALS = 3
MONTHS = 8
CAPACITY_BYTES = 2 << 30
SETTLE_TIMEOUT_MS = 120_000
COMPACTED = "2013-01-01/2013-04-01"
DELETED = "2013-02-10/2013-02-13"


@dataclass(slots=True, kw_only=True)
class ClusterDemo:
    """One run in a folder.

    Attributes:
        say: Shows a line for each event.
        pause_ms: Pause between two events, so that the picture shows the effect of each.
        judged: Every query and its verdict; filled when the run has ended.
    """

    session: Session
    folder: Path
    say: Callable[[str], None]
    pause_ms: int
    judged: Sequence[Judged] = field(default=())

    @property
    def is_right(self) -> bool:
        """Whether every query was answered, and with what its revision holds."""
        return bool(self.judged) and all(one.verdict == "right" for one in self.judged)

    def run(self) -> ClusterStory:
        """Run it; return what the picture shows.

        Raises:
            Unavailable: A server did not start, or the cluster did not settle.
        """
        clock = self.session.clock
        with ExitStack() as steps:
            opened = steps.enter_context(opened_in(self.folder, self.session.settings, clock))
            store, metadata, servers = opened.store, opened.metadata, opened.servers
            watch = Watch(metadata=metadata, store=store, clock=clock)
            acts = _Acts(demo=self, servers=servers, store=store, metadata=metadata, watch=watch)
            load = Load(acts.start(), clock)
            watch.start()
            steps.callback(watch.stop)
            load.start()
            steps.callback(load.stop)
            acts.play()
            samples = load.stop()
            watch.stop()
            end_ms = clock.now_ms()
            servers.close()
            self.say(f"holding {number_text(len(samples))} answers against their revisions")
            self.judged = judge(store, samples)
        return watch.story(self.judged, servers.lives, end_ms)


@dataclass(slots=True, kw_only=True)
class _Acts:
    """The actions on the cluster."""

    demo: ClusterDemo
    servers: Servers
    store: Store
    metadata: MetadataStore
    watch: Watch
    _months: Sequence[pa.Table] = ()
    _appended: int = 0

    def start(self) -> str:
        """Load the first month and start all servers; return the URL of the broker."""
        flights = load_flights()
        self._months = [of_month(flights, month) for month in range(1, 1 + MONTHS)]
        self._append("January")
        self.demo.say("1 coordinator, 1 broker and 3 historicals start, each a process of its own")
        self.servers.start("coordinator", Role.COORDINATOR)
        for number in range(1, HISTORICALS + 1):
            self._start_historical(f"historical-{number}")
        broker = self.servers.start("broker", Role.BROKER)
        self._settle()
        return broker.url

    def play(self) -> None:
        """Let things happen, one after the other."""
        self._append("February")
        self._append("March")
        self._settle()
        self._kill_historical()
        self._compact()
        self._kill_coordinator()
        self._empty_and_fill()
        self._delete_and_revert()

    def _kill_historical(self) -> None:
        self._note("historical-1 is killed with SIGKILL")
        self.servers.kill("historical-1")
        self._append("April")
        self._settle()
        self._start_historical("historical-1")
        self._note("historical-1 is there again, with its files")
        self._settle()

    def _compact(self) -> None:
        self._note("January to March are being compacted, from days to months")
        target = CompactionTarget(segment_granularity="month")
        self.store.compact_interval(DATASOURCE, interval=COMPACTED, target=target)
        self._note(f"they are compacted, revision {self.store.head().revision}")
        self._settle()

    def _kill_coordinator(self) -> None:
        self._note("the coordinator is killed with SIGKILL")
        self.servers.kill("coordinator")
        self._append("May, without a coordinator,")
        self._calm()
        self.servers.start("coordinator", Role.COORDINATOR)
        self._note("another coordinator is there")
        self._settle()

    def _empty_and_fill(self) -> None:
        ids = {name: server_id for server_id, name in self.watch.names.items()}
        self._note("historical-3 is to be emptied")
        self.metadata.decommission(ids["historical-3"], wanted=True)
        for name in ("June", "July", "August"):
            self._append(name)
        self._settle()
        self.metadata.decommission(ids["historical-3"], wanted=False)
        self._note("historical-3 may be filled again")
        self._settle()

    def _delete_and_revert(self) -> None:
        self.store.delete(DATASOURCE, interval=DELETED, message="delete three days")
        self._note("three days are deleted")
        self._calm()
        self.store.revert(self.store.head().revision)
        self._note("the deletion is taken back")
        self._settle()

    def _start_historical(self, name: str) -> None:
        folder = self.demo.folder / name
        options = ["--folder", str(folder), "--capacity", str(CAPACITY_BYTES)]
        server = self.servers.start(name, Role.HISTORICAL, options=options)
        self.watch.names[server.server_id] = name

    def _append(self, name: str) -> None:
        rows = self._months[self._appended]
        self._appended += 1
        spec = {key: value for key, value in make_spec(Path()).items() if key != "input"}
        outcome = self.store.append(DATASOURCE, rows, spec=spec, message=name)
        flights = number_text(rows.num_rows)
        self._note(f"{name} is appended: {flights} flights, revision {outcome.revision}")

    def _settle(self) -> None:
        """Wait until brokers plan on the newest revision."""
        head = self.store.head().revision

        def is_told() -> bool | None:
            planned = [one.planning_revision or 0 for one in self.metadata.servers(Role.BROKER)]
            told = self.metadata.told()
            is_there = told is not None and told.revision >= head
            return True if is_there and planned and min(planned) >= head else None

        what = f"the brokers to plan on revision {head}"
        wait_until(self.demo.session.clock, is_told, SETTLE_TIMEOUT_MS, what)
        self._calm()

    def _calm(self) -> None:
        self.demo.session.clock.sleep_ms(self.demo.pause_ms)

    def _note(self, text: str) -> None:
        self.watch.note(text)
        self.demo.say(text)
