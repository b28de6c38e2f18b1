"""Addresses of Spark Connect that are none, or that nobody listens at."""

from __future__ import annotations

import socket

import pytest

from carnac.errors import Invalid, Unavailable
from carnac.spark.connect import PATIENCE, _patience, require_reachable


@pytest.mark.parametrize("url", ["http://localhost:1", "sc://", "sc://localhost:port", "spark"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(Invalid, match="is no address of Spark Connect"):
        require_reachable(url)


def test_an_address_is_tried() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        require_reachable(f"sc://127.0.0.1:{port}/;user_id=carnac")
    with pytest.raises(Unavailable, match="does not answer: Connection refused"):
        require_reachable(f"sc://127.0.0.1:{port}")


def test_once_the_server_was_found_gone_no_call_waits_for_it() -> None:
    policy = _patience()
    first, beside = policy.to_state(), policy.to_state()
    assert beside.next_attempt() is not None
    waits_ms = [first.next_attempt() for _ in range(PATIENCE["max_retries"])]
    assert 18_000 < sum(wait or 0 for wait in waits_ms) < 25_000
    assert first.next_attempt() is None
    assert beside.next_attempt() is None
    assert policy.to_state().next_attempt() is None
