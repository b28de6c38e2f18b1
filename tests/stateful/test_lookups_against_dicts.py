"""Lookups, set, removed and reverted at random, against a plain list of dicts.

The oracle knows what every lookup is at each revision, and which commit made it so; hence exactly which reverts are
refused, and by whom.
"""

from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from carnac.errors import Conflict, NotFound
from carnac.store import Store
from tests.support.clock import FakeClock, SequentialIds
from tests.support.stores import open_local_store
from tests.unit.store.events import HASTY, NOW_MS, fast_folder

names = st.sampled_from(["airlines", "origins"])
mappings = st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["x", "y"]), max_size=2)


class LookupMachine(RuleBasedStateMachine):
    """Changes lookups at random and compares what they are with the oracle."""

    @initialize()
    def open(self) -> None:
        self.folder = fast_folder()
        self.clock = FakeClock(NOW_MS)
        self.store: Store = open_local_store(
            Path(self.folder.name), clock=self.clock, ids=SequentialIds(), settings=HASTY
        )
        self.at: list[dict[str, dict[str, str]]] = [{}]
        self.set_by: dict[str, int] = {}
        self.changed: list[str] = [""]
        """The lookup that each commit changed."""

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            self.folder.cleanup()

    @rule(name=names, mapping=mappings)
    def set(self, name: str, mapping: dict[str, str]) -> None:
        self._publish(name, mapping, self.store.set_lookup(name, mapping).revision)

    @rule(name=names)
    def remove(self, name: str) -> None:
        if name not in self.at[-1]:
            with pytest.raises(NotFound):
                self.store.set_lookup(name, None)
            return
        self._publish(name, None, self.store.set_lookup(name, None).revision)

    @precondition(lambda self: len(self.at) > 1)
    @rule(back=st.integers(0, 3))
    def revert(self, back: int) -> None:
        target = max(1, len(self.at) - 1 - back)
        name = self.changed[target]
        was_set = name in self.at[target]
        stands = self.set_by.get(name) if name in self.at[-1] else None
        if stands != (target if was_set else None):
            with pytest.raises(Conflict, match=f"lookup '{name}' again") as refused:
                self.store.revert(target)
            assert refused.value.ids.get("commit") == stands
            return
        revision = self.store.revert(target).revision
        self._publish(name, self.at[target - 1].get(name), revision)

    @invariant()
    def the_newest_revisions_have_their_lookups(self) -> None:
        if hasattr(self, "store"):
            for revision in range(len(self.at))[-3:]:
                assert self.store.lookups(at=revision) == self.at[revision]

    def _publish(self, name: str, mapping: dict[str, str] | None, revision: int) -> None:
        assert revision == len(self.at)
        state = {**self.at[-1]}
        if mapping is None:
            state.pop(name, None)
        else:
            state[name] = mapping
        self.at.append(state)
        self.changed.append(name)
        self.set_by[name] = revision
        self.clock.advance_ms(1)


TestLookups = LookupMachine.TestCase
TestLookups.settings = settings(max_examples=max(5, settings().max_examples // 3))
