"""The world of a simulation: one database, one deep storage, and processes that come, crash and come back."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from carnac.bootstrap.simulated.audit import Auditor
from carnac.bootstrap.simulated.audit_copies import CopyAuditor
from carnac.bootstrap.simulated.audit_locks import Attempts
from carnac.bootstrap.simulated.pipeline import TasksHere
from carnac.clock import StoreClock
from carnac.config import Settings
from carnac.core.ids import COUNT_DIGITS, MARK_DIGITS, TIME_DIGITS, digits
from carnac.deep_storage.objects import ObjectDeepStorage
from carnac.errors import CarnacError, Corrupt, Unavailable
from carnac.metadata.backends.temporary import TemporarySqliteDatabase
from carnac.metadata.store import MetadataStore
from carnac.ports.segment_files import check_file
from carnac.ports.storage import OWNER_FILE
from carnac.simulation.cluster import storage
from carnac.simulation.cluster.database import SharedDatabase, SimulatedDatabase
from carnac.simulation.cluster.faults import Faults
from carnac.simulation.cluster.kernel import MAIN, Kernel, Process, Strand
from carnac.simulation.cluster.network import Network
from carnac.store import Store

if TYPE_CHECKING:
    from carnac.core.segments.segment import Segment
    from carnac.ports import Clock, DeepStorage, IdSource
    from carnac.query.engine import QueryEngine
    from carnac.simulation.cluster.swarm import Swarm
    from carnac.store.leases import LeaseKeeper

STORE_ID = "simulated"
MINUTE_MS = 60_000
SETTINGS = Settings(
    lease_ttl_ms=10_000,
    retention_age_ms=MINUTE_MS,
    retention_count=3,
    retention_daily=0,
    trash_period_ms=20_000,
    safety_period_ms=30_000,
    query_threads=1,
)
"""Leases and periods that are short, so that little time must pass."""


class MachineClock:
    """The clock of a process's machine (port `Clock`), which may be wrong."""

    def __init__(self, world: World, process: Process) -> None:
        self._kernel, self._world, self._process = world.kernel, world, process

    def now_ms(self) -> int:
        """Return the time."""
        return self._kernel.now_ms + self._world.skew_ms + self._process.skew_ms

    def sleep_ms(self, duration_ms: int) -> None:
        """Wait."""
        self._kernel.sleep(duration_ms)


class SeededIds:
    """Ids like random ones, of a process's own seed (port `IdSource`).

    Args:
        mark: Mark of an attempt at a task; None: the ids belong to no attempt.
    """

    def __init__(self, kernel: Kernel, process: Process, mark: str | None = None) -> None:
        self._kernel, self._process, self._mark = kernel, process, mark

    def new_id(self) -> str:
        """Return a new id."""
        mark = self._mark
        if mark is None:
            mark = digits(self._process.ids.getrandbits(5 * MARK_DIGITS), MARK_DIGITS)
        count = digits(self._process.ids.getrandbits(5 * COUNT_DIGITS), COUNT_DIGITS)
        return digits(self._kernel.now_ms, TIME_DIGITS) + mark + count


class Host:
    """The environment of a service that runs in a process."""

    def __init__(self, world: World, process: Process, number: int) -> None:
        self.world, self.process, self.kernel = world, process, world.kernel
        self.number = number
        self.clock = StoreClock(MachineClock(world, process), wait_s=None)
        self.clock.follow(lambda: None if world.swarm.is_one_machine else world.kernel.now_ms)
        self.ids: IdSource = SeededIds(world.kernel, process)
        self.metadata: MetadataStore = world.open_metadata(self.clock, self.ids)
        self.files: DeepStorage = ObjectDeepStorage(storage.URL, {})

    def marked_ids(self, mark: str) -> IdSource:
        """Return ids that bear a mark."""
        return SeededIds(self.kernel, self.process, mark)

    def leases_of(self, store: Store) -> LeaseKeeper:
        """Return what keeps revisions for a store's readers."""
        return store._leases  # noqa: SLF001 - reads as the store itself does

    def read_whole(self, segment: Segment) -> bytes:
        """Return the bytes of a segment's file, read again while they are not what was written."""
        for _ in range(20):
            try:
                with self.files.open_read(segment.path) as file:
                    data = file.read()
                check_file(segment, [data])
            except (Unavailable, Corrupt):
                continue
            return data
        raise Unavailable("deep storage answers nothing that is whole")

    def open_store(self, ids: IdSource | None = None, *, job_ms: int = 0) -> Store:
        """Open the store; its jobs take up to so long."""
        made = TasksHere(
            output_url=storage.URL,
            clock=self.clock,
            ids=ids or self.ids,
            take_time=lambda: self.kernel.pause(0, job_ms),
        )
        return Store(
            metadata=self.world.open_metadata(self.clock, self.ids),
            deep_storage=self.files,
            pipeline=lambda: made,
            engine=_no_engine,
            clock=self.clock,
            settings=SETTINGS,
            holder=self.process.name,
        )


def _no_engine() -> QueryEngine:
    raise AssertionError("no process of a simulation queries past its brokers")


class World:
    """One simulation. Use it in a `with` block.

    Attributes:
        skew_ms: The clocks of all machines are so far ahead.
        left: Closes what processes have left behind, when nothing runs any more: a crash closes nothing.
    """

    def __init__(self, kernel: Kernel, faults: Faults, swarm: Swarm) -> None:
        self.kernel, self.faults, self.swarm = kernel, faults, swarm
        self.skew_ms = 0
        self.left = ExitStack()
        self.folder = Path(tempfile.mkdtemp(prefix="carnac-simulated-"))
        self.left.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self.disk = storage.Disk(kernel, faults)
        now_ms, owner = kernel.now_ms, f"{storage.ROOT}/{OWNER_FILE}"
        self.disk.files[owner] = (STORE_ID.encode(), now_ms, now_ms)
        self.network = Network(kernel, faults)
        self.disk.ahead_ms = lambda: self.skew_ms - swarm.storage_behind_ms
        self.left.enter_context(storage.mounted(self.disk))
        self._database = SharedDatabase(
            TemporarySqliteDatabase(created_at_ms=kernel.now_ms, store_id=STORE_ID)
        )
        self.left.callback(self._database.close)
        self.god = Process("auditor")
        self.attempts = Attempts()
        self.auditor = Auditor(kernel, self._past_faults(), self.disk, self.attempts)
        self.copies = CopyAuditor(
            kernel,
            self._past_faults(),
            self.folder,
            lambda: max(one.frozen_until_ms for one in self._begun if one.name == "broker"),
        )
        self._roles: dict[str, Callable[[Host], object]] = {}
        self.processes: dict[str, Process] = {}
        self._mains: dict[str, Strand] = {}
        self._begun: list[Process] = []
        self.last_number = 0
        self.answers = 0

    def _past_faults(self) -> MetadataStore:
        return MetadataStore(
            self._database,
            clock=MachineClock(self, self.god),
            ids=SeededIds(self.kernel, self.god),
        )

    def open_metadata(self, clock: Clock, ids: IdSource) -> MetadataStore:
        """Return a process's own way to the metadata."""
        database = SimulatedDatabase(self._database, self.kernel, self.faults, self.auditor.look)
        return MetadataStore(database, clock=clock, ids=ids)

    def add(self, name: str, role: Callable[[Host], object]) -> None:
        """Let a process live, which has a role; one that has died begins it anew."""
        self._roles[name] = role
        self.start(name)

    def _born(self, name: str) -> Process:
        process = Process(name)
        self._begun.append(process)
        process.ids.seed(f"{self.kernel.faults.random()} {len(self._begun)}")
        self.kernel.note(f"{name} starts")
        return process

    def start(self, name: str) -> None:
        """Start a process."""
        process = self.processes[name] = self._born(name)
        self._mains[name] = self.kernel.spawn(process, MAIN, lambda: self._begin(name, process))

    def has_ended(self, name: str) -> bool:
        """Whether a process crashed, or has done what it began with."""
        return self.processes[name].is_dead or self._mains[name].is_over

    def _begin(self, name: str, process: Process) -> None:
        """Be what a process is; one that cannot begin ends, and is started anew."""
        try:
            self._roles[name](Host(self, process, len(self._begun)))
        except CarnacError as error:
            self.kernel.note(f"cannot begin: {error.message}")
            self.start_later(name, 2_000)
            self.crash(name)

    def launch(self, name: str, role: Callable[[Host], object]) -> Process:
        """Start a process that ends with its work; nobody starts it anew."""
        process = self._born(name)

        def work() -> None:
            try:
                role(Host(self, process, len(self._begun)))
            except CarnacError as error:
                self.kernel.note(f"cannot go on: {error.message}")
            self.kernel.kill(process)

        self.kernel.spawn(process, MAIN, work)
        return process

    def start_later(self, name: str, after_ms: int) -> None:
        """Let somebody start a process anew; one that only stood still goes on beside it."""
        was = self.processes[name]

        def start() -> None:
            self.kernel.sleep(after_ms)
            if self.processes[name] is was:
                self.start(name)

        self.kernel.spawn(self.god, f"start {name}", start)

    def crash(self, name: str) -> None:
        """End a process where it stands."""
        self.kernel.note(f"{name} crashes")
        self.kernel.kill(self.processes[name])

    def restart(self, skew_ms: int) -> None:
        """Let the one machine lose its power; its clock is wrong when it comes back."""
        self.kernel.note(f"the machine starts anew, its clock {skew_ms} ms ahead")
        self.skew_ms = skew_ms
        for process in self.attempts.owners:
            self.kernel.kill(process)
        for name in self.processes:
            self.kernel.kill(self.processes[name])
            self.start_later(name, self.kernel.faults.randint(0, 8_000))

    def rest(self) -> None:
        """End all but those that keep up the store: there is nothing left to be done."""
        for name, process in self.processes.items():
            if name != "cleaner" and "overlord" not in name:
                self.kernel.kill(process)

    def close(self) -> None:
        """Unwind what still runs, and leave nothing behind."""
        with self.left:
            self.kernel.close()

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
