"""Addresses of Spark Connect that are none, or that nobody listens at."""

from __future__ import annotations

import socket

import pytest

from carnac.errors import Invalid, Unavailable
from carnac.pipeline.connect import require_reachable


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
