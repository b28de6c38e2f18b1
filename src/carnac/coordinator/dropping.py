"""Drop rules delete what they match from the data, by a commit that can be reverted like any other."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from carnac.coordinator.rules import DEFAULT
from carnac.errors import CarnacError

if TYPE_CHECKING:
    from carnac.coordinator.rules import Rules
    from carnac.core.time.intervals import Interval
    from carnac.metadata.store import MetadataStore
    from carnac.ports import Clock

Delete = Callable[[str, "Interval", str], int | None]
"""Deletes an interval of a datasource with a message; returns the revision, None if there was nothing."""

_log = logging.getLogger(__name__)


class DropRules:
    """Looks for what drop rules match and has it deleted, one commit a round and datasource."""

    def __init__(
        self, metadata: MetadataStore, rules: Rules, clock: Clock, *, delete: Delete
    ) -> None:
        self._metadata, self._rules, self._clock, self._delete = metadata, rules, clock, delete

    def run_round(self) -> tuple[int, ...]:
        """Delete what rules of operators drop now; return the revisions.

        A failure of one datasource does not stop the others. One whose own rules cannot be read keeps what it has: they
        may say so.
        """
        texts = self._rules.texts()
        if not texts:
            return ()
        from carnac.core.balancing.live.deletions import has_drops, plan_deletions

        rules = self._rules.current()
        chunks = {
            info.name: [chunk.interval for chunk in self._metadata.chunks(info.name)]
            for info in self._metadata.datasources()
            if has_drops(rules, info.name)
            and (info.name in rules.by_datasource or info.name not in texts)
        }
        revisions: list[int] = []
        for one in plan_deletions(chunks, rules, now_ms=self._clock.now_ms()):
            whose = one.datasource if one.datasource in rules.by_datasource else DEFAULT
            message = f"drop rule {one.rule} ({whose}): {one.interval}"
            try:
                revision = self._delete(one.datasource, one.interval, message)
            except CarnacError as error:
                _log.warning("%s failed: %s", message, error.message)
                continue
            if revision is not None:
                _log.info("%s, revision %s", message, revision)
                revisions.append(revision)
        return tuple(revisions)
