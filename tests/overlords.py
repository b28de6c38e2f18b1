"""Common parts of tests of the overlord: a store, a clock, a runner that only remembers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from pathlib import Path

from carnac.core.tasks.model import Attempt
from carnac.metadata import open_metadata
from carnac.metadata.store import MetadataStore
from carnac.overlord import Lockbox, TaskService
from carnac.overlord.attempt import run_attempt
from carnac.overlord.loop import LoopSettings, OverlordLoop
from carnac.specs.tasks.spec import load_task
from tests.support.clock import FakeClock, SequentialIds
from tests.support.databases import lay_database
from tests.support.tasks import FakeJobs, FakeRunner, Work
from tests.unit.store.events import fast_folder

LEASE_MS = 60_000
DELETE = {"type": "delete", "dataSource": "events", "interval": "1970-01-01/1970-01-02"}


class Bench:
    """An overlord taken apart."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self._ids = SequentialIds()
        self._stack = ExitStack()
        path = Path(self._stack.enter_context(fast_folder())) / "metadata.db"
        self._url = lay_database(path, created_at_ms=self.clock.now_ms())
        self.metadata = self.open_metadata()
        self.runner = FakeRunner()
        self.tasks = TaskService(
            self.metadata,
            self.clock,
            SequentialIds("x"),
            load=load_task,
            runners={"fake": self.runner},
        )
        self.lockbox = Lockbox(self.metadata, self.clock, holder="test", lease_ms=LEASE_MS)
        self.loop = self.make_loop("one")

    def close(self) -> None:
        """Close all that are open, and remove the store."""
        self._stack.close()

    def open_metadata(self) -> MetadataStore:
        """Open the store once more: an overlord closes its own."""
        opened = open_metadata(self._url, clock=self.clock, ids=self._ids)
        return self._stack.enter_context(closing(opened))

    def make_loop(
        self,
        name: str,
        *,
        metadata: MetadataStore | None = None,
        runner: FakeRunner | None = None,
        start_lease_ms: int = LEASE_MS,
        wait: Callable[[float], bool] | None = None,
        clear_up: Callable[[Attempt], None] | None = None,
        upkeep: Callable[[Callable[[], bool]], None] = lambda _: None,
    ) -> OverlordLoop:
        """Return another overlord."""
        return OverlordLoop(
            metadata or self.open_metadata(),
            self.clock,
            leader_id=name,
            holder=f"overlord {name}",
            runners={"fake": runner or self.runner},
            settings=LoopSettings(
                runner="fake",
                capacity=2,
                lease_ms=LEASE_MS,
                start_lease_ms=start_lease_ms,
                period_ms=1_000,
                upkeep_period_ms=10 * LEASE_MS,
            ),
            clear_up=clear_up,
            upkeep=upkeep,
            wait=wait,
        )

    def run(
        self, work: Work, *, number: int = 1, wait: Callable[[float], bool] = lambda _: True
    ) -> Mapping[str, object]:
        """Run an attempt at task `a` that does `work`; it beats only when it asks for its right."""
        return run_attempt(
            self.metadata,
            self.lockbox,
            FakeJobs(work),
            self.clock,
            holder="here",
            task_id="a",
            number=number,
            wait=wait,
        )
