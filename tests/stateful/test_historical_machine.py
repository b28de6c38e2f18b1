"""A historical under any order of commands, stops and crashes, against what it was told: nothing promised is lost."""

from __future__ import annotations

import shutil
import tempfile
from itertools import count
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from carnac.errors import Revoked
from carnac.historical import Historical
from tests.support.historicals import (
    open_historical,
    request_of,
    rows_of,
    settled,
    states,
    write_hours,
)
from tests.support.memory_storage import MemoryDeepStorage

SEGMENTS = 6
ROWS = 10
STORAGE = MemoryDeepStorage()
WRITTEN = write_hours(STORAGE, SEGMENTS, ROWS)
SOME = st.lists(st.sampled_from(range(SEGMENTS)), unique=True)
CAPACITY = sum(one.size_bytes for one in WRITTEN[:4]) + 1


class HistoricalMachine(RuleBasedStateMachine):
    """Assignments, statements that run on, restarts, and copies of the folder as a power cut would leave it."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="carnac-historical-"))
        self.folders = count()
        self.folder = self.root / "0"
        self.wanted: set[int] = set()
        self.fence = 0
        self.running: list[tuple[Any, list[int]]] = []
        self.server = self.opened()
        self.server_id = self.server.server_id

    def opened(self) -> Historical:
        return open_historical(self.folder, STORAGE, capacity_bytes=CAPACITY, load_threads=2)

    @rule(some=SOME, fence=st.integers(0, 1))
    def assign(self, some: list[int], fence: int) -> None:
        self.fence += fence
        self.server.assign([WRITTEN[one] for one in some], fence=self.fence, number=0)
        self.wanted |= set(some)

    @rule(some=SOME)
    def unassign(self, some: list[int]) -> None:
        self.server.unassign([WRITTEN[one].segment_id for one in some], fence=self.fence, number=0)
        self.wanted -= set(some)

    @rule(some=SOME)
    def a_coordinator_of_the_past_is_refused(self, some: list[int]) -> None:
        try:
            self.server.assign([WRITTEN[one] for one in some], fence=self.fence - 1, number=0)
        except Revoked:
            return
        raise AssertionError("it was heard")

    @rule(some=SOME)
    def ask(self, some: list[int]) -> None:
        batches, _ = self.server.run(request_of([WRITTEN[one] for one in some]))
        self.running.append((batches, some))

    @rule()
    def answers_are_right_whatever_has_happened_since(self) -> None:
        for batches, some in self.running:
            found = [row for batch in batches for row in batch.to_pylist()]
            assert found == [answer(some)]
            assert batches.report.is_whole
        self.running.clear()

    @rule()
    def stop_and_start(self) -> None:
        self.drop_running()
        before = states(self.server.inventory())
        self.server.close()
        self.server = self.opened()
        self.check_kept(before)

    @rule(cut=st.integers(0, 40))
    def power_cut(self, cut: int) -> None:
        """Go on with a copy of the folder, in which what was not synced may be torn."""
        self.drop_running()
        copy = self.root / str(next(self.folders) + 1)
        before = states(self.server.inventory())
        shutil.copytree(self.folder, copy, ignore=shutil.ignore_patterns("*.tmp"))
        self.server.close()
        half = copy / "loading" / "half.tmp"
        half.write_bytes(b"?")
        with (copy / "journal").open("ab") as journal:
            journal.write(b'0000beef ["assigned","torn'[:cut])
        self.folder = copy
        self.server = self.opened()
        self.check_kept(before)

    @rule()
    def all_is_loaded_that_fits(self) -> None:
        found = settled(self.server)
        assert set(states(found)) == ids(self.wanted)
        loaded = [one for one in found.holdings if one.state == "loaded"]
        free = CAPACITY - sum(one.size_bytes for one in loaded)
        for one in found.holdings:
            assert one.state == "loaded" or one.error
        if not self.running:
            assert found.used_bytes == sum(one.size_bytes for one in loaded)
            assert free >= 0
            places = {path.stem for path in (self.folder / "segments").iterdir()}
            assert places == {one.segment_id for one in loaded}

    @invariant()
    def it_holds_what_it_was_told(self) -> None:
        found = self.server.inventory()
        assert set(states(found)) == ids(self.wanted)
        assert found.used_bytes <= CAPACITY

    def check_kept(self, before: dict[str, str]) -> None:
        """What had failed may be forgotten: the coordinator has been told, or assigns it again."""
        assert self.server.server_id == self.server_id
        known = set(states(self.server.inventory()))
        assert {one for one, state in before.items() if state != "failed"} <= known
        assert known <= ids(self.wanted)
        self.wanted = {one for one in self.wanted if WRITTEN[one].segment_id in known}
        every = range(SEGMENTS)
        rows, _ = rows_of(self.server, request_of([WRITTEN[one] for one in every]))
        assert rows == [answer(list(every))]

    def drop_running(self) -> None:
        for batches, _ in self.running:
            batches.close()
        self.running.clear()

    def teardown(self) -> None:
        self.drop_running()
        self.server.close()
        shutil.rmtree(self.root, ignore_errors=True)


def ids(some: set[int]) -> set[str]:
    return {WRITTEN[one].segment_id for one in some}


def answer(some: list[int]) -> dict[str, object]:
    numbers = [ROWS * one + row for one in some for row in range(ROWS)]
    return {"rows": len(numbers), "total": sum(numbers) if numbers else None}


TestHistorical = HistoricalMachine.TestCase
