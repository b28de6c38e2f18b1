"""One historical as the coordinator knows it: its last inventory, and the orders that were sent since.

Orders are sent and inventories are asked for in threads of the link's own, where it has some, so that a server that
hangs keeps nobody waiting. `absorb` takes in the answers, in the thread that decides.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from carnac.core.balancing.live.picture import ServerView
from carnac.errors import CarnacError, Revoked, Unavailable
from carnac.ports.loops import Loop, log_failure, reason_of, safely
from carnac.ports.serving import Holding, HoldState

if TYPE_CHECKING:
    from carnac.core.segments.segment import Segment
    from carnac.ports import Clock
    from carnac.ports.serving import Inventory, SegmentServer, ServerRecord

ASK_WAIT_MS = 500
"""How long a server waits with its answer for something to change."""
ASK_PAUSE_MS = 10
"""Pause between two questions, so that one answer has changes that come together."""
ASK_AGAIN_MS = 500
"""After a question that was not answered."""
SEND_AGAIN_MS = 500
HEARD_MAX = 1 << 53
"""A higher fence was made up: no leadership gets so far. To go above it would use fences up."""
RATE_WINDOW_MS = 60_000
"""The speed of a server is what it loaded within this time, while it was loading."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Asked:
    """A load that was ordered.

    Attributes:
        why: The word of its reason.
        at_ms: When it was ordered, epoch milliseconds, UTC.
        size_bytes: Size of the file.
        datasource: Datasource of the segment.
        is_seen: Whether the server has said that it holds the segment, in any state.
        heard_after: Number of the last question that was asked before the server had the order; None: not yet.
    """

    why: str
    at_ms: int
    size_bytes: int
    datasource: str
    is_seen: bool = False
    heard_after: int | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """Something to tell the server: loads, or unloads, or nothing but the fence."""

    fence: int
    loads: Sequence[Segment] = ()
    unloads: Sequence[str] = ()


class Link:
    """A historical that is alive. All methods but `send`, `ask` and those of reading are of the deciding thread.

    Args:
        record: Record of the historical, as it was found in the metadata store.
        server: Connection to the historical.
        numbers: Growing numbers of orders, one sequence for all links of a coordinator, so that a later link to the
            same server goes on where the earlier one has ended.
        disconnect: Lets go of `server`.
        has_threads: Whether it sends and asks by itself; else `send` and `ask` are called.
        on_news: Called from any thread when there is something to take in.
    """

    def __init__(
        self,
        record: ServerRecord,
        server: SegmentServer,
        clock: Clock,
        *,
        numbers: Iterator[int],
        disconnect: Callable[[SegmentServer], object],
        has_threads: bool,
        on_news: Callable[[], object],
    ) -> None:
        self.record = record
        self.joined_at_ms = clock.now_ms()
        self.is_known = False
        self.heard_fence = 0
        self.reported_fence = 0
        self.revoked_by: int | None = None
        self._greeted = 0
        self.holds: dict[str, Holding] = {}
        self.asked: dict[str, Asked] = {}
        self.unloading: dict[str, int | None] = {}
        self.capacity_bytes = record.capacity_bytes
        self.running = 0
        self.bytes_per_s: float | None = None
        self._server, self._clock, self._on_news = server, clock, on_news
        self._disconnect, self._numbers = disconnect, numbers
        self._epoch, self._number = "", 0
        self._questions = 0
        self._heard_after = 0
        self._loaded: deque[tuple[int, int]] = deque()
        self._busy_since_ms: int | None = None
        self._on_the_way: set[str] = set()
        self._mutex = threading.Lock()
        self._outbox: deque[Order] = deque()
        self._inbox: deque[tuple[int, Inventory]] = deque()
        self._sent: deque[tuple[Order, int, CarnacError | None]] = deque()
        self._is_closing = threading.Event()
        self._loops: tuple[Loop, ...] = ()
        if has_threads:
            name = record.server_id
            self._loops = (
                Loop(f"orders to {name}", self.send, log=_log, period_ms=SEND_AGAIN_MS),
                Loop(
                    f"inventory of {name}",
                    lambda: self.ask(wait_ms=ASK_WAIT_MS),
                    log=_log,
                    period_ms=ASK_PAUSE_MS,
                    is_eager=True,
                ),
            )
            for loop in self._loops:
                loop.start()

    def end(self) -> None:
        """Give no order any more; orders on their way may still arrive. Idempotent."""
        with self._mutex:
            self._is_closing.set()
            self._outbox.clear()

    def close(self) -> None:
        """Ask and send nothing more; calls on their way break off. Idempotent."""
        self.end()
        safely(
            _log,
            f"closing the connection to {self.record.server_id}",
            lambda: self._disconnect(self._server),
        )
        for loop in self._loops:
            loop.stop()

    # ---------------------------------------------------------------------------------- with the server, any thread

    def ask(self, *, wait_ms: int = 0) -> None:
        """Ask what it holds, or what has changed; the answer is taken in later.

        Raises:
            CarnacError: It does not answer; nothing was learnt.
        """
        with self._mutex:
            self._questions += 1
            question, epoch, number = self._questions, self._epoch, self._number
        try:
            answer = self._server.inventory(epoch=epoch, since=number, wait_ms=wait_ms)
        except Exception:
            if wait_ms:
                self._is_closing.wait(ASK_AGAIN_MS / 1000)
            raise
        with self._mutex:
            is_news = (answer.epoch, answer.number) != (epoch, number)
            self._epoch, self._number = answer.epoch, answer.number
            self._inbox.append((question, answer))
            is_awaited = any(not one.is_seen for one in self.asked.copy().values())
            is_awaited |= self.reported_fence != self.heard_fence
        if is_news or is_awaited or not self.is_known:
            self._on_news()

    def send(self) -> None:
        """Send the waiting orders in turn; an order that fails is noted, and is sent again if it must be.

        An order gets a number each time it is sent. So the server refuses the first sending if it arrives after the
        second one.
        """
        while True:
            with self._mutex:
                if not self._outbox or self._is_closing.is_set():
                    return
                order, number = self._outbox.popleft(), next(self._numbers)
            error = self._tell(order, number)
            with self._mutex:
                self._sent.append((order, self._questions, error))
            self._on_news()
            if error is not None:
                return

    def _tell(self, order: Order, number: int) -> CarnacError | None:
        try:
            if order.unloads:
                self._server.unassign(order.unloads, fence=order.fence, number=number)
            else:
                self._server.assign(order.loads, fence=order.fence, number=number)
        except CarnacError as error:
            return error
        except Exception as error:
            log_failure(_log, f"telling {self.record.server_id} what to load", error)
            return Unavailable(reason_of(error))
        return None

    # ------------------------------------------------------------------------------------------------- orders

    def greet(self, fence: int) -> None:
        """Tell it the fence of the coordinator that leads now; orders that wait are dropped."""
        with self._mutex:
            self._outbox.clear()
            self._sent.clear()
        self.revoked_by, self._greeted = None, fence
        self.asked = {key: one for key, one in self.asked.items() if one.is_seen}
        self.unloading.clear()
        self._order(Order(fence))

    def load(self, segments: Iterable[tuple[Segment, str]], *, fence: int) -> None:
        """Have it load segments, each for a reason."""
        now_ms, new = self._clock.now_ms(), []
        for segment, why in segments:
            new.append(segment)
            self.asked[segment.segment_id] = Asked(
                why, now_ms, segment.size_bytes, segment.datasource
            )
            self.unloading.pop(segment.segment_id, None)
        if new:
            self._order(Order(fence, loads=new))

    def unload(self, segment_ids: Sequence[str], *, fence: int) -> None:
        """Have it forget segments."""
        for one in segment_ids:
            self.asked.pop(one, None)
            self.unloading[one] = None
        if segment_ids:
            self._order(Order(fence, unloads=list(segment_ids)))

    def _order(self, order: Order) -> None:
        with self._mutex:
            self._outbox.append(order)
        if self._loops:
            self._loops[0].wake()

    # ------------------------------------------------------------------------------------------------- news

    def absorb(self) -> bool:
        """Take in what was sent and answered; return whether anything is different now."""
        with self._mutex:
            sent, self._sent = self._sent, deque()
            answers, self._inbox = self._inbox, deque()
        is_changed = bool(sent)
        for order, question, error in sent:
            self._note_sent(order, question, error)
        for question, answer in answers:
            is_changed |= self._note_answer(question, answer)
        return is_changed

    def _note_sent(self, order: Order, question: int, error: CarnacError | None) -> None:
        if isinstance(error, Revoked):
            if order.fence >= self._greeted:
                self._note_revoked(order.fence, error)
            return
        if error is not None:
            _log.warning("telling %s what to load failed: %s", self.record.server_id, error.message)
            if order.unloads or not order.loads:  # it may have heard it, or not: it is said again
                self._again(order)
            for segment in order.loads:
                self.asked.pop(segment.segment_id, None)
            return
        if order.fence > self.heard_fence:
            self.heard_fence, self._heard_after = order.fence, question
        for segment in order.loads:
            if segment.segment_id in self.asked:
                self.asked[segment.segment_id].heard_after = question
        for segment_id in order.unloads:
            if segment_id in self.unloading:
                self.unloading[segment_id] = question

    def _note_revoked(self, fence: int, error: Revoked) -> None:
        _log.warning("%s refuses orders: %s", self.record.server_id, error.message)
        leading = error.ids.get("leading")
        heard = leading if isinstance(leading, int) else fence
        self.revoked_by = heard if heard <= HEARD_MAX else None

    def _again(self, order: Order) -> None:
        left = [one for one in order.unloads if one in self.unloading]
        if left or not order.unloads:
            with self._mutex:
                self._outbox.appendleft(Order(order.fence, unloads=left))

    def _note_answer(self, question: int, answer: Inventory) -> bool:
        before = len(self.holds), self.is_known, self.capacity_bytes
        is_changed = bool(answer.holdings or answer.removed)
        told = {one.segment_id for one in answer.holdings}
        gone = self.holds.keys() - told if answer.is_whole else set(answer.removed)
        for segment_id in gone:
            self.holds.pop(segment_id, None)
            self._on_the_way.discard(segment_id)
        for one in answer.holdings:
            self._note_holding(one)
        self.is_known = True
        if question > self._heard_after:  # before it, an earlier leader's order may have come yet
            self.reported_fence = self.heard_fence
        self.capacity_bytes, self.running = answer.capacity_bytes, answer.running
        for segment_id, asked in list(self.asked.items()):
            held = self.holds.get(segment_id)
            is_lost = asked.heard_after is not None and question > asked.heard_after
            if held is not None:
                asked.is_seen = True
                if held.state is not HoldState.LOADING:
                    del self.asked[segment_id]
            elif asked.is_seen or is_lost:
                del self.asked[segment_id]
                is_changed = True
        for segment_id, heard_after in list(self.unloading.items()):
            if segment_id not in self.holds and heard_after is not None and question > heard_after:
                del self.unloading[segment_id]
                is_changed = True
        self._note_speed()
        return is_changed or before != (len(self.holds), self.is_known, self.capacity_bytes)

    def _note_holding(self, held: Holding) -> None:
        segment_id = held.segment_id
        was = self.holds.get(segment_id)
        self.holds[segment_id] = held
        if held.state is HoldState.LOADING:
            self._on_the_way.add(segment_id)
        else:
            self._on_the_way.discard(segment_id)
        is_new = was is None or was.state is not HoldState.LOADED
        if held.state is HoldState.LOADED and is_new and segment_id in self.asked:
            self._loaded.append((self._clock.now_ms(), held.size_bytes))

    def _note_speed(self) -> None:
        now_ms = self._clock.now_ms()
        is_busy = bool(self.asked or self._on_the_way)
        since_ms = self._busy_since_ms
        # it begins, or the clock was set back
        if is_busy if since_ms is None else since_ms > now_ms:
            self._busy_since_ms = now_ms
            self._loaded.clear()
        while self._loaded and self._loaded[0][0] < now_ms - RATE_WINDOW_MS:
            self._loaded.popleft()
        if self._busy_since_ms is not None and self._loaded:
            span_ms = max(1, now_ms - max(self._busy_since_ms, now_ms - RATE_WINDOW_MS))
            self.bytes_per_s = sum(size for _, size in self._loaded) * 1000 / span_ms
        if not is_busy:
            self._busy_since_ms = None

    # ------------------------------------------------------------------------------------------------- reading

    def view(self, *, fence: int) -> ServerView:
        """Return what is known of it now, for decisions under a fence."""
        by_state: dict[HoldState, dict[str, None]] = {state: {} for state in HoldState}
        for segment_id, held in self.holds.items():
            if segment_id not in self.unloading:
                by_state[held.state][segment_id] = None
        loading = by_state[HoldState.LOADING]
        for segment_id in self.asked:
            if segment_id not in by_state[HoldState.LOADED]:
                loading.setdefault(segment_id)
                by_state[HoldState.FAILED].pop(segment_id, None)
        record = self.record
        return ServerView(
            server_id=record.server_id,
            tier=record.tier,
            capacity_bytes=self.capacity_bytes,
            is_decommissioning=record.is_decommissioning,
            is_draining=record.is_draining,
            obeys=self.reported_fence == fence,
            loaded=by_state[HoldState.LOADED].keys(),
            loading=loading.keys(),
            unloading=set(self.unloading),
            failed=by_state[HoldState.FAILED].keys(),
            sizes={segment_id: held.size_bytes for segment_id, held in self.holds.items()}
            | {segment_id: one.size_bytes for segment_id, one in self.asked.items()},
        )
