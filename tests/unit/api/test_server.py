"""How the HTTP server of an overlord ends."""

from __future__ import annotations

import threading

import httpx
import pytest
from fastapi import FastAPI

from carnac.api.server import HttpServer

pytestmark = pytest.mark.http


def test_nothing_that_a_request_does_outlives_the_server() -> None:
    app, entered, go_on, over = FastAPI(), threading.Event(), threading.Event(), threading.Event()

    @app.get("/")
    def work() -> None:
        entered.set()
        go_on.wait()
        over.set()

    server = HttpServer("127.0.0.1", 0, grace_s=0)
    server.start(app)
    asking = threading.Thread(target=_ask_in_vain, args=(server.url,))
    asking.start()
    entered.wait()
    stopping = threading.Thread(target=server.stop)
    stopping.start()
    asking.join()  # it was cut off: the loop that waited for the work is about to end
    stopping.join(0.2)
    assert stopping.is_alive()
    go_on.set()
    stopping.join()
    assert over.is_set()
    server.stop()


def _ask_in_vain(url: str) -> None:
    with httpx.Client(timeout=60) as client:
        try:
            client.get(url)
        except httpx.TransportError:
            return
