"""How a historical makes itself known: a heartbeat in the metadata store, and how it leaves."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from carnac.ports.loops import Loop, safely

if TYPE_CHECKING:
    from carnac.historical.server import Historical
    from carnac.metadata.records.server_records import ServerRecords
    from carnac.ports import Clock
    from carnac.ports.serving import ServerRecord

RENEWALS_IN_LEASE = 3
"""Heartbeats within a lease, so that one that is late loses nothing."""

_log = logging.getLogger(__name__)


class Presence:
    """The heartbeats of a historical.

    Args:
        record: Record of the historical, as others find it.
        grace_ms: How long running statements may go on once the historical leaves.
    """

    def __init__(
        self,
        historical: Historical,
        record: ServerRecord,
        records: ServerRecords,
        clock: Clock,
        *,
        grace_ms: int,
    ) -> None:
        self._historical = historical
        self._record = record
        self._records = records
        self._grace_ms = grace_ms
        self._mutex = threading.Lock()
        self._has_left = False
        self.loop = Loop(
            "heartbeat",
            self.say,
            log=_log,
            period_ms=record.lease_ms / RENEWALS_IN_LEASE,
            clock=clock,
            is_eager=True,
        )

    def say(self) -> None:
        """Say that the historical is there.

        Raises:
            Unavailable: The metadata store does not answer.
        """
        with self._mutex:
            if not self._has_left:
                self._records.put_server(self._record)

    def leave(self) -> None:
        """Say that the historical is about to stop, take nothing new, let statements end, and remove its record.

        Statements that still run after the grace period are left to the caller that closes the historical. Idempotent.
        """
        with self._mutex:
            if self._has_left:
                return
            self._record = replace(self._record, is_draining=True)
        safely(_log, "telling others that this historical drains", self.say)
        self._historical.drain()
        if not self._historical.wait_until_idle(self._grace_ms):
            _log.warning(
                "%d statements still run after %d ms and are stopped",
                self._historical.running,
                self._grace_ms,
            )
        self.loop.stop()
        with self._mutex:
            self._has_left = True
        server_id = self._record.server_id
        safely(_log, "saying goodbye", lambda: self._records.remove_server(server_id))
