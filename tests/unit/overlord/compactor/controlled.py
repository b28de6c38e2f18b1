"""What tests of the controller share: a store, a controller that can be started again, rows, counts."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from carnac.bootstrap.compaction import compact_groups
from carnac.bootstrap.store import open_records
from carnac.config import Settings
from carnac.core.compaction.control.manager import Capacity
from carnac.overlord.compactor.controller import Controller
from carnac.overlord.compactor.local import Compact, LocalRunner
from carnac.overlord.compactor.service import CompactionService
from carnac.store import Store
from tests.support.clock import FakeClock, SequentialIds
from tests.unit.store.events import NOW_MS, append, open_stamped

SPEC = {"dataSource": "events", "granularitySpec": {"segmentGranularity": "day"}}


class Desk:
    """A store, its controller, and a way to start the controller again."""

    def __init__(self, folder: Path) -> None:
        self.clock, self.ids = FakeClock(NOW_MS), SequentialIds()
        self.settings = Settings(store=str(folder / "store"))
        self.store: Store = open_stamped(self.settings, clock=self.clock, ids=self.ids)
        self.metadata = open_records(settings=self.settings, clock=self.clock)
        self.service = CompactionService(self.metadata, self.clock)
        self.opened: list[LocalRunner] = []
        self.start(partial(compact_groups, self.store))

    def start(self, compact: Compact) -> None:
        self.runner = LocalRunner(compact, self.clock, tasks_max=2)
        self.opened.append(self.runner)
        self.controller = Controller(
            self.metadata, self.runner, self.clock, capacity=Capacity(tasks=2)
        )

    def settle(self) -> int:
        """Have rounds until nothing is left to do; return how many chunks were analysed."""
        analysed = 0
        for _ in range(50):
            report = self.controller.run_round()
            analysed += report.analysed
            if not report.started and not report.ended and self.controller.is_idle():
                return analysed
            self.runner.wait(30)
        raise AssertionError("it does not come to rest")

    def close(self) -> None:
        for runner in self.opened:
            runner.close()
        self.store.close()
        self.metadata.close()


def fill(store: Store, days: int, each: int) -> None:
    for day in range(days):
        for number in range(each):
            append(store, (number, day * 24), (number + 100, day * 24 + 1))


def counts(store: Store) -> list[int]:
    return [chunk.entries for chunk in store.chunks("events")]
