"""What child processes of the tests of clocks do. They come from a fork server, with nothing but their arguments."""

from __future__ import annotations

from typing import Any

from carnac.bootstrap.tasks import open_loop
from carnac.clock import StoreClock, SystemClock
from carnac.config import Settings
from tests.support.tasks import FakeRunner

AHEAD_MS = 2 * 86_400_000


class ClockAhead(SystemClock):
    """The machine's clock, two days ahead."""

    def now_ms(self) -> int:
        return super().now_ms() + AHEAD_MS


def lead_ahead(store: str, tell: Any) -> None:
    """Lead with a clock that is two days ahead; tell so, and never end."""
    loop = open_loop(
        settings=Settings(store=store),
        runners={"process": FakeRunner()},
        clock=StoreClock(ClockAhead()),
    )
    loop.run_round()
    tell.put(loop.is_leader)
    loop.run()
