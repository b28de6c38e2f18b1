"""The historicals that live, what they hold, and how they are reached: followed in threads of its own."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from carnac.core.answers.replicas import Server
from carnac.ports.loops import Loop, safely
from carnac.ports.serving import Held, HoldState, Role

if TYPE_CHECKING:
    from carnac.metadata.records.server_records import ServerRecords
    from carnac.ports.serving import Inventory, SegmentServer, ServerRecord

FOLLOW_PERIOD_MS = 200
"""Between two looks at the living servers: so soon a server that came or drains is known."""
ASK_WAIT_MS = 500
"""How long a server waits with its answer for something to change."""
ASK_PAUSE_MS = 10
FIRST_WAIT_S = 1.0
"""How long a broker that starts waits to hear what a server holds; it may be asked before that."""
LAST_WAIT_S = 1.0
"""How long a broker that ends waits for the last answer of each."""
ASK_AGAIN_MS = 500
"""After a question that was not answered."""

_log = logging.getLogger(__name__)


class Member:
    """A historical that is alive, with its last inventory.

    Attributes:
        is_suspect: It has refused or failed a query since its last answer, so others are asked first.
        is_silent: It did not answer when it was asked for its inventory.
        was_asked: Set after the first question for its inventory, even if that failed.
    """

    def __init__(self, record: ServerRecord, server: SegmentServer) -> None:
        self.record = record
        self.server = server
        self.is_suspect = False
        self.is_silent = False
        self.was_asked = threading.Event()
        self._is_closed = threading.Event()
        self._lock = threading.Lock()
        self._epoch, self._number = "", 0
        self._states: dict[str, HoldState] = {}
        self._used_bytes = 0
        self._others = 0  # statements of others in its last answer
        self._asked = 0
        # at a time: since the last answer, and since the one before
        self._most_asked = self._most_before = 0
        self._loop = Loop(
            f"inventory of {record.server_id}",
            self._ask_on,
            log=_log,
            period_ms=ASK_PAUSE_MS,
            is_eager=True,
        )

    def start(self) -> None:
        """Follow what it holds."""
        self._loop.start()

    def _ask_on(self) -> None:
        try:
            self._ask(wait_ms=ASK_WAIT_MS)
        except BaseException:
            self._is_closed.wait(ASK_AGAIN_MS / 1000)
            raise

    def _ask(self, *, wait_ms: int) -> None:
        """Ask what it holds, or what has changed."""
        try:
            answer = self.server.inventory(epoch=self._epoch, since=self._number, wait_ms=wait_ms)
            with self._lock:
                self._take(answer)
            self.is_suspect = self.is_silent = False
        except BaseException:
            self.is_suspect = self.is_silent = True
            raise
        finally:
            self.was_asked.set()

    def _take(self, answer: Inventory) -> None:
        if answer.is_whole:
            self._states.clear()
        for segment_id in answer.removed:
            self._states.pop(segment_id, None)
        for one in answer.holdings:
            self._states[one.segment_id] = one.state
        self._epoch, self._number = answer.epoch, answer.number
        self._used_bytes = answer.used_bytes
        # a leaf that has ended here may run there for a moment
        mine = max(self._most_asked, self._most_before)
        self._others = max(0, answer.running - mine)
        self._most_asked, self._most_before = self._asked, self._most_asked

    def begin(self) -> None:
        """Count a question in that is on its way to the server."""
        with self._lock:
            self._asked += 1
            self._most_asked = max(self._most_asked, self._asked)

    def end(self) -> None:
        """Count it out."""
        with self._lock:
            self._asked -= 1

    def view(self, wanted: frozenset[str]) -> Server:
        """Return what it holds of some segments, and how much it has to do."""
        with self._lock:
            states = {one: self._states[one] for one in wanted if one in self._states}
            return Server(
                server_id=self.record.server_id,
                loaded={one for one, state in states.items() if state is HoldState.LOADED},
                loading={one for one, state in states.items() if state is HoldState.LOADING},
                running=self._others + self._asked,
            )

    def held(self) -> Held:
        """Return what it has loaded."""
        with self._lock:
            loaded = {one for one, state in self._states.items() if state is HoldState.LOADED}
            return Held(used_bytes=self._used_bytes, segment_ids=loaded)

    def close(self) -> None:
        """Ask nothing more, and hang up. Idempotent."""
        self._is_closed.set()
        self._loop.stop()
        end = getattr(self.server, "close", None)
        if end is not None:
            safely(_log, f"closing the connection to {self.record.server_id}", end)


class Cluster:
    """All historicals that are alive. Safe for threads.

    Args:
        records: Records with their heartbeats.
        connect: Reaches a historical.
        make_own: Makes, at the first need, a member of this process that reads deep storage for slices that no
            historical answers; None: nothing reads these.

    Attributes:
        loop: The loop that follows the historicals.
    """

    def __init__(
        self,
        records: ServerRecords,
        connect: Callable[[ServerRecord], SegmentServer],
        make_own: Callable[[], Member] | None = None,
    ) -> None:
        self._records = records
        self._connect = connect
        self._make_own = make_own
        self._own: Member | None = None
        self.leaf_numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._following = threading.Lock()
        self._making = threading.Lock()
        self._members: dict[str, Member] = {}
        self.loop = Loop(
            "historicals", self.follow, log=_log, period_ms=FOLLOW_PERIOD_MS, is_eager=False
        )

    def start(self) -> None:
        """Look which servers live, hear them for a moment, and go on doing so.

        Raises:
            Unavailable: The metadata store does not answer.
        """
        self.follow()
        for member in self.known().values():
            member.was_asked.wait(FIRST_WAIT_S)
        self.loop.start()

    def follow(self) -> None:
        """Take up with historicals that came, and leave those that are gone or were started anew.

        Raises:
            Unavailable: The metadata store does not answer.
        """
        with self._following:  # else two threads would take up with one server twice
            self._follow()

    def _follow(self) -> None:
        found = {one.server_id: one for one in self._records.servers(Role.HISTORICAL)}
        with self._lock:
            before = dict(self._members)
        for server_id, record in found.items():
            member = before.get(server_id)
            if member is None or record.is_other_than(member.record):
                safely(_log, f"reaching {server_id}", lambda one=record: self._join(one))  # type: ignore[misc]
            else:
                member.record = record
        gone = [
            member
            for server_id, member in before.items()
            if server_id not in found or self._members.get(server_id) is not member
        ]
        with self._lock:
            for member in gone:
                if self._members.get(member.record.server_id) is member:
                    del self._members[member.record.server_id]
        for member in gone:
            _leave(member)

    def _join(self, record: ServerRecord) -> None:
        member = Member(record, self._connect(record))
        with self._lock:
            self._members[record.server_id] = member
        member.start()

    def known(self) -> dict[str, Member]:
        """Return all that live, by id, those that drain too."""
        with self._lock:
            return dict(self._members)

    def held(self) -> dict[str, Held]:
        """Return what they have loaded, by id."""
        return {server_id: member.held() for server_id, member in self.known().items()}

    @property
    def reads_itself(self) -> bool:
        """Whether this process can read deep storage in the stead of historicals."""
        return self._make_own is not None

    def own(self) -> Member | None:
        """Return what reads deep storage here: nobody asks what it holds, and it is never among the members.

        Raises:
            Unavailable: There is no room for its folder.
        """
        with self._making:  # `_following` is held while the database is asked
            if self._own is None and self._make_own is not None:
                self._own = self._make_own()
            return self._own

    @property
    def serves(self) -> bool:
        """Whether a historical is alive that does not drain."""
        return any(not one.record.is_draining for one in self.known().values())

    def is_there(self, member: Member) -> bool:
        """Whether it may be asked: it lives, or is of this process."""
        return member is self._own or self.known().get(member.record.server_id) is member

    def members(self) -> dict[str, Member]:
        """Return those that take queries, by id: alive, not draining; those that answered last, if any did.

        Of those that are silent none is among them where this process can read in their stead.
        """
        found = {key: one for key, one in self.known().items() if not one.record.is_draining}
        trusted = {key: one for key, one in found.items() if not one.is_suspect}
        if self.reads_itself:
            found = {key: one for key, one in found.items() if not one.is_silent}
        return trusted or found

    def close(self) -> None:
        """Leave all. Idempotent."""
        self.loop.stop()
        with self._lock:
            members, self._members = self._members, {}
        for thread in [_leave(member) for member in members.values()]:
            thread.join(LAST_WAIT_S)


def _leave(member: Member) -> threading.Thread:
    """Close a member in a thread of its own, which is returned: one that hangs keeps nobody waiting."""
    name = f"carnac-leave-{member.record.server_id}"
    thread = threading.Thread(target=member.close, name=name, daemon=True)
    thread.start()
    return thread
